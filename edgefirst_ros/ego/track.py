"""Where the rig was, thinned to a bounded number of points, for the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgefirst_ros.sample import EgoPose, GeoPoint, PoseBasis

MOST_POINTS = 1200
FINEST_NS = 100_000_000
MOST_FRAMES = 64
"""Local frames that are told apart."""
_BASES = tuple(PoseBasis)


@dataclass(slots=True)
class Track:
    """Positions at regular times; whenever there are too many, every other one goes.

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
