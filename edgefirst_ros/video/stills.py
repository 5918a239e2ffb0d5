"""JPEG and PNG files that come from a camera: their size, checked and passed through."""

from __future__ import annotations

import hashlib
import re
import warnings
from io import BytesIO
from typing import NamedTuple

import simplejpeg
from PIL import Image

from edgefirst_ros.model.camera import CompressedImage
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import (
    MOST_PIXELS,
    SIGNATURE,
    SOS,
    chunks,
    jpeg_segments,
    read_header,
)
from edgefirst_ros.model.sample import CameraImage
from edgefirst_ros.video.pictures import look_at_jpeg

_SOI, _EOI = 0xD8, 0xD9
_NOT_FRAME_HEADERS = frozenset({0xC4, 0xC8, 0xCC})
_SEQUENTIAL = frozenset({0xC0, 0xC1})
_REMARKS = frozenset({*range(0xE0, 0xF0), 0xFE})
_FRAME_HEADER_SIZE = 8
_BLOCK_PIXELS = 64
"""A JPEG has a bit at least for so many pixels."""
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""Anything but the data of a scan and its restarts."""
_MOST_READABLE = 256
_readable: set[bytes] = set()
"""Hashes of headers of JPEGs that were decoded whole: others with the same can be, whatever their pixels."""


class _JpegHead(NamedTuple):
    """Size in pixels, whether it has but one plain scan, and a hash of the segments that decoding needs."""

    width: int
    height: int
    plain: bool
    segments: bytes


def passthrough(image: CompressedImage, *, looked_at: bool = False) -> CameraImage:
    """The camera's own JPEG or PNG, unchanged, with its size, and if it is a JPEG with its look.

    Raises:
        DecodeError: it is not a complete image of the stated format, or no reader could open it.
    """
    width, height = _jpeg_size(image.data) if image.format == "jpeg" else _png_size(image.data)
    look = look_at_jpeg(image.data) if looked_at and image.format == "jpeg" else None
    return CameraImage(image.format, image.data, width, height, look)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height of a JPEG in pixels, after checking that it can be decoded.

    Raises:
        DecodeError: it is not a JPEG, contains no picture, is cut short, or cannot be decoded.
    """
    head = _jpeg_head(data)
    width, height = head[:2]
    if width * height > min(MOST_PIXELS, 8 * _BLOCK_PIXELS * len(data)):
        raise DecodeError("JPEG declares more pixels than its bytes can hold")
    if not head.plain or head.segments not in _readable:
        _check_readable(data)
        if len(_readable) >= _MOST_READABLE:
            _readable.clear()
        _readable.add(head.segments)
    return width, height


def _check_readable(data: bytes) -> None:
    try:
        simplejpeg.decode_jpeg(data, "GRAY", fastdct=True, min_height=1, min_width=1)
    except ValueError:
        # Pillow reads more kinds of them, and passes over what is damaged here and there.
        _load(data, "JPEG")


def _load(data: bytes, form: str) -> None:
    try:
        # Opening it warns, too, of EXIF that nobody asked for.
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(BytesIO(data), formats=[form]) as opened,
        ):
            opened.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise DecodeError(f"{form} cannot be decoded") from error


def _jpeg_head(data: bytes) -> _JpegHead:
    """What precedes a JPEG's first scan.

    Requires an end marker, but does not decode. Bytes after the end are allowed: camera drivers pad.

    Source: ITU-T T.81, annex B.

    Raises:
        DecodeError: it is not a JPEG, contains no picture, or is cut short.
    """
    if data[:3] != bytes((0xFF, _SOI, 0xFF)):
        raise DecodeError("not a JPEG")
    size: tuple[int, int] | None = None
    sequential = True
    segments: list[bytes] = []
    for marker, start, end in jpeg_segments(data):
        if marker not in _REMARKS:
            segments.append(data[start:end])
        if marker == SOS:
            if size is None or data.rfind(bytes((0xFF, _EOI))) < start:
                break
            following = _MARKER.search(data, end)
            plain = sequential and following is not None and data[following.start() + 1] == _EOI
            # Whole headers of many pictures would fill the memory.
            return _JpegHead(*size, plain, hashlib.blake2b(b"".join(segments)).digest())
        if 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAME_HEADERS:
            size = _frame_size(data[start + 4 : start + 4 + _FRAME_HEADER_SIZE])
            sequential = marker in _SEQUENTIAL
    raise DecodeError("JPEG is damaged or cut short")


def still_size(image: CompressedImage) -> tuple[int, int] | None:
    """Width and height of a still image in pixels from its header, None if it has none."""
    try:
        if image.format == "jpeg":
            return _jpeg_head(image.data)[:2]
    except DecodeError:
        return None
    header = read_header(image.data)
    return header[:2] if header is not None and all(header[:2]) else None


def _frame_size(header: bytes) -> tuple[int, int]:
    height, width = int.from_bytes(header[1:3], "big"), int.from_bytes(header[3:5], "big")
    if not width or not height:
        raise DecodeError("JPEG without a size")
    return width, height


def _png_size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG in pixels, after checking every chunk.

    Source: PNG third edition, clause 5.

    Raises:
        DecodeError: it is not a PNG, contains no picture, a checksum is wrong, or it is cut short.
    """
    try:
        places = list(chunks(data))
    except DecodeError as error:
        raise DecodeError(
            "PNG is damaged or cut short" if data.startswith(SIGNATURE) else "not a PNG"
        ) from error
    header, kinds = read_header(data), {kind for kind, _, _ in places}
    if header is None or not kinds >= {b"IHDR", b"IDAT"} or not all(header[:2]):
        raise DecodeError("PNG is damaged or cut short")
    if header.width * header.height > MOST_PIXELS:
        raise DecodeError(f"PNG of more than {MOST_PIXELS >> 20} megapixels")
    if header.colour == 3 and b"PLTE" not in kinds:  # which Pillow reads
        raise DecodeError("PNG cannot be decoded")
    _load(data, "PNG")
    return header[:2]
