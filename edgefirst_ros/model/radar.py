"""Radar cubes and settings; and radars of other makers, whose drivers give fields other names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs

from edgefirst_ros.model.cdr import Message, Stamped, array, decode_as, decoder_of, repeated_decoder_of
from edgefirst_ros.model.definitions import define
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, cloud_of
from edgefirst_ros.model.untrusted import displayed


class Axis(IntEnum):
    """Meaning of an axis of a radar cube (constants of edgefirst_msgs/RadarCube)."""

    UNDEFINED = 0
    RANGE = 1
    DOPPLER = 2
    AZIMUTH = 3
    ELEVATION = 4
    RXCHANNEL = 5
    SEQUENCE = 6


@dataclass(frozen=True, slots=True)
class RadarCube:
    """The low-level data of a radar (edgefirst_msgs/RadarCube).

    Attributes:
        cube: int16, in the shape of the message.
        layout: meaning of each axis, slowest first.
        scales: unit of each axis: metres per range bin, m/s per doppler bin, 1 for others.
        is_complex: the last axis alternates real and imaginary parts; its length is twice its number of bins.
        radar_time_us: acquisition in microseconds of the radar's own clock.
    """

    cube: npt.NDArray[np.int16]
    layout: tuple[Axis, ...]
    scales: tuple[float, ...]
    is_complex: bool
    radar_time_us: int


@dataclass(frozen=True, slots=True)
class RadarInfo:
    """Settings of a radar, as sent (edgefirst_msgs/RadarInfo); ``cube`` is whether it publishes cubes."""

    center_frequency: str
    frequency_sweep: str
    range_toggle: str
    detection_sensitivity: str
    cube: bool


_AXES = {int(axis): axis for axis in Axis}


@decoder_of("edgefirst_msgs/RadarCube")
def decode_radar_cube(message: edgefirst_msgs.RadarCube) -> RadarCube:
    """Decode an edgefirst_msgs/RadarCube with any number and order of axes.

    Unknown axis codes become UNDEFINED, missing trailing scales 1.

    Raises:
        DecodeError: no valid message of this type, or shape, layout, scales and data contradict each other.
    """
    cube = array(message.cube, np.int16)
    shape = tuple(int(bins) for bins in array(message.shape, np.uint16))
    layout = tuple(_axis(int(code)) for code in array(message.layout, np.uint8))
    scales = tuple(float(scale) for scale in array(message.scales, np.float32))
    if not cube.size:
        raise DecodeError("radar cube is empty")
    if not shape or math.prod(shape) != cube.size:
        raise DecodeError("radar cube does not have the size of its shape")
    if len(layout) != len(shape):
        raise DecodeError("radar cube's layout and shape differ in rank")
    if len(scales) > len(shape):
        raise DecodeError("radar cube has more scales than axes")
    if not all(map(math.isfinite, scales)):
        raise DecodeError("radar cube's scales are not finite")
    if message.is_complex and shape[-1] % 2:
        raise DecodeError("complex radar cube with an odd last axis")
    return RadarCube(
        cube=cube.reshape(shape),
        layout=layout,
        scales=scales + (1.0,) * (len(shape) - len(scales)),
        is_complex=bool(message.is_complex),
        radar_time_us=int(message.timestamp),
    )


@repeated_decoder_of("edgefirst_msgs/RadarInfo")
def decode_radar_info(message: edgefirst_msgs.RadarInfo) -> RadarInfo:
    """Decode an edgefirst_msgs/RadarInfo."""
    return RadarInfo(
        center_frequency=displayed(str(message.center_frequency)),
        frequency_sweep=displayed(str(message.frequency_sweep)),
        range_toggle=displayed(str(message.range_toggle)),
        detection_sensitivity=displayed(str(message.detection_sensitivity)),
        cube=bool(message.cube),
    )


def _axis(code: int) -> Axis:
    return _AXES.get(code, Axis.UNDEFINED)


define(
    "radar_msgs/RadarReturn",
    "float32 range, float32 azimuth, float32 elevation, float32 doppler_velocity, float32 amplitude",
)
define("radar_msgs/RadarScan", "std_msgs/Header header, radar_msgs/RadarReturn[] returns")
define("unique_identifier_msgs/UUID", "uint8[16] uuid")
define(
    "radar_msgs/RadarTrack",
    "unique_identifier_msgs/UUID uuid, geometry_msgs/Point position, geometry_msgs/Vector3 velocity, "
    "geometry_msgs/Vector3 acceleration, geometry_msgs/Vector3 size, uint16 classification, "
    "float32[6] position_covariance, float32[6] velocity_covariance, float32[6] acceleration_covariance, "
    "float32[6] size_covariance",
)
define("radar_msgs/RadarTracks", "std_msgs/Header header, radar_msgs/RadarTrack[] tracks")

SYNONYMS = {
    "speed": ("velocity", "radial_speed", "radial_velocity", "doppler", "doppler_velocity", "range_rate"),
    "power": ("intensity", "amplitude", "snr"),
}
"""Fields of a radar cloud that formats know, and what drivers call them: of ti_mmwave_rospkg, Smartmicro,
Ainstein, Continental, Oculii and Navtech. ``rcs`` has no other name."""
_VELOCITY = ("velocity_x", "velocity_y", "velocity_z")


def radar_cloud(cloud: PointCloud, fields: Mapping[Any, str]) -> PointCloud:
    """A radar's cloud with its fields under the names that formats know.

    ``speed`` is made of a Cartesian velocity by projection on the line of sight, if there is no radial one.

    Args:
        cloud: as sent.
        fields: what a field is called in the cloud, by the known name; goes before ``SYNONYMS``.

    Raises:
        DecodeError: the cloud does not have a field of ``fields``.
    """
    dtype = cloud.points.dtype
    sent = dtype.names or ()
    names = _renamed(sent, tuple(fields.items()))
    points = cloud.points
    if names != sent:
        places = [dtype.fields[name][:2] for name in sent] if dtype.fields else []
        formats, offsets = zip(*places, strict=True)
        renamed = {"names": names, "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}
        points = points.view(np.dtype(renamed))  # type: ignore[call-overload]
    cloud = replace(cloud, points=points)
    if "speed" in names or "velocity_x" not in names or not cloud.has("x", "y", "z"):
        return cloud
    whole = np.empty(len(points), [*((name, points.dtype[name]) for name in names), ("speed", "<f4")])
    for name in names:
        whole[name] = points[name]
    whole["speed"] = _radial(cloud)
    whole.flags.writeable = False
    return replace(cloud, points=whole)


@lru_cache(maxsize=64)
def _renamed(names: tuple[str, ...], fields: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    known = {source: name for name, source in fields}
    if missing := [source for source in known if source not in names]:
        raise DecodeError(f"radar cloud without the field {', '.join(missing)} that fields names")
    for name, synonyms in SYNONYMS.items():
        if name in names or name in known.values():
            continue
        lower = {each.lower(): each for each in names if each not in known}
        found = next((lower[synonym] for synonym in synonyms if synonym in lower), None)
        if found is not None:
            known[found] = name
    return tuple(known.get(name, f"{name}_sent" if name in known.values() else name) for name in names)


def _radial(cloud: PointCloud) -> npt.NDArray[np.float32]:
    """Speeds along the line of sight, (N,) float32, receding positive; 0 at the origin."""
    xyz = cloud.xyz()
    columns = [
        cloud.column(name) if cloud.has(name) else np.zeros(len(xyz), np.float32) for name in _VELOCITY
    ]
    if any(column.ndim != 1 for column in columns):
        raise DecodeError("radar cloud with more than one velocity per point")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        distance = np.sqrt((xyz * xyz).sum(axis=1))
        along = (xyz * np.stack(columns, axis=1)).sum(axis=1)
        return np.where(distance > 0, along / np.where(distance > 0, distance, 1), 0).astype(np.float32)


def decode_radar_scan(data: bytes, definition: str = "") -> Stamped[PointCloud]:
    """Decode a radar_msgs/RadarScan: x, y, z, speed (m/s), power (the amplitude, dB), all float32.

    Azimuth is from x to y and elevation up, in radians (REP 103).

    Raises:
        DecodeError: no valid message of this type.
    """
    return decode_as("radar_msgs/RadarScan", data, definition, _scan)


def decode_radar_tracks(data: bytes, definition: str = "") -> Stamped[PointCloud]:
    """Decode a radar_msgs/RadarTracks: x, y, z, velocity, size, classification, track_id and uuid.

    ``uuid`` is whole, 16 uint8; ``track_id`` is its first four bytes.

    Raises:
        DecodeError: no valid message of this type.
    """
    return decode_as("radar_msgs/RadarTracks", data, definition, _tracks)


def _scan(message: Message) -> PointCloud:
    names = ("range", "azimuth", "elevation", "doppler_velocity", "amplitude")
    sent = np.array([[getattr(each, name) for name in names] for each in message.returns], np.float64)
    range_m, azimuth_rad, elevation_rad, speed, power = sent.reshape(-1, len(names)).T
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is no point later on
        ground_m = range_m * np.cos(elevation_rad)
        x, y = ground_m * np.cos(azimuth_rad), ground_m * np.sin(azimuth_rad)
        z = range_m * np.sin(elevation_rad)
    return cloud_of({"x": x, "y": y, "z": z, "speed": speed, "power": power})


def _tracks(message: Message) -> PointCloud:
    tracks = list(message.tracks)
    columns: dict[str, npt.NDArray[Any]] = {}
    for part, prefix in (("position", ""), ("velocity", "velocity_"), ("size", "size_")):
        for axis in "xyz":
            columns[prefix + axis] = _column(getattr(getattr(each, part), axis) for each in tracks)
    columns["classification"] = np.array([int(each.classification) for each in tracks], np.uint16)
    identities = np.frombuffer(b"".join(bytes(each.uuid.uuid) for each in tracks), np.uint8).reshape(-1, 16)
    columns["track_id"] = np.ascontiguousarray(identities[:, :4]).view("<u4")[:, 0]
    columns["uuid"] = identities
    return cloud_of(columns)


def _column(values: Iterable[float]) -> npt.NDArray[np.float64]:
    return np.fromiter(values, np.float64)
