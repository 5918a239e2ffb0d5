"""Lidar sweeps and radar scans to frames of ``lidars`` and ``radars``, cubes to generic data of their scan.

Clusters and fused clouds to ``point_clouds``: coordinates and typed attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
from edgefirst_ros.model.sample import Datum, Observation

_INTENSITY = ("reflect", "reflectivity", "intensity", "signal", "i")
_SAME_RAY = 5e-4
"""Between two returns of a ray, which drivers round to millimetres; columns of a lidar are farther apart."""
_FITS = 0.02
"""Between where rows and columns say that a ray looks, and where it does: more in a depth camera's cloud."""
Grid = npt.NDArray[np.intp]


def _cloud_of(datum: Datum, message: str) -> PointCloud:
    if not isinstance(datum, PointCloud):
        raise DecodeError(f"{message} is {type(datum).__name__}, not a point cloud")
    return datum


def lidar_entry(observation: Observation) -> ComponentEntry:
    """A sweep: unit directions, times, distance and intensity of every point, other fields as they are.

    Raises:
        DecodeError: not a cloud, or one without x, y and z.
    """
    measurement = observation.measurement
    cloud = _cloud_of(measurement.datum, "lidar message")
    rays = rays_of(cloud) if cloud.height < 2 else _organised(cloud)
    time_us = measurement.time_ns // 1000
    clock, offset_ns = point_offsets_ns(cloud, measurement.stamp_ns) or ("constant", None)
    times_us = np.full(len(rays), time_us, np.int64)
    if offset_ns is not None:
        times_us += np.atleast_2d(rays.keep(offset_ns))[0] // 1000
    found = _intensity(cloud, rays)
    field = found.field if found else ""
    others = other_fields(cloud, rays, {"x", "y", "z", field, clock}, {})
    returns, known = {}, Json()
    if found is None:
        returns = {"intensity": np.where(np.isnan(rays.distance_m), rays.distance_m, np.float32(0))}
    elif found.scale is not None:
        known = {"intensity_max": found.scale, "intensity_scale": f"the largest value of {found.dtype}"}
        returns = {"intensity": scaled_intensity(found.values, found.scale)}
        found = replace(found, values=b"")
    return ComponentEntry(
        component="lidars",
        collection="frames",
        name="lidar",
        frame_id=measurement.frame_id,
        start_us=int(times_us.min()) if len(rays) else time_us,
        end_us=int(times_us.max()) if len(rays) else time_us,
        records=(*group(""), *generic_data(others), *ray_records(rays, times_us.astype(np.uint64), returns)),
        meta={"intensity_field": field or "none, written as 0", "ray_times": clock, **known},
        intensity=found,
    )


def _organised(cloud: PointCloud) -> Rays:
    """The rays of a cloud with rows: with two returns, if those are beside each other, and without an echo.

    Where one without an echo looks, the others of its row and column say; if they do not, it is left out.
    """
    rays = rays_of(cloud)
    if rays.kept is None:
        rays = replace(rays, kept=np.ones(len(cloud.points), bool))
    direction = np.full((len(cloud.points), 3), np.nan, np.float32)
    distance_m = np.full(len(cloud.points), np.nan, np.float32)
    direction[rays.kept], distance_m[rays.kept] = rays.direction, rays.distance_m
    grid = np.arange(len(cloud.points)).reshape(cloud.height, cloud.width)
    returns = next((pair for pair in _pairs(grid) if _are_same(direction[pair])), grid[None])
    looks = direction[returns[0]]
    looks = np.where(np.isnan(looks), direction[returns[-1]], looks)
    looks = _completed(looks) if np.isnan(looks).any() else looks
    there = ~np.isnan(looks[..., 0])
    kept = returns[:, there] if len(returns) > 1 else returns[0][there]
    return Rays(looks[there], distance_m[kept], kept)


def _pairs(grid: Grid) -> Iterator[Grid]:
    """Ways in which two returns lie in a cloud, (2, rows, columns): by turns, or one after the other."""
    for axis in (1, 0):
        if grid.shape[axis] % 2 == 0:
            by_axis = np.moveaxis(grid, axis, 0)
            for pair in ((by_axis[::2], by_axis[1::2]), np.split(by_axis, 2)):
                yield np.stack([np.moveaxis(each, 0, axis) for each in pair])


def _are_same(directions: npt.NDArray[np.float32]) -> bool:
    """Whether directions (2, rows, columns, 3) are the same, of at least as many rays as there are rows."""
    apart = np.linalg.norm(directions[0] - directions[1], axis=-1)
    both = apart[~np.isnan(apart)]
    return len(both) >= len(apart) and bool(np.median(both) < _SAME_RAY)


def _completed(looks: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Directions (rows, columns, 3), also where they are NaN, if rows have elevations, columns azimuths."""
    with np.errstate(invalid="ignore"):
        turns = np.exp(1j * np.arctan2(looks[..., 1], looks[..., 0])).astype(np.complex64)
        up = np.arcsin(looks[..., 2])
        rise = np.nansum(up, axis=1) / np.count_nonzero(~np.isnan(up), axis=1)
        columns = rows = np.ones(1, np.complex64)
        for _ in range(2):  # rows of many lidars are shifted against each other
            columns = np.nansum(turns / rows[:, None], axis=0)
            columns /= np.abs(columns)
            rows = np.nansum(turns / columns, axis=1)
            rows /= np.abs(rows)
        across = columns * rows[:, None] * np.cos(rise)[:, None]
        upward = np.broadcast_to(np.sin(rise)[:, None], across.shape)
        found = np.stack([across.real, across.imag, upward], axis=-1).astype(np.float32)
        off = np.linalg.norm(found - looks, axis=-1)
    fits = bool(np.nanmedian(off) < _FITS) if not np.isnan(off).all() else False
    return np.where(np.isnan(looks), found, looks) if fits else looks


def _intensity(cloud: PointCloud, rays: Rays) -> Intensity | None:
    """The field that intensity comes from, and its values as sent; None where there is none."""
    names = cloud.points.dtype.names or ()
    field = next((name for name in _INTENSITY if name in names), "")
    if not field or cloud.points.dtype[field].kind not in "iuf" or cloud.points.dtype[field].shape:
        return None
    column = rays.keep(cloud.points[field])
    scale = type_scale(column.dtype)
    values = np.nan_to_num(as_type(column, np.float32), posinf=0.0, neginf=0.0)
    values[np.isnan(rays.distance_m)] = np.nan
    outside = int(np.count_nonzero((values < 0) | (values > (scale or np.inf))))
    largest = float(np.fmax.reduce(values, axis=None, initial=0.0))
    returns = rays.distance_m.ndim
    return Intensity(field, str(column.dtype), scale, largest, outside, values.tobytes(), returns)


def scaled_intensity(values: bytes, scale: float) -> npt.NDArray[np.float32]:
    """Values as sent, float32, to 0..1."""
    shares: npt.NDArray[np.float32] = np.clip(np.frombuffer(values, np.float32) / np.float32(scale), 0.0, 1.0)
    return shares


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
    cloud = _cloud_of(measurement.datum, "radar message")
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
    cloud = _cloud_of(measurement.datum, "message")
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
