"""JPEG and PNG files that come from a camera: their size, checked and passed through."""

from __future__ import annotations

from edgefirst_ros.codecs.png import SIGNATURE, chunks, read_header
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import CompressedImage
from edgefirst_ros.sample import CameraImage

_SOI, _EOI, _SOS, _FILL = 0xD8, 0xD9, 0xDA, 0xFF
_NOT_FRAME_HEADERS = frozenset({0xC4, 0xC8, 0xCC})
_FRAME_HEADER_SIZE = 8


def passthrough(image: CompressedImage) -> CameraImage:
    """The camera's own JPEG or PNG, unchanged, with its size.

    Raises:
        DecodeError: it is not a complete image of the stated format.
    """
    width, height = _jpeg_size(image.data) if image.format == "jpeg" else _png_size(image.data)
    return CameraImage(image.format, image.data, width, height)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height of a JPEG in pixels, from its frame header.

    Requires an end marker, but does not decode. Bytes after the end are allowed: camera drivers pad.

    Source: ITU-T T.81, annex B.

    Raises:
        DecodeError: it is no JPEG, contains no picture, or is cut short.
    """
    if data[:3] != bytes((0xFF, _SOI, 0xFF)):
        raise DecodeError("no JPEG")
    size: tuple[int, int] | None = None
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == _FILL:
            at += 1
            continue
        if marker == _SOS:
            if size is None or data.rfind(bytes((0xFF, _EOI))) < at:
                break
            return size
        if 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAME_HEADERS:
            size = _frame_size(data[at + 4 : at + 4 + _FRAME_HEADER_SIZE])
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    raise DecodeError("JPEG is damaged or cut short")


def still_size(image: CompressedImage) -> tuple[int, int] | None:
    """Width and height of a still image in pixels from its header, None if it has none."""
    try:
        if image.format == "jpeg":
            return _jpeg_size(image.data)
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
        DecodeError: it is no PNG, contains no picture, a checksum is wrong, or it is cut short.
    """
    try:
        kinds = {kind for kind, _, _ in chunks(data)}
    except DecodeError as error:
        raise DecodeError(
            "PNG is damaged or cut short" if data.startswith(SIGNATURE) else "no PNG"
        ) from error
    header = read_header(data)
    if header is None or not kinds >= {b"IHDR", b"IDAT"} or not all(header[:2]):
        raise DecodeError("PNG is damaged or cut short")
    return header[:2]
