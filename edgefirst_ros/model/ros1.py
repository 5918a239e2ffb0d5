"""ROS 1 messages as CDR, by the definitions that came with them: both are foreign, and neither becomes code.

ROS 1 packs values without alignment, little-endian, strings without a terminating zero, and begins a header
with a sequence number, which ROS 2 has not.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from edgefirst_ros.model.dynamic import CODES, MAX_DEPTH, Field, parse_definition

MAX_STEPS = 10_000
"""Most steps that converting a type takes, loops counted once; the largest of common_interfaces takes 100."""
_SEPARATOR = "=" * 80
_HEADER = "std_msgs/Header"
_SEQUENCE_NUMBER = Field("seq", "uint32", None)
_BUILT_IN = {
    "time": "builtin_interfaces/Time",
    "duration": "builtin_interfaces/Duration",
    "Header": _HEADER,
}
_CDR = b"\0\1\0\0"
_UINT32 = struct.Struct("<I")
_MOST_GROWTH = 2
"""Alignment doubles a message at most; what grows more is made of empty messages."""
_FREE_BYTES = 1 << 16


class _Output:
    """A message in CDR that grows; offsets count from its first byte, after the header."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def count(self, number: int) -> None:
        """A number of elements."""
        self.align(_UINT32.size)
        self.data += _UINT32.pack(number)

    def check(self) -> None:
        if len(self.data) > self._most:
            raise ValueError("it has too many empty messages")


class _Step(Protocol):
    """A part of the conversion."""

    def convert(self, data: bytes, at: int, out: _Output) -> int:
        """Convert what is at an offset of ``data``; returns that of its end, which may not be there."""
        ...


class _Raw(NamedTuple):
    """Numbers of one size, copied as they are."""

    size: int
    length: int

    def convert(self, data: bytes, at: int, out: _Output) -> int:
        out.align(self.size)
        out.data += data[at : at + self.length]
        return at + self.length


class _Skip(NamedTuple):
    """What ROS 2 has not."""

    length: int

    def convert(self, data: bytes, at: int, out: _Output) -> int:  # noqa: ARG002 - as all steps
        return at + self.length


class _Text(NamedTuple):
    """A string."""

    def convert(self, data: bytes, at: int, out: _Output) -> int:
        start = at + _UINT32.size
        end = start + _count(data, at)
        out.count(end - start + 1)
        out.data += data[start:end]
        out.data.append(0)
        return end


class _Zeros(NamedTuple):
    """Empty messages, which have a byte each in CDR."""

    length: int

    def convert(self, data: bytes, at: int, out: _Output) -> int:  # noqa: ARG002 - as all steps
        out.data += bytes(self.length)
        out.check()
        return at


class _Bulk(NamedTuple):
    """A sequence of elements that are numbers of one size."""

    size: int
    element_bytes: int

    def convert(self, data: bytes, at: int, out: _Output) -> int:
        count = _count(data, at)
        start = at + _UINT32.size
        end = start + count * self.element_bytes
        out.count(count)
        if count:
            out.align(self.size)
        out.data += data[start:end]
        return end


class _Many(NamedTuple):
    """An array, or a sequence if ``length`` is -1."""

    length: int
    steps: Sequence[_Step]

    def convert(self, data: bytes, at: int, out: _Output) -> int:
        count = self.length
        if count < 0:
            count = _count(data, at)
            at += _UINT32.size
            out.count(count)
        if count > len(data) - at:
            raise ValueError("it ends too soon")
        for _ in range(count):
            for step in self.steps:
                at = step.convert(data, at, out)
            if at > len(data):
                raise ValueError("it ends too soon")
        return at


