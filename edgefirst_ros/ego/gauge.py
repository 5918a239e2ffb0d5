"""Whether an IMU and fixes measure what their messages say, by gravity and by the way that they were driven.

sensor_msgs/Imu asks for m/s², rad/s and orientations in east-north-up (REP 103, REP 145). Drivers send g,
degrees and north-east-down as well, and nothing in a message tells. Nor does it of longitudes that count to
the west, or of degrees and minutes that are taken for degrees.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import gtsam
import numpy as np

from edgefirst_ros.ego.fixes import Fix, judged
from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Floats, Quaternion, enu_axes, rot3
from edgefirst_ros.ego.inertia import LEAST_FORCE_M_S2, MOST_FORCE_M_S2, SILENT_NS
from edgefirst_ros.model.navigation import NavSatFix

WINDOW_NS = 500_000_000
"""Turns are compared over this: the filter of an AHRS lags by less."""
LEAST, SURE = 10, 5.0
"""So many windows or courses tell, and a slope differs by so many standard deviations."""
SAME, OTHER = 0.3, 0.5
"""A slope this near to the expected one agrees; below half of the smaller one courses contradict, and
orientations if they turn the other way. Slip and filters change slopes by less."""
NOTHING = 1e-6
"""A thousandth of the other turn is none."""
DEGREE = math.pi / 180
SPINNING_RAD_S = 2 * math.pi
"""Nothing that takes pictures turns round in a second; in degrees a second every bend is as fast."""
WEIGHT, STEADY = (0.85, 1.15), 0.1
"""What is felt in g, and how little it varies: forces without gravity may be as large, but not as steady."""
UPRIGHT, RAISED = 0.5, 2
"""Cosine between the mean force and an AHRS's up, below which that is not up: no vehicle gets so much faster
for so many windows."""
UP_S = 5.0
"""Forces averaged over this show where up is: a bend tilts them by less than 20°."""
TURNING_RAD, ABOUT_RAD = 0.05, 2.0
"""An orientation that changes by less in a window shows its noise; who drives back the way turns round."""
FELT_M_S, FELT_NS = 3.0, 5_000_000_000
"""Accelerations are compared from this speed on, and over so long: shorter ones are noise of fixes, in longer
ones slopes weigh."""
SHORT = (0.35, 0.65)
"""Metres by fixes for each that was felt: 0.7 to 1.0 if they are right, as bodies lean in bends; 0.6 of that
if minutes are taken for hundredths of a degree."""
MIRRORED, SIGMAS = -4.0, 3.0
"""Accelerations along the way are hard to see in noise; where speed and course hardly change, this is chance
in one of a thousand drives."""
WAY_M, WAY_NS, MOST_WAY_NS = 10.0, 2_000_000_000, 20_000_000_000
"""Fixes this far apart show a course: noise of 1 m turns it by 8°."""


@dataclass(frozen=True, slots=True)
class Felt:
    """What fixes show of the acceleration along and across the way, for each m/s² felt.

    Attributes:
        up: in the IMU's axes (3,).
        ways: directions forward and to the left in its axes (2, 3); as long as fixes are right.
        sigmas: their standard deviations (2,).
    """

    up: Floats
    ways: Floats
    sigmas: Floats

    @property
    def hand(self) -> float:
        """Standard deviations by which left is to the left of forward; negative if axes are mirrored."""
        along, across = np.linalg.norm(self.ways, axis=1).tolist()
        sigma = math.hypot(across * float(self.sigmas[0]), along * float(self.sigmas[1]))
        return float(self.up @ np.cross(*self.ways)) / sigma

    @property
    def is_short(self) -> bool:
        """Whether ways by fixes are too short for what was felt, for sure, as minutes make them."""
        along, across = np.linalg.norm(self.ways, axis=1).tolist()
        below = across + SIGMAS * float(self.sigmas[1]) < SHORT[1] and along < SHORT[1]
        return bool(below and across > SHORT[0])


@dataclass(slots=True)
class Slope:
    """How much one turn is for each radian of another, by least squares."""

    count: int = 0
    squares: float = 0.0
    products: float = 0.0
    others: float = 0.0

    def add(self, turned: float, other: float) -> None:
        """Take one of each."""
        self.count += 1
        self.squares += turned * turned
        self.products += turned * other
        self.others += other * other

    @property
    def found(self) -> tuple[float, float] | None:
        """The slope and its standard deviation, None if too little turned; infinite if only the other."""
        if self.count < LEAST or self.squares + self.others <= 0:
            return None
        if self.squares <= NOTHING * self.others:
            return math.inf, 0.0
        slope = self.products / self.squares
        rest = max(0.0, self.others - slope * self.products)
        return slope, math.sqrt(rest / (self.count - 1) / self.squares)

    def is_near(self, expected: float) -> bool:
        """Whether it is the expected one, for sure."""
        slope, sigma = self.found or (math.nan, math.inf)
        return abs(slope / expected - 1) < SAME and SURE * sigma < OTHER * expected

    def is_below(self, bound: float) -> bool:
        """Whether it is less, for sure."""
        slope, sigma = self.found or (math.nan, math.inf)
        return slope + SURE * sigma < bound

    def is_off(self, share: float, least: float) -> bool:
        """Whether it differs from one by more than a share, for sure; squares below the least are noise."""
        slope, sigma = self.found or (1.0, 0.0)
        return abs(slope - 1) > share + SURE * sigma and self.squares + self.others > least


class Gauge:
    """Judges an IMU by its samples and by fixes, added in order of time; what is found stays.

    Args:
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's, as configured.

    Attributes:
        force: factor that makes its forces m/s²; NaN if they are not to be used.
        rate: factor that makes its rates rad/s; NaN likewise.
        oriented: False if its orientations are not to be used.
        placed: False if fixes are not.
        notes: sentences for the user.
        doubts: likewise, on what is used although it is wrong.
    """

    def __init__(self, rig_from_imu_xyzw: Quaternion | None = None) -> None:
        self.force = self.rate = 1.0
        self.oriented = self.placed = True
        self.notes: list[str] = []
        self.doubts: list[str] = []
        self._mount = rot3(rig_from_imu_xyzw or (0.0, 0.0, 0.0, 1.0)).matrix()
        self._times: list[int] = []
        self._rows: list[Floats] = []
        self._felt: list[tuple[float, float]] = []
        """Median force of the first windows, and its relative scatter."""
        self._fast = 0
        self._first: Floats | None = None
        """The first orientation; drivers without any always send one."""
        self._last: gtsam.Rot3 | None = None
        self._raised, self._raises = np.zeros(3), 0
        self._attitude = (Slope(), Slope(), Slope())
        self._up = np.zeros(3)
        self._yaw: deque[tuple[int, float]] = deque(maxlen=4 * MOST_WAY_NS // WINDOW_NS)
        self._sped: deque[Floats] = deque(maxlen=4 * MOST_WAY_NS // WINDOW_NS)
        """Integral of the forces at the same times."""
        self._felt_all = np.zeros((6, 6))
        """Sums of products of mean force (3), one, and acceleration by fixes along and across (2)."""
        self._minutes = True
        """No latitude or longitude has a fraction of sixty hundredths or more."""
        self._course = Slope()
        self._axes: Floats | None = None
        self._fix: Fix | None = None
        self._before: tuple[float, float] | None = None
        self._drove: tuple[int, float, Floats] | None = None
        """Course and yaw of the way before; its middle, speed, and the integral of forces there."""
        self._long: tuple[int, float, Floats, float] | None = None
        """Likewise of one some ways before, and what was turned since, times the speed."""
        self._bends = Slope()
        """What was felt to the left, where up is, by that."""

    def scaled(self, samples: Floats) -> Floats:
        """Samples (n, 10) in SI units, NaN where they are not to be used."""
        if self.force == self.rate == 1.0 and self.oriented:
            return samples
        found = samples.copy()
        found[:, 4:7] *= self.rate
        found[:, 7:] *= self.force
        if not self.oriented:
            found[:, :4] = np.nan
        return found

    def add_samples(self, times_ns: Sequence[int], samples: Floats) -> None:
        """Take samples (n, 10) as ``inertia.sample_row`` gives them."""
        start = 0
        for index, time_ns in enumerate(times_ns):
            self._times.append(time_ns)
            if time_ns - self._times[0] >= WINDOW_NS:
                self._rows.append(samples[start : index + 1])
                self._window(np.array(self._times, np.int64), np.concatenate(self._rows))
                self._times, self._rows, start = [time_ns], [], index
        self._rows.append(samples[start:])

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Take a fix, and with it the course since one before."""
        taken = judged(time_ns, arrival, fix, 0.0)
        if isinstance(taken, str):
            return
        degrees = abs(fix.latitude_deg), abs(fix.longitude_deg)
        self._minutes = self._minutes and max(each % 1 for each in degrees) < 0.6
        before, self._fix = self._fix, taken
        if before is None or self._axes is None:
            self._axes = enu_axes(taken.point)
            return
        apart_ns = time_ns - before.time_ns
        east_m, north_m, _ = (self._axes @ np.subtract(taken.ecef, before.ecef)).tolist()
        if apart_ns > MOST_WAY_NS or not self._yaw:
            self._before = None
        elif apart_ns < WAY_NS or math.hypot(east_m, north_m) < WAY_M:
            self._fix = before
        else:
            course = math.atan2(north_m, east_m)
            times_ns, yaws = zip(*self._yaw, strict=True)
            middle_ns = before.time_ns + apart_ns // 2
            speed_m_s = math.hypot(east_m, north_m) / apart_ns * 1e9
            sped = np.array([np.interp(middle_ns, times_ns, each) for each in zip(*self._sped, strict=True)])
            yaw = float(np.interp(middle_ns, times_ns, yaws))
            self._accelerate(middle_ns, yaw - self._before[1] if self._before else None, speed_m_s, sped)
            if self._before is not None:
                turned = math.remainder(course - self._before[0], 2 * math.pi)
                if abs(turned) < ABOUT_RAD:
                    self._course.add(yaw - self._before[1], turned)
                    self._judge()
                    self._compare_felt()
            self._before = course, yaw

    def _accelerate(self, time_ns: int, turned: float | None, speed_m_s: float, sped: Floats) -> None:
        """Take what was felt between the middles of two ways, and how speed and course changed."""
        last, self._drove = self._drove, (time_ns, speed_m_s, sped)
        if turned is None or last is None or min(speed_m_s, last[1]) < FELT_M_S:
            self._long = None
            return
        across_m_s = (speed_m_s + last[1]) / 2 * turned
        felt = self._mount @ (sped - last[2])
        self._bends.add(across_m_s, math.copysign(1.0, felt[2]) * float(felt[1]))
        start_ns, start_m_s, start, so_far_m_s = self._long or (*last, 0.0)
        self._long, apart_s = (
            (start_ns, start_m_s, start, so_far_m_s + across_m_s),
            (time_ns - start_ns) / 1e9,
        )
        if apart_s >= FELT_NS / 1e9:
            along_m_s, across_m_s, self._long = speed_m_s - start_m_s, self._long[3], None
            row = np.array((*(sped - start), apart_s, along_m_s, across_m_s)) / apart_s
            self._felt_all += np.outer(row, row)

    @property
    def felt(self) -> Felt | None:
        """How fixes and forces agree, by least squares; None if too little was driven."""
        sums, count = self._felt_all, float(self._felt_all[3, 3])
        if count < LEAST + 2 or not math.isfinite(self.force):
            return None
        factors = np.array((self.force,) * 3 + (1.0, 1.0, self.rate))
        sums = sums * np.outer(factors, factors)
        up = sums[:3, 3] / np.linalg.norm(sums[:3, 3])
        level = np.zeros((3, 4))
        level[:2, :3], level[2, 3] = np.linalg.svd(up[None])[2][1:], 1.0
        inside, products = level @ sums[:4, :4] @ level.T, level @ sums[:4, 4:]
        inverse = np.linalg.pinv(inside)
        found = inverse @ products
        rest = np.maximum(np.diag(sums[4:, 4:] - found.T @ products), 0.0) / (count - 3)
        sigmas = np.sqrt(rest * np.linalg.eigvalsh(inverse[:2, :2])[-1]) + 1e-9
        return Felt(up, found[:2].T @ level[:2, :3], sigmas)

    def _window(self, times: np.ndarray[tuple[int], np.dtype[np.int64]], rows: Floats) -> None:
        steps_s = np.diff(times)[:, None] / 1e9
        length_s = float(steps_s.sum())
        turned = ((rows[:-1, 4:7] + rows[1:, 4:7]) / 2 * steps_s).sum(axis=0)
        force = rows[:, 7:].mean(axis=0)
        is_known = np.isfinite(turned).all() and np.isfinite(force).all()
        if not is_known or steps_s.max() > SILENT_NS / 1e9:
            self._last = self._before = self._fix = None
            return
        self._weigh(rows[:, 7:])
        self._fast = self._fast + 1 if np.linalg.norm(turned) > SPINNING_RAD_S * length_s else 0
        self._orient(rows[-1, :4], turned, force)
        size = float(np.linalg.norm(force))
        if size > 0:
            self._up += (force / size - self._up) * min(1.0, length_s / UP_S if self._yaw else 1.0)
            lean = float(np.linalg.norm(self._up))
            last = self._yaw[-1][1] if self._yaw else 0.0
            self._sped.append((self._sped[-1] if self._yaw else np.zeros(3)) + force * length_s)
            self._yaw.append((int(times[-1]), last + float(turned @ self._up) / max(lean, 1e-9)))
        self._judge()

    def _weigh(self, forces: Floats) -> None:
        """Find the unit of the forces, once."""
        if len(self._felt) == LEAST:
            return
        low, size, high = np.quantile(np.linalg.norm(forces, axis=1), (0.25, 0.5, 0.75)).tolist()
        self._felt.append((size, (high - low) / max(size, 1e-9)))
        if len(self._felt) < LEAST:
            return
        size, scatter = np.median(self._felt, axis=0).tolist()
        if size == 0 or LEAST_FORCE_M_S2 <= size <= MOST_FORCE_M_S2:
            return
        for unit, name in ((1.0, "g"), (1000.0, "mg")):
            if WEIGHT[0] <= size / unit <= WEIGHT[1] and scatter < STEADY:
                self.force = STANDARD_GRAVITY_M_S2 / unit
                self.notes.append(f"the IMU's accelerations are in {name}, not in m/s², and taken so")
                return
        self.force = math.nan
        self.notes.append(
            f"the IMU's accelerations ({size:.3g}) lack gravity, or are not in m/s²; they are not used"
        )

    def _orient(self, told: Floats, turned: Floats, force: Floats) -> None:
        """Compare an orientation with the rates since the last one, and with where up is."""
        last, self._last = self._last, None
        if not self.oriented or not np.isfinite(told).all() or not told.any():
            return
        self._first = told.copy() if self._first is None else self._first
        if (told == self._first).all():
            return
        self._last = rot3(told)
        if LEAST_FORCE_M_S2 <= float(np.linalg.norm(force)) * self.force <= MOST_FORCE_M_S2:
            self._raised += self._last.matrix() @ force
            self._raises += 1
        if last is not None:
            for slope, mine, other in zip(
                self._attitude,
                turned.tolist(),
                gtsam.Rot3.Logmap(last.between(self._last)).tolist(),
                strict=True,
            ):
                slope.add(mine, other)

    def _judge(self) -> None:
        if math.isnan(self.rate):
            return
        attitude = self._attitude if self.oriented else ()
        if self.rate == 1.0 and (
            self._fast >= 2
            or self._course.is_near(DEGREE)
            or (any(each.is_near(DEGREE) for each in attitude) and not self._course.is_near(1.0))
        ):
            self.rate = DEGREE
            self.notes.append("the IMU's rates are in degrees a second, not in rad/s, and taken so")
        if self.placed and self._course.is_below(OTHER * DEGREE):
            self._contradict()
        elif any(each.is_below(-OTHER * DEGREE) for each in attitude):
            self._disbelieve("contradict its own rates: one of them is not in the axes of REP 103")
        elif self._raises >= RAISED and self._raised[2] < UPRIGHT * float(np.linalg.norm(self._raised)):
            self._disbelieve("have z down: they are not in east-north-up, as REP 103 asks")

    def _contradict(self) -> None:
        """Find which is wrong, IMU or fixes: one that is right feels bends on the outside, and knows up."""
        upright = float(self._raised[2]) > UPRIGHT * float(np.linalg.norm(self._raised))
        agrees = self.oriented and upright and any(each.is_near(1.0) for each in self._attitude)
        side, sigma = self._bends.found or (0.0, math.inf)
        if agrees or side > SURE * sigma:
            self.placed = False
            self.notes.append(
                "the fixes turn the other way than the IMU, which agrees with itself: their longitudes count "
                "to the west, or latitude and longitude are exchanged; they are not used"
            )
        elif side < -SURE * sigma or self._course.count >= 2 * LEAST:
            self._mistrust(
                "turns the other way than the course over ground, or not with it: its axes are not "
                "right-handed, or its accelerations negated"
            )

    def _compare_felt(self) -> None:
        """Compare what was felt with what fixes show, once the course agrees."""
        felt = self.felt
        if felt is None or not self._course.is_near(self.rate):
            return
        if felt.hand < MIRRORED:
            self._mistrust(
                "feels bends on the wrong side for how it gets faster: two of its axes are exchanged, or one "
                "is negated"
            )
        elif felt.is_short and self._minutes and not self.doubts:
            self.doubts.append(
                "the way by fixes is too short for what the IMU felt, as if degrees and minutes were sent as "
                "degrees (48.30 for 48°30'): the positions that are written are as wrong"
            )

    def _mistrust(self, why: str) -> None:
        self.rate = self.force = math.nan
        self.oriented = False
        self.notes.append(f"the IMU {why}; it is not used")

    def _disbelieve(self, why: str) -> None:
        if self.oriented:
            self.oriented = False
            self.notes.append(f"the IMU's orientations {why}; they are not used")
