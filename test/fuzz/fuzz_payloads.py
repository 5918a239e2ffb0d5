"""Single messages of every type, with hostile fields or bytes, through what decodes them."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from fuzzing import Target, UnexpectedError, mutate_bytes
from hostile_fields import change_place, field_change, places_of
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.registry import DECODERS, decoder
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import visible

SCHEMAS = sorted(DECODERS)
LONGEST_REASON = 300
REENCODED, IN_PLACE = 0.03, 0.7
"""Shares of cases that are encoded again, and, with those, that keep the layout of a message."""


def corpus() -> list[bytes]:
    """A byte that says which type it is, a byte that says whether its definition comes along, the message."""
    return [
        bytes((number, with_text)) + encode(schema, VALUES[schema], order)
        for number, schema in enumerate(SCHEMAS)
        for order in "<<>"
        for with_text in (0, 1)
    ]


@cache
def _places(schema: str, order: str) -> list[tuple[int, str]]:
    return places_of(schema, VALUES[schema], order)


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Hostile values where they are, mostly; other lengths of sequences, which takes longer; any bytes."""
    head, payload = data[:2], data[2:]
    schema = SCHEMAS[head[0]]
    way = rng.random()
    if way < REENCODED:
        message = RawMessage("/t", schema.replace("/", "/msg/"), payload, 0, 0, 0, definition(schema))
        return head + field_change(rng, message)(message).data
    if way > IN_PLACE:
        return head + mutate_bytes(rng, payload)
    changed = bytearray(payload)
    places = _places(schema, "<" if payload[1] else ">")
    # From the end on, as texts of other lengths move what is behind them.
    for place in sorted((rng.choice(places) for _ in range(rng.choice((1, 1, 2, 5)))), reverse=True):
        change_place(rng, changed, place)
    return head + bytes(changed)


def run(data: bytes, folder: Path) -> str:
    schema = SCHEMAS[data[0]]
    try:
        decoded = decoder(schema)(data[2:], definition(schema) if data[1] else "")
    except DecodeError as error:
        if not 0 < len(str(error)) < LONGEST_REASON or visible(str(error)) != str(error):
            raise UnexpectedError(f"reason {str(error)!r}") from error
        return "refused"
    if not isinstance(decoded, Stamped) or visible(decoded.frame_id) != decoded.frame_id:
        raise UnexpectedError(f"decoded to {decoded!r}")
    return "decoded"


PAYLOADS = Target("payloads", corpus, run, mutate, writes=False)
