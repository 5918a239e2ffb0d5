"""H.264 and H.265: headers, which pictures are intact, and decoding, of damaged and rearranged packets."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import av
from clips import STEP_NS, Shot, encode_shots, play, recipe
from fuzzing import Target, mutate_bytes

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.headers import can_start, content_of, escape, unescape
from edgefirst_ros.video.pictures import encode
from edgefirst_ros.video.stream import VideoStream

FRAMES = 14
SIZES = ((96, 64), (160, 96))
VARIANTS: dict[Codec, tuple[tuple[str, dict[str, str]], ...]] = {
    "h264": (
        ("h264-p", {"g": "6"}),
        ("h264-p", {"x264-params": "intra-refresh=1:slices=2"}),
        ("h264-pyramid", {"g": "6"}),
        ("h264-open", {}),
    ),
    "h265": (("h265-p", {}), ("h265-pyramid", {}), ("h265-open", {})),
}
_HEAD = struct.Struct("<iI")
_START = b"\x00\x00\x01"


def corpus(codec: Codec) -> list[bytes]:
    made = []
    for number, (name, changes) in enumerate(VARIANTS[codec]):
        encoder, options = recipe(name, **changes)
        size = SIZES[number % len(SIZES)]
        made.append(_packed(encode_shots(encoder, options, frames=FRAMES, size=size)))
    return made


def _packed(shots: Sequence[Shot]) -> bytes:
    """Packets, each behind its number in display order and its length."""
    return b"".join(_HEAD.pack(each.number, len(each.packet.data)) + each.packet.data for each in shots)


def _unpacked(codec: Codec, data: bytes) -> list[Shot]:
    shots, at = [], 0
    while at + _HEAD.size <= len(data):
        number, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        shots.append(Shot(number, VideoPacket(codec, data[at : at + length]), key=False))
        at += length
    return shots


def mutate(codec: Codec, rng: random.Random, data: bytes) -> bytes:
    shots = _unpacked(codec, data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        number = rng.randrange(len(shots))
        each = shots[number]
        way = rng.random()
        if way < 0.45:
            shots[number] = replace(each, packet=VideoPacket(codec, _changed_unit(rng, each.packet.data)))
        elif way < 0.6:
            shots[number] = replace(each, packet=VideoPacket(codec, mutate_bytes(rng, each.packet.data)))
        elif way < 0.7:
            del shots[number]
        elif way < 0.8:
            other = rng.randrange(len(shots))
            shots[number], shots[other] = replace(each, packet=shots[other].packet), shots[number]
        elif way < 0.9:
            shots[number] = replace(each, number=rng.choice((each.number + 1, -1, 0, 40, 1 << 20)))
        else:
            other_units = shots[rng.randrange(len(shots))].packet.data
            shots[number] = replace(each, packet=VideoPacket(codec, each.packet.data + other_units))
        if not shots:
            break
    return _packed(shots)


def _changed_unit(rng: random.Random, data: bytes) -> bytes:
    """Change the first bytes of a NAL unit, where its header is, below its emulation prevention."""
    units = data.split(_START)
    chosen = rng.randrange(1, len(units)) if len(units) > 1 else 0
    payload = unescape(units[chosen])
    length = rng.choice((2, 8, 24, 64))
    units[chosen] = escape(mutate_bytes(rng, payload[:length]) + payload[length:])
    return _START.join(units)


def run(codec: Codec, data: bytes, folder: Path) -> str:
    del folder
    av.logging.set_level(None)
    shots = [each for each in _unpacked(codec, data) if each.packet.data]
    for each in shots:
        can_start(each.packet)
        content_of(each.packet)
    # How many threads decode is in the input, so that the input alone says it all.
    stream = VideoStream("fuzz", workers=1 + len(data) % 2)
    try:
        played = play(stream, shots, lookahead_ns=8 * STEP_NS)
    except DecodeError:
        return "refused"
    finally:
        stream.close()
    for rgb in list(played.pictures.values())[:1]:
        from edgefirst_ros.video.pictures import Picture  # noqa: PLC0415

        encode(Picture(rgb), "jpeg")
    return "pictures" if played.pictures else "none"


def _target(codec: Codec) -> Target:
    return Target(codec, partial(corpus, codec), partial(run, codec), partial(mutate, codec))


H264, H265 = _target("h264"), _target("h265")
