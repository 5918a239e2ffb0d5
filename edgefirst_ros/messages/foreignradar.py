"""Radars of other makers: the names that their drivers give to fields, and the types of radar_msgs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import Message, Stamped, decode_as
from edgefirst_ros.messages.definitions import define
from edgefirst_ros.messages.pointcloud import PointCloud

define(
    "radar_msgs/RadarReturn",
    "float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 doppler_velocity\nfloat32 amplitude\n",
)
define("radar_msgs/RadarScan", "std_msgs/Header header\nradar_msgs/RadarReturn[] returns\n")
define("unique_identifier_msgs/UUID", "uint8[16] uuid\n")
define(
    "radar_msgs/RadarTrack",
    "unique_identifier_msgs/UUID uuid\n"
    "geometry_msgs/Point position\n"
    "geometry_msgs/Vector3 velocity\n"
    "geometry_msgs/Vector3 acceleration\n"
    "geometry_msgs/Vector3 size\n"
    "uint16 classification\n"
    "float32[6] position_covariance\n"
    "float32[6] velocity_covariance\n"
    "float32[6] acceleration_covariance\n"
    "float32[6] size_covariance\n",
)
define("radar_msgs/RadarTracks", "std_msgs/Header header\nradar_msgs/RadarTrack[] tracks\n")

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
    cloud = PointCloud(points, cloud.height, cloud.width)
    if "speed" in names or "velocity_x" not in names or not cloud.has("x", "y", "z"):
        return cloud
    whole = np.empty(len(points), [*((name, points.dtype[name]) for name in names), ("speed", "<f4")])
    for name in names:
        whole[name] = points[name]
    whole["speed"] = _radial(cloud)
    whole.flags.writeable = False
    return PointCloud(whole, cloud.height, cloud.width)


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
    """Decode a radar_msgs/RadarTracks: x, y, z, velocity, size, classification and track_id.

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
    return _cloud({"x": x, "y": y, "z": z, "speed": speed, "power": power})


def _tracks(message: Message) -> PointCloud:
    tracks = list(message.tracks)
    columns: dict[str, npt.NDArray[Any]] = {}
    for part, prefix in (("position", ""), ("velocity", "velocity_"), ("size", "size_")):
        for axis in "xyz":
            columns[prefix + axis] = _column(getattr(getattr(each, part), axis) for each in tracks)
    columns["classification"] = np.array([int(each.classification) for each in tracks], np.uint16)
    identities = b"".join(bytes(each.uuid.uuid)[:4] for each in tracks)
    columns["track_id"] = np.frombuffer(identities, "<u4").copy()
    return _cloud(columns)


def _column(values: Iterable[float]) -> npt.NDArray[np.float64]:
    return np.fromiter(values, np.float64)


def _cloud(columns: Mapping[str, npt.NDArray[Any]]) -> PointCloud:
    """Columns as a cloud of one row; floats become float32."""
    types = [(name, "<f4" if values.dtype.kind == "f" else values.dtype) for name, values in columns.items()]
    points = np.empty(len(next(iter(columns.values()))), types)
    with np.errstate(over="ignore", invalid="ignore"):
        for name, values in columns.items():
            points[name] = values
    points.flags.writeable = False
    return PointCloud(points, 1, len(points))
