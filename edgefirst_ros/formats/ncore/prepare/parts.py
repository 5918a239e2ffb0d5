"""What ``prepare`` hands to ``write``: parts of a store, with all that is expensive done, and rays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.zarr2 import Blosc, Record, array_records, group, under
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, is_seen
from edgefirst_ros.model.sample import Calibration, Role
from edgefirst_ros.model.transform import Transform

COMPRESSOR = Blosc(cname="lz4", clevel=5)
"""What NCore's own writer uses; fast to decode."""

Json = dict[str, Any]

LONGEST_NAME = 64
"""Of an instance, in characters."""


@dataclass(frozen=True, slots=True)
class Intensity:
    """Where a sweep's intensity comes from.

    Attributes:
        field: of the cloud.
        dtype: of the field.
        scale: value that is stored as 1; None if it has to be learnt from the sequence.
        largest: of the sweep, as sent.
        outside: how many values were cut off at 0 or 1.
        values: as sent, float32, NaN without an echo; empty if the records have them already.
        returns: of each ray.
    """

    field: str
    dtype: str
    scale: float | None
    largest: float
    outside: int
    values: bytes
    returns: int = 1


@dataclass(frozen=True, slots=True)
class ComponentEntry:
    """One frame, point cloud or label of an instance of a component.

    Attributes:
        component: cameras, lidars, radars, point_clouds or camera_labels.
        collection: group of the instance that holds the entries.
        name: preferred instance name; the writer makes it unique.
        frame_id: coordinate frame as sent.
        start_us: first time in the entry, microseconds.
        end_us: last time in it; entries are keyed by it.
        records: below the entry's group, in order, without its attributes.
        attributes: of the entry's group, beside the times.
        shared: attributes of the collection; every entry must have the same. None: has none of its own.
        meta: the instance's generic_meta_data.
        size: width and height of a camera's pictures.
        camera_frame: for labels, the coordinate frame of the camera they belong to.
        intensity: of a lidar's sweep.
    """

    component: str
    collection: Literal["frames", "pcs", "labels"]
    name: str
    frame_id: str
    start_us: int
    end_us: int
    records: tuple[Record, ...]
    attributes: Json = field(default_factory=dict)
    shared: Json | None = None
    meta: Json = field(default_factory=dict)
    size: tuple[int, int] | None = None
    camera_frame: str | None = None
    intensity: Intensity | None = None


@dataclass(frozen=True, slots=True)
class Cube:
    """A radar cube that waits for the scan it belongs to; ``records`` go below that scan's generic_data."""

    topic: str
    frame_id: str
    time_us: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Cuboids:
    """3-D boxes of one message.

    Attributes:
        frame_id: their coordinate frame as sent.
        time_us: of the message.
        observations: without their frame of reference; ``bbox3`` as measured, see ``finish.cuboids``.
        extra: what NCore has no field for.
        kinds: what kind of object each is, by the name of its class.
        tracked: False for a box that the device numbers anew in every message.
        optical: whether the frame is an optical one.
        record: of the journal: 3-D boxes of a model, its 2-D boxes placed by the distances that came with
            them, or tracks of a radar.
    """

    frame_id: str
    time_us: int
    observations: tuple[Json, ...]
    extra: tuple[tuple[float, ...], ...]
    kinds: tuple[str, ...]
    tracked: tuple[bool, ...]
    optical: bool
    record: Literal["cuboids", "flat_cuboids", "radar_cuboids"] = "cuboids"


