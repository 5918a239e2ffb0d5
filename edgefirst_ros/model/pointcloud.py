"""Point clouds of radar, lidar and fusion, and the full scale of their reflectivity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import sensor_msgs

from edgefirst_ros.model.cdr import Message, Stamped, array, decode_as, decoder_of
from edgefirst_ros.model.definitions import define
from edgefirst_ros.model.errors import DecodeError

CODES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
"""numpy's type code by datatype of a sensor_msgs/PointField."""
FARTHEST_M = 10_000.0
"""No lidar or radar of a vehicle sees as far: a larger coordinate is a fault, as one that is not finite."""
FAR_M = 1000.0
KILOMETRES = f"most points are beyond {FAR_M:,.0f} m: they are in millimetres, or wrong"
TOO_FAR = f"points beyond {FARTHEST_M / 1000:g} km left out"
_MAX_POINT_STEP = 1 << 20
_FIELD_NAME = re.compile(r"[^\W.][\w .:+-]{0,63}")
"""Formats have files and columns of these names."""

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class PointCloud:
    """A point cloud with the fields of its message (sensor_msgs/PointCloud2).

    Attributes:
        points: structured array (height * width,), row by row. Field names, types and counts are the
            message's; fields may be unaligned or big-endian, ``column`` converts them.
        height: rows; more than 1 if the cloud is organised.
        width: points per row.
        class_names: other names of the classes that its points have, by number or name as sent.
    """

    points: npt.NDArray[np.void]
    height: int
    width: int
    class_names: Mapping[str, str] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        """Whether the cloud has all these fields."""
        return set(names) <= set(self.points.dtype.names or ())

    def column(self, name: str, dtype: type[Scalar] = np.float32) -> npt.NDArray[Scalar]:  # type: ignore[assignment]
        """One field as a new contiguous array in native byte order: (N,), or (N, count) if its count is > 1.

        Raises:
            DecodeError: the cloud has no such field.
        """
        if not self.has(name):
            raise DecodeError(f"point cloud has no field {name}")
        return np.ascontiguousarray(as_type(self.points[name], dtype))

    def xyz(self) -> npt.NDArray[np.float32]:
        """Cartesian coordinates in metres, (N, 3) float32, contiguous, native byte order.

        Raises:
            DecodeError: x, y or z is missing, or a field of several values.
        """
        columns = [self.column(name, np.float32) for name in ("x", "y", "z")]
        if any(column.ndim != 1 for column in columns):
            raise DecodeError("point cloud has more than one number in x, y or z")
        with np.errstate(invalid="ignore"):
            # Multiplied by 1, a NaN that would warn wherever it is used becomes one that does not.
            return np.ascontiguousarray(np.stack(columns, axis=1) * np.float32(1))


def far_points(cloud: PointCloud) -> str:
    """What is wrong with distances, empty if nothing is; points that are not finite are padding."""
    found = ""
    with np.errstate(invalid="ignore"):
        for axis in filter(cloud.has, "xyz"):
            distances = np.abs(cloud.points[axis])
            beyond = distances > FAR_M
            if beyond.any() and (far := distances[beyond & (distances < np.inf)]).size:
                if 2 * far.size > distances.size:
                    return KILOMETRES
                found = TOO_FAR if far.max() > FARTHEST_M else found
    return found


