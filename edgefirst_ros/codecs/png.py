"""PNG: reading chunks and headers, and writing RGB and gray images, many times faster than libraries do.

Source: PNG third edition, clauses 5, 11.2 and 11.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgefirst_ros.codecs.zlib_backend import compress, crc32
from edgefirst_ros.errors import DecodeError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, RGB = 0, 2

_HEADER = struct.Struct(">IIBBBBB")
_FRAME_BYTES = 12
MOST_CHUNKS = 100_000
"""Of a picture; encoders write its pixels in pieces of 8 KiB and more."""
_FILTER_NONE, _FILTER_UP = 0, 2

GrayPixels = npt.NDArray[np.bool_] | npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


class PngHeader(NamedTuple):
    """Size in pixels, bits per sample and colour type."""

    width: int
    height: int
    depth: int
    colour: int


def read_header(data: bytes) -> PngHeader | None:
    """The header of a PNG; None if the data does not begin with one. Its checksum is not verified."""
    begin = len(SIGNATURE) + 8
    if not data.startswith(SIGNATURE) or len(data) < begin + 10:
        return None
    return PngHeader(*struct.unpack_from(">IIBB", data, begin))


def chunk(kind: bytes, data: bytes) -> bytes:
    """One PNG chunk: length, type, data, CRC over type and data."""
    return len(data).to_bytes(4, "big") + kind + data + crc32(data, crc32(kind)).to_bytes(4, "big")


def chunks(data: bytes, *, verify: bool = True) -> Iterator[tuple[bytes, int, int]]:
    """Type of every chunk up to IEND, and the offsets at which its data start and end.

    Args:
        data: the file; bytes after IEND are ignored.
        verify: whether to verify checksums.

    Raises:
        DecodeError: no PNG signature, a wrong checksum, too many chunks, or the file ends before IEND.
    """
    if not data.startswith(SIGNATURE):
        raise DecodeError("not a PNG")
    at, kind, view, count = len(SIGNATURE), b"", memoryview(data), 0
    while kind != b"IEND":
        count += 1
        if count > MOST_CHUNKS:
            raise DecodeError(f"PNG of more than {MOST_CHUNKS:,} chunks")
        if at + _FRAME_BYTES > len(data):
            raise DecodeError("PNG ends before its IEND")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise DecodeError(f"PNG ends inside {kind!r}")
        if verify and crc32(view[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise DecodeError(f"PNG chunk {kind!r} is damaged")
        yield kind, at + 8, end
        at = end + 4


def encode_rgb(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode pixels (height, width, 3) as an 8-bit RGB PNG.

    Raises:
        DecodeError: there are no pixels, which PNG cannot express.
    """
    height, width = pixels.shape[:2]
    flat = pixels.reshape(height, 3 * width)
    rows = np.empty((height, 1 + 3 * width), np.uint8)
    # Adjacent rows are similar: their difference compresses far better than the pixels, and is quick to make.
    rows[:, 0] = _FILTER_UP
    rows[:1, 1:] = flat[:1]
    np.subtract(flat[1:], flat[:-1], out=rows[1:, 1:])
    return _file(PngHeader(width, height, 8, RGB), rows, {})


def encode_gray(pixels: GrayPixels, text: Mapping[str, str] | None = None) -> bytes:
    """Encode pixels as a gray PNG with unfiltered rows, as filters do not help against sensor noise.

    Args:
        pixels: (height, width); bool is written with 1 bit, uint8 with 8 bits, uint16 with 16 bits.
        text: tEXt chunks before the image data, by keyword (1 to 79 characters); Latin-1.

    Raises:
        DecodeError: there are no pixels, which PNG cannot express.
    """
    height, width = pixels.shape
    depth, packed = _packed(pixels)
    rows = np.empty((height, 1 + packed.shape[1]), np.uint8)
    rows[:, 0] = _FILTER_NONE
    rows[:, 1:] = packed
    return _file(PngHeader(width, height, depth, GRAY), rows, text or {})


def _packed(pixels: GrayPixels) -> tuple[int, npt.NDArray[np.uint8]]:
    if pixels.dtype == np.bool_:
        return 1, np.packbits(pixels, axis=1)
    if pixels.dtype == np.uint8:
        return 8, pixels.astype(np.uint8, copy=False)
    big_endian = np.ascontiguousarray(pixels, ">u2").view(np.uint8)
    return 16, big_endian.reshape(len(pixels), 2 * pixels.shape[1])


def _file(header: PngHeader, rows: npt.NDArray[np.uint8], text: Mapping[str, str]) -> bytes:
    if not header.width or not header.height:
        raise DecodeError("image without pixels")
    parts = [SIGNATURE, chunk(b"IHDR", _HEADER.pack(*header, 0, 0, 0))]
    for keyword, value in text.items():
        parts.append(chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + value.encode("latin-1")))
    parts += [chunk(b"IDAT", compress(rows.data.cast("B"))), chunk(b"IEND", b"")]
    return b"".join(parts)
