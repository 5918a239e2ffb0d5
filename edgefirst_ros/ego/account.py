"""How long poses were measured, interpolated, dead-reckoned or assumed, and the distance driven."""

from __future__ import annotations

import math
from collections import Counter

from edgefirst_ros.ego.track import Track
from edgefirst_ros.sample import EgoPose, PoseBasis

_WORST_FIRST = tuple(reversed(PoseBasis))
_WORTH_SAYING_NS = 1_000_000_000
STEP_M = 5.0
"""The distance is a sum of chords of at least this length, so that noise at rest does not add up ..."""
STEP_SIGMAS = 4.0
"""... and of at least this many standard deviations of the position."""
FASTEST_M_S = 100.0
"""Faster than this the estimate, or the odometry's frame, has jumped."""


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
