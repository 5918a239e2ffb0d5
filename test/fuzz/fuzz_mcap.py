"""MCAP files with changed bytes: whatever is wrong with a file, what can be read of it is."""

from __future__ import annotations

import random
import struct
from io import BytesIO
from pathlib import Path

from fuzzing import NUMBERS, Target, UnexpectedError, mutate_bytes
from mcap.writer import CompressionType, Writer

from edgefirst_ros.config.model import build_config
from edgefirst_ros.errors import RecordingError
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.mcap import McapRecording

_RECORD = struct.Struct("<BQ")


def _file(compression: CompressionType, *, chunked: bool, messages: int) -> bytes:
    file = BytesIO()
    writer = Writer(file, chunk_size=2_000, compression=compression, use_chunking=chunked)
    writer.start(profile="ros2", library="fuzz")
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
    files = [_file(kind, chunked=True, messages=120) for kind in kinds]
    return [*files, _file(CompressionType.NONE, chunked=False, messages=30)]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Change any bytes, or the type or length of a record, or leave records out or repeat them."""
    if rng.random() < 0.4:
        return mutate_bytes(rng, data)
    changed = bytearray(data)
    at = rng.choice(_records(data))
    opcode, length = _RECORD.unpack_from(data, at)
    end = at + _RECORD.size + length
    what = rng.randrange(5)
    if what == 0:
        changed[at] = rng.randrange(256)
    elif what == 1:
        length = rng.choice((*NUMBERS, length - 1, length + 1, length * 2, (1 << 63) - 1, (1 << 64) - 1))
        _RECORD.pack_into(changed, at, opcode, length % (1 << 64))
    elif what == 2:
        del changed[at:end]
    elif what == 3:
        changed[at:at] = data[at:end] * rng.choice((1, 3, 50))
    else:
        inner = bytearray(mutate_bytes(rng, data[at + _RECORD.size : min(end, at + 60)]))
        changed[at + _RECORD.size : min(end, at + 60)] = inner
    return bytes(changed)


def _records(data: bytes) -> list[int]:
    """The offsets of a file's records."""
    places, at = [], 8
    while at + _RECORD.size <= len(data) - 8:
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


MCAP = Target("mcap", corpus, run, mutate, limit_s=20.0)
