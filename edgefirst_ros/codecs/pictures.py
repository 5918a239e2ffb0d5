"""JPEG and PNG of others, whose sizes are looked at before memory is taken for their pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO

import simplejpeg
from PIL import Image

from edgefirst_ros.codecs.png import MOST_CHUNKS, chunks, read_header
from edgefirst_ros.errors import DecodeError

JPEG = b"\xff\xd8"
MOST_PIXELS = 48 << 20
"""Of a picture: 8000 x 6000 and 8K fit, and its pixels take less than half a gigabyte while it is decoded."""
SOS = 0xDA
"""Marker that begins a scan of a JPEG."""
_SCAN = b"\xff\xda"
_MARKER = re.compile(rb"\xff++(.)", re.DOTALL)
_BARE = frozenset({0x00, 0x01, *range(0xD0, 0xDA)})
"""Markers without a length, and a zero, which makes a byte of data of what looks like one."""
_MOST_STEPS = 1 << 16
"""Of a JPEG's header: segments, and bytes between them, of which there may be any number. Pillow goes over
them one by one: a megabyte, which packs to a kilobyte, takes half a second."""
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
        for _ in jpeg_segments(data):
            pass
    elif (header := read_header(data)) is not None:
        check_size(header.width, header.height)
        _check_chunks(data)
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


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker of each segment of a JPEG's header, and the offsets at which it starts and ends.

    The header of the first scan is the last; there is none if the data end before it, or something else than
    fill bytes lies between two segments.

    Raises:
        DecodeError: the header takes more steps than any.
    """
    at, steps = len(JPEG), 0
    while (found := _MARKER.match(data, at)) is not None:
        start, marker = found.end() - 2, found[1][0]
        steps += 1 + start - at
        if steps > _MOST_STEPS:
            raise DecodeError("JPEG whose header has no end")
        at = found.end()
        if marker not in _BARE:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
            yield marker, start, at
        if marker == SOS:
            return


def _check_chunks(data: bytes) -> None:
    """Refuse a PNG of more chunks than any has; of other damage its reader tells."""
    count = 0
    try:
        for _ in chunks(data, verify=False):
            count += 1
    except DecodeError:
        if count >= MOST_CHUNKS:
            raise
