"""Quaternions as sent, made unit quaternions."""

from __future__ import annotations

import math

from edgefirst.schemas import geometry_msgs

_LEAST_NORM = 1e-9
FARTHEST_M = 1e8
"""No coordinate on earth is larger, in whatever frame; a larger one is damage, and overflows on the way."""


def unit_xyzw(quaternion: geometry_msgs.Quaternion) -> tuple[float, float, float, float] | None:
    """The unit quaternion of a geometry_msgs/Quaternion; None if it is zero or not finite.

    Devices send quaternions that are off by more than rounding, so the length is never trusted.
    """
    values = (float(quaternion.x), float(quaternion.y), float(quaternion.z), float(quaternion.w))
    norm = math.hypot(*values)
    if not _LEAST_NORM < norm < math.inf:
        return None
    x, y, z, w = values
    return x / norm, y / norm, z / norm, w / norm


def xyz(vector: geometry_msgs.Vector3 | geometry_msgs.Point) -> tuple[float, float, float]:
    """The components of a geometry_msgs/Vector3 or Point."""
    return float(vector.x), float(vector.y), float(vector.z)
