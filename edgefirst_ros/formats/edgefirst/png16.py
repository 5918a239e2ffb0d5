"""Grayscale PNG of 1, 8 or 16 bits, framed here because that is many times faster than a library."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgefirst_ros.codecs.png import SIGNATURE, chunk
from edgefirst_ros.codecs.zlib_backend import compress
from edgefirst_ros.errors import DecodeError

GRAY = 0

Pixels = npt.NDArray[np.bool_] | npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


def encode_gray(pixels: Pixels, text: Mapping[str, str] | None = None) -> bytes:
    """A PNG of colour type gray: signature, IHDR, tEXt in the order given, one IDAT, IEND.

    Rows are unfiltered (filter None): sensor noise gains nothing from the others.

    Args:
        pixels: (height, width); bool becomes 1 bit, uint8 8 bits, uint16 16 bits big-endian.
        text: tEXt entries, Latin-1; keywords of 1 to 79 characters.

    Raises:
        DecodeError: an image without pixels, which PNG cannot express.

    Source: PNG (ISO/IEC 15948), clauses 5, 11.2 and 11.3.4.3.
    """
    height, width = pixels.shape
    if not height or not width:
        raise DecodeError("image without pixels")
    depth, rows = _rows(pixels)
    raw = np.empty((height, 1 + rows.shape[1]), np.uint8)
    raw[:, 0] = 0
    raw[:, 1:] = rows
    chunks = [SIGNATURE, chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, GRAY, 0, 0, 0))]
    for keyword, value in (text or {}).items():
        chunks.append(chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + value.encode("latin-1")))
    chunks += [chunk(b"IDAT", compress(raw.data.cast("B"))), chunk(b"IEND", b"")]
    return b"".join(chunks)


def _rows(pixels: Pixels) -> tuple[int, npt.NDArray[np.uint8]]:
    if pixels.dtype == np.bool_:
        return 1, np.packbits(pixels, axis=1)
    if pixels.dtype == np.uint8:
        return 8, pixels.astype(np.uint8, copy=False)
    return 16, np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(len(pixels), -1)
