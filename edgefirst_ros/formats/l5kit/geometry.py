"""Rotations and camera rays for placing detections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.camera import CameraInfo, picture_intrinsics
from edgefirst_ros.model.errors import DecodeError

Floats = npt.NDArray[np.float64]

_UNDISTORT_STEPS = 20
_WIDEST = 1e6
_RATIONAL = 8


def moved(transform: Floats, points_m: Floats) -> Floats:
    """Points (..., 3) of the source frame in the target frame, by T_source_target (4, 4)."""
    result: Floats = points_m @ transform[:3, :3].T + transform[:3, 3]
    return result


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


def yaw_of(rotations: Floats) -> Floats:
    """Yaw (...,) in radians of rotations (..., 3, 3): the heading of their x axis, as L5Kit takes it."""
    yaw: Floats = np.arctan2(rotations[..., 1, 0], rotations[..., 0, 0])
    return yaw


def wrapped(angles: Floats) -> Floats:
    """Angles in [-pi, pi)."""
    result: Floats = (angles + np.pi) % (2 * np.pi) - np.pi
    return result
