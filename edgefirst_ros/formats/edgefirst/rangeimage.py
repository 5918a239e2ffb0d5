"""Point clouds projected to range images, for devices that send points alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.pointcloud import PointCloud
from edgefirst_ros.messages.reflectivity import float_scale, type_scale

REFLECTIVITY_FIELDS = ("reflect", "reflectivity", "intensity")
"""Where clouds keep reflectivity, the device's own name first."""
MAX_MM = 0xFFFF
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class RangeGrid:
    """The image's rows × columns: elevation from max (top row) to min, azimuth over 360°.

    Straight ahead (+x) is the middle column and left (+y) is left of it, as a camera looking ahead sees it.
    """

    rows: int
    columns: int
    elevation_min_deg: float
    elevation_max_deg: float


@dataclass(frozen=True, slots=True)
class RangeImage:
    """Nearest returns by pixel, (rows, columns) each.

    ``range_mm`` is uint16, the distance from the sensor; 0 where nothing returned, 65535 for 65.535 m
    and all beyond. ``reflectivity`` is uint8, 0 where nothing returned, None if the cloud has none.
    """

    range_mm: npt.NDArray[np.uint16]
    reflectivity: npt.NDArray[np.uint8] | None


def project(cloud: PointCloud, grid: RangeGrid) -> RangeImage:
    """The cloud's range image; of several points in a pixel the nearest wins, of equally near ones the first.

    Points at the sensor itself, beyond the elevations, or not finite are in no pixel. Reflectivity of an
    integer type is scaled from that type's range; floats are shares if none is above 1, else 0..255, clipped.

    Raises:
        DecodeError: a cloud without x, y, z.
    """
    names = cloud.points.dtype.names or ()
    if missing := [axis for axis in "xyz" if axis not in names]:
        raise DecodeError(f"cloud without {', '.join(missing)}")
    if any(cloud.points.dtype[axis].shape for axis in "xyz"):
        raise DecodeError("cloud with several x, y, z in a point")
    x, y, z = (np.asarray(cloud.points[axis], np.float64) for axis in "xyz")
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    x, y, z = (np.where(finite, axis, 0.0) for axis in (x, y, z))
    with np.errstate(over="ignore"):
        distance_m = np.hypot(np.hypot(x, y), z)
    top, bottom = np.radians(grid.elevation_max_deg), np.radians(grid.elevation_min_deg)
    elevation = np.arctan2(z, np.hypot(x, y))
    row = np.floor((top - elevation) / (top - bottom) * grid.rows).astype(np.int64)
    column = np.floor((0.5 - np.arctan2(y, x) / (2.0 * np.pi)) * grid.columns).astype(np.int64) % grid.columns
    seen = np.flatnonzero((distance_m > 0.0) & (row >= 0) & (row < grid.rows))
    # range above, point number below: the least key of a pixel is its nearest, then first, point
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
    values = np.nan_to_num(column.astype(np.float64), posinf=0.0, neginf=0.0)
    scale = type_scale(column.dtype) or min(float_scale(float(values.max(initial=0.0))), 255.0)
    reflectivity[hit] = np.rint(values[point] * (255.0 / scale)).clip(0, 255).astype(np.uint8)
    return RangeImage(range_mm.reshape(shape), reflectivity.reshape(shape))
