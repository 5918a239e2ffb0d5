"""Points to ray bundles: unit directions, distances, times, and the valid mask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import Record, group, under
from edgefirst_ros.messages.pointcloud import PointCloud, is_seen


@dataclass(frozen=True, slots=True)
class Rays:
    """Rays that hit something.

    Attributes:
        direction: (N, 3) float32, unit vectors in the sensor's frame.
        distance_m: (N,) float32, greater than 0.
        kept: (P,) bool, which of the cloud's points these are; None for all.
    """

    direction: npt.NDArray[np.float32]
    distance_m: npt.NDArray[np.float32]
    kept: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.distance_m)

    def cells(self) -> npt.NDArray[np.intp]:
        """Index of each ray's point in the cloud."""
        return np.arange(len(self)) if self.kept is None else np.flatnonzero(self.kept)

    def keep(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column of the cloud for these rays, native byte order, contiguous."""
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
    """``ray_bundle``, ``ray_bundle_returns`` and the valid mask of one return that every ray has."""
    count = len(rays)
    bundle = group("", {"n_rays": count})
    bundle += array_records("direction", rays.direction, COMPRESSOR)
    bundle += array_records("timestamp_us", timestamp_us, COMPRESSOR)
    echoes = group("", {"n_returns": 1})
    for name, values in {"distance_m": rays.distance_m, **returns}.items():
        echoes += array_records(name, values[None], COMPRESSOR)
    valid = np.packbits(np.ones(count, bool))
    return [
        *under("ray_bundle", bundle),
        *under("ray_bundle_returns", echoes),
        *array_records(
            "ray_bundle_returns_valid_mask_packed",
            valid,
            COMPRESSOR,
            attributes={"n_returns": 1, "n_rays": count},
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
