"""Positions on the earth, through pymap3d, and rotations, through GTSAM: quaternions and angles.

Rows of numbers by time: interpolation, and what an interpolated value is based on.

There may be as many rows as a day of driving has: what exceeds a few megabytes lies in a temporary file.
"""

from __future__ import annotations

import math
import os
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from tempfile import SpooledTemporaryFile

import gtsam
import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.model.sample import GeoPoint, PoseBasis

Floats = npt.NDArray[np.float64]

Vector = tuple[float, float, float]

Quaternion = tuple[float, float, float, float]
"""x, y, z, w."""

STANDARD_GRAVITY_M_S2 = 9.80665
"""What it differs by elsewhere is less than the bias of an accelerometer."""


def rpy_deg(rotation_xyzw: Quaternion) -> tuple[float, float, float]:
    """Roll, pitch, yaw in signed degrees: the rotation is yaw about z, then pitch about y, then roll about x.

    Roll and yaw lie in -180..180, pitch in -90..90 (REP 103: nose down is positive).
    """
    roll, pitch, yaw = (np.degrees(rot3(rotation_xyzw).rpy()) + 0.0).tolist()  # of -0 as of 0
    return roll, pitch, yaw


def canonical(rotation_xyzw: Quaternion) -> Quaternion:
    """Of the two quaternions of a rotation, the one whose w is not negative."""
    x, y, z, w = rotation_xyzw
    return (-x, -y, -z, -w) if w < 0 else rotation_xyzw


def rot3(rotation_xyzw: Sequence[float] | Floats) -> gtsam.Rot3:
    """A quaternion, of any length but 0, as GTSAM's rotation."""
    x, y, z, w = rotation_xyzw
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return gtsam.Rot3.Quaternion(w / norm, x / norm, y / norm, z / norm)


def quaternion(rotation: gtsam.Rot3) -> Quaternion:
    """The unit quaternion of GTSAM's rotation, whose w is not negative."""
    x, y, z, w = rotation.toQuaternion().coeffs().tolist()  # type: ignore[attr-defined] # GTSAM's stubs lack it
    return canonical((x, y, z, w))


def ecef_m(point: GeoPoint) -> Vector:
    """Earth-centred, earth-fixed x, y, z in metres."""
    x, y, z = pymap3d.geodetic2ecef(point.latitude_deg, point.longitude_deg, point.altitude_m)
    return float(x), float(y), float(z)


def enu_axes(point: GeoPoint) -> Floats:
    """East, north and up at a point in earth-centred, earth-fixed axes, as rows (3, 3)."""
    return np.array([pymap3d.enu2uvw(*unit, point.latitude_deg, point.longitude_deg) for unit in np.eye(3)])


def from_enu(position_m: Vector, origin: GeoPoint) -> GeoPoint:
    """The position at east, north, up metres from the origin."""
    place = pymap3d.enu2geodetic(*position_m, origin.latitude_deg, origin.longitude_deg, origin.altitude_m)
    return GeoPoint(*map(float, place))


MOST_BYTES = 4 << 20
"""What is kept in memory."""
FLOAT_BYTES = 8


