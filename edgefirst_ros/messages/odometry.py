"""Odometry from nav_msgs/Odometry or from transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgefirst.schemas import nav_msgs

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import Stamped, decoder_of
from edgefirst_ros.messages.transform import (
    FARTHEST_M,
    FASTEST_RAD_S,
    LEAST_SIGMA,
    MOST_SIGMA,
    Transforms,
    bare,
    known,
    measured_unit,
    xyz,
)
from edgefirst_ros.naming import displayed

_UNKNOWN = (math.nan,) * 3
_FASTEST_M_S = 1e3
"""Three times the speed of sound."""


@dataclass(frozen=True, slots=True)
class Odometry:
    """Pose and velocity of a frame in the message's frame (nav_msgs/Odometry, or a transform).

    Attributes:
        child_frame_id: the frame that moves.
        position_m: x, y, z.
        orientation_xyzw: unit quaternion from the child's axes to the message's frame.
        linear_m_s: velocity along the child's axes; NaN from a transform, or if unknown.
        angular_rad_s: about the child's axes; NaN likewise.
        position_sigma_m: standard deviations along x, y, z; None if unknown.
        rotation_sigma_rad: standard deviations about x, y, z; None if unknown.
    """

    child_frame_id: str
    position_m: tuple[float, float, float]
    orientation_xyzw: tuple[float, float, float, float]
    linear_m_s: tuple[float, float, float]
    angular_rad_s: tuple[float, float, float]
    position_sigma_m: tuple[float, float, float] | None = None
    rotation_sigma_rad: tuple[float, float, float] | None = None


@decoder_of("nav_msgs/Odometry")
def decode_odometry(message: nav_msgs.Odometry) -> Odometry:
    """Decode a nav_msgs/Odometry; the quaternion is normalised, of covariances only the diagonal is used.

    Raises:
        DecodeError: no valid message of this type, or its pose is zero, not finite, not a rotation or
            impossibly far away, or its velocity impossibly high.
    """
    pose, twist = message.pose.pose, message.twist.twist
    turn = pose.orientation
    position = xyz(pose.position)
    orientation = measured_unit((float(turn.x), float(turn.y), float(turn.z), float(turn.w)))
    if orientation is None or not all(map(math.isfinite, position)):
        raise DecodeError("odometry pose is zero or not finite")
    if max(map(abs, position)) > FARTHEST_M:
        raise DecodeError("odometry position out of range")
    return Odometry(
        child_frame_id=displayed(str(message.child_frame_id)),
        position_m=position,
        orientation_xyzw=orientation,
        linear_m_s=known(xyz(twist.linear), _FASTEST_M_S, "a velocity in m/s"),
        angular_rad_s=known(xyz(twist.angular), FASTEST_RAD_S, "an angular velocity in rad/s"),
        position_sigma_m=_sigma([float(message.pose.covariance[index]) for index in (0, 7, 14)]),
        rotation_sigma_rad=_sigma([float(message.pose.covariance[index]) for index in (21, 28, 35)]),
    )


def odometry_of(transforms: Transforms, parent: str, child: str) -> Stamped[Odometry] | None:
    """The newest pose of ``child`` in ``parent`` among a message's transforms; None if there is none."""
    wanted = (bare(parent), bare(child))
    found = [
        (stamp_ns, each)
        for stamp_ns, each in zip(transforms.stamps_ns, transforms.transforms, strict=True)
        if (bare(each.parent), bare(each.child)) == wanted
    ]
    if not found:
        return None
    stamp_ns, newest = max(found, key=lambda each: each[0])
    odometry = Odometry(newest.child, newest.translation_m, newest.rotation_xyzw, _UNKNOWN, _UNKNOWN)
    return Stamped(stamp_ns, newest.parent, odometry)


def _sigma(variances: list[float]) -> tuple[float, float, float] | None:
    """Standard deviations; None if one is unknown: not positive, or beyond what any sensor can claim."""
    if not all(LEAST_SIGMA**2 <= variance <= MOST_SIGMA**2 for variance in variances):
        return None
    x, y, z = map(math.sqrt, variances)
    return x, y, z
