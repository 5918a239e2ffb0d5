"""Range images projected from point clouds, for devices that send only points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgefirst_ros.codecs.png import encode_gray
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.edgefirst.prepare.depthimage import encode_gray_jpeg
from edgefirst_ros.messages.pointcloud import PointCloud, as_type, float_scale, is_seen, type_scale

REFLECTIVITY_FIELDS = ("reflect", "reflectivity", "intensity")
"""Field names of reflectivity, the device's own first."""
MAX_MM = 0xFFFF
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class RangeGrid:
    """Rows from the highest to the lowest elevation, columns from left to right over 360° of azimuth.

    The middle column is straight ahead (+x).
    """

    rows: int
    columns: int
    elevation_min_deg: float
    elevation_max_deg: float


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
