"""CBOR in xz, made piece by piece so that large tables never exist as a whole."""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterable, Iterator

import cbor2

ARRAY = 4
MAP = 5
# The default preset takes 94 MB while it compresses; this one takes 4 MB and a tenth of the time.
_PRESET = 1


def cbor_head(major: int, count: int) -> bytes:
    """Head of a CBOR array or map of ``count`` items (RFC 8949, 3)."""
    if count < 24:
        return bytes([major << 5 | count])
    for code, kind, limit in ((24, "B", 8), (25, "H", 16), (26, "I", 32)):
        if count < 1 << limit:
            return bytes([major << 5 | code]) + struct.pack(f">{kind}", count)
    return bytes([major << 5 | 27]) + struct.pack(">Q", count)


def cbor_array(count: int, items: Iterable[object]) -> Iterator[bytes]:
    """A CBOR array of ``count`` items in pieces."""
    yield cbor_head(ARRAY, count)
    for item in items:
        yield cbor2.dumps(item)


def xz(pieces: Iterable[bytes]) -> bytes:
    """The pieces, joined, as one xz stream."""
    compressor = lzma.LZMACompressor(lzma.FORMAT_XZ, preset=_PRESET)
    packed = bytearray()
    pending = bytearray()
    for piece in pieces:
        pending += piece
        if len(pending) >= 1 << 16:
            packed += compressor.compress(bytes(pending))
            pending.clear()
    packed += compressor.compress(bytes(pending))
    packed += compressor.flush()
    return bytes(packed)


def unxz(data: bytes) -> object:
    """What ``xz`` of one CBOR item holds.

    Raises:
        ValueError: not xz, or not CBOR.
    """
    try:
        return cbor2.loads(lzma.decompress(data, lzma.FORMAT_XZ))
    except (lzma.LZMAError, EOFError, cbor2.CBORError) as error:
        raise ValueError(f"{len(data)} bytes are no xz of CBOR: {error}") from error
