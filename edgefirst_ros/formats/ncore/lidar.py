"""Lidar sweeps to frames of ``lidars``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.entry import COMPRESSOR, Entry, generic_data
from edgefirst_ros.formats.ncore.lidarmodel import row_model
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.rays import Rays, other_fields, ray_records, rays_of
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import Record, group, under
from edgefirst_ros.messages.pointcloud import PointCloud
from edgefirst_ros.sample import Observation

_INTENSITY = ("reflect", "reflectivity", "intensity", "signal")
_TIME = ("t", "time", "timestamp", "time_offset", "offset_time", "time_stamp")
_LONGEST_SWEEP_NS = 1_000_000_000
_FLOAT_INTENSITY_MAX = 255.0


def lidar_entry(observation: Observation, options: NCoreOptions) -> Entry:
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
    field, intensity = _intensity(cloud, rays, options)
    others = other_fields(cloud, rays, {"x", "y", "z", field, clock}, {})
    fitted = row_model(cloud, rays)
    model, elements = fitted or (None, None)
    return Entry(
        component="lidars",
        collection="frames",
        name="lidar",
        frame_id=measurement.frame_id,
        start_us=int(times_us.min()) if len(rays) else time_us,
        end_us=int(times_us.max()) if len(rays) else time_us,
        records=(
            *group(""),
            *generic_data(others),
            *ray_records(rays, times_us.astype(np.uint64), {"intensity": intensity}),
        ),
        meta={"intensity_field": field or "none, written as 0", "ray_times": clock},
        row_model=model,
        model_records=() if elements is None else tuple(_element_records(elements)),
    )


def _element_records(elements: npt.NDArray[np.uint16]) -> list[Record]:
    return under("ray_bundle", array_records("model_element", elements, COMPRESSOR))


def ray_offsets_ns(
    cloud: PointCloud, stamp_ns: int, options: NCoreOptions
) -> tuple[str, npt.NDArray[np.int64] | None]:
    """Where the times of the points come from, and the points' times after the message's.

    Integers are nanoseconds and floats are seconds, after the stamp or, where they are too large for that,
    on the clock of the stamp. A field whose times spread over more than a second is not believed.
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
        seconds = values.astype(np.float64)
        if not np.isfinite(seconds).all():
            return None
        whole_s = stamp_ns // 1_000_000_000 if np.abs(seconds).max() > _LONGEST_SWEEP_NS / 1e9 else 0
        offsets = np.rint((seconds - whole_s) * 1e9).astype(np.int64)
        offsets -= stamp_ns % 1_000_000_000 if whole_s else 0
    elif values.dtype.kind in "iu":
        offsets = values.astype(np.int64)
        if np.abs(offsets).max() > _LONGEST_SWEEP_NS:
            offsets = offsets - stamp_ns
    else:
        return None
    return offsets if np.abs(offsets).max() <= _LONGEST_SWEEP_NS else None


def _intensity(cloud: PointCloud, rays: Rays, options: NCoreOptions) -> tuple[str, npt.NDArray[np.float32]]:
    """The field that intensity comes from, and its values scaled to 0..1; zeros where there is none."""
    names = cloud.points.dtype.names or ()
    field = next((name for name in _INTENSITY if name in names), "")
    if not field:
        return "", np.zeros(len(rays), np.float32)
    values = rays.keep(cloud.points[field])
    whole = values.dtype.kind in "iu"
    largest = options.lidar_intensity_max or (np.iinfo(values.dtype).max if whole else _FLOAT_INTENSITY_MAX)
    scaled = values.astype(np.float32) / np.float32(largest)
    return field, np.clip(scaled if whole else np.nan_to_num(scaled), 0.0, 1.0)
