"""Positions on the earth, through pymap3d, and rotations, through GTSAM: quaternions and angles.

Rows of numbers by time: interpolation, what an interpolated value is based on, and slopes of one by another.

There may be as many rows as a day of driving has: what exceeds a few megabytes lies in a temporary file.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
"""Used while the latitude is unknown."""

_GIMBAL = 1e-12


def rpy_deg(rotation_xyzw: Quaternion) -> tuple[float, float, float]:
    """Roll, pitch, yaw in signed degrees: the rotation is yaw about z, then pitch about y, then roll about x.

    Roll and yaw lie in -180..180, pitch in -90..90 (REP 103: nose down is positive). Where the nose points
    straight up or down, roll and yaw cannot be told apart: roll is 0.
    """
    x, y, z, w = rotation_xyzw
    sine = max(-1.0, min(1.0, 2 * (w * y - z * x)))
    roll_y, roll_x = 2 * (w * x + y * z), 1 - 2 * (x * x + y * y)
    if roll_x * roll_x + roll_y * roll_y < _GIMBAL:
        yaw = math.remainder(-math.copysign(2, sine) * math.atan2(x, w), 2 * math.pi)
        return 0.0, math.degrees(math.asin(sine)), math.degrees(yaw)
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return math.degrees(math.atan2(roll_y, roll_x)), math.degrees(math.asin(sine)), math.degrees(yaw)


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


def after(outer: Quaternion, inner: Quaternion) -> Quaternion:
    """The rotation by ``inner``, then by ``outer``."""
    return quaternion(rot3(outer).compose(rot3(inner)))


def inverse(rotation_xyzw: Quaternion) -> Quaternion:
    """The inverse rotation."""
    x, y, z, w = rotation_xyzw
    return canonical((-x, -y, -z, w))


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


def gravity_m_s2(point: GeoPoint) -> float:
    """Normal gravity of WGS-84 (Somigliana's formula, less with height)."""
    squared = math.sin(math.radians(point.latitude_deg)) ** 2
    at_sea = 9.7803253359 * (1 + 0.00193185265241 * squared) / math.sqrt(1 - 0.00669437999014 * squared)
    return at_sea - 3.086e-6 * point.altitude_m


MOST_BYTES = 4 << 20
"""What is kept in memory."""
BLOCK = 1024
"""Rows that ``row`` reads from the file at a time."""
FLOAT_BYTES = 8
FEW = 1000
"""So few rows are not worth the copying that it takes to drop some of them."""


class Series:
    """Rows of equal width with their times; reading is fastest in order.

    The file has no name and vanishes with the object. If it cannot be written, rows stay in memory.

    Args:
        width: numbers in a row.
        quaternion_at: the first of four columns that are a quaternion.
        most_bytes: what is kept in memory.

    Attributes:
        times_ns: times of the rows.
    """

    def __init__(self, width: int, *, quaternion_at: int = 0, most_bytes: int = MOST_BYTES) -> None:
        self.times_ns: array[int] = array("q")
        self._width, self._quaternion_at = width, quaternion_at
        self._most: float = most_bytes // FLOAT_BYTES
        self._newest: array[float] = array("d")
        self._file: int | None = None
        self._in_file = 0
        self._read: tuple[int, Floats] | None = None

    def __len__(self) -> int:
        return len(self.times_ns)

    def extend(self, times_ns: Sequence[int], numbers: Iterable[float]) -> None:
        """Append rows, in any order of time; what follows needs them in ascending order."""
        self.times_ns.extend(times_ns)
        self._newest.extend(numbers)
        self._read = None
        if len(self._newest) > self._most:
            self._spill()

    def add(self, time_ns: int, row: Iterable[float]) -> bool:
        """Append a row; False if it is not later than the last: settled times must not change."""
        if self.times_ns and time_ns <= self.times_ns[-1]:
            return False
        self.extend((time_ns,), row)
        return True

    def part(self, start: int, stop: int) -> Floats:
        """A copy of the rows of a range (n, width).

        Raises:
            OSError: the temporary file cannot be read.
        """
        stop = max(start, min(stop, len(self)))
        size = FLOAT_BYTES * self._width
        parts = []
        if self._file is not None and start < self._in_file:
            count = min(stop, self._in_file) - start
            parts.append(np.frombuffer(os.pread(self._file, count * size, start * size)))
        if stop > self._in_file:
            first = max(0, start - self._in_file)
            parts.append(np.array(self._newest[first * self._width : (stop - self._in_file) * self._width]))
        return np.concatenate(parts or [np.empty(0)]).reshape(-1, self._width)

    def row(self, index: int) -> Floats:
        """One row (width,); it must not be changed."""
        if index >= self._in_file:
            first = (index - self._in_file) * self._width
            return np.array(self._newest[first : first + self._width])
        number, offset = divmod(index, BLOCK)
        read = self._read
        if read is None or read[0] != number:
            read = self._read = number, self.part(number * BLOCK, (number + 1) * BLOCK)
        values: Floats = read[1][offset]
        return values

    def at(self, time_ns: int, max_gap_ns: int) -> Floats | None:
        """The row (width,) at a time, by lines and the shortest turn; None beyond the ends and in gaps."""
        after = bisect_left(self.times_ns, time_ns)
        if after < len(self) and self.times_ns[after] == time_ns:
            return self.row(after)
        if not 0 < after < len(self):
            return None
        start_ns, end_ns = self.times_ns[after - 1], self.times_ns[after]
        if end_ns - start_ns > max_gap_ns:
            return None
        share = (time_ns - start_ns) / (end_ns - start_ns)
        start, end = self.row(after - 1), self.row(after)
        mixed: Floats = (1 - share) * start + share * end
        turn = slice(self._quaternion_at, self._quaternion_at + 4)
        mixed[turn] = quaternion(rot3(start[turn].tolist()).slerp(share, rot3(end[turn].tolist())))
        return mixed

    def final_ns(self, coming_ns: int, max_gap_ns: int) -> float:
        """Up to which time, itself included, no row from ``coming_ns`` on can change what ``at`` gives."""
        if not self.times_ns:
            return -math.inf
        last_ns = self.times_ns[-1]
        return coming_ns - 1 if coming_ns - last_ns > max_gap_ns else last_ns

    def cut(self, from_ns: int) -> None:
        """Drop the rows from a time on."""
        kept = bisect_left(self.times_ns, from_ns)
        del self.times_ns[kept:], self._newest[max(0, kept - self._in_file) * self._width :]
        self._in_file, self._read = min(self._in_file, kept), None

    def forget(self, before_ns: int) -> None:
        """Drop rows that times from ``before_ns`` on do not need."""
        count = len(self.times_ns)
        if count <= FEW:
            return
        useless = bisect_right(self.times_ns, before_ns) - 1
        if useless > max(FEW, count // 2):
            self._newest = array("d", self.part(useless, count).ravel())
            self.times_ns, self._in_file, self._read = self.times_ns[useless:], 0, None

    def _spill(self) -> None:
        try:
            if self._file is None:
                with tempfile.TemporaryFile() as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            data = memoryview(self._newest).cast("B")
            at = self._in_file * self._width * FLOAT_BYTES
            while data:
                written = os.pwrite(self._file, data, at)
                data, at = data[written:], at + written
        except OSError:
            # A full disk: memory is what is left.
            self._most = sys.maxsize
            return
        self._in_file += len(self._newest) // self._width
        self._newest = array("d")


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


LEAST, SURE = 10, 5.0
"""So many pairs tell a slope, and one differs by so many standard deviations."""
SAME = 0.3
"""A slope this near to the expected one agrees: slip and filters change slopes by less."""


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
        if self.squares <= 1e-6 * self.others:
            return math.inf, 0.0
        slope = self.products / self.squares
        rest = max(0.0, self.others - slope * self.products)
        return slope, math.sqrt(rest / (self.count - 1) / self.squares)

    def is_near(self, expected: float) -> bool:
        """Whether it is the expected one, for sure."""
        slope, sigma = self.found or (math.nan, math.inf)
        return abs(slope / expected - 1) < SAME and 2 * SURE * sigma < expected

    def is_off(self, share: float, least: float) -> bool:
        """Whether it differs from one by more than a share, for sure; squares below the least are noise."""
        slope, sigma = self.found or (1.0, 0.0)
        return abs(slope - 1) > share + SURE * sigma and self.squares + self.others > least
