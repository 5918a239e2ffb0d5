"""Changes of single fields of messages, by their definitions."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from fuzzing import FLOATS, NUMBERS, mutate_bytes, single
from wire_encoder import CODES, Encoder, encode, put_message, types_of

from edgefirst_ros.model.definitions import definition, short_name
from edgefirst_ros.model.dynamic import Field, parse_definition, read_dynamic
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.sample import RawMessage

_HEAD = 4
"""Bytes of encapsulation."""
HOSTILE_TEXTS = ("", "\0", "\x1b[2J", "a" * 300, "../../x", "\u202e", "camera_optical", "base_link", "[b]")
_TEXTS = [*(text.encode() for text in HOSTILE_TEXTS), b"\xff\xfe", b"mono16", b"32FC1", b"h265", b"png"]


class _Noting(Encoder):
    """An encoder that notes where it puts numbers and texts: offset, and struct's code or ``text``."""

    def __init__(self, order: str) -> None:
        super().__init__(order)
        self.places: list[tuple[int, str]] = []

    def put(self, code: str, *values: float) -> None:
        for value in values:
            super().put(code, value)
            self.places.append((_HEAD + len(self.body) - struct.calcsize(code), code))

    def text(self, text: str) -> None:
        super().text(text)
        self.places[-1] = self.places[-1][0], "text"


def places_of(schema: str, values: dict[str, Any], order: str) -> list[tuple[int, str]]:
    """Where the numbers and texts of an encoded message are, and what: struct's code, or ``text``."""
    encoder = _Noting(order)
    put_message(encoder, types_of(schema), schema, values)
    return encoder.places


def change_place(rng: random.Random, data: bytearray, place: tuple[int, str]) -> None:
    """Make a number or text hostile where it lies; all that follows stays where it is read, but for cuts."""
    at, code = place
    order = "<" if data[1] & 1 else ">"
    if code == "text":
        (length,) = struct.unpack_from(order + "I", data, at)
        text = rng.choice(_TEXTS)
        text += b"x" * (-(len(text) + 1 - length) % 8) + b"\0"
        data[at : at + 4 + length] = struct.pack(order + "I", len(text)) + text
    elif code in "fd":
        (old,) = struct.unpack_from(order + code, data, at)
        number = rng.choice((*FLOATS, old * 1e6, -old, old / 1e6, old + 1e3))
        struct.pack_into(order + code, data, at, number if code == "d" else single(number))
    else:
        size = struct.calcsize(code)
        old = int.from_bytes(data[at : at + size], "little" if order == "<" else "big")
        number = rng.choice((*NUMBERS, old + 1, old - 1, old * 2, rng.getrandbits(8 * size))) % (
            1 << 8 * size
        )
        data[at : at + size] = number.to_bytes(size, "little" if order == "<" else "big")


def field_change(
    rng: random.Random, sample: RawMessage, avoid: str = "\0"
) -> Callable[[RawMessage], RawMessage]:
    """A change of one field, as defined, that fits all messages of the type; ``avoid`` is not in its name."""
    schema = short_name(sample.schema)
    layouts = _layouts(schema, sample.definition or definition(schema))
    path, field = _leaf(rng, layouts, schema)
    while avoid in field.name:
        path, field = _leaf(rng, layouts, schema)
    seed = rng.randrange(1 << 30)

    def change(message: RawMessage) -> RawMessage:
        own = random.Random(seed)
        try:
            values = _plain(read_dynamic(schema, layouts, message.data)[0])
            _set(own, values, path, field)
            return message._replace(data=encode(schema, values))
        except (KeyError, ValueError, DecodeError, struct.error):
            return message._replace(data=mutate_bytes(own, message.data))

    return change


_layouts = lru_cache(maxsize=64)(parse_definition)


def _leaf(rng: random.Random, layouts: Any, schema: str) -> tuple[tuple[str, ...], Field]:  # noqa: ANN401
    path: list[str] = []
    name = schema
    while True:
        field = rng.choice(layouts[name])
        path.append(field.name)
        if field.type in CODES or field.type == "string" or rng.random() < 0.05:
            return tuple(path), field
        name = field.type


def _plain(value: Any) -> Any:  # noqa: ANN401 - any message
    if isinstance(value, SimpleNamespace):
        return {name: _plain(each) for name, each in vars(value).items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [*map(_plain, value)] if isinstance(value, list) else value


def _set(rng: random.Random, values: Any, path: Sequence[str], field: Field) -> None:  # noqa: ANN401
    """Set the field at a path to something hostile, in every item of a sequence on the way or in one."""
    if isinstance(values, list):
        chosen = values if rng.random() < 0.3 else values[:1] if rng.random() < 0.5 else values[-1:]
        for each in chosen:
            _set(rng, each, path, field)
        return
    first, *rest = path
    if rest:
        _set(rng, values[first], rest, field)
        return
    old = values[first]
    if field.size is None:
        values[first] = _hostile(rng, field.type, old)
    elif isinstance(old, bytes):
        values[first] = _hostile_bytes(rng, old)
    else:
        values[first] = _hostile_list(rng, field, list(old))


def _hostile(rng: random.Random, kind: str, old: Any) -> Any:  # noqa: ANN401 - any field
    if kind == "string":
        return rng.choice(HOSTILE_TEXTS)
    if kind == "bool":
        return not old
    if kind.startswith("float"):
        number = rng.choice((*FLOATS, old * 1e6, -old, old / 1e6, old + 1e3))
        return number if kind == "float64" else single(number)
    if kind not in CODES:
        return old
    bits = 8 * struct.calcsize(CODES[kind])
    number = rng.choice((*NUMBERS, old + 1, old * 2, rng.randrange(1 << bits))) % (1 << bits)
    signed = not kind.startswith(("uint", "byte"))
    return number - (1 << bits) if signed and number >= 1 << (bits - 1) else number


def _hostile_bytes(rng: random.Random, old: bytes) -> bytes:
    if not old or rng.random() < 0.3:
        return mutate_bytes(rng, old)
    changed = bytearray(old)
    for _ in range(rng.choice((1, 3, 20, 200))):
        at = rng.randrange(len(changed)) & ~3
        changed[at : at + 4] = struct.pack("<f", single(rng.choice(FLOATS)))[: len(changed) - at]
    return bytes(changed)


def _hostile_list(rng: random.Random, field: Field, old: list[Any]) -> list[Any]:
    is_fixed = field.size is not None and field.size >= 0
    if not is_fixed and (not old or rng.random() < 0.3):
        return rng.choice((old[:0], old[:1], old * 2, old[: len(old) // 2], old * 50))
    if field.type not in CODES and field.type != "string":
        rng.shuffle(old)
        return old
    for n in range(len(old)) if rng.random() < 0.2 else [rng.randrange(len(old))]:
        old[n] = _hostile(rng, field.type, old[n])
    return old
