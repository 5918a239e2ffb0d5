"""Pictures and masks of samples as arrays, and when pictures were taken."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image
from PIL.ExifTags import IFD, Base

from edgefirst_ros.codecs.pictures import JPEG, check_header, open_picture
from edgefirst_ros.formats.edgefirst.read.forklock import ForkLock

_QUIET = ForkLock()
"""What is done with warnings is the same for all threads."""


def _quiet(data: bytes) -> Image.Image:
    """The picture, not decoded yet; Pillow warns of damaged EXIF, which says nothing."""
    with _QUIET, warnings.catch_warnings(action="ignore"):
        return open_picture(data)


def decode_rgb(data: bytes) -> npt.NDArray[np.uint8]:
    """A JPEG or PNG as RGB (height, width, 3); of a damaged JPEG what Pillow still reads.

    Raises:
        ValueError: it is damaged, or has more pixels than any camera.
        OSError: it is damaged.
    """
    if data.startswith(JPEG):
        check_header(data)
        with suppress(ValueError):
            return strict_rgb(data)
    with _quiet(data) as image:
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
