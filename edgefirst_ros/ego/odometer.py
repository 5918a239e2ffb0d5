"""Odometry as a measurement of the way between two times, once fixes have shown that it can be trusted."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import deque

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats, rot3
from edgefirst_ros.ego.rows import Rows
from edgefirst_ros.messages.odometry import Odometry

GAP_NS = 500_000_000
"""Messages further apart are not interpolated."""
FASTEST_M_S = 100.0
"""Faster than this the odometry's frame has jumped."""
STRETCH_M, LEAST_STRETCHES, MOST_STRETCHES = 25.0, 20, 400
"""Stretches of the way show its scale: twenty of 25 m, to 1 %."""
TRUSTED = 0.1
"""Stretches whose ratios scatter by more than this tell that it slips, or measures something else."""
OFF_M, OFF = 0.005, 0.1
"""Standard deviation of a way, and of each square root of a metre: 1 m after 100 m."""


class Odometer:
    """Poses of odometry in order of time."""

    def __init__(self) -> None:
        self._times: array[int] = array("q")
        self._rows = Rows(7)
        self._stretches: deque[tuple[float, float]] = deque(maxlen=MOST_STRETCHES)
        """Metres by the estimate, and by the odometry."""
        self._stretch = 0.0, 0.0
        self._scale = math.nan
        self.compared_ns = -(2**63)
        """The end of what was compared."""

    def add(self, time_ns: int, odometry: Odometry) -> None:
        """Add a message; one that is not later than the last is left out."""
        if self._times and time_ns <= self._times[-1]:
            return
        self._times.append(time_ns)
        self._rows.extend((*odometry.position_m, *odometry.orientation_xyzw))

    def compare(self, start_ns: int, end_ns: int, way_m: float) -> None:
        """Learn the scale from an estimated way between two times, in order of time."""
        start, end = self._at(start_ns), self._at(end_ns)
        self.compared_ns = end_ns
        if start is None or end is None:
            return
        estimated_m, own_m = self._stretch
        own_m += float(np.linalg.norm(end.translation() - start.translation()))
        self._stretch = estimated_m + way_m, own_m
        if own_m < STRETCH_M:
            return
        self._stretches.append(self._stretch)
        self._stretch = 0.0, 0.0
        if len(self._stretches) >= LEAST_STRETCHES:
            ways = np.array(self._stretches)
            ratios = ways[:, 0] / ways[:, 1]
            middle = float(np.median(ratios))
            scatter = 1.4826 * float(np.median(np.abs(ratios - middle)))
            good = np.abs(ratios - middle) < 3 * scatter + 1e-3
            trusted = scatter < TRUSTED * middle
            self._scale = float(ways[good, 0].sum() / ways[good, 1].sum()) if trusted else math.nan

    def moved(self, start_ns: int, end_ns: int) -> tuple[Floats, float] | None:
        """The way from one time to another in the axes at the first (3,), and its standard deviation, metres.

        None if it is not known, or not trusted.
        """
        if math.isnan(self._scale):
            return None
        start, end = self._at(start_ns), self._at(end_ns)
        if start is None or end is None:
            return None
        way = start.rotation().unrotate(end.translation() - start.translation()) * self._scale
        length_m = float(np.linalg.norm(way))
        if length_m > FASTEST_M_S * (end_ns - start_ns) / 1e9:
            return None
        return way, math.hypot(OFF_M, OFF * math.sqrt(length_m))

    def forget(self, before_ns: int) -> None:
        """Drop what times from ``before_ns`` on do not need."""
        useless = bisect_right(self._times, before_ns) - 1
        if useless > max(1000, len(self._times) // 2):
            kept = self._rows.part(useless, len(self._times))
            self._times, self._rows = self._times[useless:], Rows(7)
            self._rows.extend(kept.ravel().tolist())

    def _at(self, time_ns: int) -> gtsam.Pose3 | None:
        """The pose at a time, None beyond the ends and in gaps."""
        after = bisect_left(self._times, time_ns)
        if after == len(self._times) or (after == 0 and self._times[0] != time_ns):
            return None
        end = self._rows.row(after).tolist()
        last = gtsam.Pose3(rot3(end[3:]), np.array(end[:3]))
        if self._times[after] == time_ns:
            return last
        gap_ns = self._times[after] - self._times[after - 1]
        if gap_ns > GAP_NS:
            return None
        start = self._rows.row(after - 1).tolist()
        share = (time_ns - self._times[after - 1]) / gap_ns
        place = np.array(start[:3]) * (1 - share) + np.array(end[:3]) * share
        return gtsam.Pose3(rot3(start[3:]).slerp(share, last.rotation()), place)
