"""Whether an IMU measures what its messages say, by gravity and by the way that it was driven.

sensor_msgs/Imu asks for m/s², rad/s and orientations in east-north-up (REP 103, REP 145). Drivers send g,
degrees and north-east-down as well, and nothing in a message tells.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import gtsam
import numpy as np

from edgefirst_ros.ego.fixes import Fix, judged
from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Floats, enu_axes, rot3
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
WAY_M, WAY_NS, MOST_WAY_NS = 10.0, 2_000_000_000, 20_000_000_000
"""Fixes this far apart show a course: noise of 1 m turns it by 8°."""


@dataclass(slots=True)
class Slope:
    """How much one turn is for each radian of another, by least squares."""

    count: int = 0
    squares: float = 0.0
    products: float = 0.0
    others: float = 0.0

    def add(self, turned: float, other: float) -> None:
        self.count += 1
        self.squares += turned * turned
        self.products += turned * other
        self.others += other * other

    @property
    def found(self) -> tuple[float, float] | None:
        """The slope and its standard deviation, None if too little turned; infinite if nothing but the other."""
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
        """Whether it differs from one by more than a share, for sure: not by noise, of squares below the least."""
        slope, sigma = self.found or (1.0, 0.0)
        return abs(slope - 1) > share + SURE * sigma and self.squares + self.others > least


class Gauge:
    """Judges an IMU by its samples and by fixes, added in order of time; what is found stays.

    Attributes:
        force: factor that makes its forces m/s²; NaN if they are not to be used.
        rate: factor that makes its rates rad/s; NaN likewise.
        oriented: False if its orientations are not to be used.
        notes: sentences for the user.
    """

    def __init__(self) -> None:
        self.force = self.rate = 1.0
        self.oriented = True
        self.notes: list[str] = []
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
        self._course = Slope()
        self._axes: Floats | None = None
        self._fix: Fix | None = None
        self._before: tuple[float, float] | None = None
        """Course and yaw of the way before."""

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
            yaw = float(np.interp(before.time_ns + apart_ns // 2, times_ns, yaws))
            if self._before is not None:
                turned = math.remainder(course - self._before[0], 2 * math.pi)
                if abs(turned) < ABOUT_RAD:
                    self._course.add(yaw - self._before[1], turned)
                    self._judge()
            self._before = course, yaw

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
        if self._course.is_below(OTHER * DEGREE):
            self.rate = self.force = math.nan
            self.oriented = False
            self.notes.append(
                "the IMU turns the other way than the course over ground, or not with it: its axes are not "
                "right-handed, or its accelerations negated; it is not used"
            )
        elif any(each.is_below(-OTHER * DEGREE) for each in attitude):
            self._disbelieve("contradict its own rates: one of them is not in the axes of REP 103")
        elif self._raises >= RAISED and self._raised[2] < UPRIGHT * float(np.linalg.norm(self._raised)):
            self._disbelieve("have z down: they are not in east-north-up, as REP 103 asks")

    def _disbelieve(self, why: str) -> None:
        if self.oriented:
            self.oriented = False
            self.notes.append(f"the IMU's orientations {why}; they are not used")
