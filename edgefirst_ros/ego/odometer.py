"""Odometry: its poses at any time, and the way between two, once fixes have shown that it can be trusted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats, quaternion, rot3
from edgefirst_ros.ego.series import Series, basis, nearest_ns
from edgefirst_ros.messages.odometry import Odometry
from edgefirst_ros.sample import PoseBasis

GAP_NS = 500_000_000
"""Messages further apart are not interpolated to tell a way."""
FASTEST_M_S = 100.0
"""Faster than this the odometry's frame has jumped."""
STRETCH_M, LEAST_STRETCHES, MOST_STRETCHES = 25.0, 20, 400
"""Stretches of the way show its scale: twenty of 25 m, to 1 %."""
TRUSTED = 0.1
"""Stretches whose ratios scatter by more than this tell that it slips, or measures something else."""
OFF_M, OFF = 0.005, 0.1
"""Standard deviation of a way, and of each square root of a metre: 1 m after 100 m."""
COLUMNS = 19
"""Position, quaternion, velocities (3 + 3), standard deviations (3 + 3); NaN where unknown."""
UNKNOWN = (math.nan,) * 3


class Odometer:
    """Odometry in order of time.

    Attributes:
        series: its messages.
        compared_ns: the end of what was compared with the estimate.
    """

    def __init__(self) -> None:
        self.series = Series(COLUMNS, quaternion_at=3)
        self._stretches: deque[tuple[float, float]] = deque(maxlen=MOST_STRETCHES)
        """Metres by the estimate, and by the odometry."""
        self._stretch = 0.0, 0.0
        self._scale = math.nan
        self.compared_ns = -(2**63)

    def add(self, time_ns: int, odometry: Odometry) -> None:
        """Add a message; one that is not later than the last is left out."""
        pose = (*odometry.position_m, *odometry.orientation_xyzw)
        sigmas = (*(odometry.position_sigma_m or UNKNOWN), *(odometry.rotation_sigma_rad or UNKNOWN))
        self.series.add(time_ns, (*pose, *odometry.linear_m_s, *odometry.angular_rad_s, *sigmas))

    def pose(self, time_ns: int, max_gap_ns: int, hold_ns: int) -> tuple[Floats, PoseBasis] | None:
        """The row at a time and what it rests on, extrapolated beyond ends by its velocities."""
        times_ns = self.series.times_ns
        found = self.series.at(time_ns, max_gap_ns)
        if found is not None:
            return found, basis(times_ns, time_ns, max_gap_ns)
        near_ns = nearest_ns(times_ns, time_ns)
        if near_ns is None or abs(near_ns - time_ns) > hold_ns:
            return None
        found = self.series.row(bisect_left(times_ns, near_ns)).copy()
        twist = np.concatenate([found[10:13], found[7:10]])
        if np.isfinite(twist).all():
            pose = _pose(found).compose(gtsam.Pose3.Expmap(twist * ((time_ns - near_ns) / 1e9)))
            found[:7] = *pose.translation(), *quaternion(pose.rotation())
        found[13:] = math.nan
        return found, PoseBasis.DEAD_RECKONED

    def compare(self, start_ns: int, end_ns: int, way_m: float) -> None:
        """Learn the scale from an estimated way between two times, in order of time."""
        own_m = self.way_m(start_ns, end_ns)
        self.compared_ns = end_ns
        if own_m is None:
            return
        self._stretch = self._stretch[0] + way_m, self._stretch[1] + own_m
        if self._stretch[1] < STRETCH_M:
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

    def way_m(self, start_ns: int, end_ns: int) -> float | None:
        """How far it is from one time to another by odometry as it is; None if unknown."""
        start, end = self.series.at(start_ns, GAP_NS), self.series.at(end_ns, GAP_NS)
        return None if start is None or end is None else float(np.linalg.norm(end[:3] - start[:3]))

    def moved(self, start_ns: int, end_ns: int) -> tuple[Floats, float] | None:
        """The way from one time to another in the axes at the first (3,), and its standard deviation, metres.

        None if it is not known, or not trusted.
        """
        start, end = self.series.at(start_ns, GAP_NS), self.series.at(end_ns, GAP_NS)
        if math.isnan(self._scale) or start is None or end is None:
            return None
        way = _pose(start).transformTo(end[:3]) * self._scale
        length_m = float(np.linalg.norm(way))
        if length_m > FASTEST_M_S * (end_ns - start_ns) / 1e9:
            return None
        return way, math.hypot(OFF_M, OFF * math.sqrt(length_m))


def _pose(row: Floats) -> gtsam.Pose3:
    return gtsam.Pose3(rot3(row[3:7].tolist()), row[:3])
