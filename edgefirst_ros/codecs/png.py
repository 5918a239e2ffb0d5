"""PNG's framing, shared by everything that writes one."""

from __future__ import annotations

from edgefirst_ros.codecs.zlib_backend import crc32

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    """One PNG chunk: length, type, data, CRC over type and data."""
    return len(data).to_bytes(4, "big") + kind + data + crc32(data, crc32(kind)).to_bytes(4, "big")
