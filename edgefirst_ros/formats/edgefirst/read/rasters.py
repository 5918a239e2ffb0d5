"""Outlines of masks that are stored as PNG: of one object, or of a class for each value."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from edgefirst_ros.codecs.pictures import check_size, open_picture
from edgefirst_ros.formats.masks import outline

Ring = npt.NDArray[np.float32]
_DEPTH_AT, _CHUNKS_AT = 24, 8
_MOST_PIXELS, _MOST_TRACED = 1 << 23, 1 << 28
"""Of a mask: 4K fits; and times its classes, as each outline is traced over the whole mask."""
_PIXELS = 0
"""The unit of an offset in pixels."""


def object_rings(png: bytes, size: list[int] | None) -> list[Ring]:
    """The outline of a mask of one object: pixels of at least half of the largest value are of it.

    So the vendor reads masks of two values, confidences and sigmoid scores. 0 and 1 in more than one bit
    are two values, too.

    Args:
        png: gray, of 1 to 16 bits.
        size: width and height of the picture in pixels, if known.

    Raises:
        ValueError: it is too large, or is a part of the picture whose size is not known.
        OSError: it is damaged.
    """
    values, largest = _values(png)
    if values.size and values.max() <= 1:
        largest = 1
    return _placed(outline(values.astype(np.uint32) * 2 > largest), values.shape, png, size)


def class_rings(png: bytes, size: list[int] | None) -> Iterator[tuple[int, list[Ring]]]:
    """Each value in a mask of classes, ascending, and its outline; see ``object_rings``."""
    values, _ = _values(png)
    classes = np.unique(values).tolist()
    check_size(values.shape[1], values.shape[0] * len(classes), _MOST_TRACED)
    for value in classes:
        yield value, _placed(outline(values == value), values.shape, png, size)


def _values(png: bytes) -> tuple[npt.NDArray[np.uint16], int]:
    """The values as they are stored, (height, width), and the largest that their bits can hold."""
    with open_picture(png) as image:
        check_size(*image.size, _MOST_PIXELS)
        bits = png[_DEPTH_AT]
        if image.mode in {"I;16", "I;16B", "I"}:
            return np.asarray(image).astype(np.uint16), 65535
        if image.mode in {"1", "P"}:
            return np.asarray(image).astype(np.uint16), (1 << bits) - 1
        gray = np.asarray(image.convert("L")).astype(np.uint16)
    if image.mode == "L" and bits < 8:  # Pillow stretches them to 8 bits
        largest = (1 << bits) - 1
        return gray // np.uint16(255 // largest), largest
    return gray, 255


def _placed(rings: list[Ring], shape: tuple[int, ...], png: bytes, size: list[int] | None) -> list[Ring]:
    """Rings of the raster as rings of the picture, of which it may be a part."""
    offset = _offset(png)
    if offset is None:
        return rings
    if size is None or not all(size):
        raise ValueError("it is a part of the picture, and the table has no size of that")
    pixels = np.array(shape[::-1], np.float64)
    return [((ring * pixels + offset) / size).astype(np.float32) for ring in rings]


def _offset(png: bytes) -> tuple[int, int] | None:
    """Where the raster begins in the picture (x, y in pixels), by its chunk oFFs; None if that is absent."""
    at = _CHUNKS_AT
    while at + 8 <= len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"oFFs" and length == 9 and at + 17 <= len(png):
            x, y, unit = struct.unpack_from(">iiB", png, at + 8)
            return (x, y) if unit == _PIXELS else None
        if kind == b"IDAT":
            return None
        at += 12 + length
    return None
