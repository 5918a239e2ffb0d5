"""Valid messages with one value each that nobody would send on purpose; the wire may hold it all the same."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from valid_messages import HEADER, VALUES
from wire_encoder import CODES, Types, types_of

Values = dict[str, Any]

DOUBLES = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, -1e308, 1e-300, 1e38, 1e12)
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 3e38, -3e38, 1e-44, 1e12)
TEXTS = ("", "\n", "a" * 300, "../../x", "\u202e")
SIGNALLING = b"\x01\x00\x80\x7f"
"""A NaN of which processors, and so numpy, warn wherever it is converted."""
CLOUD_LAYOUTS = (
    (("x", 7), ("y", 7), ("z", 7), ("speed", 7), ("power", 7), ("rcs", 7)),
    (("x", 8), ("y", 8), ("z", 8), ("intensity", 7), ("t", 8)),
    (("x", 7), ("y", 7), ("z", 7), ("cluster_id", 7), ("vision_class", 4), ("instance_id", 4)),
    (("x", 3), ("y", 4), ("z", 5), ("cluster_id", 6), ("t", 6)),
)
_NUMPY = {3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8"}


def mutations(schema: str) -> Iterator[tuple[str, Values]]:
    """The valid message of a type with each of its values in turn made hostile, and what was done."""
    types = types_of(schema)
    yield from _mutated(types, schema, VALUES[schema])
    if schema == "sensor_msgs/PointCloud2":
        yield from _clouds()
    if schema == "sensor_msgs/Image":
        yield from _images()


def _numbers(kind: str) -> tuple[float, ...]:
    if kind == "bool":
        return (0, 1)
    if kind.startswith("float"):
        return DOUBLES if kind == "float64" else FLOATS
    bits = 8 * struct.calcsize(CODES[kind])
    if kind.startswith("uint"):
        return (0, 1, 2, 2**bits - 1, 2 ** (bits - 1))
    return (0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))


def _mutated(types: Types, name: str, values: Values) -> Iterator[tuple[str, Values]]:
    for kind, field in types[name]:
        element, array, size = kind.partition("[")
        value = values.get(field)
        if not array:
            changed = _single(types, element, value)
        else:
            count = 0 if size == "]" else int(size.rstrip("]"))
            changed = _several(types, element, list(value) if value is not None else [0] * count, count)
        for what, hostile in changed:
            yield f"{field}{what}", {**values, field: hostile}


def _single(types: Types, kind: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any field
    if kind == "string":
        yield from ((f"={text[:8]!r}", text) for text in TEXTS)
    elif kind in CODES:
        yield from ((f"={number}", number) for number in _numbers(kind))
    else:
        yield from ((f".{what}", hostile) for what, hostile in _mutated(types, kind, value or {}))


def _several(types: Types, kind: str, items: list[Any], fixed: int) -> Iterator[tuple[str, Any]]:
    if not fixed:
        yield from (("=[]", items[:0]), (" halved", items[: len(items) // 2]), (" doubled", items * 2))
    if not items:
        return
    if kind == "uint8":
        yield from ((f" all {byte}", bytes([byte] * len(items))) for byte in (0, 127, 255))
    elif kind in CODES:
        for number in _numbers(kind):
            yield f" all {number}", [number] * len(items)
            yield from ((f"[{i}]={number}", [*items[:i], number, *items[i + 1 :]]) for i in range(len(items)))
    elif kind in types:
        yield from ((f"[0].{what}", [first, *items[1:]]) for what, first in _mutated(types, kind, items[0]))


def _clouds() -> Iterator[tuple[str, Values]]:
    for layout in CLOUD_LAYOUTS:
        dtype = np.dtype([(name, _NUMPY[code]) for name, code in layout])
        fields = [
            {"name": name, "offset": dtype.fields[name][1], "datatype": code, "count": 1}  # type: ignore[index]
            for name, code in layout
        ]
        for height, width in ((1, 12), (2, 8), (1, 0)):
            points = np.ones(height * width, dtype)
            for axis in "xy":
                points[axis] = np.arange(height * width) % max(width, 1) + 1
            shape = {"height": height, "width": width, "row_step": width * dtype.itemsize}
            common = {"header": HEADER, "fields": fields, "point_step": dtype.itemsize, **shape}
            for name, _ in layout:
                base = dtype[name]
                hostile = FLOATS if base.kind == "f" else (np.iinfo(base).min, np.iinfo(base).max)
                for number in hostile if width else hostile[:1]:
                    changed = points.copy()
                    with np.errstate(over="ignore"):
                        changed[name][::3] = number
                    yield f"{height}x{width} {name}={number}", {**common, "data": changed.tobytes()}
                if base == np.float32:
                    changed = points.copy()
                    changed[name] = np.frombuffer(SIGNALLING, "<f4")
                    yield f"{height}x{width} {name} signals", {**common, "data": changed.tobytes()}


def _images() -> Iterator[tuple[str, Values]]:
    for number in FLOATS:
        pixels = np.full((4, 6), 2.5, np.float32)
        pixels[::2] = number
        shape = {"header": HEADER, "height": 4, "width": 6, "step": 24}
        yield f"32FC1 {number}", {**shape, "encoding": "32FC1", "data": pixels.tobytes()}
    for encoding in ("16UC1", "mono16", "mono8", "rgb8", "bayer_rggb8", "nv12", "yv12", "nv24", "yuyv"):
        for height, width in ((1, 1), (2, 2), (1, 6), (3, 2), (4, 5)):
            values = {"header": HEADER, "height": height, "width": width, "step": 8 * width}
            yield f"{encoding} {height}x{width}", {**values, "encoding": encoding, "data": b"\x7f" * 960}
