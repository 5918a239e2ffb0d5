"""What the navigation sensors measured during a whole drive, kept until it is estimated.

Odometry: its poses at any time, and the way between two, once fixes have shown that it can be trusted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import BLOCK, Floats, Series, basis, nearest_ns, quaternion, rot3
from edgefirst_ros.ego.inertia import SAMPLE_COLUMNS, sample_row
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import PoseBasis

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
        start, end = self.series.at(start_ns, GAP_NS), self.series.at(end_ns, GAP_NS)
        self.compared_ns = end_ns
        if start is None or end is None:
            return
        own_m = float(np.linalg.norm(end[:3] - start[:3]))
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


TURNED_RAD = 0.1


class NavigationLog:
    """IMU samples and fixes between two breaks of the clock, added in any order.

    Attributes:
        odometer: messages of odometry, added in order of time.
    """

    def __init__(self) -> None:
        self.odometer = Odometer()
        self._imu, self._fixes = Series(SAMPLE_COLUMNS), Series(8)

    def __bool__(self) -> bool:
        return bool(self._imu or self._fixes)

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU sample."""
        self._imu.extend((time_ns,), sample_row(imu))

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message."""
        place = (fix.latitude_deg, fix.longitude_deg, fix.altitude_m)
        self._fixes.extend((time_ns,), (arrival, *place, fix.status, *(fix.sigma_m or UNKNOWN)))

    @property
    def oriented(self) -> bool:
        """Whether the IMU has orientations: drivers without any always send the same rotation.

        It may be the same while the rig stands, but not while the gyroscope measures a turn.
        """
        one: Floats | None = None
        turned_rad, last_ns = np.zeros(3), None
        for times_ns, rows in self.samples(oriented=True):
            told = rows[~np.isnan(rows[:, 0]), :4]
            one = told[0] if one is None and len(told) else one
            if one is not None and (told != one).any():
                return True
            gaps_ns = np.diff(times_ns, prepend=times_ns[0] if last_ns is None else last_ns)
            turned_rad, last_ns = turned_rad + np.nan_to_num(rows[:, 4:7]).T @ gaps_ns / 1e9, times_ns[-1]
        if one is None or abs(abs(float(one[3])) - 1) < 1e-12:
            return False
        return bool(np.abs(turned_rad).max() < TURNED_RAD)

    def samples(self, *, oriented: bool) -> Iterator[tuple[list[int], Floats]]:
        """IMU samples in order of time, some at a time, as ``inertia.sample_row`` gives them.

        Args:
            oriented: whether their orientations are real.
        """
        for times_ns, rows in _sorted(self._imu):
            if not oriented:
                rows[:, :4] = np.nan
            yield times_ns, rows

    def measured(
        self, *, oriented: bool = True
    ) -> Iterator[tuple[list[int], Floats] | tuple[int, int, NavSatFix]]:
        """Samples as ``samples`` gives them, and fixes as ``fixes`` does, in order of time."""
        fixes = self.fixes()
        fix = next(fixes, None)
        for times_ns, samples in self.samples(oriented=oriented):
            start = 0
            while fix is not None and fix[0] <= times_ns[-1]:
                before = bisect_left(times_ns, fix[0], start)
                yield times_ns[start:before], samples[start:before]
                yield fix
                fix, start = next(fixes, None), before
            yield times_ns[start:], samples[start:]
        while fix is not None:
            yield fix
            fix = next(fixes, None)

    def fixes(self) -> Iterator[tuple[int, int, NavSatFix]]:
        """Time, running number and fix, in order of time and number."""
        for times_ns, rows in _sorted(self._fixes):
            for time_ns, row in zip(times_ns, rows.tolist(), strict=True):
                arrival, latitude_deg, longitude_deg, altitude_m, status, *sigma = row
                sigma_m = None if sigma[0] != sigma[0] else (sigma[0], sigma[1], sigma[2])
                fix = NavSatFix(latitude_deg, longitude_deg, altitude_m, int(status), sigma_m)
                yield time_ns, int(arrival), fix


def _sorted(series: Series) -> Iterator[tuple[list[int], Floats]]:
    """Blocks of rows in order of time, of equal times as they were added."""
    times = np.array(series.times_ns, np.int64)
    order = np.argsort(times, kind="stable")
    is_sorted = bool((order[1:] > order[:-1]).all())
    for start in range(0, len(order), BLOCK):
        some = order[start : start + BLOCK]
        rows = series.part(start, start + BLOCK) if is_sorted else np.array([series.row(i) for i in some])
        yield times[some].tolist(), rows
