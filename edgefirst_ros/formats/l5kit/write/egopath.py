"""The ego pose, interpolated between the samples."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from edgefirst_ros.formats.l5kit.geometry import Floats
from edgefirst_ros.formats.l5kit.write.prepare import Pose
from edgefirst_ros.model.rotations import between, matrix_of, quaternion_of

_BEYOND_NS = 50_000_000
"""How far a known pose is extrapolated, for measurements a little before or after it."""


class EgoPath:
    """Ego poses of the samples in order of time; None where a sample has none.

    Between two poses the position follows a cubic, whose slope at each is that of the parabola through it and
    its neighbours; the rotation turns at a constant rate. Next to a sample without a pose, the pose is known
    within 50 ms of a known one only.
    """

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._poses: list[Pose | None] = []

    def add(self, time_ns: int, pose: Pose | None) -> None:
        """Append the pose of the next sample."""
        self._times_ns.append(time_ns)
        self._poses.append(pose)

    def forget(self, before_ns: int) -> None:
        """Drop poses that interpolation from this time on does not need."""
        count = max(bisect_right(self._times_ns, before_ns) - 2, 0)
        del self._times_ns[:count]
        del self._poses[:count]

    def at(self, time_ns: int, *, beyond: bool = False) -> Pose | None:
        """The pose at a time.

        Args:
            time_ns: when.
            beyond: extrapolate by up to 50 ms where there is a pose on one side only.
        """
        times = self._times_ns
        after = bisect_left(times, time_ns)
        if after < len(times) and times[after] == time_ns:
            return self._poses[after]
        if self._known(after - 1) and self._known(after):
            return self._between(after, time_ns)
        if not beyond:
            return None
        for near, pair in ((after - 1, after - 1), (after, after + 1)):
            if self._known(near) and abs(time_ns - times[near]) <= _BEYOND_NS:
                if self._known(pair - 1) and self._known(pair):
                    return self._between(pair, time_ns)
                return self._poses[near]
        return None

    def _known(self, index: int) -> bool:
        return 0 <= index < len(self._poses) and self._poses[index] is not None

    def _between(self, after: int, time_ns: int) -> Pose:
        """The pose on the curve between two poses; beyond its ends, on a straight line."""
        start, end = self._poses[after - 1], self._poses[after]
        if start is None or end is None:
            raise ValueError(f"no pose on both sides of {time_ns}")
        step_s = (self._times_ns[after] - self._times_ns[after - 1]) / 1e9
        share = (time_ns - self._times_ns[after - 1]) / (self._times_ns[after] - self._times_ns[after - 1])
        first, last = quaternion_of(np.stack([start.rotation, end.rotation]))
        rotation = matrix_of(between(first, last, share))
        chord = end.position_m - start.position_m
        if not 0 <= share <= 1:
            return Pose(rotation, start.position_m + share * chord, start.origin)
        slopes = self._slope(after - 1), self._slope(after)
        before = chord / step_s if slopes[0] is None else slopes[0]
        behind = chord / step_s if slopes[1] is None else slopes[1]
        left, right = before * step_s - chord, chord - behind * step_s
        bend = share * (1 - share) * ((1 - share) * left + share * right)
        return Pose(rotation, start.position_m + share * chord + bend, start.origin)

    def _slope(self, index: int) -> Floats | None:
        """m/s at a pose by the parabola through it and its neighbours; None where one is not known."""
        before, here, behind = (
            self._poses[i] if self._known(i) else None for i in (index - 1, index, index + 1)
        )
        if before is None or here is None or behind is None:
            return None
        first_s = (self._times_ns[index] - self._times_ns[index - 1]) / 1e9
        second_s = (self._times_ns[index + 1] - self._times_ns[index]) / 1e9
        first = (here.position_m - before.position_m) / first_s
        second = (behind.position_m - here.position_m) / second_s
        slope: Floats = (first * second_s + second * first_s) / (first_s + second_s)
        return slope
