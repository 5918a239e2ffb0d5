"""Lidar sweeps to frames of ``lidars``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.prepare.parts import (
    ComponentEntry,
    Intensity,
    Json,
    Rays,
    generic_data,
    other_fields,
    ray_records,
    rays_of,
)
from edgefirst_ros.formats.zarr2 import group
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, as_type, point_offsets_ns, type_scale
from edgefirst_ros.model.sample import Observation

_INTENSITY = ("reflect", "reflectivity", "intensity", "signal")


def lidar_entry(observation: Observation) -> ComponentEntry:
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
    clock, offset_ns = point_offsets_ns(cloud, measurement.stamp_ns) or ("constant", None)
    times_us = np.full(len(rays), time_us, np.int64)
    if offset_ns is not None:
        times_us += rays.keep(offset_ns) // 1000
    found = _intensity(cloud, rays)
    field = found.field if found else ""
    others = other_fields(cloud, rays, {"x", "y", "z", field, clock}, {})
    returns = {}
    if found is None:
        returns = {"intensity": np.zeros(len(rays), np.float32)}
    elif found.scale is not None:
        returns = {"intensity": scaled_intensity(found.values, found.scale)}
        found = replace(found, values=b"")
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
        intensity=found,
    )


def _intensity(cloud: PointCloud, rays: Rays) -> Intensity | None:
    """The field that intensity comes from, and its values as sent; None where there is none."""
    names = cloud.points.dtype.names or ()
    field = next((name for name in _INTENSITY if name in names), "")
    if not field or cloud.points.dtype[field].kind not in "iuf" or cloud.points.dtype[field].shape:
        return None
    column = rays.keep(cloud.points[field])
    scale = type_scale(column.dtype)
    values = np.nan_to_num(as_type(column, np.float32), posinf=0.0, neginf=0.0)
    outside = int(np.count_nonzero((values < 0) | (values > (scale or np.inf))))
    largest = float(values.max(initial=0.0))
    return Intensity(field, str(column.dtype), scale, largest, outside, values.tobytes())


def scaled_intensity(values: bytes, scale: float) -> npt.NDArray[np.float32]:
    """Values as sent, float32, to 0..1."""
    shares: npt.NDArray[np.float32] = np.clip(np.frombuffer(values, np.float32) / np.float32(scale), 0.0, 1.0)
    return shares


def _scale_meta(intensity: Intensity | None) -> Json:
    """Metadata of a scale that is known from the field's type."""
    if intensity is None or intensity.scale is None:
        return {}
    return {
        "intensity_max": intensity.scale,
        "intensity_scale": f"the largest value of {intensity.dtype}",
    }
