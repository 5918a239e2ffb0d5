"""Filled boxes and points as pixels, all at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import Floats

Image = npt.NDArray[np.float32]

_CORNERS = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, 0.5], [0.5, -0.5]])


def box_corners(centroid: Floats, extent: Floats, yaw: Floats) -> Floats:
    """Corners (N, 4, 2) of upright boxes seen from above, in order around each.

    Args:
        centroid: (N, 2).
        extent: (N, 2), length along and width across the heading.
        yaw: (N,).
    """
    c, s = np.cos(yaw), np.sin(yaw)
    local = _CORNERS * extent[:, None]
    turned = [c[:, None] * local[..., 0] - s[:, None] * local[..., 1]]
    turned.append(s[:, None] * local[..., 0] + c[:, None] * local[..., 1])
    corners: Floats = np.stack(turned, axis=-1) + centroid[:, None]
    return corners


def fill_quads(corners: Floats, layer: npt.NDArray[np.intp], shape: tuple[int, int, int]) -> Image:
    """Draw convex quadrilaterals: every pixel whose centre, a whole number, is not outside.

    On every row a convex outline covers one span, whose ends are where the row crosses its edges; the
    spans of all quadrilaterals and rows are found, and set, together.

    Args:
        corners: (N, 4, 2) in pixels, x then y, in order around each.
        layer: (N,), which layer each is drawn into.
        shape: layers, height, width.

    Returns:
        (layers, height, width), 0 and 1.
    """
    _, height, width = shape
    near = (corners.max(axis=1) >= 0).all(axis=1) & (corners.min(axis=1) <= [width - 1, height - 1]).all(
        axis=1
    )
    start, layer = corners[near], layer[near]
    end = np.roll(start, -1, axis=1)
    rows = np.arange(height)
    low, high = (pick(start[..., 1], end[..., 1])[..., None] for pick in (np.minimum, np.maximum))
    crossed = (low <= rows) & (rows <= high)
    rise = (end - start)[..., 1, None]
    share = np.divide(rows - start[..., 1, None], rise, out=np.zeros(crossed.shape), where=rise != 0)
    at = start[..., 0, None] + share * (end - start)[..., 0, None]
    first = np.ceil(np.where(crossed, at, np.inf).min(axis=1))
    last = np.floor(np.where(crossed, at, -np.inf).max(axis=1))
    quad, row = np.nonzero((first <= last) & (first < width) & (last >= 0))
    left = np.maximum(first[quad, row], 0).astype(np.intp)
    right = np.minimum(last[quad, row], width - 1).astype(np.intp)
    count = right - left + 1
    first_pixel = (layer[quad] * height + row) * width + left
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    image = np.zeros(shape, np.float32)
    image.reshape(-1)[np.repeat(first_pixel, count) + within] = 1.0
    return image


def mark_points(pixels: Floats, value: Floats, shape: tuple[int, int]) -> Image:
    """An image (height, width) with the greatest value of the points on each pixel; 0 where there is none.

    Args:
        pixels: (N, 2), x then y; whole numbers are centres of pixels.
        value: (N,), not negative.
        shape: height, width.
    """
    height, width = shape
    column, row = np.rint(pixels).astype(np.intp).T
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    image = np.zeros(height * width, np.float32)
    np.maximum.at(image, row[inside] * width + column[inside], value[inside].astype(np.float32))
    return image.reshape(height, width)
