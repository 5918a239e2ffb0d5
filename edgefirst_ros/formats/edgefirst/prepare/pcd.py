"""Point clouds as binary PCD v0.7."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.pointcloud import PointCloud

RADAR_FIELDS = ("x", "y", "z", "speed", "power", "noise", "rcs")
"""The columns every radar.pcd begins with, in this order (the format's article)."""

TYPES = {"f": "F", "i": "I", "u": "U"}
"""PCD's letter by numpy's."""


@dataclass(frozen=True, slots=True)
class EncodedCloud:
    """A PCD file, and how many points were left out because a coordinate was not finite."""

    data: bytes
    left_out: int


def encode_radar(cloud: PointCloud) -> EncodedCloud:
    """radar.pcd: x y z speed power noise rcs as float32, NaN where the wire lacks one, then further fields.

    Raises:
        DecodeError: no x, y, z, or a field PCD cannot express.
    """
    _check_fields(cloud.points.dtype)
    names = cloud.points.dtype.names or ()
    columns: list[tuple[str, np.dtype[Any]]] = [(name, np.dtype("<f4")) for name in RADAR_FIELDS]
    columns += [(name, _wire_type(cloud.points.dtype, name)) for name in names if name not in RADAR_FIELDS]
    table = np.empty(len(cloud.points), columns)
    with np.errstate(over="ignore"):
        for name, _ in columns:
            table[name] = cloud.points[name] if name in names else np.nan
    return _finish(table, cloud)


def encode_lidar(cloud: PointCloud) -> EncodedCloud:
    """lidar.pcd: the fields as on the wire, little-endian and without padding, organised or not as sent.

    Points with a coordinate that is not finite carry no measurement and are left out; an organised cloud
    that has such points becomes unorganised, since a grid with invented points would be worse.

    Raises:
        DecodeError: no x, y, z, or a field PCD cannot express.
    """
    _check_fields(cloud.points.dtype)
    names = cloud.points.dtype.names or ()
    packed = np.dtype([(name, _wire_type(cloud.points.dtype, name)) for name in names])
    return _finish(cloud.points.astype(packed, copy=False), cloud)


def _finish(table: npt.NDArray[np.void], cloud: PointCloud) -> EncodedCloud:
    finite = np.isfinite(table["x"]) & np.isfinite(table["y"]) & np.isfinite(table["z"])
    left_out = len(table) - int(np.count_nonzero(finite))
    if left_out:
        table = table[finite]
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
    """Field names as PCD can hold them: ASCII without blanks, unique, and not ``_``, which is padding."""
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
        raise DecodeError("cloud with several x, y, z in a point")
    for name in names:
        base = dtype[name].base
        if base.kind not in TYPES or base.itemsize > 8 or base == np.float16:
            raise DecodeError(f"cloud field of type {base}, which PCD does not have")


def _wire_type(dtype: np.dtype[np.void], name: str) -> np.dtype[Any]:
    field = dtype[name]
    base = field.base.newbyteorder("<")
    return np.dtype((base, field.shape)) if field.shape else base
