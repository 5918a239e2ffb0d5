"""Point clouds to binary PCD v0.7."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.pointcloud import PointCloud, is_seen

RADAR_FIELDS = ("x", "y", "z", "speed", "power", "noise", "rcs")
"""First fields of every radar.pcd. Source: the vendor's article on the format."""

TYPES = {"f": "F", "i": "I", "u": "U"}
"""numpy's letter of a type to PCD's."""


@dataclass(frozen=True, slots=True)
class EncodedCloud:
    """A PCD file, and the number of points left out because a coordinate is not finite."""

    data: bytes
    left_out: int


def encode_radar(cloud: PointCloud) -> EncodedCloud:
    """Encode radar.pcd: x y z speed power noise rcs as float32, NaN if missing, then other fields as sent.

    Raises:
        DecodeError: no x, y, z, or a field that PCD cannot express.
    """
    _check_fields(cloud.points.dtype)
    names = cloud.points.dtype.names or ()
    columns: list[tuple[str, np.dtype[Any]]] = [(name, np.dtype("<f4")) for name in RADAR_FIELDS]
    columns += [(name, _wire_type(cloud.points.dtype, name)) for name in names if name not in RADAR_FIELDS]
    table = np.empty(len(cloud.points), columns)
    with np.errstate(over="ignore", invalid="ignore"):
        for name, _ in columns:
            table[name] = cloud.points[name] if name in names else np.nan
    return _finish(table, cloud)


def encode_lidar(cloud: PointCloud) -> EncodedCloud:
    """Encode lidar.pcd: all fields as sent, little-endian and without padding.

    Points with a coordinate that is not finite or beyond ``FARTHEST_M`` are left out. If there are none, an
    organised cloud remains organised.

    Raises:
        DecodeError: no x, y, z, or a field that PCD cannot express.
    """
    _check_fields(cloud.points.dtype)
    names = cloud.points.dtype.names or ()
    packed = np.dtype([(name, _wire_type(cloud.points.dtype, name)) for name in names])
    with np.errstate(over="ignore", invalid="ignore"):
        table = cloud.points.astype(packed, copy=False)
    return _finish(table, cloud)


def _finish(table: npt.NDArray[np.void], cloud: PointCloud) -> EncodedCloud:
    axes = [table[axis] for axis in "xyz"]
    seen = is_seen(*axes)
    left_out = 0
    if not seen.all():
        left_out = len(table) - int(np.count_nonzero(np.isfinite(axes).all(axis=0)))
        table = table[seen]
    organised = cloud.height > 1 and cloud.height * cloud.width == len(table)
    width, height = (cloud.width, cloud.height) if organised else (len(table), 1)
    return EncodedCloud(_header(table.dtype, width, height) + table.tobytes(), left_out)


def _header(dtype: np.dtype[np.void], width: int, height: int) -> bytes:
    names = dtype.names or ()
    scalars = [dtype[name].subdtype or (dtype[name], ()) for name in names]
    lines = (
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        "FIELDS " + " ".join(_tokens(names)),
        "SIZE " + " ".join(str(base.itemsize) for base, _ in scalars),
        "TYPE " + " ".join(TYPES[base.kind] for base, _ in scalars),
        "COUNT " + " ".join(str(int(np.prod(shape, dtype=np.int64))) for _, shape in scalars),
        f"WIDTH {width}",
        f"HEIGHT {height}",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {width * height}",
        "DATA binary",
        "",
    )
    return "\n".join(lines).encode("ascii")


def _tokens(names: Iterable[str]) -> list[str]:
    """Field names that are valid in PCD: ASCII without blanks, unique, and not ``_``, which is padding."""
    tokens: list[str] = []
    for name in names:
        token = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        if not token.strip("_"):
            token = "field"
        unique, count = token, 1
        while unique in tokens:
            count += 1
            unique = f"{token}_{count}"
        tokens.append(unique)
    return tokens


def _check_fields(dtype: np.dtype[np.void]) -> None:
    names = dtype.names or ()
    if missing := [axis for axis in "xyz" if axis not in names]:
        raise DecodeError(f"cloud without {', '.join(missing)}")
    if any(dtype[axis].shape for axis in "xyz"):
        raise DecodeError("cloud with more than one x, y or z per point")
    for name in names:
        base = dtype[name].base
        if base.kind not in TYPES or base.itemsize > 8 or base == np.float16:
            raise DecodeError(f"cloud field of type {base}, which PCD does not have")


def _wire_type(dtype: np.dtype[np.void], name: str) -> np.dtype[Any]:
    field = dtype[name]
    base = field.base.newbyteorder("<")
    return np.dtype((base, field.shape)) if field.shape else base
