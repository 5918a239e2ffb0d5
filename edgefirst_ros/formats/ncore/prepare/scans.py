"""Lidar sweeps and radar scans to frames of ``lidars`` and ``radars``, cubes to generic data of their scan.

Clusters and fused clouds to ``point_clouds``: coordinates and typed attributes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import (
    COMPRESSOR,
    ComponentEntry,
    Cube,
    Intensity,
    Json,
    Rays,
    generic_data,
    other_fields,
    ray_records,
    rays_of,
    xyz,
)
from edgefirst_ros.formats.ncore.store.base import ATTACHED
from edgefirst_ros.formats.zarr2 import Record, array_records, group, under
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, as_type, is_seen, point_offsets_ns, type_scale
from edgefirst_ros.model.radar import RadarCube, RadarInfo
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


VELOCITY = "radial_velocity_m_s"
FIELDS = {"speed": VELOCITY, "rcs": "rcs_dBsm"}
"""Fields on the wire that NCore has a customary name for."""

META: Json = {"radial_velocity": {"positive": "receding", "ego_motion_compensated": False}, "returns": 1}


def radar_entry(observation: Observation, options: NCoreOptions) -> ComponentEntry:
    """A scan: directions and distances, everything else about a detection as generic data.

    With cubes asked for, the attributes of ``generic_data`` are left to the cube that may come.

    Raises:
        DecodeError: not a cloud, or one without x, y and z.
    """
    measurement = observation.measurement
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud):
        raise DecodeError(f"radar message is {type(cloud).__name__}, not a point cloud")
    rays = rays_of(cloud)
    time_us = measurement.time_ns // 1000
    generic = other_fields(cloud, rays, {"x", "y", "z"}, FIELDS)
    if VELOCITY in generic and not options.radar_speed_receding_positive:
        generic[VELOCITY] = -generic[VELOCITY]
    return ComponentEntry(
        component="radars",
        collection="frames",
        name="radar",
        frame_id=measurement.frame_id,
        start_us=time_us,
        end_us=time_us,
        records=(
            *group(""),
            *generic_data(generic),
            *ray_records(rays, np.full(len(rays), time_us, np.uint64), {}),
        ),
        meta=META,
    )


def cube_of(observation: Observation) -> Cube:
    """The cube as an array of its own shape, with layout and scales in the metadata of the scan.

    Raises:
        DecodeError: not a cube.
    """
    measurement = observation.measurement
    cube = measurement.datum
    if not isinstance(cube, RadarCube):
        raise DecodeError(f"radar cube message is {type(cube).__name__}")
    time_us = measurement.time_ns // 1000
    meta = {
        "layout": [axis.name for axis in cube.layout],
        "shape": list(cube.cube.shape),
        "scales": [float(scale) if math.isfinite(scale) else None for scale in cube.scales],
        "is_complex": cube.is_complex,
        "complex": "the last axis interleaves real and imaginary part" if cube.is_complex else "no",
        "timestamp_us": time_us,
        "radar_time_us": cube.radar_time_us,
    }
    (name,) = ATTACHED
    array = array_records(name, np.ascontiguousarray(cube.cube), COMPRESSOR)
    _, attributes = group("", {name: meta})
    return Cube(measurement.topic, measurement.frame_id, time_us, (*array, attributes))


def empty_scan(cube: Cube) -> list[Record]:
    """A scan without detections, for a cube that no scan is near enough to."""
    rays = Rays(np.zeros((0, 3), np.float32), np.zeros(0, np.float32), None)
    return [
        *group(""),
        *generic_data({}),
        *under("generic_data", cube.records),
        *ray_records(rays, np.zeros(0, np.uint64), {}),
    ]


def radar_info_meta(info: RadarInfo) -> Json:
    """Radar settings as metadata."""
    return {
        "center_frequency": info.center_frequency,
        "frequency_sweep": info.frequency_sweep,
        "range_toggle": info.range_toggle,
        "detection_sensitivity": info.detection_sensitivity,
    }


_ATTRIBUTES = {
    **FIELDS,
    "vision_class": "class",
    "fusion_class": "fusion_class",
    "instance_id": "instance",
    "track_id": "track",
    "cluster_id": "cluster",
}
_INTEGERS = {"class", "instance", "track", "cluster"}


def cloud_entry(observation: Observation) -> ComponentEntry:
    """A cloud in its own frame; points too far (``is_seen``) or not finite are left out.

    Raises:
        DecodeError: not a cloud, or one without x, y and z.
    """
    measurement = observation.measurement
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud):
        raise DecodeError(f"message is {type(cloud).__name__}, not a point cloud")
    points = xyz(cloud)
    seen = is_seen(*points.T)
    kept = None if seen.all() else seen
    points = points if kept is None else points[kept]
    columns = Rays(points, np.zeros(len(points), np.float32), kept)
    attributes = other_fields(cloud, columns, {"x", "y", "z"}, _ATTRIBUTES)
    for name in _INTEGERS & attributes.keys():
        if attributes[name].dtype.kind == "f":  # a number of things, sent in a float
            attributes[name] = as_type(attributes[name], np.int32)
    records = [*group(""), *array_records("xyz", points, COMPRESSOR)]
    for name, values in attributes.items():
        records += array_records(name, values, COMPRESSOR)
    schemas: Json = {
        name: {"transform_type": "INVARIANT", "dtype": str(values.dtype), "shape_suffix": [*values.shape[1:]]}
        for name, values in attributes.items()
    }
    time_us = measurement.time_ns // 1000
    return ComponentEntry(
        component="point_clouds",
        collection="pcs",
        name=observation.role.value,
        frame_id=measurement.frame_id,
        start_us=time_us,
        end_us=time_us,
        records=(*records, *generic_data({})),
        attributes={"generic_meta_data": {}},
        shared={"coordinate_unit": "METERS", "attribute_schemas": schemas},
    )
