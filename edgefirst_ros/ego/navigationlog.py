"""What the navigation sensors measured during a whole drive, kept until it is estimated.

Odometry: its poses at any time, and the way between two, once fixes have shown that it can be trusted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence

import gtsam
import numpy as np

from edgefirst_ros.ego.fixes import FASTEST_M_S
from edgefirst_ros.ego.geometry import (
    Floats,
    Series,
    basis,
    nearest_ns,
    quaternion,
    rot3,
)
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.inertia import SAMPLE_COLUMNS, sample_row
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import PoseBasis

GAP_NS = 500_000_000
"""Messages further apart are not interpolated to tell a way."""
RECENT_NS = 1_000_000_000
"""Younger estimates may change by what follows."""
WINDOW_NS = 250_000_000
"""Poses over this time show a velocity."""
STRETCH_M, STRETCHES = 25.0, 20
"""Stretches of the way show its scale: twenty of 25 m, to 1 %."""
DRIFT, USELESS = 0.05, 0.3
"""Wheels slip, wear and carry loads, by up to 3 %; what is further off than the second measures no way."""
SLIPPING, ELSEWHERE = 0.01, 0.05
"""Shares of squared ways that no scale explains: of wheels that slip by a tenth, and of mirrored bends."""
OFF_M, OFF = 0.005, 0.1
"""Standard deviation of a way, and of each square root of a metre: 1 m after 100 m."""
LEAP_M = 10.0
"""No vehicle moves by more from one message to the next: two publishers on one topic do, or a filter that
begins again."""
COLUMNS = 13
"""Quaternion, position, standard deviations (3 + 3); NaN where unknown."""
UNKNOWN = (math.nan,) * 3


class Odometer:
    """Odometry in order of time.

    Attributes:
        series: its messages.
        fault: what its ways contradict.
        usable: they do not by so much that they are useless.
    """

    def __init__(self) -> None:
        self.series = Series(COLUMNS)
        self.fault = ""
        self.usable = True
        self._compared_ns, self._scale = -(2**63), math.nan
        self._last: tuple[int, Sequence[float]] = -(2**63), (0.0, 0.0, 0.0)
        self._start: tuple[gtsam.Pose3, gtsam.Pose3] | None = None
        """Of a stretch, by the estimate and by the odometry."""
        self._ways: deque[tuple[Floats, Floats]] = deque(maxlen=20 * STRETCHES)

    def add(self, time_ns: int, odometry: Odometry) -> None:
        """Add a message; one that is not later than the last is left out."""
        sigmas = (*(odometry.position_sigma_m or UNKNOWN), *(odometry.rotation_sigma_rad or UNKNOWN))
        last, self._last = self._last, (time_ns, odometry.position_m)
        moved_m, dt_s = math.dist(last[1], odometry.position_m), abs(time_ns - last[0]) / 1e9
        if moved_m > LEAP_M + FASTEST_M_S * dt_s:
            self.fault, self.usable = f"leaps by {moved_m:,.0f} m from one message to the next", False
        self.series.add(time_ns, (*odometry.orientation_xyzw, *odometry.position_m, *sigmas))

    def pose(self, time_ns: int, max_gap_ns: int, hold_ns: int) -> tuple[Floats, float, PoseBasis] | None:
        """The row at a time, its speed, and what it rests on; beyond its ends it goes on as it went."""
        times_ns = self.series.times_ns
        near_ns, twist = nearest_ns(times_ns, time_ns), self._twist(time_ns, max_gap_ns)
        found, speed_m_s = self.series.at(time_ns, max_gap_ns), math.hypot(twist[3], twist[4])
        if found is not None:
            return found, speed_m_s, basis(times_ns, time_ns, max_gap_ns)
        if near_ns is None or abs(near_ns - time_ns) > hold_ns:
            return None
        index = bisect_left(times_ns, near_ns)
        found = self.series.part(index, index + 1)[0]
        if np.isfinite(twist).all():
            pose = _pose(found).compose(gtsam.Pose3.Expmap(twist * ((time_ns - near_ns) / 1e9)))
            found[:7] = *quaternion(pose.rotation()), *pose.translation()
        found[7:] = math.nan
        return found, speed_m_s, PoseBasis.DEAD_RECKONED

    def _twist(self, time_ns: int, max_gap_ns: int) -> Floats:
        """Rates and velocities (6,) by poses until a time: drivers leave out or mistake their own."""
        times_ns = self.series.times_ns
        end = min(max(1, bisect_left(times_ns, time_ns)), len(times_ns) - 1)
        if end < 1:
            return np.full(6, math.nan)
        start = min(end - 1, bisect_left(times_ns, times_ns[end] - WINDOW_NS))
        length_ns = times_ns[end] - times_ns[start]
        first, *_, last = self.series.part(start, end + 1)
        turned = gtsam.Pose3.Logmap(_pose(first).between(_pose(last)))
        return np.asarray(turned / length_ns * 1e9 if length_ns <= max_gap_ns else np.full(6, math.nan))

    def compare(self, nodes: Sequence[Node]) -> None:
        """Compare ways between fixes with those of estimated nodes."""
        for node in nodes:
            is_due = self._compared_ns < node.time_ns < nodes[-1].time_ns - RECENT_NS
            if node.place is None or not is_due:
                continue
            self._compared_ns, row = node.time_ns, self.series.at(node.time_ns, GAP_NS)
            if row is None:
                self._start = None
                continue
            here = node.pose, _pose(row)
            start = self._start = self._start or here
            way, own = (one.transformTo(other.translation()) for one, other in zip(start, here, strict=True))
            if max(np.linalg.norm(way), np.linalg.norm(own)) > STRETCH_M:
                self._ways.append((way, own))
                self._start = here
        if len(self._ways) >= STRETCHES:
            self._judge(*(np.concatenate(each) for each in zip(*self._ways, strict=True)))

    def _judge(self, ways: Floats, own: Floats) -> None:
        """Find the scale of ways (3 n,)."""
        times, along = float(np.linalg.norm(own) / np.linalg.norm(ways)), float(ways @ own)
        share = 1 - along**2 / float(ways @ ways * (own @ own)) if times > 0 else 0.0
        self._scale = 1 / times if share < SLIPPING and times > 0 else math.nan
        if share > ELSEWHERE:
            self.fault = "contradicts the ways between fixes"
        elif abs(times - 1) > DRIFT:
            self.fault = f"has ways {times:.3g} times as long as those of the fixes"
        self.usable = self.usable and abs(times - 1) < USELESS and share < ELSEWHERE

    def moved(self, start_ns: int, end_ns: int) -> tuple[Floats, float] | None:
        """The way from one time to another in the axes at the first (3,), and its standard deviation, metres.

        None if it is not known, or not trusted.
        """
        if not self.usable or math.isnan(self._scale):
            return None
        start, end = self.series.at(start_ns, GAP_NS), self.series.at(end_ns, GAP_NS)
        if start is None or end is None:
            return None
        way = _pose(start).transformTo(end[4:7]) * self._scale
        return way, math.hypot(OFF_M, OFF * math.sqrt(float(np.linalg.norm(way))))


def _pose(row: Floats) -> gtsam.Pose3:
    return gtsam.Pose3(rot3(row[:4].tolist()), row[4:7])


class NavigationLog:
    """IMU samples and fixes between two breaks of the clock, added in any order.

    Attributes:
        odometer: messages of odometry, added in order of time.
        altitude_m: the first one of a fix; 0 where none has any.
    """

    def __init__(self) -> None:
        self.odometer, self.altitude_m = Odometer(), 0.0
        self._imu, self._fixes = Series(SAMPLE_COLUMNS), Series(8)

    def __bool__(self) -> bool:
        return bool(self._imu or self._fixes)

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU sample."""
        self._imu.extend((time_ns,), sample_row(imu))

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message."""
        if fix.is_fix and not (self.altitude_m or math.isnan(fix.altitude_m)):
            self.altitude_m = fix.altitude_m
        place = (fix.latitude_deg, fix.longitude_deg, fix.altitude_m)
        self._fixes.extend((time_ns,), (arrival, *place, fix.status, *(fix.sigma_m or UNKNOWN)))

    def measured(
        self, *, late_ns: int = 0
    ) -> Iterator[tuple[list[int], Floats] | tuple[int, int, NavSatFix]]:
        """IMU samples, some at a time, as ``inertia.sample_row`` gives them, and fixes, so much earlier.

        They come in order of time, a fix before samples of its time.
        """
        fixes = ((time_ns - late_ns, arrival, fix) for time_ns, arrival, fix in self.fixes())
        fix = next(fixes, None)
        for times_ns, samples in _sorted(self._imu):
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
        stored = [series.part(start, start + BLOCK)] if is_sorted else [series.part(i, i + 1) for i in some]
        yield times[some].tolist(), np.concatenate(stored)


BLOCK = 1024
"""Rows that are read at a time."""
