"""Checks pictures by their headers: format, bit depth, size, EXIF time."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from edgefirst_ros.codecs.pictures import check_size, open_picture
from edgefirst_ros.codecs.png import GRAY, chunks, read_header
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.findings import Findings, reading

GRAY_DEPTHS: Mapping[str, tuple[int, ...]] = {"depth.png": (16,), "radar.png": (16,), "lidar.png": (8, 16)}
"""Allowed bits per pixel of the gray pictures."""

_EXIF_IFD, _TIME, _SUBSECOND, _OFFSET = 0x8769, 0x9003, 0x9291, 0x9011
_JPEG_END = b"\xff\xd9"
_END_WITHIN = 256


@dataclass(frozen=True, slots=True)
class PictureHeader:
    """Width and height in pixels, and the EXIF time in nanoseconds since 1970; None if there is none."""

    size: tuple[int, int]
    time_ns: int | None = None


@dataclass(slots=True)
class _Png:
    size: tuple[int, int]
    depth: int
    colour: int
    text: dict[str, str] = field(default_factory=dict)


def check_picture(kind: str, data: bytes, where: str, findings: Findings) -> PictureHeader | None:
    """Check structure and header of a picture; returns its header, None if it cannot be read."""
    with reading(findings, where, "picture"), warnings.catch_warnings():
        warnings.simplefilter("error")  # Pillow reports damaged EXIF as a warning
        if kind.endswith(".png"):
            png = read_png(data)
            check_size(*png.size)
            if kind in GRAY_DEPTHS and (png.colour != GRAY or png.depth not in GRAY_DEPTHS[kind]):
                found = f"colour type {png.colour}, {png.depth} bits"
                findings.error(where, "is not a gray PNG of the required bit depth", found)
            if kind == "radar.png":
                _check_grid(png, where, findings)
            if kind != "camera.png":
                return PictureHeader(png.size)
        return _check_image(kind, data, where, findings)
    return None


def read_png(data: bytes) -> _Png:
    """Size, bit depth, colour type and texts of a PNG, whose checksums are verified.

    Raises:
        DecodeError: it is not a PNG, incomplete or damaged.
    """
    found = None
    for name, start, end in chunks(data):
        if found is None:
            header = read_header(data)
            if name != b"IHDR" or end - start != 13 or header is None:
                raise DecodeError("PNG without IHDR")
            if not header.width or not header.height:
                raise DecodeError("PNG without pixels")
            found = _Png((header.width, header.height), header.depth, header.colour)
        elif name == b"tEXt":
            key, _, value = data[start:end].decode("latin-1").partition("\0")
            found.text[key] = value
    if found is None:
        raise DecodeError("PNG without IHDR")
    return found


def _check_grid(png: _Png, where: str, findings: Findings) -> None:
    """Compare the size of a radar.png with the cube's shape in its text."""
    if "shape" not in png.text:
        return
    shape = [int(part) for part in png.text["shape"].split(",")]
    if len(shape) != 4:
        raise ValueError(f"cube of shape {png.text['shape']}, expected sequence, rx, range, doppler")
    sequences, receivers, ranges, dopplers = shape
    if png.size != (receivers * dopplers * 2, sequences * ranges):
        found = f"{png.size[0]}x{png.size[1]} pixels, shape {png.text['shape']}"
        findings.error(where, "picture size does not match the radar cube's shape", found)


def _check_image(kind: str, data: bytes, where: str, findings: Findings) -> PictureHeader:
    wanted = "PNG" if kind.endswith("png") else "JPEG"
    if wanted == "JPEG" and _JPEG_END not in data[-_END_WITHIN:]:
        raise ValueError("JPEG ends before its end marker")
    with open_picture(data) as image:
        if image.format != wanted:
            raise ValueError(f"it is a {image.format}")
        if image.mode not in {"RGB", "L"}:
            findings.error(where, "picture is neither RGB nor gray", image.mode)
        if not kind.startswith("camera."):
            return PictureHeader(image.size)
        tags = image.getexif().get_ifd(_EXIF_IFD)
    text = [str(tags.get(tag, "")).strip("\0 ") for tag in (_TIME, _SUBSECOND, _OFFSET)]
    return PictureHeader(image.size, _time_ns(*text) if all(text) else None)


def _time_ns(when: str, subsecond: str, offset: str) -> int:
    """Nanoseconds since 1970 UTC.

    Raises:
        ValueError: the EXIF time is malformed.
    """
    if not re.fullmatch(r"\d{1,9}", subsecond):
        raise ValueError(f"EXIF time {when!r} with fraction {subsecond!r}")
    whole = datetime.strptime(when + offset, "%Y:%m:%d %H:%M:%S%z")
    return int(whole.timestamp()) * 10**9 + int(subsecond.ljust(9, "0"))
