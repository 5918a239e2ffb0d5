"""Units and axes of an IMU that differ from what sensor_msgs/Imu asks for: g, degrees, north-east-down.

The message asks for m/s², rad/s, east-north-up and axes front-left-up (REP 103, REP 145), and does not tell
what it holds. Gravity shows the unit of forces and which axis is up; turns show the unit of rates.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

import numpy as np

from edgefirst_ros.ego.fixes import Fix, judged
from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Floats, Quaternion, enu_axes, rot3
from edgefirst_ros.ego.inertia import LEAST_FORCE_M_S2, MOST_FORCE_M_S2, SILENT_NS
from edgefirst_ros.model.navigation import NavSatFix
from edgefirst_ros.model.transform import product

WINDOW_NS = 500_000_000
"""Turns are compared over this: the filter of an AHRS lags by less."""
DEGREE = math.pi / 180
UPRIGHT = 0.5
"""Cosine between the mean force and up: nothing speeds up by as much as gravity for long."""
WAY_M, WAY_NS, MOST_WAY_NS = 10.0, 2_000_000_000, 20_000_000_000
"""Fixes this far apart show a course: noise of 1 m turns it by 8°."""
LEAST, SURE, SAME = 10, 5.0, 0.3
"""So many pairs tell a slope, if it is nearer to the expected one than so many standard deviations, and by a
share: slip and filters change slopes by less."""
_FLU_FROM_FRD = np.array((1.0, 0.0, 0.0, 0.0))
_ENU_FROM_NED = np.array((math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0))


class Units:
    """Learns an IMU's units and axes from its samples and from fixes, added in order of time.

    Args:
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's, as configured.

    Attributes:
        force: factor that makes its forces m/s²; NaN if they are not to be used.
        rate: factor that makes its rates rad/s.
        oriented: False if its orientations are not to be used.
        is_down: whether its orientations are in north-east-down, and its axes front-right-down.
    """

    def __init__(self, rig_from_imu_xyzw: Quaternion | None = None) -> None:
        self.force = self.rate = 1.0
        self.oriented, self.is_down = True, False
        self.late_ns = 0
        """By how much fixes are later than their stamps say."""
        self.contradictions: list[str] = []
        """What the motion has shown of it."""
        self._mount = rot3(rig_from_imu_xyzw or (0.0, 0.0, 0.0, 1.0)).matrix()
        self._times: list[int] = []
        self._rows: list[Floats] = []
        self._sizes: list[tuple[float, float]] = []
        """Median force of the first windows, and its relative scatter."""
        self._raised, self._raises = np.zeros(3), 0
        """Sum of forces where the orientations say up is."""
        self._felt = 1e-3 * self._mount[2]
        """Sum of forces, which shows where up is; by the mounting until there are any."""
        self._yaw: deque[tuple[int, float]] = deque(maxlen=4 * MOST_WAY_NS // WINDOW_NS)
        self._turns = np.zeros(4)
        """Count, squares and products of turns by the gyroscope and by courses."""
        self._fix: Fix | None = None
        self._before: tuple[float, float] | None = None
        """Course and yaw of the way before."""

    @property
    def notes(self) -> list[str]:
        """Sentences for the user."""
        found = [*self.contradictions]
        if self.late_ns:
            found.append(f"fixes are {self.late_ns / 1e9:.1f} s late against the IMU, and taken so")
        if math.isnan(self.force) and not math.isnan(self.rate):
            found.append("the IMU's accelerations lack gravity, or are not in m/s²: they are not used")
        elif self.force == STANDARD_GRAVITY_M_S2:
            found.append("the IMU's accelerations are in g, not in m/s², and taken so")
        if self.rate == DEGREE:
            found.append("the IMU's rates are in degrees a second, not in rad/s, and taken so")
        if self.is_down:
            found.append("the IMU is in north-east-down and front-right-down, not in REP 103, and taken so")
        elif not (self.oriented or self.contradictions):
            found.append("the IMU's orientations have z down, not up as in REP 103: they are not used")
        return found

    def scaled(self, samples: Floats) -> Floats:
        """Samples (n, 10) as REP 103 asks, NaN where they are not to be used."""
        if self.force == self.rate == 1 and self.oriented and not self.is_down:
            return samples
        found: Floats = samples * np.repeat((1.0, self.rate, self.force), (4, 3, 3))
        if self.is_down:
            found[:, [5, 6, 8, 9]] *= -1
            found[:, :4] = product(product(_ENU_FROM_NED, found[:, :4]), _FLU_FROM_FRD)
        if not self.oriented:
            found[:, :4] = np.nan
        return found

    def distrust(self, what: str, *, wholly: bool) -> None:
        """Use its orientations, or all of it, no more, as the motion contradicts them."""
        self.contradictions, self.oriented = [*self.contradictions, what], False
        if wholly:
            self.force, self.rate, self.late_ns = math.nan, math.nan, 0

    def add_samples(self, times_ns: Sequence[int], samples: Floats) -> None:
        """Take samples (n, 10) as ``inertia.sample_row`` gives them."""
        self._times.extend(times_ns)
        self._rows.append(samples)
        if not self._times or self._times[-1] - self._times[0] < WINDOW_NS:
            return
        times, rows, start = np.array(self._times, np.int64), np.concatenate(self._rows), 0
        while (end := bisect_left(self._times, self._times[start] + WINDOW_NS)) < len(times):
            self._window(times[start : end + 1], rows[start : end + 1])
            start = end
        self._times, self._rows = self._times[start:], [rows[start:]]

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Take a fix, and with it the course since one before."""
        taken = judged(time_ns, arrival, fix, 0.0)
        if isinstance(taken, str):
            return
        before, self._fix = self._fix, taken
        if before is None:
            return
        apart_ns = time_ns - before.time_ns
        way_m = enu_axes(before.point) @ np.subtract(taken.ecef, before.ecef)
        if apart_ns > MOST_WAY_NS or not self._yaw:
            self._before = None
        elif apart_ns < WAY_NS or math.hypot(*way_m[:2]) < WAY_M:
            self._fix = before
        else:
            course = math.atan2(way_m[1], way_m[0])
            yaw = float(np.interp(before.time_ns + apart_ns // 2, *np.array(self._yaw).T))
            if self._before is not None:
                turned = math.remainder(course - self._before[0], 2 * math.pi)
                if abs(turned) < 2:  # who drives back the way turns round
                    mine = yaw - self._before[1]
                    self._turns += 1, mine * mine, mine * turned, turned * turned
                    self._judge()
            self._before = course, yaw

    def _window(self, times: np.ndarray[tuple[int], np.dtype[np.int64]], rows: Floats) -> None:
        steps_s = np.diff(times)[:, None] / 1e9
        turned = ((rows[:-1, 4:7] + rows[1:, 4:7]) / 2 * steps_s).sum(axis=0)
        force = rows[:, 7:].mean(axis=0)
        is_known = np.isfinite(turned).all() and np.isfinite(force).all()
        if not is_known or steps_s.max() > SILENT_NS / 1e9:
            self._before = self._fix = None
            return
        if len(self._sizes) < LEAST:
            self._weigh(rows[:, 7:])
            self._judge()
            return
        if not math.isnan(self.force):
            self._felt += force
        told, is_felt = (
            rows[-1, :4],
            LEAST_FORCE_M_S2 <= np.linalg.norm(force) * self.force <= MOST_FORCE_M_S2,
        )
        if np.isfinite(told).all() and told.any() and is_felt:
            self._raised += rot3(told).matrix() @ force
            self._raises += 1
        last = self._yaw[-1][1] if self._yaw else 0.0
        self._yaw.append((int(times[-1]), last + float(turned @ self._felt / np.linalg.norm(self._felt))))
        self._judge()

    def _weigh(self, forces: Floats) -> None:
        """Find the unit of forces, once; what is none is not looked at any more."""
        low, size, high = np.quantile(np.linalg.norm(forces, axis=1), (0.25, 0.5, 0.75)).tolist()
        self._sizes.append((size, (high - low) / max(size, 1e-9)))
        size, scatter = np.median(self._sizes, axis=0).tolist()
        if len(self._sizes) < LEAST or size == 0 or LEAST_FORCE_M_S2 <= size <= MOST_FORCE_M_S2:
            return
        # Forces without gravity may be as large as this, but not as steady.
        self.force = STANDARD_GRAVITY_M_S2 if 0.85 < size < 1.15 and scatter < 0.1 else math.nan

    def _judge(self) -> None:
        if self.contradictions:
            return
        if self._turn_by(DEGREE):
            self.rate = DEGREE
        if self._raises < 2 or self._raised[2] > UPRIGHT * float(np.linalg.norm(self._raised)):
            return
        # Forces that are negated look the same, but make turns look as if they were to the other side.
        up = float(self._mount[2] @ self._felt)
        self.is_down = self.is_down or (
            up < -UPRIGHT * float(np.linalg.norm(self._felt)) and self._turn_by(self.rate)
        )
        self.oriented = self.is_down

    def _turn_by(self, expected: float) -> bool:
        """Whether courses turn so much for each radian by the gyroscope, for sure."""
        count, squares, products, others = self._turns.tolist()
        if count < LEAST or squares <= 1e-6 * others:
            return False
        slope = products / squares
        sigma = math.sqrt(max(0.0, others - slope * products) / (count - 1) / squares)
        return abs(slope / expected - 1) < SAME and 2 * SURE * sigma < expected
