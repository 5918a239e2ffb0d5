"""What decodes the files of a sample: one table for datasets and their check, which cannot disagree."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from itertools import islice
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image
from PIL.ExifTags import IFD, Base

from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.read.local import ForkLock
from edgefirst_ros.formats.edgefirst.store.journal import FILES
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.pictures import JPEG, check_header, open_picture
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import Axis, RadarCube

_KINDS = {"F": "f", "U": "u", "I": "i"}
_DATA = re.compile(rb"^DATA[ \t]+(\w+)[ \t]*\r?\n", re.MULTILINE)
_LONGEST_HEADER, _MOST_FIELDS = 1 << 16, 256
_MOST_LINES = 1 << 20
"""Points in text, of which a million take a second; a sweep of the largest lidars has a quarter of that."""
_LINES_AT_ONCE = 1 << 14


def read_pcd(data: bytes) -> npt.NDArray[np.void]:
    """Read the points of a PCD file into a structured array (N,) with the fields of the file.

    Raises:
        ValueError: it is not a PCD file, packed, or shorter than its header says.
    """
    found = _DATA.search(data, 0, _LONGEST_HEADER)
    if found is None:
        raise ValueError("it is not a PCD file")
    fields = dict(
        line.split(maxsplit=1)
        for line in data[: found.start()].decode("ascii").splitlines()
        if len(line.split(maxsplit=1)) == 2
    )
    if missing := {"FIELDS", "TYPE", "SIZE"} - fields.keys():
        raise ValueError(f"its header has no {', '.join(sorted(missing))}")
    names = fields["FIELDS"].split()
    counts = [int(count) for count in fields.get("COUNT", "1 " * len(names)).split()]
    if len(names) > _MOST_FIELDS:
        raise ValueError(f"it has {len(names):,} fields")
    columns = list(zip(names, fields["TYPE"].split(), fields["SIZE"].split(), counts, strict=True))
    dtype = np.dtype(
        [
            (name, f"<{_KINDS[kind]}{size}", (count,) if count > 1 else ())
            for name, kind, size, count in columns
        ]
    )
    number = int(fields.get("POINTS", 0)) or prod(int(fields.get(side, 0)) for side in ("WIDTH", "HEIGHT"))
    body = data[found.end() :]
    if found[1] == b"binary":
        return np.frombuffer(body, dtype, number)
    if found[1] != b"ascii":
        raise ValueError(f"its points are {found[1].decode()}, neither binary nor ascii")
    return _of_text(body, dtype, number)


def _of_text(body: bytes, dtype: np.dtype[np.void], number: int) -> npt.NDArray[np.void]:
    """Points of which each is a line of numbers."""
    if not 0 <= number <= _MOST_LINES:
        raise ValueError(f"it has {number:,} points in text")
    lines = (line for line in BytesIO(body) if line.strip())
    points, done = np.zeros(number, dtype), 0
    while done < number and (some := list(islice(lines, min(_LINES_AT_ONCE, number - done)))):
        points[done : done + len(some)] = np.loadtxt(some, dtype, comments=None, ndmin=1, encoding="ascii")
        done += len(some)
    if done < number:
        raise ValueError(f"it has {done} points instead of {number}")
    return points


def positions(points: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    """x, y, z of points as (N, 3), in metres.

    Raises:
        ValueError: they have no such fields, or not numbers in them.
    """
    with np.errstate(invalid="ignore"):  # not every NaN is a quiet one
        return np.stack([points[axis].astype(np.float64) for axis in "xyz"], axis=-1)


_QUIET = ForkLock()
"""What is done with warnings is the same for all threads."""


def _quiet(data: bytes) -> Image.Image:
    """The picture, not decoded yet; Pillow warns of damaged EXIF, which says nothing."""
    with _QUIET, warnings.catch_warnings(action="ignore"):
        return open_picture(data)


def decode_picture(data: bytes) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """A JPEG or PNG as RGB (height, width, 3), of a damaged JPEG what Pillow still reads.

    A gray PNG of 16 bits is (height, width) uint16.

    Raises:
        ValueError: it is damaged, or has more pixels than any camera.
        OSError: it is damaged.
    """
    if data.startswith(JPEG):
        check_header(data)
        with suppress(ValueError):
            return strict_rgb(data)
    with _quiet(data) as image:
        if image.mode.startswith("I"):
            return np.array(image).astype(np.uint16)
        return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def strict_rgb(data: bytes) -> npt.NDArray[np.uint8]:
    """The same of a JPEG of plausible size without any damage.

    Raises:
        ValueError: the decoder has something to remark.
    """
    rgb: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGB")
    return rgb


def decode_gray(data: bytes) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """A gray JPEG (8 bits) or gray PNG (8 or 16 bits) as (height, width).

    Raises:
        ValueError: it is neither, or has more pixels than any camera.
        OSError: it is damaged.
    """
    with _quiet(data) as image:
        if image.mode == "L":
            return np.array(image, np.uint8)
        if image.mode in {"I;16", "I;16B", "I"}:
            return np.array(image).astype(np.uint16)
        raise ValueError(f"it is a picture of mode {image.mode}, not a gray one")


def taken_ns(data: bytes) -> int | None:
    """When a picture was taken by its EXIF, in nanoseconds since 1970 UTC; None if that does not say.

    Raises:
        ValueError, OSError: it is not a picture.
    """
    with _quiet(data) as image:
        return acquired_ns(image)


def acquired_ns(image: Image.Image) -> int | None:
    """The same of a picture that is open."""
    with _QUIET, warnings.catch_warnings(action="ignore"):
        tags = image.getexif().get_ifd(IFD.Exif)
    try:
        text, fraction = str(tags[Base.DateTimeOriginal]), str(tags[Base.SubsecTimeOriginal])
        if not re.fullmatch(r"\d{1,9}", fraction):
            return None
        offset = str(tags.get(Base.OffsetTimeOriginal, "+00:00"))
        taken = datetime.strptime(text + offset, "%Y:%m:%d %H:%M:%S%z")
        return int(taken.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))
    except (KeyError, ValueError, OverflowError):
        return None


def rasterise(rings: Iterable[npt.ArrayLike], height: int, width: int) -> npt.NDArray[np.bool_]:
    """The pixels of a mask (height, width): those whose centre is inside an odd number of its rings.

    Args:
        rings: outlines (P, 2) of x and y as fractions of the picture, as in ``sample["masks"]``.
        height: of the raster; any, not only that of the picture.
        width: likewise.
    """
    crossed = np.zeros((height, width + 1), np.int32)
    for ring in rings:
        corners = np.asarray(ring, np.float64) * (width, height) - 0.5  # whole numbers are centres of pixels
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            low, high = sorted((y0, y1))
            rows = np.arange(max(0, math.ceil(low)), min(height, math.ceil(high)))
            if len(rows):
                columns = np.ceil(x0 + (rows - y0) * (x1 - x0) / (y1 - y0)).clip(0, width).astype(np.intp)
                np.add.at(crossed, (rows, columns), 1)
    inside: npt.NDArray[np.bool_] = np.cumsum(crossed[:, :width], axis=1) % 2 == 1
    return inside


Axes = dict[str, npt.NDArray[np.float64]]


def decode_cube(data: bytes) -> tuple[npt.NDArray[np.complex64] | npt.NDArray[np.float32], Axes]:
    """A radar.png as an array with the axes of the message, and the place of each bin on each axis.

    Range bins begin at the radar; the middle Doppler bin (number bins ÷ 2) has speed 0, positive is receding.
    Bins of other axes are counted from 0. Where the file does not say how large a bin is, places are NaN.

    Raises:
        DecodeError: it is neither a radar.png of this package nor one of the vendor's layout.
    """
    found = read_cube(data)
    values = found.cube.astype(np.float32)
    array = values.view(np.complex64) if found.is_complex else values
    axes: Axes = {}
    for axis, bins, scale in zip(found.layout, array.shape, found.scales, strict=True):
        name, first = axis.name.lower(), bins // 2 if axis is Axis.DOPPLER else 0
        if name in axes:
            name = f"{name}_{len(axes)}"
        axes[name] = (np.arange(bins) - first) * (scale if axis in {Axis.RANGE, Axis.DOPPLER} else 1.0)
    return array, axes


_DECODED = {PointCloud: read_pcd, RadarCube: decode_cube, RawImage: decode_gray}
CAMERA = ("camera.jpeg", "camera.png", "camera.jpg", "jpeg", "jpg", "png")
"""The files of which a sample has one for its picture."""
DECODERS: Mapping[str, tuple[tuple[str, ...], Callable[[bytes], Any]]] = {
    "time_ns": (CAMERA, taken_ns),
    "image": (CAMERA, decode_picture),
    **{file.key: ((file.kind,), _DECODED[file.datum]) for file in FILES.values()},
}
"""By key, the files that it is in and what decodes them."""
