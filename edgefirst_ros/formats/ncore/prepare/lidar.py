"""Lidar sweeps to frames of ``lidars``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.lidarmodel import grid_of
from edgefirst_ros.formats.ncore.prepare.parts import ComponentEntry, Intensity, Json, generic_data
from edgefirst_ros.formats.ncore.prepare.rays import Rays, other_fields, ray_records, rays_of
from edgefirst_ros.formats.zarr2.metadata import group
from edgefirst_ros.messages.pointcloud import PointCloud, as_type, type_scale
from edgefirst_ros.sample import Observation

_INTENSITY = ("reflect", "reflectivity", "intensity", "signal")
_TIME = ("t", "time", "timestamp", "time_offset", "offset_time", "time_stamp")
_LATEST_S = 1e10
"""Times beyond this, and NaN, are invalid."""
_LONGEST_SWEEP_NS = 1_000_000_000


def lidar_entry(observation: Observation, options: NCoreOptions) -> ComponentEntry:
    """A sweep: unit directions, times, distance and intensity of every point, other fields as they are.

    Raises:
        DecodeError: not a cloud, or one without x, y and z.
    """
    measurement = observation.measurement
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud):
        raise DecodeError(f"lidar message is {type(cloud).__name__}, not a point cloud")
    rays = rays_of(cloud)
    time_us = measurement.time_ns // 1000
    clock, offset_ns = ray_offsets_ns(cloud, measurement.stamp_ns, options)
    times_us = np.full(len(rays), time_us, np.int64)
    if offset_ns is not None:
        times_us += rays.keep(offset_ns) // 1000
    found = _intensity(cloud, rays, options)
    field = found.field if found else ""
    others = other_fields(cloud, rays, {"x", "y", "z", field, clock}, {})
    returns = {}
    if found is None:
        returns = {"intensity": np.zeros(len(rays), np.float32)}
    elif found.scale is not None:
        returns = {"intensity": scaled_intensity(found.values, found.scale)}
        found = replace(found, values=b"")
    grid = grid_of(cloud, rays)
    return ComponentEntry(
        component="lidars",
        collection="frames",
        name="lidar",
        frame_id=measurement.frame_id,
        start_us=int(times_us.min()) if len(rays) else time_us,
        end_us=int(times_us.max()) if len(rays) else time_us,
        records=(
            *group(""),
            *generic_data(others),
            *ray_records(rays, times_us.astype(np.uint64), returns),
        ),
        meta={"intensity_field": field or "none, written as 0", "ray_times": clock, **_scale_meta(found)},
        grid=None if grid is None else (grid.shape, grid.rings, grid.kept),
        directions=None if grid is None else rays.direction,
        cells=None if grid is None else rays.cells(),
        intensity=found,
    )


def ray_offsets_ns(
    cloud: PointCloud, stamp_ns: int, options: NCoreOptions
) -> tuple[str, npt.NDArray[np.int64] | None]:
    """Where the times of the points come from, and the points' times after the message's.

    Integers are nanoseconds and floats are seconds, after the stamp or, where they are too large for that,
    on the clock of the stamp. A field whose times span more than a second is ignored.
    """
    names = cloud.points.dtype.names or ()
    for name in _TIME:
        if name in names and cloud.points.dtype[name].shape == ():
            offsets = _from_field(cloud.points[name], stamp_ns)
            if offsets is not None:
                return name, offsets
    if options.lidar_ray_times == "constant" or not len(cloud.points):
        return "constant", None
    steps = cloud.width if cloud.height > 1 else len(cloud.points)
    sweep_ns = round(options.lidar_sweep_ms * 1e6)
    line = np.arange(steps, dtype=np.int64) * sweep_ns // max(1, steps - 1)
    return "spread", np.tile(line, cloud.height) if cloud.height > 1 else line


def _from_field(values: npt.NDArray[np.generic], stamp_ns: int) -> npt.NDArray[np.int64] | None:
    if not len(values):
        return np.zeros(0, np.int64)
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


def _intensity(cloud: PointCloud, rays: Rays, options: NCoreOptions) -> Intensity | None:
    """The field that intensity comes from, and its values as sent; None where there is none."""
    names = cloud.points.dtype.names or ()
    field = next((name for name in _INTENSITY if name in names), "")
    if not field or cloud.points.dtype[field].kind not in "iuf" or cloud.points.dtype[field].shape:
        return None
    column = rays.keep(cloud.points[field])
    scale = options.lidar_intensity_max or type_scale(column.dtype)
    values = np.nan_to_num(as_type(column, np.float32), posinf=0.0, neginf=0.0)
    outside = int(np.count_nonzero((values < 0) | (values > (scale or np.inf))))
    largest = float(values.max(initial=0.0))
    return Intensity(field, str(column.dtype), scale, largest, outside, values.tobytes())


def scaled_intensity(values: bytes, scale: float) -> npt.NDArray[np.float32]:
    """Values as sent, float32, to 0..1."""
    shares: npt.NDArray[np.float32] = np.clip(np.frombuffer(values, np.float32) / np.float32(scale), 0.0, 1.0)
    return shares


def _scale_meta(intensity: Intensity | None) -> Json:
    """Metadata of a scale that is known from the field's type or the configuration."""
    if intensity is None or intensity.scale is None:
        return {}
    by_type = intensity.scale == type_scale(np.dtype(intensity.dtype))
    return {
        "intensity_max": intensity.scale,
        "intensity_scale": f"the largest value of {intensity.dtype}" if by_type else "as configured",
    }
