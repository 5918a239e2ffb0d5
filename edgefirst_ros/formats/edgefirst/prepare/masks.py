"""Segmentation masks as sent by models: per object or class, as polygons and as a full-image raster."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import contourpy
import numpy as np
import numpy.typing as npt

from edgefirst_ros.codecs.png import encode_gray
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.detection import Box, Mask

SCORE_THRESHOLD = 128
"""Instance masks are sigmoid scores, 0 to 255; from 0.5 on a pixel belongs to the object."""
BACKGROUND = 0
MAX_SIDE = 2048
"""Bound of a raster laid out for an instance mask, whose box may claim to be arbitrarily small."""

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outline:
    """One object's pixels.

    ``polygons`` are as Annotation has them; ``raster`` is (height, width) and covers the image.
    """

    polygons: tuple[str, ...]
    raster: Bits

    def png(self) -> str:
        """Base64 of the raster as a 1-bit grayscale PNG."""
        return base64.b64encode(encode_gray(self.raster)).decode()


def class_outlines(mask: Mask) -> Iterator[tuple[int, Outline]]:
    """The outline of each class of a full-image mask, by class index, ascending.

    With several channels they are class scores and the greatest wins (the lower class when equal); with
    one it holds class indices. Class 0 is background, as in the vendor's viewer.
    """
    classes = mask.mask.argmax(axis=2) if mask.mask.shape[2] > 1 else mask.mask[:, :, 0]
    for index in np.flatnonzero(np.bincount(classes.ravel())):
        if index != BACKGROUND:
            raster = classes == index
            yield int(index), Outline(_polygons(raster, (0, 0), raster.shape), raster)


def instance_outline(mask: Mask, box: Box) -> Outline | None:
    """The outline of a mask cropped to ``box``, laid out over the image at the mask's own resolution.

    Source: the vendor's model publisher: boxed masks are sigmoid scores of the box's region.

    Returns:
        None if no pixel inside the image belongs to the object.

    Raises:
        DecodeError: a mask of several channels, or without pixels.
    """
    rows, columns, channels = mask.mask.shape
    if channels != 1 or not rows or not columns:
        raise DecodeError(f"instance mask of shape {rows}×{columns}×{channels}")
    height, y, source_row = _layout(box.center_y, box.height, rows)
    width, x, source_column = _layout(box.center_x, box.width, columns)
    window = mask.mask[np.ix_(source_row, source_column)][:, :, 0] >= SCORE_THRESHOLD
    if not window.any():
        return None
    raster = np.zeros((height, width), np.bool_)
    raster[y : y + len(source_row), x : x + len(source_column)] = window
    return Outline(_polygons(window, (y, x), raster.shape), raster)


def _layout(center: float, extent: float, pixels: int) -> tuple[int, int, npt.NDArray[np.intp]]:
    """Length of the image's axis at the mask's resolution, first index inside the box, mask index of each."""
    length = max(1, min(MAX_SIDE, round(pixels / extent)))
    source = ((np.arange(length) + 0.5) / length - (center - extent / 2)) / extent * pixels
    inside = np.flatnonzero((source >= 0.0) & (source < pixels))
    first = int(inside[0]) if len(inside) else 0
    return length, first, source[inside].astype(np.intp)


def _polygons(window: Bits, origin: tuple[int, int], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Rings around the set pixels, holes included (readers fill by even-odd rule), normalised to the image.

    A ring runs midway between set and clear pixel centres, so it lies in 0..1 by construction.
    """
    padded = np.pad(window, 1).astype(np.float64)
    offset = np.array([origin[1], origin[0]], np.float64) - 0.5
    scale = np.array([shape[1], shape[0]], np.float64)
    lines = contourpy.contour_generator(z=padded, name="serial", line_type="Separate").lines(0.5)
    rings = []
    for line in lines:
        ring = (_corners(np.asarray(line)[:-1]) + offset) / scale
        rings.append(base64.b64encode(ring.astype("<f4").tobytes()).decode())
    return tuple(rings)


def _corners(ring: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ring without the points that lie on the straight line between their neighbours."""
    before = ring - np.roll(ring, 1, axis=0)
    after = np.roll(ring, -1, axis=0) - ring
    turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    corners: npt.NDArray[np.float64] = ring[turns != 0.0]
    return corners
