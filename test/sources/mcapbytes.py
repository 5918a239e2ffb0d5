"""MCAP files assembled byte by byte, so that every field can say what no writer would."""

from __future__ import annotations

import struct

import lz4.frame
import zstandard

MAGIC = b"\x89MCAP0\r\n"
NOW_NS = 1_773_483_630_000_000_000


def text(value: str | bytes) -> bytes:
    encoded = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<I", len(encoded)) + encoded


def record(opcode: int, body: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(body)) + body


def schema(number: int, name: str | bytes, definition: bytes = b"string data") -> bytes:
    return record(3, struct.pack("<H", number) + text(name) + text("ros2msg") + text(definition))


def channel(number: int, of: int, topic: str | bytes) -> bytes:
    return record(4, struct.pack("<HH", number, of) + text(topic) + text("cdr") + struct.pack("<I", 0))


def message(of: int, data: bytes = b"\0\1\0\0", log_ns: int = NOW_NS, publish_ns: int | None = None) -> bytes:
    times = log_ns, log_ns if publish_ns is None else publish_ns
    return record(5, struct.pack("<HIQQ", of, 0, *times) + data)


def chunk(compression: str, packed: bytes, plain_size: int) -> bytes:
    head = struct.pack("<QQQI", NOW_NS, NOW_NS, plain_size, 0)
    return record(6, head + text(compression) + struct.pack("<Q", len(packed)) + packed)


BEGINNING = MAGIC + record(1, text("ros2") + text("by hand"))
END = record(15, struct.pack("<I", 0)) + record(2, struct.pack("<QQI", 0, 0, 0)) + MAGIC


def mcap(*records: bytes) -> bytes:
    """A whole file without a summary."""
    return BEGINNING + b"".join(records) + END


def compressed(compression: str, head: bytes, zeros: int) -> bytes:
    """A stream of ``head`` and MiB of zeros, made without holding them; it does not tell its size."""
    block = bytes(1 << 20)
    if compression == "zstd":
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join(
            [packer.compress(head), *(packer.compress(block) for _ in range(zeros)), packer.flush()]
        )
    lz = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return b"".join([lz.begin(), lz.compress(head), *(lz.compress(block) for _ in range(zeros)), lz.flush()])
