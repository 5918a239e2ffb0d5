"""Single messages of every type, with hostile fields or bytes, through what decodes them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from fuzzing import Target, UnexpectedError, mutate_bytes
from hostile_fields import field_change
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import Stamped
from edgefirst_ros.messages.definitions import definition
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.registry import DECODERS, decoder

SCHEMAS = sorted(DECODERS)
LONGEST_REASON = 300


def corpus() -> list[bytes]:
    """A byte that says which type it is, a byte that says whether its definition comes along, the message."""
    return [
        bytes((number, with_text)) + encode(schema, VALUES[schema], order)
        for number, schema in enumerate(SCHEMAS)
        for order in "<<>"
        for with_text in (0, 1)
    ]


def mutate(rng: random.Random, data: bytes) -> bytes:
    head, payload = data[:2], data[2:]
    schema = SCHEMAS[head[0]]
    if rng.random() < 0.6:
        try:
            name = schema.replace("/", "/msg/")
            message = RawMessage("/t", name, payload, 0, 0, 0, definition(schema))
            return head + field_change(rng, message)(message).data
        except (KeyError, ValueError, struct.error):
            pass
    return head + mutate_bytes(rng, payload)


def run(data: bytes, folder: Path) -> str:
    schema = SCHEMAS[data[0]]
    try:
        decoded = decoder(schema)(data[2:], definition(schema) if data[1] else "")
    except DecodeError as error:
        if not 0 < len(str(error)) < LONGEST_REASON or not str(error).isprintable():
            raise UnexpectedError(f"reason {str(error)!r}") from error
        return "refused"
    if not isinstance(decoded, Stamped) or not decoded.frame_id.isprintable():
        raise UnexpectedError(f"decoded to {decoded!r}")
    return "decoded"


PAYLOADS = Target("payloads", corpus, run, mutate, limit_s=20.0)
