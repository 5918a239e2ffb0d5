"""Where objects are: 2-D boxes that come with a distance lie along the rays of their camera."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.camera import CameraInfo, picture_intrinsics
from edgefirst_ros.model.detection import Box
from edgefirst_ros.model.errors import DecodeError

Floats = npt.NDArray[np.float64]

CAMERA_FRAME = "camera_optical"
"""What the device calls the frame of model boxes, whose messages may name none."""
CUT = "box cut by the picture's edge"
_EDGE_PX = 1.5
_UNDISTORT_STEPS = 20
_WIDEST = 1e6
_RATIONAL = 8


def image_plane(info: CameraInfo, normalised: Floats) -> Floats:
    """Points of the picture as undistorted x / z and y / z in the optical frame.

    Args:
        info: the camera's calibration; its binning and region of interest are applied.
        normalised: (..., 2), 0..1 from the left and top edge.

    Raises:
        DecodeError: no focal length, or distortion of a model other than plumb_bob and rational_polynomial.
    """
    found = picture_intrinsics(info)
    if found is None:
        raise DecodeError("camera info without focal length or picture size")
    distorted: Floats = (normalised * found.size - found.principal_px) / found.focal_px
    return _undistorted(info, distorted)


def _undistorted(info: CameraInfo, distorted: Floats) -> Floats:
    """Invert the distortion by iteration, as every library does (there is no closed form)."""
    if not any(info.d):
        return distorted
    if info.distortion_model not in {"plumb_bob", "rational_polynomial"} or len(info.d) > _RATIONAL:
        raise DecodeError(f"distortion model {info.distortion_model} with {len(info.d)} coefficients")
    k1, k2, p1, p2, k3, k4, k5, k6 = (*info.d, *[0.0] * (_RATIONAL - len(info.d)))
    plane = distorted.copy()
    with np.errstate(all="ignore"):
        for _ in range(_UNDISTORT_STEPS):
            x, y = plane[..., 0], plane[..., 1]
            r2 = x * x + y * y
            radial = (1 + r2 * (k4 + r2 * (k5 + r2 * k6))) / (1 + r2 * (k1 + r2 * (k2 + r2 * k3)))
            dx = 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
            dy = p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
            plane = (distorted - np.stack([dx, dy], axis=-1)) * radial[..., None]
    if not (np.abs(plane) < _WIDEST).all():
        raise DecodeError("camera info with a distortion that cannot be inverted")
    return plane


def in_image_plane(boxes: Sequence[Box], info: CameraInfo) -> tuple[Floats, Floats]:
    """Middles and half sizes (N, 2) of a picture's boxes, as x / z and y / z in the optical frame.

    Raises:
        DecodeError: see ``image_plane``.
    """
    numbers = [(box.center_x, box.center_y, box.width, box.height) for box in boxes]
    center, size = np.split(np.array(numbers, np.float64).reshape(-1, 4), 2, axis=1)
    middle, low, high = image_plane(info, np.stack([center, center - size / 2, center + size / 2]))
    return middle, (high - low) / 2


def along_rays(boxes: Sequence[Box], info: CameraInfo) -> tuple[Floats, Floats, Floats]:
    """Rays (N, 3) through the middles of boxes, places (N, 3) on them, and widths and heights (N, 2) there.

    ``distance_m`` is taken as the length of the straight line from the camera's optical centre to the
    middle of the object. Width and height are what the box spans at that depth. All in the optical frame.

    Raises:
        DecodeError: see ``image_plane``.
    """
    plane, half = in_image_plane(boxes, info)
    rays = np.concatenate([plane, np.ones((len(plane), 1))], axis=1)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    distance = np.nan_to_num(np.array([box.distance_m for box in boxes], np.float64), posinf=0, neginf=0)
    places = rays * distance[:, None]
    return rays, places, 2 * half * places[:, 2:]


def not_placed(box: Box, info: CameraInfo | None) -> str:
    """Why a box of the picture has no place, empty if it has one; ``CUT`` if only its extent is wrong."""
    if not 0 < box.distance_m < math.inf:
        return "box without distance"
    half = box.width / 2
    width = info.picture_size[0] if info is not None else 0
    margin = _EDGE_PX / width if width else 0.0
    return CUT if box.center_x - half < margin or box.center_x + half > 1 - margin else ""


def moved(transform: Floats, points_m: Floats) -> Floats:
    """Points (..., 3) of the source frame in the target frame, by T_source_target (4, 4)."""
    result: Floats = points_m @ transform[:3, :3].T
    for axis in range(3):  # numpy is quick with long axes
        result[..., axis] += transform[axis, 3]
    return result


def yaw_of(rotations: Floats) -> Floats:
    """Yaw (...,) in radians of rotations (..., 3, 3): the heading of their x axis, as L5Kit takes it."""
    yaw: Floats = np.arctan2(rotations[..., 1, 0], rotations[..., 0, 0])
    return yaw


def wrapped(angles: Floats) -> Floats:
    """Angles in [-pi, pi)."""
    result: Floats = (angles + np.pi) % (2 * np.pi) - np.pi
    return result
