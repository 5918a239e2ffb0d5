"""Changes of single fields of messages, by their definitions."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from fuzzing import FLOATS, NUMBERS, mutate_bytes, single
from wire_encoder import CODES, encode

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.definitions import definition, short_name
from edgefirst_ros.messages.dynamic import Field, parse_definition, read_dynamic
from edgefirst_ros.messages.measurement import RawMessage

HOSTILE_TEXTS = ("", "\0", "\x1b[2J", "a" * 300, "../../x", "\u202e", "camera_optical", "base_link", "[b]")


def field_change(rng: random.Random, sample: RawMessage) -> Callable[[RawMessage], RawMessage]:
    """A change of one field, as it is defined, that fits all messages of the type."""
    schema = short_name(sample.schema)
    layouts = parse_definition(schema, sample.definition or definition(schema))
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
