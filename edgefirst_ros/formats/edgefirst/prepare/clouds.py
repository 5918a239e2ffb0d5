"""Point clouds to binary PCD v0.7 and to range images."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import simplejpeg

from edgefirst_ros.model.camera import MAX_MM, RawImage, single_channel
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray
from edgefirst_ros.model.pointcloud import PointCloud, as_type, float_scale, is_seen, type_scale

RADAR_FIELDS = ("x", "y", "z", "speed", "power", "noise", "rcs")
"""First fields of every radar.pcd. Source: the vendor's article on the format."""

TYPES = {"f": "F", "i": "I", "u": "U"}
"""numpy's letter of a type to PCD's."""


@dataclass(frozen=True, slots=True)
class EncodedCloud:
    """A PCD file, and the number of points left out because a coordinate is not finite."""

    data: bytes
    left_out: int


def encode_radar(cloud: PointCloud) -> EncodedCloud:
    """Encode radar.pcd: x y z speed power noise rcs as float32, NaN if missing, then other fields as sent.

    Raises:
        DecodeError: no x, y, z, or a field that PCD cannot express.
    """
    _check_fields(cloud.points.dtype)
    names = cloud.points.dtype.names or ()
    columns: list[tuple[str, np.dtype[Any]]] = [(name, np.dtype("<f4")) for name in RADAR_FIELDS]
    columns += [(name, _wire_type(cloud.points.dtype, name)) for name in names if name not in RADAR_FIELDS]
    table = np.empty(len(cloud.points), columns)
    with np.errstate(over="ignore", invalid="ignore"):
        for name, _ in columns:
            table[name] = cloud.points[name] if name in names else np.nan
    return _finish(table, cloud)


def encode_lidar(cloud: PointCloud) -> EncodedCloud:
    """Encode lidar.pcd: all fields as sent, little-endian and without padding.

    Points with a coordinate that is not finite or beyond ``FARTHEST_M`` are left out. If there are none, an
    organised cloud remains organised.

    Raises:
        DecodeError: no x, y, z, or a field that PCD cannot express.
    """
    _check_fields(cloud.points.dtype)
    names = cloud.points.dtype.names or ()
    packed = np.dtype([(name, _wire_type(cloud.points.dtype, name)) for name in names])
    with np.errstate(over="ignore", invalid="ignore"):
        table = cloud.points.astype(packed, copy=False)
    return _finish(table, cloud)


def _finish(table: npt.NDArray[np.void], cloud: PointCloud) -> EncodedCloud:
    axes = [table[axis] for axis in "xyz"]
    seen = is_seen(*axes)
    left_out = 0
    if not seen.all():
        left_out = len(table) - int(np.count_nonzero(np.isfinite(axes).all(axis=0)))
        table = table[seen]
    organised = cloud.height > 1 and cloud.height * cloud.width == len(table)
    width, height = (cloud.width, cloud.height) if organised else (len(table), 1)
    return EncodedCloud(_header(table.dtype, width, height) + table.tobytes(), left_out)


def _header(dtype: np.dtype[np.void], width: int, height: int) -> bytes:
    names = dtype.names or ()
    scalars = [dtype[name].subdtype or (dtype[name], ()) for name in names]
    lines = (
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        "FIELDS " + " ".join(_tokens(names)),
        "SIZE " + " ".join(str(base.itemsize) for base, _ in scalars),
        "TYPE " + " ".join(TYPES[base.kind] for base, _ in scalars),
        "COUNT " + " ".join(str(int(np.prod(shape, dtype=np.int64))) for _, shape in scalars),
        f"WIDTH {width}",
        f"HEIGHT {height}",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {width * height}",
        "DATA binary",
        "",
    )
    return "\n".join(lines).encode("ascii")


def _tokens(names: Iterable[str]) -> list[str]:
    """Field names that are valid in PCD: ASCII without blanks, unique, and not ``_``, which is padding."""
    tokens: list[str] = []
    for name in names:
        token = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        if not token.strip("_"):
            token = "field"
        unique, count = token, 1
        while unique in tokens:
            count += 1
            unique = f"{token}_{count}"
        tokens.append(unique)
    return tokens


def _check_fields(dtype: np.dtype[np.void]) -> None:
    names = dtype.names or ()
    if missing := [axis for axis in "xyz" if axis not in names]:
        raise DecodeError(f"cloud without {', '.join(missing)}")
    if any(dtype[axis].shape for axis in "xyz"):
        raise DecodeError("cloud with more than one x, y or z per point")
    for name in names:
        base = dtype[name].base
        if base.kind not in TYPES or base.itemsize > 8 or base == np.float16:
            raise DecodeError(f"cloud field of type {base}, which PCD does not have")


def _wire_type(dtype: np.dtype[np.void], name: str) -> np.dtype[Any]:
    field = dtype[name]
    base = field.base.newbyteorder("<")
    return np.dtype((base, field.shape)) if field.shape else base


def reflectivity(image: RawImage) -> npt.NDArray[np.uint8]:
    """Reflectivity 0 to 255 (height, width).

    Raises:
        DecodeError: the image is not 8-bit gray.
    """
    pixels = single_channel(image)
    if pixels.dtype != np.uint8:
        raise DecodeError(f"reflectivity image of encoding {image.encoding}")
    return pixels.astype(np.uint8, copy=False)


