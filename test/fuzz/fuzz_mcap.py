"""MCAP files with changed bytes: whatever is wrong with a file, what can be read of it is."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import lz4.frame
import zstandard
from fuzzing import NUMBERS, Target, UnexpectedError, mutate_bytes
from mcap.writer import CompressionType, Writer

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.mcap import McapRecording

_RECORD = struct.Struct("<BQ")
_CHUNK, _CHUNK_HEAD = 6, struct.Struct("<QQQII")
_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "lz4": lz4.frame.decompress,
    "zstd": zstandard.ZstdDecompressor().decompress,
}
_PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def _file(compression: CompressionType, *, chunked: bool, messages: int) -> bytes:
    file = BytesIO()
    writer = Writer(file, chunk_size=1_500, compression=compression, use_chunking=chunked)
    writer.start(profile="ros2", library="fuzz")
    writer.add_attachment(10**18, 10**18, "calibration.json", "application/json", b"{}")
    writer.add_metadata("edgefirst_ros", {"layout": "1", "dataset": "d", "sequence": "s", "host": "h"})
    schema = writer.register_schema("sensor_msgs/msg/Imu", "ros2msg", b"float64 x\n")
    channels = [writer.register_channel(topic, "cdr", schema) for topic in ("/imu", "/other")]
    for n in range(messages):
        data = b"\0\1\0\0" + bytes((n * k) % 256 for k in range(60))
        writer.add_message(channels[n % 2], 10**18 + n * 10**7, data, 10**18 + n * 10**7, n)
    writer.finish()
    return file.getvalue()


def corpus() -> list[bytes]:
    kinds = (CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD)
    files = [_file(kind, chunked=True, messages=60) for kind in kinds]
    return [*files, _file(CompressionType.NONE, chunked=False, messages=30)]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Change any bytes; or records, also within chunks whose checksum and compression stay right."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, data)
    at = rng.choice(_records(data, 8, len(data) - 8))
    opcode, length = _RECORD.unpack_from(data, at)
    if opcode == _CHUNK and rng.random() < 0.7:
        end = at + _RECORD.size + length
        return data[:at] + _rechunked(rng, data[at + _RECORD.size : end]) + data[end:]
    return _changed(rng, data, at)


def _rechunked(rng: random.Random, content: bytes) -> bytes:
    """A chunk record with a change in one of its records, or in what it says of itself."""
    start, end, size, crc, named = _CHUNK_HEAD.unpack_from(content)
    at = _CHUNK_HEAD.size + named
    kind = content[_CHUNK_HEAD.size : at].decode()
    records = _UNPACK[kind](content[at + 8 :])
    for _ in range(rng.choice((1, 1, 3))):
        if places := _records(records, 0, len(records)):
            records = _changed(rng, records, rng.choice(places))
    size, crc = len(records), zlib.crc32(records)
    way = rng.random()
    if way < 0.1:
        size = rng.choice((*NUMBERS, size - 1, size + 1, 1 << 40, (1 << 64) - 1))
    elif way < 0.15:
        crc ^= 1
    elif way < 0.25:
        start, end = rng.choice(((0, 0), (end, start), ((1 << 64) - 1, 0), (0, (1 << 64) - 1)))
    elif way < 0.3:
        kind = rng.choice(("", "lz4", "zstd", "bz2", "x" * 300))
    packed = _PACK.get(kind, bytes)(records)
    head = _CHUNK_HEAD.pack(start, end, size, crc, len(kind)) + kind.encode() + struct.pack("<Q", len(packed))
    return _RECORD.pack(_CHUNK, len(head) + len(packed)) + head + packed


def _changed(rng: random.Random, data: bytes, at: int) -> bytes:
    """Another type, length or content of the record at a place; or leave it out, or repeat it."""
    changed = bytearray(data)
    opcode, length = _RECORD.unpack_from(data, at)
    end = at + _RECORD.size + length
    what = rng.randrange(6)
    if what == 0:
        changed[at] = rng.choice((rng.randrange(256), rng.randrange(1, 16)))
    elif what == 1:
        length = rng.choice((*NUMBERS, length - 1, length + 1, length * 2, (1 << 63) - 1, (1 << 64) - 1))
        _RECORD.pack_into(changed, at, opcode, length % (1 << 64))
    elif what == 2:
        del changed[at:end]
    elif what == 3:
        changed[at:at] = data[at:end] * rng.choice((1, 3, 50))
    elif what == 4:
        number = rng.choice((*NUMBERS, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
        place = at + _RECORD.size + rng.choice((0, 2, 4, 6, 8, 14, 16))
        changed[place : place + 8] = number.to_bytes(8, "little")[: max(0, min(8, end - place))]
    else:
        inner = bytearray(mutate_bytes(rng, data[at + _RECORD.size : min(end, at + 60)]))
        changed[at + _RECORD.size : min(end, at + 60)] = inner
    return bytes(changed)


def _records(data: bytes, at: int, end: int) -> list[int]:
    """The offsets of the records in a part of a file, or in a chunk."""
    places = []
    while at + _RECORD.size <= end:
        places.append(at)
        at += _RECORD.size + int(_RECORD.unpack_from(data, at)[1])
    return places


def run(data: bytes, folder: Path) -> str:
    path = folder / "a.mcap"
    path.write_bytes(data)
    try:
        recording = McapRecording(path)
    except RecordingError:
        return "refused"
    recording.topics()
    first = [(m.topic, m.data, m.receive_ns, m.fault) for m in recording.messages()]
    for text in (*(fault.text for fault in recording.faults), *(topic for topic, *_ in first)):
        if not text.isprintable() or len(text) > 400:
            raise UnexpectedError(f"unprintable or endless: {text[:400]!r}")
    again = McapRecording(path)
    if first != [(m.topic, m.data, m.receive_ns, m.fault) for m in again.messages()]:
        raise UnexpectedError("read twice, it has other messages")
    found = inspect(McapRecording(path), build_config({}))
    if found["messages"] != len(first):
        raise UnexpectedError(f"{found['messages']} messages of {len(first)}")
    return "read" if not recording.faults else "damaged"


MCAP = Target("mcap", corpus, run, mutate)