@dataclass(frozen=True, slots=True)
class FlatBoxes:
    """2-D boxes of one message, corners as fractions of the whole picture.

    Attributes:
        topic: the name on the wire.
        frame_id: coordinate frame as sent.
        time_us: of the message.
        packed: columns of equal length by name: dtype and bytes.
        masked: whether it has masks, too; a model that sends masks and never a box detects no boxes.
        encoded: records of every column but the corners, by name; none if read from a journal.
    """

    topic: str
    frame_id: str
    time_us: int
    packed: Mapping[str, tuple[str, bytes]]
    masked: bool
    encoded: Mapping[str, tuple[Record, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """About how many bytes of memory they take."""
        records = [len(data) + 200 for column in self.encoded.values() for _, data in column]
        return 500 + sum(records) + sum(len(data) + 200 for _, data in self.packed.values())

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns as arrays; the corners (N, 4) are under ""."""
        found = {name: np.frombuffer(data, dtype) for name, (dtype, data) in self.packed.items()}
        return found | {"": self.shares()}

    def shares(self) -> npt.NDArray[np.float64]:
        """Corners (N, 4)."""
        dtype, data = self.packed[""]
        return np.frombuffer(data, dtype).reshape(-1, 4)


@dataclass(frozen=True, slots=True)
class SeriesValue:
    """One message of a raw series: ``layout`` names the columns and how many values each has."""

    kind: str
    layout: tuple[tuple[str, int], ...]
    time_us: int
    values: tuple[float, ...]


Part = ComponentEntry | Cube | Cuboids | FlatBoxes | SeriesValue


@dataclass(frozen=True, slots=True)
class Prepared:
    """A measurement ready to be appended.

    Attributes:
        topic: the name on the wire.
        role: what the topic is.
        time_us: acquisition, microseconds since 1970.
        calibration: context in force.
        mounted: of a message of transforms, where frames on mounts that move were then.
        parts: what goes into the store; none for topics that are context only.
        refused: why parts of the message cannot be stored.
    """

    topic: str
    role: Role
    time_us: int
    calibration: Calibration
    parts: tuple[Part, ...] = ()
    refused: tuple[str, ...] = ()
    mounted: Mapping[str, Transform] = field(default_factory=dict)


def generic_data(arrays: Mapping[str, npt.NDArray[Any]]) -> list[Record]:
    """The ``generic_data`` group that every frame has."""
    records = group("")
    for name, array in arrays.items():
        records += array_records(name, np.asarray(array, order="C"), COMPRESSOR)
    return under("generic_data", records)


def safe_instance_name(wanted: str) -> str:
    """The name with what a zarr key cannot hold replaced, at most 64 characters."""
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", wanted)[:LONGEST_NAME].lstrip("_.@-") or "sensor"


@dataclass(frozen=True, slots=True)
class Rays:
    """Rays, most of which hit something.

    Attributes:
        direction: (N, 3) float32, unit vectors in the sensor's frame.
        distance_m: (N,) or (R, N) float32, greater than 0; NaN without an echo.
        kept: (P,) bool or (R, N) indices, which of the cloud's points these are; None for all.
    """

    direction: npt.NDArray[np.float32]
    distance_m: npt.NDArray[np.float32]
    kept: npt.NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.direction)

    def keep(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column of the cloud for these rays and returns, native byte order, contiguous."""
        column = column if self.kept is None else column[self.kept]
        return np.ascontiguousarray(column, column.dtype.newbyteorder("<"))


def xyz(cloud: PointCloud) -> npt.NDArray[np.float32]:
    """The points' coordinates, (P, 3) float32.

    Raises:
        DecodeError: the cloud has no x, y and z.
    """
    return np.ascontiguousarray(_columns(cloud).T)


def _columns(cloud: PointCloud) -> npt.NDArray[np.float32]:
    """The same, (3, P): numpy is quick with long axes."""
    names = cloud.points.dtype.names or ()
    if not {"x", "y", "z"} <= set(names):
        raise DecodeError(f"cloud has fields {', '.join(names)} but no x, y and z")
    if any(cloud.points.dtype[name].shape for name in "xyz"):
        raise DecodeError("cloud with more than one x, y or z per point")
    columns = np.empty((3, len(cloud.points)), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for column, name in zip(columns, "xyz", strict=True):
            column[:] = cloud.points[name]
    return columns


def rays_of(cloud: PointCloud) -> Rays:
    """The cloud as rays; points at the origin, too far (``is_seen``) or not finite have none.

    Raises:
        DecodeError: the cloud has no x, y and z.
    """
    columns = _columns(cloud)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = columns * columns
        distance = np.sqrt(squares[0] + squares[1] + squares[2])
    valid = is_seen(*columns) & (distance > _NEAREST_M)
    kept = None
    if not valid.all():
        kept, columns, distance = valid, columns[:, valid], distance[valid]
    direction = np.empty((len(distance), 3), np.float32)
    for column, axis in zip(columns, direction.T, strict=True):
        np.divide(column, distance, out=axis)
    return Rays(direction, distance, kept)


_NEAREST_M = 1e-6
"""Sensors report 0 for no echo; rounding on the way here may have moved it."""


def ray_records(
    rays: Rays, timestamp_us: npt.NDArray[np.uint64], returns: Mapping[str, npt.NDArray[np.float32]]
) -> list[Record]:
    """``ray_bundle``, ``ray_bundle_returns`` and the mask of returns."""
    count, distance_m = len(rays), np.atleast_2d(rays.distance_m)
    bundle = group("", {"n_rays": count})
    bundle += array_records("direction", rays.direction, COMPRESSOR)
    bundle += array_records("timestamp_us", timestamp_us, COMPRESSOR)
    shape = {"n_returns": len(distance_m)}
    echoes = group("", shape)
    for name, values in {"distance_m": distance_m, **returns}.items():
        echoes += array_records(name, values.reshape(distance_m.shape), COMPRESSOR)
    valid = np.packbits(~np.isnan(distance_m))
    return [
        *under("ray_bundle", bundle),
        *under("ray_bundle_returns", echoes),
        *array_records(
            "ray_bundle_returns_valid_mask_packed", valid, COMPRESSOR, attributes={**shape, "n_rays": count}
        ),
    ]


def other_fields(
    cloud: PointCloud, rays: Rays, taken: set[str], renamed: Mapping[str, str]
) -> dict[str, npt.NDArray[Any]]:
    """The fields that are not ``taken``, for the rays, by the name to store them under."""
    names = cloud.points.dtype.names or ()
    return {
        renamed.get(name, safe_name(name)): rays.keep(cloud.points[name])
        for name in names
        if name not in taken and name.strip()
    }


def safe_name(name: str) -> str:
    """A field name as one level of a key."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