def encode_gray_jpeg(pixels: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Encode pixels (height, width) as a gray JPEG.

    Raises:
        DecodeError: the image has no pixels.
    """
    if not pixels.size:
        raise DecodeError("image without pixels")
    gray = np.ascontiguousarray(pixels)[:, :, np.newaxis]
    return bytes(simplejpeg.encode_jpeg(gray, quality=quality, colorspace="GRAY", colorsubsampling="Gray"))


REFLECTIVITY_FIELDS = ("reflect", "reflectivity", "intensity", "i")
"""Field names of reflectivity, the device's own first."""
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class RangeGrid:
    """Rows from the highest to the lowest elevation, columns from left to right over 360° of azimuth.

    The middle column is straight ahead (+x).
    """

    rows: int
    columns: int
    elevation_min_deg: float = -45.0
    elevation_max_deg: float = 45.0


@dataclass(frozen=True, slots=True)
class RangeImage:
    """The nearest return of each pixel, (rows, columns).

    Attributes:
        range_mm: distance from the sensor; 0 without a return, 65535 for 65.535 m or more.
        reflectivity: 0 without a return; None if the cloud has no reflectivity.
    """

    range_mm: npt.NDArray[np.uint16]
    reflectivity: npt.NDArray[np.uint8] | None


class RangeFiles(NamedTuple):
    """A range image as files, and its width and height; ``jpeg`` is None if the cloud has no reflectivity."""

    png: bytes
    jpeg: bytes | None
    size: tuple[int, int]


def range_files(cloud: PointCloud, grid: RangeGrid, jpeg_quality: int) -> RangeFiles:
    """The files lidar.png and lidar.jpeg of a cloud, see ``project``.

    Raises:
        DecodeError: the cloud has no x, y, z.
    """
    image = project(cloud, grid)
    gray = image.reflectivity
    jpeg = None if gray is None else encode_gray_jpeg(gray, jpeg_quality)
    return RangeFiles(encode_gray(image.range_mm), jpeg, (grid.columns, grid.rows))


def project(cloud: PointCloud, grid: RangeGrid) -> RangeImage:
    """Project a cloud to a range image; a pixel shows its nearest point, of equally near ones the first.

    Points at the origin, outside the elevations, too far (``is_seen``) or not finite are left out. The full
    scale of reflectivity is the range of an integer type; floats are 0 to 1 if none is above 1, else 0 to
    255.

    Raises:
        DecodeError: the cloud has no x, y, z.
    """
    names = cloud.points.dtype.names or ()
    if missing := [axis for axis in "xyz" if axis not in names]:
        raise DecodeError(f"cloud without {', '.join(missing)}")
    if any(cloud.points.dtype[axis].shape for axis in "xyz"):
        raise DecodeError("cloud with more than one x, y or z per point")
    x, y, z = (cloud.column(axis, np.float64) for axis in "xyz")
    seen_by_it = is_seen(x, y, z)
    if not seen_by_it.all():
        x, y, z = (np.where(seen_by_it, axis, 0.0) for axis in (x, y, z))
    ground_m = np.hypot(x, y)
    distance_m = np.hypot(ground_m, z)
    top, bottom = np.radians(grid.elevation_max_deg), np.radians(grid.elevation_min_deg)
    elevation = np.arctan2(z, ground_m)
    row = np.floor((top - elevation) / (top - bottom) * grid.rows).astype(np.int64)
    column = np.floor((0.5 - np.arctan2(y, x) / (2.0 * np.pi)) * grid.columns).astype(np.int64)
    column[column == grid.columns] = 0  # straight back, to the right
    seen = np.flatnonzero((distance_m > 0.0) & (row >= 0) & (row < grid.rows))
    # Range in the upper half, index of the point in the lower: the least key is the nearest, first point.
    keys = (distance_m[seen] * 1000.0 + 0.5).clip(1, MAX_MM).astype(np.uint64) << np.uint64(32)
    keys |= seen.astype(np.uint64)
    nearest = np.full(grid.rows * grid.columns, EMPTY, np.uint64)
    np.minimum.at(nearest, row[seen] * grid.columns + column[seen], keys)
    hit = nearest != EMPTY
    range_mm = np.where(hit, nearest >> np.uint64(32), np.uint64(0)).astype(np.uint16)
    point = (nearest[hit] & np.uint64(0xFFFFFFFF)).astype(np.intp)
    shape = (grid.rows, grid.columns)
    field = next((name for name in REFLECTIVITY_FIELDS if name in names), None)
    if field is None:
        return RangeImage(range_mm.reshape(shape), None)
    reflectivity = np.zeros(grid.rows * grid.columns, np.uint8)
    column = cloud.points[field]
    values = np.nan_to_num(as_type(column, np.float64), posinf=0.0, neginf=0.0)
    scale = type_scale(column.dtype) or min(float_scale(float(values.max(initial=0.0))), 255.0)
    reflectivity[hit] = np.rint(values[point] * (255.0 / scale)).clip(0, 255).astype(np.uint8)
    return RangeImage(range_mm.reshape(shape), reflectivity.reshape(shape))
