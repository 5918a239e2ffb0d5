"""Checks pictures and point clouds by their headers: format, size, fields, EXIF time, coordinates."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from edgefirst_ros.formats.edgefirst.prepare.clouds import RADAR_FIELDS
from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import GRAY, check_size, chunks, open_picture, read_header

_KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
_NUMPY = {"F": "f", "I": "i", "U": "u"}
_LONGEST_HEADER = 1 << 16


def check_pcd(kind: str, data: bytes, where: str, findings: Findings) -> None:
    """Check the PCD 0.7 header, the length of the data, x, y, z, and the first fields of radar clouds."""
    try:
        head, begin = _header(data)
        names, row = head["FIELDS"], _row(head)
        width, height, points = (int(head[key][0]) for key in ("WIDTH", "HEIGHT", "POINTS"))
    except (ValueError, KeyError, TypeError) as error:
        findings.error(where, "has no valid PCD 0.7 header", str(error))
        return
    if head["VERSION"][0] not in {"0.7", ".7"} or width * height != points:
        text = f"{head['VERSION'][0]}, {width}x{height}, {points} points"
        findings.error(where, "VERSION, WIDTH, HEIGHT and POINTS do not agree", text)
    if wrong := _wrong_length(head["DATA"][0], data, begin, row.itemsize, points):
        findings.error(where, "data length does not match the header", wrong)
        return
    if missing := [axis for axis in "xyz" if axis not in names]:
        findings.error(where, "point cloud without coordinates", ", ".join(missing))
        return
    if kind == "radar.pcd":
        _check_radar(names, row, where, findings)
    if head["DATA"][0] == "binary":
        table = np.frombuffer(data, row, points, begin)
        if not all(np.isfinite(table[str(names.index(axis))]).all() for axis in "xyz"):
            findings.error(where, "point coordinates are not finite")


def _header(data: bytes) -> tuple[dict[str, list[str]], int]:
    head: dict[str, list[str]] = {}
    at = 0
    while "DATA" not in head:
        end = data.find(b"\n", at, _LONGEST_HEADER)
        if end < 0:
            raise ValueError("no DATA line")
        key, *values = data[at:end].decode("ascii").split() or [""]
        at = end + 1
        if key and not key.startswith("#"):
            if key not in _KEYS or key in head:
                raise ValueError(f"{key} is unknown or repeated")
            head[key] = values
    if missing := [key for key in _KEYS if not head.get(key)]:
        raise ValueError(f"no {', '.join(missing)}")
    return head, at


def _row(head: dict[str, list[str]]) -> np.dtype[np.void]:
    """The dtype of a point; its fields are named by numbers, as names of the header may repeat."""
    scalars = list(zip(head["FIELDS"], head["TYPE"], head["SIZE"], head["COUNT"], strict=True))
    return np.dtype([
        (str(n), f"<{_NUMPY[letter]}{size}", (int(count),))
        for n, (_, letter, size, count) in enumerate(scalars)
    ])  # fmt: skip


def _wrong_length(coding: str, data: bytes, begin: int, each: int, points: int) -> str:
    """How the length of the data differs from the header; empty if it does not."""
    held, plain = len(data) - begin, each * points
    if coding == "binary":
        return "" if held == plain else f"{held:,} bytes, {points:,} points are {plain:,}"
    if coding == "binary_compressed":
        packed, unpacked = np.frombuffer(data, "<u4", 2, begin).tolist() if held >= 8 else (0, -1)
        sound = (packed, unpacked) == (held - 8, plain)
        return "" if sound else f"{unpacked:,} bytes, {points:,} points are {plain:,}"
    if coding == "ascii":
        lines = data.count(b"\n", begin) + (not data.endswith(b"\n"))
        return "" if lines == points else f"{lines:,} lines, {points:,} points"
    return f"unknown DATA {coding}"


def _check_radar(names: list[str], row: np.dtype[np.void], where: str, findings: Findings) -> None:
    single = np.dtype(("<f4", (1,)))
    first = tuple(names[: len(RADAR_FIELDS)])
    if first != RADAR_FIELDS or any(row[n] != single for n in range(len(RADAR_FIELDS))):
        findings.error(
            where, f"its first fields are not {' '.join(RADAR_FIELDS)} as float32", " ".join(first)
        )


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
        # A thermal camera's is gray of 16 bits, which some versions of Pillow call I.
        if image.mode not in ({"RGB", "L", "I;16", "I"} if kind == "camera.png" else {"RGB", "L"}):
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
