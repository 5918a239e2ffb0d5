"""What the navigation sensors measured during a whole drive, kept until it is estimated."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

import numpy as np

from edgefirst_ros.ego.inertia import NO_ORIENTATION
from edgefirst_ros.ego.odometer import Odometer
from edgefirst_ros.ego.rows import BLOCK, Floats, Rows
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix

TURNED_RAD = 0.1


class NavigationLog:
    """IMU samples and fixes between two breaks of the clock, added in any order."""

    def __init__(self) -> None:
        self.odometer = Odometer()
        """Messages of odometry, added in order of time."""
        self._imu_times: array[int] = array("q")
        self._imu = Rows(10)
        self._fix_times: array[int] = array("q")
        self._arrivals: array[int] = array("q")
        self._fixes = Rows(7)

    def __bool__(self) -> bool:
        return bool(self._imu_times or self._fix_times)

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU sample."""
        self._imu_times.append(time_ns)
        orientation = imu.orientation_xyzw or NO_ORIENTATION
        self._imu.extend((*orientation, *imu.angular_velocity_rad_s, *imu.linear_acceleration_m_s2))

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message."""
        self._fix_times.append(time_ns)
        self._arrivals.append(arrival)
        sigma = fix.sigma_m or (math.nan,) * 3
        self._fixes.extend((fix.latitude_deg, fix.longitude_deg, fix.altitude_m, fix.status, *sigma))

    @property
    def oriented(self) -> bool:
        """Whether the IMU has orientations: drivers without any always send the same rotation.

        It may be the same while the rig stands, but not while the gyroscope measures a turn.
        """
        one = None
        for values in self._imu.blocks():
            told = values[~np.isnan(values[:, 0]), :4]
            if one is None and len(told):
                one = told[0]
            if one is not None and (told != one).any():
                return True
        if one is None or abs(abs(float(one[3])) - 1) < 1e-12:
            return False
        times = np.sort(np.frombuffer(self._imu_times, np.int64))
        turned_rad = np.zeros(3)
        for number, values in enumerate(self._imu.blocks()):
            start = max(1, number * BLOCK)
            gaps = np.diff(times[start - 1 : (number + 1) * BLOCK])
            turned_rad += np.nan_to_num(values[-len(gaps) :, 4:7]).T @ gaps / 1e9 if len(gaps) else 0.0
        return bool(np.abs(turned_rad).max() < TURNED_RAD)

    def samples(self, *, oriented: bool) -> Iterator[tuple[int, Floats]]:
        """IMU samples in order of time, as ``inertia.sample_row`` gives them.

        Args:
            oriented: whether their orientations are real.
        """
        times = np.frombuffer(self._imu_times, np.int64)
        order = np.argsort(times, kind="stable")
        sorted_already = bool((order[1:] > order[:-1]).all())
        for start in range(0, len(order), BLOCK):
            some = order[start : start + BLOCK]
            rows = self._imu.part(start, start + BLOCK) if sorted_already else self._imu.rows(some)
            if not oriented:
                rows[:, :4] = np.nan
            yield from zip(times[some].tolist(), rows, strict=True)

    def fixes(self) -> Iterator[tuple[int, int, NavSatFix]]:
        """Time, running number and fix, in order of time and number."""
        for index in _order(self._fix_times, self._arrivals):
            latitude_deg, longitude_deg, altitude_m, status, *sigma = self._fixes.row(index).tolist()
            sigma_m = None if math.isnan(sigma[0]) else (sigma[0], sigma[1], sigma[2])
            fix = NavSatFix(latitude_deg, longitude_deg, altitude_m, int(status), sigma_m)
            yield self._fix_times[index], self._arrivals[index], fix


def _order(times: array[int], then: array[int] | None = None) -> Iterator[int]:
    """Indices in order of time, of equal times in order of ``then``, otherwise as they are."""
    if not times:
        return
    order = np.lexsort([np.frombuffer(keys, np.int64) for keys in (then, times) if keys is not None])
    for start in range(0, len(order), BLOCK):
        yield from order[start : start + BLOCK].tolist()
