"""What measures the motion of the rig: IMUs, satellite receivers, and odometry (or transforms)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import NamedTuple

from edgefirst.schemas import nav_msgs, sensor_msgs

from edgefirst_ros.model.cdr import Stamped, decoder_of, numbers_decoder_of
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.transform import (
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
from edgefirst_ros.model.untrusted import displayed

_STRONGEST_M_S2 = 4e3
"""400 g: shock sensors end there, and others far below."""


class Imu(NamedTuple):
    """Orientation, angular velocity and acceleration of the sensor (sensor_msgs/Imu).

    Attributes:
        orientation_xyzw: unit quaternion from the sensor's axes to ENU; None if zero or not finite.
        angular_velocity_rad_s: about the sensor's axes; NaN if unknown.
        linear_acceleration_m_s2: along the sensor's axes, with gravity; NaN likewise.
    """

    orientation_xyzw: tuple[float, float, float, float] | None
    angular_velocity_rad_s: tuple[float, float, float]
    linear_acceleration_m_s2: tuple[float, float, float]


def _imu(x: float, y: float, z: float, w: float, *rates_and_forces: float) -> Imu:
    roll, pitch, yaw, forward, left, up = rates_and_forces
    return Imu(
        orientation_xyzw=measured_unit((x, y, z, w)),
        angular_velocity_rad_s=known((roll, pitch, yaw), FASTEST_RAD_S, "an angular velocity in rad/s"),
        linear_acceleration_m_s2=known((forward, left, up), _STRONGEST_M_S2, "an acceleration in m/s²"),
    )


@numbers_decoder_of("sensor_msgs/Imu", struct.Struct("<4d72x3d72x3d72x"), _imu)
def decode_imu(message: sensor_msgs.Imu) -> Imu:
    """Decode a sensor_msgs/Imu.

    An ``orientation_covariance[0]`` of -1, which by the definition says that there is no orientation, is
    ignored: the device sends it with valid ones.

    Raises:
        DecodeError: no valid message of this type, its orientation is not a rotation, or no sensor measures
            its values.
    """
    turn = message.orientation
    return _imu(
        float(turn.x),
        float(turn.y),
        float(turn.z),
        float(turn.w),
        *xyz(message.angular_velocity),
        *xyz(message.linear_acceleration),
    )


@dataclass(frozen=True, slots=True)
class NavSatFix:
    """A position fix as sent, plausible or not (sensor_msgs/NavSatFix).

    Attributes:
        latitude_deg: WGS-84, north positive.
        longitude_deg: WGS-84, east positive.
        altitude_m: above the ellipsoid.
        status: as in sensor_msgs/NavSatStatus; -1 is no fix, -2 that the driver does not say.
        sigma_m: standard deviations east, north and up; None if unknown.
    """

    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    status: int
    sigma_m: tuple[float, float, float] | None = None

    @property
    def is_fix(self) -> bool:
        """Whether there is one by its status or, where the driver does not say, by its covariance."""
        return self.status >= 0 or (self.status == -2 and self.sigma_m is not None)


@decoder_of("sensor_msgs/NavSatFix")
def decode_navsat(message: sensor_msgs.NavSatFix) -> NavSatFix:
    """Decode a sensor_msgs/NavSatFix."""
    north, east, up = float(message.latitude), float(message.longitude), float(message.altitude)
    return NavSatFix(north, east, up, int(message.status.status), _position_sigma(message))


def _position_sigma(message: sensor_msgs.NavSatFix) -> tuple[float, float, float] | None:
    """From the covariance's diagonal; None if its type is unknown, or a variance not positive or absurd."""
    east, north, up = (float(message.position_covariance[index]) for index in (0, 4, 8))
    least, most = LEAST_SIGMA**2, MOST_SIGMA**2
    if int(message.position_covariance_type) == 0 or not all(least <= v <= most for v in (east, north, up)):
        return None
    return math.sqrt(east), math.sqrt(north), math.sqrt(up)


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
        position_sigma_m=_sigmas([float(message.pose.covariance[index]) for index in (0, 7, 14)]),
        rotation_sigma_rad=_sigmas([float(message.pose.covariance[index]) for index in (21, 28, 35)]),
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


def _sigmas(variances: list[float]) -> tuple[float, float, float] | None:
    """Standard deviations; None if one is unknown: not positive, or beyond what any sensor can claim."""
    if not all(LEAST_SIGMA**2 <= variance <= MOST_SIGMA**2 for variance in variances):
        return None
    x, y, z = map(math.sqrt, variances)
    return x, y, z
