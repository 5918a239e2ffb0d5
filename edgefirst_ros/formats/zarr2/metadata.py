"""Keys and JSON of zarr format 2: groups, arrays and attributes."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

Record = tuple[str, bytes]
"""Key below a store's root, and payload."""

GROUP_KEY = ".zgroup"
ARRAY_KEY = ".zarray"
ATTRIBUTES_KEY = ".zattrs"


def json_bytes(value: object) -> bytes:
    """Compact JSON with sorted keys, so that equal values give equal bytes.

    Raises:
        ValueError: the value holds NaN or infinity, which JSON cannot express.
    """
    return _ENCODER.encode(value).encode()


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


GROUP = json_bytes({"zarr_format": 2})


def join(*parts: str) -> str:
    """Key made of the parts that are not empty."""
    return "/".join(part for part in parts if part)


def is_metadata(key: str) -> bool:
    """True for the keys that consolidated metadata collects."""
    return key.rpartition("/")[2] in {GROUP_KEY, ARRAY_KEY, ATTRIBUTES_KEY}


def group(name: str, attributes: Mapping[str, Any] | None = None) -> list[Record]:
    """Records of a group; no attributes record when ``attributes`` is None."""
    records = [(join(name, GROUP_KEY), GROUP)]
    if attributes is not None:
        records.append((join(name, ATTRIBUTES_KEY), json_bytes(attributes)))
    return records


def under(prefix: str, records: Iterable[Record]) -> list[Record]:
    """The same records below ``prefix``."""
    return [(f"{prefix}/{key}", payload) for key, payload in records] if prefix else list(records)


def dtype_json(dtype: np.dtype[Any]) -> object:
    """The dtype as zarr 2 writes it: a type string, or the field list of a structured type.

    Raises:
        ValueError: Python objects, which have no bytes of their own.
    """
    if dtype.hasobject:
        raise ValueError(f"cannot store dtype {dtype} in a zarr array; use a fixed-size type")
    if dtype.fields is None:
        return dtype.str
    return [
        [name, dtype_json(base), list(shape)] if shape else [name, dtype_json(base)]
        for name, base, shape in _fields(dtype)
    ]


def _fields(dtype: np.dtype[Any]) -> Iterable[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Name, element type and shape of each field.

    Raises:
        ValueError: the fields leave gaps or overlap, which the format cannot say.
    """
    names = dtype.names or ()
    fields = [dtype.fields[name] for name in names] if dtype.fields is not None else []
    offset = 0
    for name, (field, at, *_) in zip(names, fields, strict=True):
        if at != offset:
            raise ValueError(f"field {name} of {dtype} is at byte {at}, not {offset}; pack the structure")
        offset += field.itemsize
        yield name, field.base, field.shape
    if offset != dtype.itemsize:
        raise ValueError(f"{dtype} ends with {dtype.itemsize - offset} bytes of padding; pack the structure")


_SCALAR = re.compile(r"[<>|][biufSU]\d{1,9}")
_MOST_FIELDS = 64
_DEEPEST = 4


def dtype_of(value: object, depth: int = 0) -> np.dtype[Any]:
    """The dtype that ``dtype_json`` wrote: numbers, booleans and strings, and structures of these.

    Raises:
        ValueError: anything else that numpy would take for a type, Python objects among it.
    """
    if isinstance(value, str):
        if not _SCALAR.fullmatch(value):
            raise ValueError(f"dtype {value!r:.80} is not read here")
        try:
            return np.dtype(value)
        except TypeError as error:  # a number of 3 bytes
            raise ValueError(f"dtype {value!r:.80} is not read here") from error
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_FIELDS or depth == _DEEPEST:
        raise ValueError(f"dtype {value!r:.80} is not read here")
    try:
        return np.dtype([
            (str(name), dtype_of(base, depth + 1), *(tuple(map(index, shape)) for shape in rest))
            for name, base, *rest in value
        ])  # fmt: skip
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"dtype {value!r:.80} is not read here: {error}") from error


def fill_json(dtype: np.dtype[Any], fill: object) -> object:
    """The fill value as zarr 2 writes it: base64 for bytes and structures, names for what JSON lacks."""
    if fill is None:
        return None
    if dtype.kind == "S" and not fill:
        return ""  # however long the string is
    value: npt.NDArray[Any] = np.zeros((), dtype)
    if fill != 0:
        value[()] = fill
    if dtype.kind in "SV":
        return b64encode(value.tobytes().rstrip(b"\0") if dtype.kind == "S" else value.tobytes()).decode()
    if dtype.kind == "f" and not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value.item()


def fill_of(dtype: np.dtype[Any], value: object) -> npt.NDArray[Any]:
    """The element that ``fill_json`` wrote, as an array without dimensions; zero for None.

    Raises:
        ValueError: no such element.
    """
    element: npt.NDArray[Any] = np.zeros((), dtype)
    try:
        if dtype.kind in "SV" and isinstance(value, str):
            raw = b64decode(value, validate=True)
            return np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype, 1).reshape(()) if raw else element
        if isinstance(value, int | float) or (dtype.kind == "f" and isinstance(value, str)):
            with np.errstate(over="raise"):
                element[()] = float(value) if dtype.kind == "f" else value
            return element
        if dtype.kind == "U" and isinstance(value, str):
            element[()] = value
            return element
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"fill value {value!r:.80} is none of {dtype}: {error}") from error
    if value is not None:
        raise ValueError(f"fill value {value!r:.80} is none of {dtype}")
    return element
