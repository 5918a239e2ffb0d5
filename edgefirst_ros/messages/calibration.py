"""Intrinsics of a picture, also from a CameraInfo of another size; tiles of a picture by frame name."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from edgefirst_ros.messages.camera import CameraInfo

_SAME_ASPECT = 0.01
_MIDDLE = (0.25, 0.75)
_HALF_PIXEL = 0.5


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """Focal length and principal point of a picture.

    Attributes:
        focal_px: along x and y.
        principal_px: x and y from the top left corner of the first pixel. ROS counts from that pixel's
            centre, which gives half a pixel less.
        size: width and height of the picture.
        derived: how these were computed from a CameraInfo of other pictures; empty if it is of this picture.
        assumed: what was assumed in doing so; empty if nothing.
    """

    focal_px: tuple[float, float]
    principal_px: tuple[float, float]
    size: tuple[int, int]
    derived: str = ""
    assumed: str = ""


def picture_intrinsics(
    info: CameraInfo, size: tuple[int, int] | None = None, tile: Tile = ""
) -> Intrinsics | None:
    """The intrinsics of a picture; None if the CameraInfo has no focal length, or no size is known.

    ``k`` applies to the sensor's full resolution; region of interest and binning convert it to the picture
    that the camera takes. A picture of another size is a scaled one, or a tile.

    Args:
        info: the calibration in force.
        size: width and height of the picture; by default those of the picture that the camera takes.
        tile: which quarter of the camera's picture it is. Whether the CameraInfo is of the whole picture or
            of the tile shows in its principal point, which is near the middle or near a corner.
    """
    fx, fy, cx, cy = (float(info.k[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    if not (all(map(math.isfinite, (fx, fy, cx, cy))) and fx > 0 and fy > 0):
        return None
    taken, assumed = info.picture_size, ""
    if 0 in taken:
        if size is None or 0 in size:
            return None
        taken, assumed = size, "CameraInfo without a picture size, taken to be of this picture"
    size = size or taken
    (left, top), (across, down) = (info.roi or (0, 0))[:2], info.binning
    focal = (fx / across, fy / down)
    centre = ((cx + _HALF_PIXEL - left) / across, (cy + _HALF_PIXEL - top) / down)
    derived = []
    if info.roi or info.binning != (1, 1):
        if size == (info.width, info.height) != taken:
            taken, focal, centre = size, (fx, fy), (cx + _HALF_PIXEL, cy + _HALF_PIXEL)
            derived.append("its region of interest and binning are not of these pictures")
        else:
            derived.append("cut to its region of interest and binned")
    whole, offset = size, (0, 0)
    if tile and _in_middle(centre, taken):
        column, row = TILES[tile]
        whole, offset = (2 * size[0], 2 * size[1]), (column * size[0], row * size[1])
        derived.append(f"the quarter {tile} of the camera's picture")
    scale = (whole[0] / taken[0], whole[1] / taken[1])
    if whole != taken:
        derived.append(f"scaled from {taken[0]}x{taken[1]}")
        if abs(scale[0] / scale[1] - 1) > _SAME_ASPECT:
            assumed = (
                f"CameraInfo is of {taken[0]}x{taken[1]}, another aspect ratio than {whole[0]}x{whole[1]}; "
                "taken to be stretched"
            )
    return Intrinsics(
        (focal[0] * scale[0], focal[1] * scale[1]),
        (centre[0] * scale[0] - offset[0], centre[1] * scale[1] - offset[1]),
        size,
        ", ".join(derived),
        assumed,
    )


def _in_middle(centre: tuple[float, float], size: tuple[int, int]) -> bool:
    low, high = _MIDDLE
    return all(low < at / extent < high for at, extent in zip(centre, size, strict=True))


Tile = Literal["", "tl", "tr", "bl", "br"]

TILES: dict[Tile, tuple[int, int]] = {"tl": (0, 0), "tr": (1, 0), "bl": (0, 1), "br": (1, 1)}
"""Column and row of each quarter."""

_SUFFIX = re.compile(
    r"[_./-](?:tile[_./-]?)?(?:(top|upper|bottom|lower)[_./-]?(left|right)|([tb])[_./-]?([lr]))$",
    re.IGNORECASE,
)


def split_tile(frame_id: str) -> tuple[str, Tile]:
    """Split a frame name into the camera's frame and the tile; the tile is empty if the name has none.

    The device sends ``camera_optical_topleft``; ``_top_left``, ``_tl``, ``-tile-tl`` and the like are
    understood as well. Such a suffix may also tell where on the vehicle a camera is mounted: call this for
    unknown frames only.
    """
    found = _SUFFIX.search(frame_id)
    if found is None or not found.start():
        return frame_id, ""
    down, across = (found[1] or found[3]).lower(), (found[2] or found[4]).lower()
    name = ("t" if down[0] in "tu" else "b") + across[0]
    return frame_id[: found.start()], next(tile for tile in TILES if tile == name)
