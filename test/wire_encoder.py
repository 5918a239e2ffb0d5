"""A CDR encoder of its own, driven by definition texts, so that tests can say any bytes in either order."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

from edgefirst_ros.model.definitions import definition

CODES = {
    "bool": "?",
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

FieldValue: TypeAlias = Any
"""What a field of a message may be given as."""
Types = dict[str, list[tuple[str, str]]]


class Encoder:
    """Appends values aligned as plain CDR asks, after the encapsulation header."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.body = bytearray()

    def put(self, code: str, *values: float) -> None:
        for value in values:
            self.body += bytes(-len(self.body) % struct.calcsize(code))
            self.body += struct.pack(self.order + code, value)

    def text(self, text: str) -> None:
        encoded = text.encode() + b"\0"
        self.put("I", len(encoded))
        self.body += encoded

    def data(self) -> bytes:
        return (b"\0\1\0\0" if self.order == "<" else b"\0\0\0\0") + bytes(self.body)


def encode(schema: str, values: dict[str, Any], order: str = "<") -> bytes:
    """CDR of nested dicts; a field that is left out is zero or empty."""
    encoder = Encoder(order)
    put_message(encoder, types_of(schema), schema, values)
    return encoder.data()


def types_of(schema: str) -> Types:
    """Kind and name of every field, by type, of a message and what it holds."""
    types: Types = {}
    name = schema
    for line in definition(schema).splitlines():
        if line.startswith("MSG: "):
            name = line[5:]
        elif not line.startswith("="):
            kind, field = line.split(" ")[:2]
            types.setdefault(name, []).append((kind, field))
    return types


def put_message(encoder: Encoder, types: Types, name: str, values: dict[str, Any]) -> None:
    """Append a message of nested dicts, by its types (see ``types_of``)."""
    unknown = set(values) - {field for _, field in types[name]}
    if unknown:
        raise KeyError(f"{name} has no {unknown}")
    for kind, field in types[name]:
        element, bracket, size = kind.partition("[")
        value = values.get(field)
        if not bracket:
            _single(encoder, types, element, value)
            continue
        items = list(value) if value is not None else [None] * int(size.rstrip("]") or 0)
        if size == "]":
            encoder.put("I", len(items))
        if element == "uint8":
            encoder.body += bytes(items)
        else:
            for item in items:
                _single(encoder, types, element, item)


def _single(encoder: Encoder, types: Types, kind: str, value: str | float | dict[str, Any] | None) -> None:
    if kind == "string":
        encoder.text(value or "")
    elif kind in CODES:
        encoder.put(CODES[kind], value or 0)
    else:
        put_message(encoder, types, kind, value or {})
