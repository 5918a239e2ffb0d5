"""Heading of a vehicle that has nothing but positions: course over ground."""

from __future__ import annotations

import math
from collections import deque

from edgefirst_ros.ego.geodesy import Vector
from edgefirst_ros.ego.orientation import Quaternion, from_yaw, slerp
from edgefirst_ros.ego.track import Track

BASE_NS = 1_000_000_000
"""The course is taken over at least this long: a fix's last digit is a decimetre, which is no heading."""
LEAST_SPEED_M_S = 0.5


class Course:
    """Rotations from positions, upright, of a vehicle that drives forward.

    The direction from one position to another is the heading half way between them in time, exactly so
    on a circle. A vehicle slower than 0.5 m/s keeps the heading it had; before it first moved none is known.
    """

    def __init__(self, *, max_gap_ns: int, hold_ns: int) -> None:
        self.track: Track[Quaternion] = Track(slerp, max_gap_ns=max_gap_ns, hold_ns=hold_ns)
        self._max_gap_ns = max_gap_ns
        self._recent: deque[tuple[int, Vector]] = deque()
        self._heading: Quaternion | None = None

    def add(self, time_ns: int, position_m: Vector) -> None:
        """Take the next position, east, north, up in metres."""
        while len(self._recent) > 1 and time_ns - self._recent[1][0] >= BASE_NS:
            self._recent.popleft()
        if self._recent:
            start_ns, start_m = self._recent[0]
            if BASE_NS <= time_ns - start_ns <= self._max_gap_ns:
                self._head(start_ns, start_m, time_ns, position_m)
        self._recent.append((time_ns, position_m))

    def coming_ns(self, latest_ns: int) -> int:
        """The earliest time that a heading still to come can be of."""
        if not self._recent:
            return latest_ns
        return (max(self._recent[0][0], latest_ns - self._max_gap_ns) + latest_ns) // 2

    def _head(self, start_ns: int, start_m: Vector, end_ns: int, end_m: Vector) -> None:
        east_m, north_m = end_m[0] - start_m[0], end_m[1] - start_m[1]
        if math.hypot(east_m, north_m) >= LEAST_SPEED_M_S * (end_ns - start_ns) / 1e9:
            self._heading = from_yaw(math.atan2(north_m, east_m))
        if self._heading is not None:
            self.track.add((start_ns + end_ns) // 2, self._heading)