class Series:
    """Rows of equal width with their times, in memory or in a file without a name.

    Args:
        width: numbers in a row, of which the first four are a quaternion where they are interpolated.
        most_bytes: what is kept in memory.

    Attributes:
        times_ns: times of the rows.
    """

    def __init__(self, width: int, *, most_bytes: int = MOST_BYTES) -> None:
        self.times_ns: array[int] = array("q")
        self._width = width
        self._rows = SpooledTemporaryFile(max_size=most_bytes)  # noqa: SIM115 - it is closed with this object
        weakref.finalize(self, self._rows.close)

    def __len__(self) -> int:
        return len(self.times_ns)

    def extend(self, times_ns: Sequence[int], numbers: Sequence[float] | Floats) -> None:
        """Append rows, in any order of time; what follows needs them in ascending order."""
        self._rows.seek(0, os.SEEK_END)
        self._rows.write(numbers.tobytes() if isinstance(numbers, np.ndarray) else array("d", numbers))
        self.times_ns.extend(times_ns)

    def add(self, time_ns: int, row: Sequence[float]) -> None:
        """Append a row, unless it is not later than the last: settled times must not change."""
        if not self.times_ns or time_ns > self.times_ns[-1]:
            self.extend((time_ns,), row)

    def part(self, start: int, stop: int) -> Floats:
        """A copy of the rows of a range (n, width)."""
        size = FLOAT_BYTES * self._width
        self._rows.seek(start * size)
        found: Floats = np.frombuffer(self._rows.read(max(0, stop - start) * size)).copy()
        return found.reshape(-1, self._width)

    def at(self, time_ns: int, max_gap_ns: int) -> Floats | None:
        """The row (width,) at a time, by lines and the shortest turn; None beyond the ends and in gaps."""
        after = bisect_left(self.times_ns, time_ns)
        if after < len(self) and self.times_ns[after] == time_ns:
            return np.asarray(self.part(after, after + 1)[0])
        if not 0 < after < len(self):
            return None
        start_ns, end_ns = self.times_ns[after - 1], self.times_ns[after]
        if end_ns - start_ns > max_gap_ns:
            return None
        share = (time_ns - start_ns) / (end_ns - start_ns)
        start, end = self.part(after - 1, after + 1)
        mixed: Floats = (1 - share) * start + share * end
        mixed[:4] = quaternion(rot3(start[:4].tolist()).slerp(share, rot3(end[:4].tolist())))
        return mixed

    def final_ns(self, coming_ns: int, max_gap_ns: int) -> float:
        """Up to which time, itself included, no row from ``coming_ns`` on can change what ``at`` gives.

        One row alone does not show yet how it goes on.
        """
        if not self.times_ns:
            return -math.inf
        last_ns = self.times_ns[-1] if len(self) > 1 else -math.inf
        return coming_ns - 1 if coming_ns - self.times_ns[-1] > max_gap_ns else last_ns

    def cut(self, from_ns: int) -> None:
        """Drop the rows from a time on."""
        kept = bisect_left(self.times_ns, from_ns)
        del self.times_ns[kept:]
        self._rows.truncate(kept * FLOAT_BYTES * self._width)

    def forget(self, before_ns: int) -> None:
        """Drop rows that times from ``before_ns`` on do not need."""
        useless = bisect_right(self.times_ns, before_ns) - 1
        # A thousand rows are not worth the copying that it takes to drop some of them.
        if useless > max(1000, len(self) // 2):
            times_ns, rows = self.times_ns[useless:], self.part(useless, len(self))
            self.cut(self.times_ns[0])
            self.extend(times_ns, rows)


def basis(times_ns: Sequence[int], time_ns: int, max_gap_ns: int) -> PoseBasis:
    """What a quantity measured at some times is based on at another; DEAD_RECKONED if they are too far."""
    after = bisect_left(times_ns, time_ns)
    around = times_ns[max(0, after - 1) : after + 1]
    if not around:
        return PoseBasis.ASSUMED
    some = times_ns[max(0, after - 8) : max(0, after - 8) + 16]
    # Assumed period of a sensor that has sent less than two values.
    gaps_ns = sorted(b - a for a, b in pairwise(some)) or [100_000_000]
    period_ns = min(gaps_ns[len(gaps_ns) // 2], max_gap_ns)
    gap_ns = around[-1] - around[0] if 0 < after < len(times_ns) else None
    nearest_ns = min(abs(each - time_ns) for each in around)
    if nearest_ns <= period_ns // 2 or (gap_ns is not None and gap_ns <= period_ns * 3 // 2):
        return PoseBasis.MEASURED
    return PoseBasis.INTERPOLATED if gap_ns is not None and gap_ns <= max_gap_ns else PoseBasis.DEAD_RECKONED


def nearest_ns(times_ns: Sequence[int], time_ns: int) -> int | None:
    """The nearest of the times; of two equally near ones the earlier. None if there is none."""
    after = bisect_left(times_ns, time_ns)
    around = times_ns[max(0, after - 1) : after + 1]
    return min(around, key=lambda each: abs(each - time_ns), default=None)