def is_seen(*coordinates: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which points a sensor can have seen: finite, and up to ``FARTHEST_M``, along each axis."""
    seen = np.ones(len(coordinates[0]), np.bool_)
    with np.errstate(invalid="ignore"):
        for values in coordinates:
            seen &= np.abs(values) <= FARTHEST_M  # a NaN is not
    return seen


def as_type(values: npt.NDArray[Any], dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Convert a field's values to another type, with the same result on every machine.

    Floats become integers as follows, where numpy's result would depend on the processor: the fraction is cut
    off, NaN becomes 0, and values beyond the limits of the type become these limits.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind == "f" and np.issubdtype(dtype, np.integer):
            limits = np.iinfo(np.dtype(dtype))
            # int64's upper limit is not a double: take the largest one below 2^63.
            most = min(limits.max, (1 << 63) - (1 << 10))
            values = np.nan_to_num(values.astype(np.float64)).clip(limits.min, most)
        return values.astype(dtype)


@decoder_of("sensor_msgs/PointCloud2")
def decode_pointcloud(message: sensor_msgs.PointCloud2) -> PointCloud:
    """Decode a sensor_msgs/PointCloud2: any fields at any offset, rows padded or not, either byte order.

    ``row_step`` is ignored for a single row, and where the data have no room for padding; a field's count of
    0 means 1, as in PCL. The points are a view of ``data`` unless rows are padded.

    Raises:
        DecodeError: no valid message of this type, or its layout contradicts itself or its data.
    """
    height, width, point_step = int(message.height), int(message.width), int(message.point_step)
    fields = tuple((str(f.name), int(f.offset), int(f.datatype), int(f.count)) for f in message.fields)
    dtype = _point_dtype(fields, ">" if message.is_bigendian else "<", point_step)
    if not height * width:
        empty = np.empty(0, dtype)
        empty.flags.writeable = False
        return PointCloud(empty, height, width)
    row_bytes = width * point_step
    raw = array(message.data, np.uint8)
    # Drivers that resize a cloud forget its row_step (field: rowstep_double): where rows fit, none is padded.
    row_step = row_bytes if height == 1 or len(raw) == height * row_bytes else int(message.row_step)
    if row_step < row_bytes:
        raise DecodeError("point cloud rows overlap")
    if len(raw) < row_step * (height - 1) + row_bytes:
        raise DecodeError("point cloud data is shorter than declared")
    rows: npt.NDArray[np.void] = np.ndarray((height, width), dtype, raw.data, 0, (row_step, point_step))
    points = rows.reshape(-1)
    points.flags.writeable = False
    return PointCloud(points, height, width)


define(
    "sensor_msgs/LaserScan",
    "std_msgs/Header header, float32 angle_min, float32 angle_max, float32 angle_increment, "
    "float32 time_increment, float32 scan_time, float32 range_min, float32 range_max, float32[] ranges, "
    "float32[] intensities",
)


def decode_laser_scan(data: bytes, definition: str = "") -> Stamped[PointCloud]:
    """Decode a sensor_msgs/LaserScan: x, y, z (0) in metres, intensity if sent, time (s after the stamp).

    Angles are from x to y (REP 103). Times are by ``time_increment``, else by ``scan_time``, that of a turn.
    A ray without a return, by ``range_min`` and ``range_max``, is no point.

    Raises:
        DecodeError: no valid message of this type.
    """
    return decode_as("sensor_msgs/LaserScan", data, definition, _scan)


def _scan(message: Message) -> PointCloud:
    range_m, intensity = np.array(message.ranges, np.float64), np.array(message.intensities, np.float64)
    ray = np.arange(len(range_m))
    with np.errstate(all="ignore"):
        angle_rad = message.angle_min + ray * float(message.angle_increment)
        share = abs(message.angle_increment) / (2 * np.pi)
        time_s = ray * float(message.time_increment or message.scan_time * share)
        met = np.isfinite(range_m) & (range_m >= message.range_min) & (range_m <= message.range_max)
        x, y = range_m * np.cos(angle_rad), range_m * np.sin(angle_rad)
    columns = {"x": x, "y": y, "z": np.zeros(len(ray)), "time": time_s}
    columns |= {"intensity": intensity} if len(intensity) == len(ray) else {}
    return cloud_of({name: values[met] for name, values in columns.items()})


_TIME = ("t", "time", "timestamp", "time_offset", "offset_time", "time_stamp")
_LATEST_S = 1e10
"""Times beyond this are nanoseconds, NaN is invalid."""
_LONGEST_SWEEP_NS = 1_000_000_000


def point_offsets_ns(cloud: PointCloud, stamp_ns: int) -> tuple[str, npt.NDArray[np.int64]] | None:
    """The field that says when each point was measured, and how long after the message's stamp.

    Integers, and floats too large for seconds (Livox), are nanoseconds, other floats are seconds: after the
    stamp or, where they are too large for that, on the clock of the stamp. A field whose times span more than
    a second is ignored.
    """
    names = cloud.points.dtype.names or ()
    for name in _TIME:
        if name in names and cloud.points.dtype[name].shape == ():
            offsets = _from_field(cloud.points[name], stamp_ns)
            if offsets is not None:
                return name, offsets
    return None


def _from_field(values: npt.NDArray[np.generic], stamp_ns: int) -> npt.NDArray[np.int64] | None:
    if not len(values):
        return np.zeros(0, np.int64)
    if values.dtype.kind == "f" and _LATEST_S <= np.abs(values).max() < 2**62:
        values = as_type(values, np.int64)
    if values.dtype.kind == "f":
        seconds = as_type(values, np.float64)
        if not (np.abs(seconds) < _LATEST_S).all():
            return None
        whole_s = stamp_ns // 1_000_000_000 if np.abs(seconds).max() > _LONGEST_SWEEP_NS / 1e9 else 0
        if np.abs(seconds - whole_s).max() > 2 * _LONGEST_SWEEP_NS / 1e9:
            return None
        offsets = np.rint((seconds - whole_s) * 1e9).astype(np.int64)
        offsets -= stamp_ns % 1_000_000_000 if whole_s else 0
    elif values.dtype.kind in "iu":
        offsets = values.astype(np.int64)
        if np.abs(offsets).max() > _LONGEST_SWEEP_NS:
            offsets = offsets - stamp_ns
    else:
        return None
    return offsets if np.abs(offsets).max() <= _LONGEST_SWEEP_NS else None


def cloud_of(columns: Mapping[str, npt.NDArray[Any]]) -> PointCloud:
    """Columns as a cloud of one row; floats become float32."""
    types = [
        (name, "<f4" if values.dtype.kind == "f" else values.dtype, values.shape[1:])
        for name, values in columns.items()
    ]
    points = np.empty(len(next(iter(columns.values()))), types)
    with np.errstate(over="ignore", invalid="ignore"):
        for name, values in columns.items():
            points[name] = values
    points.flags.writeable = False
    return PointCloud(points, 1, len(points))


@lru_cache(maxsize=64)
def _point_dtype(
    fields: tuple[tuple[str, int, int, int], ...], order: str, point_step: int
) -> np.dtype[np.void]:
    names: list[str] = []
    formats: list[str | tuple[str, int]] = []
    offsets: list[int] = []
    for name, offset, datatype, many in fields:
        count, code = many or 1, CODES.get(datatype)
        if code is None:
            raise DecodeError("point cloud field of an unknown datatype")
        if not name or name in names:
            raise DecodeError("point cloud fields without unique names")
        if not _FIELD_NAME.fullmatch(name):
            raise DecodeError("point cloud field whose name is unreadable")
        if offset + count * int(code[1]) > point_step:
            raise DecodeError("point cloud field beyond the point step")
        names.append(name)
        formats.append(order + code if count == 1 else (order + code, count))
        offsets.append(offset)
    if not names:
        raise DecodeError("point cloud without fields")
    if point_step > _MAX_POINT_STEP:
        raise DecodeError("point cloud with an absurd point step")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": point_step})


_CONVENTIONS = (1.0, 255.0, 65535.0)
"""Full scales of reflectivity in floats: 0 to 1, or 8-bit and 16-bit values (drivers of Velodyne, Ouster)."""


def type_scale(dtype: np.dtype[Any]) -> float | None:
    """The largest value of an integer type; None for floats, whose full scale the type does not show."""
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else None


def float_scale(largest: float) -> float:
    """The full scale of floats up to ``largest``: the smallest usual one above that, else ``largest``."""
    return next((scale for scale in _CONVENTIONS if largest <= scale), largest)
