"""The lidar's points of a sequence as one cloud: thinned to a point a voxel, and coloured by pictures."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.corpus.survey import View
from edgefirst_ros.formats.scene import Points, in_colour
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.pictures import open_picture

Colours = npt.NDArray[np.uint8]

MOST_POINTS = 2_000_000
"""Of a cloud; beyond, voxels grow: trainers of splats take a million or so as their beginning."""
_PENDING = 4_000_000
"""Points that wait for being thinned: 112 MB."""
_GRAY = 128
_NEAREST_M = 0.1
_LIMIT = 1 << 20
"""Voxels from the origin to either side that a key can tell apart: 100 km of 10 cm."""


def projected(points: Points, lens: Intrinsics) -> Points:
    """Pixels (N, 2), counted from the corner, of points (N, 3) in a camera's frame; NaN behind it.

    Source: OpenCV, calib3d: the pinhole model with 12 coefficients, and the fisheye model.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x, y = (
            points[:, axis] / np.where(points[:, 2] > _NEAREST_M, points[:, 2], np.nan) for axis in (0, 1)
        )
        r2 = x * x + y * y
        coefficients = (*lens.distortion, *(0.0,) * 12)[:12]
        if lens.is_fisheye:
            k1, k2, k3, k4 = coefficients[:4]
            r = np.sqrt(r2)
            t = np.arctan(r)
            t2 = t * t
            bent = np.where(r > 0, t * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))) / r, 1.0)
            x, y = x * bent, y * bent
        else:
            k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = coefficients
            bent = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
            x, y = (
                x * bent + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + r2 * (s1 + r2 * s2),
                y * bent + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + r2 * (s3 + r2 * s4),
            )
    return np.stack([x, y], axis=-1) * lens.focal_px + lens.principal_px


class ColouredCloud:
    """Takes views and points in order of time, see ``Survey``.

    Points have the colour that the last picture of a camera shows at them, what sees none is gray. Nothing
    is known of what hides what, which matters little for points that were seen from near the camera.

    Args:
        voxel_m: edge of the cubes of each of which the first point is kept.
    """

    def __init__(self, voxel_m: float) -> None:
        self._voxel_m = voxel_m
        self._points: list[Points] = []
        self._colours: list[Colours] = []
        self._waiting = 0
        self._last: dict[str, View] = {}
        self._decoded: dict[str, tuple[View, Colours]] = {}

    def see(self, view: View) -> None:
        """Take a picture."""
        self._last[view.camera] = view

    def add(self, points: Points) -> None:
        """Take points (N, 3) in the world."""
        points = points[np.isfinite(points).all(axis=1)]
        first = self._firsts(points)
        points = points[first]
        self._points.append(points)
        self._colours.append(self._coloured(points))
        self._waiting += len(points)
        if self._waiting > _PENDING:
            self._thin()

    def result(self) -> tuple[Points, Colours]:
        """Points (N, 3), and red, green, blue (N, 3)."""
        self._thin()
        return self._points[0], self._colours[0]

    def _firsts(self, points: Points) -> npt.NDArray[np.intp]:
        cells = np.floor(points / self._voxel_m).clip(-_LIMIT, _LIMIT - 1).astype(np.int64) + _LIMIT
        keys = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
        return np.sort(np.unique(keys, return_index=True)[1])

    def _thin(self) -> None:
        points = np.concatenate([np.empty((0, 3)), *self._points])
        colours = np.concatenate([np.empty((0, 3), np.uint8), *self._colours])
        first = self._firsts(points)
        while len(first) > MOST_POINTS:
            self._voxel_m *= 1.5
            first = self._firsts(points)
        self._points, self._colours, self._waiting = [points[first]], [colours[first]], 0

    def _coloured(self, points: Points) -> Colours:
        colours = np.full((len(points), 3), _GRAY, np.uint8)
        for camera, view in self._last.items():
            turned = view.T_camera_world[:3, :3]
            pixels = projected((points - view.T_camera_world[:3, 3]) @ turned, view.lens)
            with np.errstate(invalid="ignore"):
                on = ((pixels >= 0) & (pixels < view.lens.size)).all(axis=1)
            if on.any():
                column, row = pixels[on].astype(np.intp).T
                colours[on] = self._pixels(camera, view)[row, column]
        return colours

    def _pixels(self, camera: str, view: View) -> Colours:
        known = self._decoded.get(camera)
        if known is None or known[0] is not view:
            known = self._decoded[camera] = view, np.asarray(in_colour(open_picture(view.data)), np.uint8)
        return known[1]


def ply(points: Points, colours: Colours) -> bytes:
    """A binary PLY file of a cloud."""
    rows = np.empty(
        len(points), [(axis, "<f4") for axis in "xyz"] + [(c, "u1") for c in ("red", "green", "blue")]
    )
    for number, axis in enumerate("xyz"):
        rows[axis] = points[:, number]
    for number, colour in enumerate(("red", "green", "blue")):
        rows[colour] = colours[:, number]
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    header += [f"property float {axis}" for axis in "xyz"]
    header += [f"property uchar {colour}" for colour in ("red", "green", "blue")]
    file = BytesIO()
    file.write("\n".join([*header, "end_header", ""]).encode())
    file.write(rows.tobytes())
    return file.getvalue()


def inverted(png: bytes) -> Image.Image:
    """A mask of the vehicle as masks of reconstructions are: black where nothing is to be used."""
    mask = np.asarray(open_picture(png).convert("L"))
    return Image.fromarray(np.where(mask == 0, 255, 0).astype(np.uint8))
