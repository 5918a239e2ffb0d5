"""Segmentation masks of objects or classes as polygons and as rasters of the whole image."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import contourpy
import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.detection import Box, Mask
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray

SCORE_THRESHOLD = 128
"""Instance masks are sigmoid scores of 0 to 255: pixels of 0.5 or more belong to the object."""
BACKGROUND = 0
MAX_SIDE = 2048
"""Largest width and height of the raster of an instance mask, whose box may be arbitrarily small."""

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outline:
    """The pixels of an object: polygons as in ``Annotation``, and a raster (height, width) of the image."""

    polygons: tuple[str, ...]
    raster: Bits

    def png(self) -> str:
        """The raster as a 1-bit gray PNG in base64."""
        return base64.b64encode(encode_gray(self.raster)).decode()


def class_outlines(mask: Mask) -> Iterator[tuple[int, Outline]]:
    """Class index and outline of each class in a mask of the whole image, ascending.

    Several channels are scores of the classes: a pixel belongs to the class with the highest, of equal ones
    to the lowest class. One channel has class indices. Class 0 is background, as in the vendor's viewer.
    """
    classes = mask.mask.argmax(axis=2) if mask.mask.shape[2] > 1 else mask.mask[:, :, 0]
    for index in np.flatnonzero(np.bincount(classes.ravel())):
        if index != BACKGROUND:
            raster = classes == index
            yield int(index), Outline(_polygons(raster, (0, 0), raster.shape), raster)


def instance_outline(mask: Mask, box: Box) -> Outline | None:
    """The outline of a mask that covers ``box``, in the image scaled to the mask's resolution.

    Source: the vendor's model publisher, whose masks of boxes are sigmoid scores of the box's region.

    Returns:
        None if no pixel inside the image belongs to the object.

    Raises:
        DecodeError: the mask has several channels, or no pixels.
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
    """The image's length at the mask's resolution, the first index in the box, the mask's index of each."""
    length = max(1, min(MAX_SIDE, round(pixels / extent)))
    source = ((np.arange(length) + 0.5) / length - (center - extent / 2)) / extent * pixels
    inside = np.flatnonzero((source >= 0.0) & (source < pixels))
    first = int(inside[0]) if len(inside) else 0
    return length, first, source[inside].astype(np.intp)


def _polygons(window: Bits, origin: tuple[int, int], shape: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(base64.b64encode(ring.tobytes()).decode() for ring in _rings(window, origin, shape))


def outline(raster: Bits) -> list[npt.NDArray[np.float32]]:
    """The polygons of a raster of the whole image, as rings (P, 2) of x and y."""
    return list(_rings(raster, (0, 0), raster.shape))


def _rings(
    window: Bits, origin: tuple[int, int], shape: tuple[int, ...]
) -> Iterator[npt.NDArray[np.float32]]:
    """Rings around pixels and holes (readers fill by the even-odd rule), normalised to the image.

    A ring runs halfway between the centres of pixels inside and outside, so it is always within 0..1.
    """
    padded = np.pad(window, 1).astype(np.float64)
    offset = np.array([origin[1], origin[0]], np.float64) - 0.5
    scale = np.array([shape[1], shape[0]], np.float64)
    lines = contourpy.contour_generator(z=padded, name="serial", line_type="Separate").lines(0.5)
    for line in lines:
        yield ((_corners(np.asarray(line)[:-1]) + offset) / scale).astype("<f4")


def _corners(ring: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ring without points on the straight line between their neighbours."""
    before = ring - np.roll(ring, 1, axis=0)
    after = np.roll(ring, -1, axis=0) - ring
    turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    corners: npt.NDArray[np.float64] = ring[turns != 0.0]
    return corners