class Ros1Type:
    """A type of ROS 1 messages.

    Attributes:
        definition: the same type as a ``ros2msg`` schema of MCAP, see ``definitions.definition``.

    Raises:
        ValueError: the text is no definition, lacks a type, or defines what no message is: types in
            themselves, arrays of nothing, too much.
    """

    def __init__(self, schema: str, text: str) -> None:
        layouts = parse_definition(schema, text)
        self._layouts = {name: _as_ros2(fields, layouts) for name, fields in layouts.items()}
        if self._layouts.get(_HEADER, ())[:1] == (_SEQUENCE_NUMBER,):
            self._layouts[_HEADER] = self._layouts[_HEADER][1:]
        self._used: dict[str, None] = {}
        self._count = 0
        self._steps = self._message(schema, MAX_DEPTH)
        self.definition = _text(schema, self._used, self._layouts)

    def to_cdr(self, data: bytes) -> bytes:
        """A message as little-endian CDR.

        Raises:
            ValueError: it is shorter or longer than its type says.
        """
        out, end = _Output(_MOST_GROWTH * len(data) + _FREE_BYTES), 0
        for step in self._steps:
            end = step.convert(data, end, out)
        if end > len(data):
            raise ValueError("it ends too soon")
        if end < len(data):
            raise ValueError(f"it has {len(data) - end:,} bytes more than its type")
        return _CDR + bytes(out.data)

    def _message(self, schema: str, depth: int) -> Sequence[_Step]:
        """The steps that convert a message of a type."""
        if not depth:
            raise ValueError("types nested without end")
        if schema not in self._layouts:
            raise ValueError(f"its definition lacks {schema}")
        self._used[schema] = None
        self._counted()
        fields = self._layouts[schema]
        # The sequence number is there even where the definition, written by a program of ROS 2, lacks it.
        steps: list[_Step] = [_Skip(_UINT32.size)] if schema == _HEADER else []
        for field in fields:
            for step in self._field(field, depth):
                self._append(steps, step)
        if not fields:
            self._append(steps, _Zeros(1))
        return steps

    def _field(self, field: Field, depth: int) -> Sequence[_Step]:
        size = struct.calcsize("<" + CODES[field.type]) if field.type in CODES else 0
        if field.size == 0:
            return []
        if size:
            return [_Bulk(size, size) if field.size == -1 else _Raw(size, size * (field.size or 1))]
        steps: Sequence[_Step] = [_Text()] if field.type == "string" else self._message(field.type, depth - 1)
        if field.size is None:
            return steps
        match steps:
            case [_Raw(size, of_bytes)]:
                return [_Bulk(size, of_bytes) if field.size < 0 else _Raw(size, of_bytes * field.size)]
            case _ if all(isinstance(step, _Zeros) for step in steps):
                raise ValueError(f"its field {field.name} is an array of nothing")
        return [_Many(field.size, steps)]

    def _append(self, steps: list[_Step], step: _Step) -> None:
        """Add a step, joined with the one before if they are of one kind."""
        match steps[-1] if steps else None, step:
            case _Raw(size, before), _Raw(other, more) if size == other:
                steps[-1] = _Raw(size, before + more)
            case _Zeros(before), _Zeros(more):
                steps[-1] = _Zeros(before + more)
            case _:
                steps.append(step)
        self._counted()

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_STEPS:
            raise ValueError(f"its definition has more than {MAX_STEPS:,} fields")


def _as_ros2(fields: Sequence[Field], known: Mapping[str, object]) -> tuple[Field, ...]:
    """The fields with the names that ROS 2 has for built-in types."""
    found = []
    for field in fields:
        kind = field.type
        if kind not in known:
            kind = _BUILT_IN.get(kind.rpartition("/")[2], kind)
        # A char of ROS 1 has no sign.
        found.append(field._replace(type="uint8" if kind == "char" else kind))
    return tuple(found)


def _text(schema: str, used: Mapping[str, None], layouts: Mapping[str, Sequence[Field]]) -> str:
    """The definition of a type and of those that it is made of, in the words of ROS 2."""
    parts = []
    for name in used:
        head = "" if name == schema else f"{_SEPARATOR}\nMSG: {name}\n"
        parts.append(head + "".join(f"{f.type}{_brackets(f.size)} {f.name}\n" for f in layouts[name]))
    return "".join(parts)


def _brackets(size: int | None) -> str:
    if size is None:
        return ""
    return "[]" if size < 0 else f"[{size}]"


def _count(data: bytes, at: int) -> int:
    """The number of elements or bytes that follow it; each takes a byte at least."""
    start = at + _UINT32.size
    if start <= len(data):
        (number,) = _UINT32.unpack_from(data, at)
        if number <= len(data) - start:
            return int(number)
    raise ValueError("it ends too soon")
