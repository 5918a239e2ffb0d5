"""JPEG and PNG of others, whose sizes are looked at before memory is taken for their pixels."""

from __future__ import annotations

from io import BytesIO

import simplejpeg
from PIL import Image

from edgefirst_ros.codecs.png import read_header

JPEG = b"\xff\xd8"
MOST_PIXELS = 48 << 20
"""Of a picture: 8000 x 6000 and 8K fit, and its pixels take less than half a gigabyte while it is decoded."""
_SCAN = b"\xff\xda"
_MOST_SCANNED = 1 << 29
"""Pixels times scans of a JPEG: each scan of a progressive one goes over all pixels, however short it is."""


def check_size(width: int, height: int, most: int = MOST_PIXELS) -> None:
    """Refuse a picture that would take all memory.

    Raises:
        ValueError: it has more pixels than any camera.
    """
    if width * height > most:
        raise ValueError(f"a picture of {width} x {height} pixels, more than {most:,}")


def check_header(data: bytes) -> None:
    """Refuse what is no picture of plausible size, by its header.

    Raises:
        ValueError: it is neither a JPEG nor a PNG, or has more pixels than any camera.
    """
    if data.startswith(JPEG):
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        check_size(width, height)
        check_size(width, height * max(1, data.count(_SCAN)), _MOST_SCANNED)
    elif (header := read_header(data)) is not None:
        check_size(header.width, header.height)
    else:
        raise ValueError("it is neither a JPEG nor a PNG")


def open_picture(data: bytes) -> Image.Image:
    """A JPEG or PNG of plausible size, not decoded yet; Pillow may warn of its EXIF.

    Raises:
        ValueError: see ``check_header``.
        OSError: it is damaged.
    """
    check_header(data)
    return Image.open(BytesIO(data), formats=("JPEG", "PNG"))
