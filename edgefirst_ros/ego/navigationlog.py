"""What the navigation sensors measured during a whole drive, kept until it is estimated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefirst_ros.ego.geometry import Floats
from edgefirst_ros.ego.inertia import SAMPLE_COLUMNS, sample_row
from edgefirst_ros.ego.odometer import UNKNOWN, Odometer
from edgefirst_ros.ego.series import BLOCK, Series
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix

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
