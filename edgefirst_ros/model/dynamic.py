"""Reads CDR messages field by field, as a definition text says: for what edgefirst-schemas lacks.

Text and message may both come from a hostile file, so both are bounded: the text in size, the message in the
number of values, and no more is ever allocated than the message has bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

MAX_TEXT = 1 << 18
"""Longest definition in characters; the longest of common_interfaces has 30,000."""
MAX_VALUES = 500_000
"""Most fields of one message, those of nested messages included; an array of numbers is one."""
MAX_DEPTH = 32
_HEADER_BYTES = 4
CODES: Mapping[str, str] = {
    "bool": "?",
    "byte": "B",
    "char": "b",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""The numbers of definitions, as ``struct`` names them."""
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_TYPE = re.compile(r"[A-Za-z]\w*(/[A-Za-z]\w*){0,2}", re.ASCII)
_SEPARATOR = "==="
_TYPE_LINE = "MSG:"
_BYTES = frozenset({"byte", "uint8"})


class Field(NamedTuple):
    """A field of a message: ``size`` is None for a single value, -1 for a sequence, else an array's."""

    name: str
    type: str
    size: int | None


Layouts = Mapping[str, tuple[Field, ...]]
"""Fields of messages by type (``pkg/Type``)."""
_TIME = (Field("sec", "int32", None), Field("nanosec", "uint32", None))


def parse_definition(schema: str, text: str) -> Layouts:
    """The layout of a type, and of those that it is made of, from an MCAP ``ros2msg`` definition.

    Constants and defaults are left out, as they are not on the wire.

    Args:
        schema: ``pkg/Type``, which the text begins with.
        text: see ``definitions.definition``.

    Raises:
        ValueError: it is not a definition, or too long.
    """
    if len(text) > MAX_TEXT:
        raise ValueError("definition too long")
    found: dict[str, list[Field]] = {schema: []}
    name = schema
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(_SEPARATOR) and not line.strip("="):
            continue
        if line.startswith(_TYPE_LINE):
            name = _short(line.removeprefix(_TYPE_LINE).strip())
            found[name] = []
        elif line and not line.startswith("#"):
            field = _field(line, name.partition("/")[0])
            found[name] += [] if field is None else [field]
    times = {"builtin_interfaces/Time": _TIME, "builtin_interfaces/Duration": _TIME}
    return times | {name: tuple(fields) for name, fields in found.items()}


def _short(name: str) -> str:
    package, _, last = name.rpartition("/")
    return f"{package.removesuffix('/msg')}/{last}"


def _field(line: str, package: str) -> Field | None:
    """The field of a line, None for a constant."""
    words = line.partition("#")[0].split(None, 2)
    if len(words) < 2:
        raise ValueError("line without a name")
    kind, name, *rest = words
    if "=" in name or (rest and rest[0].startswith("=")):
        return None
    base, bracket, size = kind.partition("[")
    base, bounded, most = base.partition("<=")
    if not (_NAME.fullmatch(name) and _TYPE.fullmatch(base)) or (bounded and not most.isdecimal()):
        raise ValueError("line that is not a field")
    if base not in CODES and base not in {"string", "wstring"}:
        base = _short(base) if "/" in base else f"{package}/{base}"
    if not bracket:
        return Field(name, base, None)
    if not size.endswith("]"):
        raise ValueError("array without an end")
    size = size.removesuffix("]")
    if not size or size.startswith("<="):
        return Field(name, base, -1)
    if len(size) > 10 or not size.isdecimal():
        raise ValueError("array of no size")
    return Field(name, base, int(size))


def read_dynamic(schema: str, layouts: Layouts, data: bytes) -> tuple[Any, int]:
    """A message by its layout, and the offset of its end in ``data``.

    Nested messages are objects with their fields as attributes, sequences of numbers are read-only arrays
    (n,) in native byte order, of bytes ``bytes``, all other sequences are lists.

    Args:
        schema: ``pkg/Type``.
        layouts: see ``parse_definition``.
        data: encapsulated plain CDR, of either byte order.

    Raises:
        ValueError: the data end too soon, or have too many values.
        KeyError: the layout of a type is missing.
    """
    reader = _Reader(layouts, data)
    return reader.message(schema, MAX_DEPTH), reader.at


class _Reader:
    def __init__(self, layouts: Layouts, data: bytes) -> None:
        self._layouts = layouts
        self._data = data
        self._order: Literal["<", ">"] = "<" if data[1] & 1 else ">"
        self._values = 0
        self.at = _HEADER_BYTES

    def message(self, schema: str, depth: int) -> Any:  # noqa: ANN401 - what the definition says
        if not depth:
            raise ValueError("messages nested without end")
        fields = self._layouts[schema]
        if not fields:
            self._number("uint8")  # IDL has no empty structures, so ROS puts a byte there
        return SimpleNamespace(**{field.name: self._field(field, depth) for field in fields})

    def _field(self, field: Field, depth: int) -> Any:  # noqa: ANN401 - what the definition says
        self._values += 1
        if self._values > MAX_VALUES:
            raise ValueError("too many values")
        kind, count = field.type, field.size
        single = self._single(kind, depth)
        if count is None:
            return single()
        if count < 0:
            count = int(self._number("uint32"))
        if kind in _BYTES:
            return self._bytes(count)
        if kind in CODES:
            return self._numbers(kind, count)
        found = []
        for _ in range(count):
            self._values += 1
            if self._values > MAX_VALUES:
                raise ValueError("too many values")
            found.append(single())
        return found

    def _single(self, kind: str, depth: int) -> Callable[[], Any]:
        if kind == "string":
            return self._string
        if kind in CODES:
            return lambda: self._number(kind)
        return lambda: self.message(kind, depth - 1)

    def _number(self, kind: str) -> Any:  # noqa: ANN401 - what the definition says
        code = self._order + CODES[kind]
        size = struct.calcsize(code)
        self._align(size)
        (value,) = struct.unpack(code, self._bytes(size))
        return value

    def _numbers(self, kind: str, count: int) -> npt.NDArray[Any]:
        dtype = np.dtype(CODES[kind]).newbyteorder(self._order)
        if count:
            self._align(dtype.itemsize)
        values = np.frombuffer(self._bytes(count * dtype.itemsize), dtype)
        values = values.astype(dtype.newbyteorder("="), copy=False)
        values.flags.writeable = False
        return values

    def _string(self) -> str:
        size = int(self._number("uint32"))
        # Writers differ on whether an empty string has its terminating zero.
        return self._bytes(size)[:-1].decode()

    def _bytes(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self._data):
            raise ValueError("beyond the end")
        return self._data[start : self.at]

    def _align(self, size: int) -> None:
        self.at += (_HEADER_BYTES - self.at) % size
