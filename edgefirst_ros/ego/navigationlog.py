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

from edgefirst_ros.ego.geometry import (
    BLOCK,
    SAME,
    Floats,
    Series,
    Slope,
    basis,
    nearest_ns,
    quaternion,
    rot3,
)
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.inertia import SAMPLE_COLUMNS, sample_row
from edgefirst_ros.ego.units import WINDOW_NS
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import PoseBasis

GAP_NS = 500_000_000
"""Messages further apart are not interpolated to tell a way."""
FASTEST_M_S = 100.0
"""Faster than this the odometry's frame has jumped."""
STRETCH_M, LEAST_STRETCHES, MOST_STRETCHES = 25.0, 20, 400
"""Stretches of the way show its scale: twenty of 25 m, to 1 %."""
JUMP_M, LATE_S = 1.0, 0.2
"""From one message to the next nothing leaves its way by as much, and what it drives while one is late."""
MOVED_M2, TURNED_RAD2 = 10.0, 1.0
"""Less is as much noise as motion: ten half seconds at 2 m/s, or some bends."""
DRIFT = 0.05
"""Wheels slip, wear and carry loads, by up to 3 %."""
TURN_NS, LEAST_TURN_RAD = 5_000_000_000, 0.25
"""Turns are compared over this: odometry may be 0.2 s late. Less is as much a gyroscope's bias."""
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
        faults: what its poses contradict.
        usable: they do not by so much that they are useless.
        tells: its velocities are those of its poses.
    """

    def __init__(self) -> None:
        self.series = Series(COLUMNS, quaternion_at=3)
        self.faults: list[str] = []
        self.usable = self.tells = True
        self._turns, self._bends, self._speeds, self._rates = (Slope() for _ in range(4))
        self._turned_ns = -(2**63)
        self._turn = np.zeros(3)
        """Radians by the estimate and by the odometry, and how long."""
        self._last: tuple[int, Floats] | None = None
        self._start: tuple[int, Floats] | None = None
        """The last message, and the first of a window."""
        self._went: Floats | None = None
        self._stretches: deque[tuple[float, float]] = deque(maxlen=MOST_STRETCHES)
        """Metres by the estimate, and by the odometry."""
        self._stretch = np.zeros(4)
        """Likewise, and products of both: of lengths, and inner ones."""
        self._scale = math.nan
        self.compared_ns = -(2**63)

    def add(self, time_ns: int, odometry: Odometry) -> None:
        """Add a message; one that is not later than the last is left out."""
        pose = (*odometry.position_m, *odometry.orientation_xyzw)
        sigmas = (*(odometry.position_sigma_m or UNKNOWN), *(odometry.rotation_sigma_rad or UNKNOWN))
        row = (*pose, *odometry.linear_m_s, *odometry.angular_rad_s, *sigmas)
        if self.series.add(time_ns, row):
            self._follow(time_ns, np.array(row))

    def _follow(self, time_ns: int, row: Floats) -> None:
        """Compare a message with those before it."""
        last, self._last = self._last, (time_ns, row)
        went, self._went = self._went, None
        if last is None or time_ns - last[0] > GAP_NS:
            self._start = self._last
            return
        dt_s = (time_ns - last[0]) / 1e9
        self._went = (row[:3] - last[1][:3]) / dt_s
        off_m = 0.0 if went is None else float(np.linalg.norm(self._went - went)) * dt_s
        if went is not None and off_m > JUMP_M + LATE_S * float(np.linalg.norm(went)):
            self._went, self._start = None, self._last
            # No filter corrects itself by as much: it has begun again.
            self._find(f"jumps by {off_m:,.1f} m from one message to the next", useless=off_m > 10.0)
        start_ns, start = self._start or self._last
        if time_ns - start_ns < WINDOW_NS:
            return
        self._start = self._last
        moved = gtsam.Pose3.Logmap(_pose(start).between(_pose(row)))
        told = (start[7:13] + row[7:13]) / 2 * ((time_ns - start_ns) / 1e9)
        if np.isfinite(told).all():
            for mine, other in zip(moved[3:].tolist(), told[:3].tolist(), strict=True):
                self._speeds.add(mine, other)
            self._rates.add(float(moved[2]), float(told[5]))
            is_off = self._speeds.is_off(SAME, MOVED_M2) or self._rates.is_off(SAME, TURNED_RAD2)
            self.tells = self.tells and not is_off
            if is_off and self._speeds.found == (math.inf, 0.0):
                self._find("stays where it is, although its velocities do not", useless=True)

    def _find(self, fault: str, *, useless: bool) -> None:
        """Keep what is wrong; of a kind the first."""
        if all(fault.partition(" ")[0] != each.partition(" ")[0] for each in self.faults):
            self.faults.append(fault)
        self.usable = self.usable and not useless

    def pose(self, time_ns: int, max_gap_ns: int, hold_ns: int) -> tuple[Floats, PoseBasis] | None:
        """The row at a time and what it rests on, extrapolated beyond ends by its velocities."""
        times_ns = self.series.times_ns
        found = self.series.at(time_ns, max_gap_ns)
        if found is not None:
            return self._with_speed(found, time_ns), basis(times_ns, time_ns, max_gap_ns)
        near_ns = nearest_ns(times_ns, time_ns)
        if near_ns is None or abs(near_ns - time_ns) > hold_ns:
            return None
        found = self._with_speed(self.series.row(bisect_left(times_ns, near_ns)), near_ns).copy()
        twist = np.concatenate([found[10:13], found[7:10]])
        if np.isfinite(twist).all():
            pose = _pose(found).compose(gtsam.Pose3.Expmap(twist * ((time_ns - near_ns) / 1e9)))
            found[:7] = *pose.translation(), *quaternion(pose.rotation())
        found[13:] = math.nan
        return found, PoseBasis.DEAD_RECKONED

    def compare(self, before: Node, node: Node, *, placed: bool) -> None:
        """Compare the turn, and if fixes are near the way, from an estimated node to the next, in order."""
        if node.time_ns <= self._turned_ns and not placed:
            return
        found = self.series.at(before.time_ns, GAP_NS), self.series.at(node.time_ns, GAP_NS)
        if placed:
            self.compared_ns = node.time_ns
        if found[0] is None or found[1] is None:
            self._turn = np.zeros(3)
            return
        own = _pose(found[0]), _pose(found[1])
        if node.time_ns > self._turned_ns:
            self._turned_ns = node.time_ns
            by_gyro = node.segment is not None and node.segment.turns
            if by_gyro or placed:
                turned = _turned(before.pose, node.pose), _turned(*own)
                self._turn += *turned, node.time_ns - before.time_ns
                self._compare_turn(placed=placed, by_gyro=by_gyro)
        if placed:
            way = before.pose.transformTo(node.pose.translation())
            self._compare_way(way, own[0].transformTo(own[1].translation()))

    def _compare_way(self, way: Floats, own: Floats) -> None:
        """Compare ways in the axes at their beginning (3,)."""
        way_m, own_m = float(np.linalg.norm(way)), float(np.linalg.norm(own))
        self._stretch += way_m, own_m, way_m * own_m, float(way @ own)
        if self._stretch[1] < STRETCH_M:
            return
        way_m, own_m, both, along = self._stretch.tolist()
        self._stretch = np.zeros(4)
        # Cosine between two ways that are one, on average over a stretch.
        if along < 0.9 * both:
            return
        self._stretches.append((way_m, own_m))
        if len(self._stretches) >= LEAST_STRETCHES:
            ways = np.array(self._stretches)
            ratios = ways[:, 0] / ways[:, 1]
            middle = float(np.median(ratios))
            scatter = 1.4826 * float(np.median(np.abs(ratios - middle)))
            good = np.abs(ratios - middle) < 3 * scatter + 1e-3
            # Stretches whose ratios scatter by more than this tell that it slips, or measures something
            # else.
            trusted = scatter < 0.1 * middle
            self._scale = float(ways[good, 0].sum() / ways[good, 1].sum()) if trusted else math.nan
            off = abs(1 / self._scale - 1)
            if off > DRIFT:
                fault = f"has ways {round(1 / self._scale, 2):,g} times as long as those of the fixes"
                self._find(fault, useless=off > SAME)

    def _with_speed(self, row: Floats, time_ns: int) -> Floats:
        """A row whose velocities are those of the poses around it, if its own are not."""
        if self.tells:
            return row
        row = row.copy()
        times_ns = self.series.times_ns
        start = max(0, bisect_left(times_ns, time_ns - WINDOW_NS // 2) - 1)
        end = min(len(times_ns) - 1, bisect_left(times_ns, time_ns + WINDOW_NS // 2))
        dt_s = (times_ns[end] - times_ns[start]) / 1e9
        if 0 < dt_s < 2 * GAP_NS / 1e9:
            turned = gtsam.Pose3.Logmap(_pose(self.series.row(start)).between(_pose(self.series.row(end))))
            row[7:13] = *(turned[3:] / dt_s), *(turned[:3] / dt_s)
        return row

    def _compare_turn(self, *, placed: bool, by_gyro: bool) -> None:
        """Compare turns, once they took long: by a gyroscope whose bias is known, or more roughly."""
        turned, own, length_ns = self._turn.tolist()
        if length_ns < TURN_NS:
            return
        self._turn = np.zeros(3)
        if abs(turned) < LEAST_TURN_RAD:
            return
        slope, share = (self._turns, DRIFT) if placed and by_gyro else (self._bends, SAME)
        slope.add(turned, own)
        if slope.is_off(share, TURNED_RAD2):
            times, others = slope.products / slope.squares, "gyroscope" if by_gyro else "course over ground"
            fault = f"turns {times:.3g} times as far as the {others}"
            self._find(fault, useless=slope.is_off(SAME, TURNED_RAD2))

    def moved(self, start_ns: int, end_ns: int) -> tuple[Floats, float] | None:
        """The way from one time to another in the axes at the first (3,), and its standard deviation, metres.

        None if it is not known, or not trusted.
        """
        start, end = self.series.at(start_ns, GAP_NS), self.series.at(end_ns, GAP_NS)
        if not self.usable or math.isnan(self._scale) or start is None or end is None:
            return None
        way = _pose(start).transformTo(end[:3]) * self._scale
        length_m = float(np.linalg.norm(way))
        if length_m > FASTEST_M_S * (end_ns - start_ns) / 1e9:
            return None
        return way, math.hypot(OFF_M, OFF * math.sqrt(length_m))


def _pose(row: Floats) -> gtsam.Pose3:
    return gtsam.Pose3(rot3(row[3:7].tolist()), row[:3])


def _turned(start: gtsam.Pose3, end: gtsam.Pose3) -> float:
    """By how much it turned about up."""
    return float(gtsam.Rot3.Logmap(end.rotation().compose(start.rotation().inverse()))[2])


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
        self, *, oriented: bool = True, late_ns: int = 0
    ) -> Iterator[tuple[list[int], Floats] | tuple[int, int, NavSatFix]]:
        """Samples as ``samples`` gives them, and fixes as ``fixes`` does but earlier, in order of time."""
        fixes = ((time_ns - late_ns, arrival, fix) for time_ns, arrival, fix in self.fixes())
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
