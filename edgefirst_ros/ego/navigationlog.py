"""What the navigation sensors measured during a whole drive, kept until it is estimated."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

import numpy as np

from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix

TURNED_RAD = 0.1


class NavigationLog:
    """IMU samples and fixes between two breaks of the clock, added in any order; 88 bytes a sample."""

    def __init__(self) -> None:
        self._times: array[int] = array("q")
        self._imu: array[float] = array("d")
        self.fixes: list[tuple[int, int, NavSatFix]] = []

    def __bool__(self) -> bool:
        return bool(self._times or self.fixes)

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU sample."""
        self._times.append(time_ns)
        orientation = imu.orientation_xyzw or (math.nan,) * 4
        self._imu.extend((*orientation, *imu.angular_velocity_rad_s, *imu.linear_acceleration_m_s2))

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message."""
        self.fixes.append((time_ns, arrival, fix))

    @property
    def oriented(self) -> bool:
        """Whether the IMU has orientations: drivers without any always send the same rotation.

        It may be the same while the rig stands, but not while the gyroscope measures a turn.
        """
        if not self._times:
            return False
        values = np.frombuffer(self._imu, np.float64).reshape(-1, 10)
        told = values[~np.isnan(values[:, 0])]
        if not len(told) or (told[:, :4] != told[0, :4]).any():
            return bool(len(told))
        if abs(abs(float(told[0, 3])) - 1) < 1e-12:
            return False
        times = np.sort(np.frombuffer(self._times, np.int64))
        rates = np.nan_to_num(values[:, 4:7])
        turned_rad = np.abs(rates[1:].T @ np.diff(times)) / 1e9
        return bool(turned_rad.max(initial=0.0) < TURNED_RAD)

    def samples(self) -> Iterator[tuple[int, Imu]]:
        """IMU samples in order of time."""
        times = np.frombuffer(self._times, np.int64) if self._times else np.empty(0, np.int64)
        oriented = self.oriented
        for index in np.argsort(times, kind="stable").tolist():
            a, b, c, d, e, f, g, h, i, j = self._imu[10 * index : 10 * index + 10]
            orientation = (a, b, c, d) if oriented and not math.isnan(a) else None
            yield self._times[index], Imu(orientation, (e, f, g), (h, i, j))
