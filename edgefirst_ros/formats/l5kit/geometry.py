"""Rotations for placing detections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
