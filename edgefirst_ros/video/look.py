"""What a picture looks like, by a few of its pixels: how bright, how rich in contrast, how sharp."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import simplejpeg

from edgefirst_ros.codecs.zlib_backend import crc32
from edgefirst_ros.sample import Look

GRID = 128
"""Pixels along the longer side that brightness and contrast are taken from."""
FIELDS = (9, 16)
"""Rows and columns of the fields by which pictures are compared, so that coding noise averages out."""
CROP = 128
"""Pixels along a side of the middle, whose sharpness is the picture's."""
LIT = 24
"""Levels of 255 above which something can be seen: noise of a covered camera stays below."""
DARKEST, BRIGHTEST = 2, 253
"""Levels up to and from which a pixel is clipped; codecs miss 0 and 255 by as much."""


def look_at(luma: npt.NDArray[np.uint8]) -> Look:
    """Measure a picture's luma, (height, width), full range."""
    height, width = luma.shape
    step = max(1, max(height, width) // GRID)
    seen = np.ascontiguousarray(luma[step // 2 :: step, step // 2 :: step])
    top, left = max(0, (height - CROP) // 2), max(0, (width - CROP) // 2)
    middle = luma[top : top + CROP, left : left + CROP].astype(np.int16)
    steps = np.abs(np.diff(middle, axis=1))
    return Look(
        luminance=round(float(seen.mean()), 2),
        contrast=round(float(seen.std()), 2),
        sharpness=round(float(steps.mean()), 3) if steps.size else 0.0,
        clipped=round(float(((seen <= DARKEST) | (seen >= BRIGHTEST)).mean()), 4),
        lit=round(float((seen > LIT).mean()), 4),
        fingerprint=crc32(seen),
        thumb=_thumb(seen),
    )


def _thumb(seen: npt.NDArray[np.uint8]) -> bytes:
    rows, columns = (size // fields for size, fields in zip(seen.shape, FIELDS, strict=True))
    if not rows or not columns:
        return b""
    fields = seen[: rows * FIELDS[0], : columns * FIELDS[1]].reshape(FIELDS[0], rows, FIELDS[1], columns)
    return bytes(fields.mean(axis=(1, 3)).astype(np.uint8).tobytes())


def look_at_jpeg(data: bytes) -> Look | None:
    """Measure a JPEG by the mean of each block of 8 pixels; None if it is not of the common kind."""
    try:
        blocks = simplejpeg.decode_jpeg(data, "GRAY", fastdct=True, min_height=1, min_width=1)
    except ValueError:
        return None
    return look_at(blocks[:, :, 0])
