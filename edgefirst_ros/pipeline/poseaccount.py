"""How long poses were measured, interpolated, dead-reckoned or assumed; the distance driven; the track."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from edgefirst_ros.sample import EgoPose, GeoPoint, PoseBasis

_WORST_FIRST = tuple(reversed(PoseBasis))
_WORTH_SAYING_NS = 1_000_000_000
STEP_M = 5.0
"""The distance is a sum of chords of at least this length, so that noise at rest does not add up ..."""
STEP_SIGMAS = 4.0
"""... and of at least this many standard deviations of the position."""
FASTEST_M_S = 100.0
"""Faster than this the estimate, or the odometry's frame, has jumped."""
MOST_POINTS = 1200
FINEST_NS = 100_000_000
MOST_FRAMES = 64
"""Local frames that are told apart."""
_BASES = tuple(PoseBasis)


@dataclass(slots=True)
class Track:
    """Where the rig was, for the report, at regular times; if there are too many, every other one goes.

    Poses come in order of time.
    """

    _points: list[tuple[EgoPose, int]] = field(default_factory=list)
    """Each with the number of its local frame."""
    _step_ns: int = FINEST_NS
    _next_ns: int = -(2**63)
    _origins: list[GeoPoint | None] = field(default_factory=list)
    """By number of the local frame."""

    def add(self, pose: EgoPose) -> None:
        """Take a pose, which is left out if it has no position or comes too soon after the one before."""
        if pose.time_ns < self._next_ns or pose.position_m is None:
            return
        if (not self._origins or self._origins[-1] != pose.origin) and len(self._origins) < MOST_FRAMES:
            self._origins.append(pose.origin)
        self._next_ns = pose.time_ns + self._step_ns
        self._points.append((pose, len(self._origins) - 1))
        if len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._step_ns *= 2
            self._next_ns = self._points[-1][0].time_ns + self._step_ns

    def summary(self) -> dict[str, Any] | None:
        """The points as plain values, None without any.

        Returns:
            ``origins`` of the local frames (latitude, longitude; None where odometry has no place on earth),
            and ``points``: time in nanoseconds, metres east, north and up of the origin, number of the
            local frame, and basis as its number in ``bases``.
        """
        if not self._points:
            return None
        return {
            "origins": [
                None
                if origin is None
                else {"latitude": origin.latitude_deg, "longitude": origin.longitude_deg}
                for origin in self._origins
            ],
            "bases": [str(basis) for basis in _BASES],
            "points": [
                [
                    pose.time_ns,
                    *(round(value, 3) for value in pose.position_m or ()),
                    frame,
                    _BASES.index(pose.position_basis),
                ]
                for pose, frame in self._points
            ],
        }


class PoseAccount:
    """Sums the time between poses by basis, the worse one of the two poses, for position and for rotation."""

    def __init__(self) -> None:
        self._time_ns: int | None = None
        self._last: tuple[PoseBasis, PoseBasis] | None = None
        self._spans_ns: dict[str, Counter[PoseBasis]] = {"position": Counter(), "rotation": Counter()}
        self._left: EgoPose | None = None
        """The pose at which the next chord begins."""
        self._before: EgoPose | None = None
        self.track = Track()
        self.driven_m = 0.0
        """Horizontal distance driven while the position was known, in metres."""

    def add(self, pose: EgoPose) -> None:
        """Count a pose; poses come in order of time."""
        self.track.add(pose)
        bases = (
            PoseBasis.ASSUMED if pose.position_m is None else pose.position_basis,
            PoseBasis.ASSUMED if pose.rotation_xyzw is None else pose.rotation_basis,
        )
        if self._time_ns is not None and self._last is not None:
            span_ns = max(0, pose.time_ns - self._time_ns)
            for spans, now, before in zip(self._spans_ns.values(), bases, self._last, strict=True):
                worse = next(basis for basis in _WORST_FIRST if basis in {now, before})
                spans[worse] += span_ns
        self._time_ns, self._last = pose.time_ns, bases
        if bases[0] is not PoseBasis.ASSUMED:
            self._drive(pose)

    def _drive(self, pose: EgoPose) -> None:
        left, before, self._before = self._left, self._before, pose
        if left is None or before is None or _jumped(before, pose):
            self._left = pose
            return
        chord_m = _apart_m(left, pose)
        sigma_m = max((*(pose.position_sigma_m or (0.0,))[:2], *(left.position_sigma_m or (0.0,))[:2]))
        if chord_m >= max(STEP_M, STEP_SIGMAS * sigma_m):
            self.driven_m += chord_m
            self._left = pose

    @property
    def has_position(self) -> bool:
        """Whether any position was known."""
        return self._before is not None

    def summary(self) -> dict[str, dict[str, float]] | None:
        """Seconds by basis, for the position and the rotation; None if there was no pose."""
        if self._last is None:
            return None
        return {
            part: {str(basis): round(spans[basis] / 1e9, 3) for basis in PoseBasis}
            for part, spans in self._spans_ns.items()
        }

    def warnings(self) -> list[str]:
        """Sentences on how long the position or rotation is unknown or dead-reckoned."""
        found = []
        for part, spans in self._spans_ns.items():
            total = f"{spans.total() / 1e9:,.1f} s"
            for basis, what in ((PoseBasis.ASSUMED, "unknown"), (PoseBasis.DEAD_RECKONED, "dead-reckoned")):
                if spans[basis] >= _WORTH_SAYING_NS:
                    found.append(f"the rig's {part} is {what} for {spans[basis] / 1e9:,.1f} s of {total}")
        return found


def _apart_m(one: EgoPose, other: EgoPose) -> float:
    """The horizontal distance between two known positions of one frame."""
    return math.dist((one.position_m or ())[:2], (other.position_m or ())[:2])


def _jumped(before: EgoPose, pose: EgoPose) -> bool:
    """Whether the estimate jumped or changed its frame, because no rig moves so fast."""
    apart_s = (pose.time_ns - before.time_ns) / 1e9
    return before.origin != pose.origin or _apart_m(before, pose) > STEP_M + FASTEST_M_S * apart_s
