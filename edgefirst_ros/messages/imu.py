"""Inertial measurements."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from edgefirst.schemas import sensor_msgs

from edgefirst_ros.messages.cdr import numbers_decoder_of
from edgefirst_ros.messages.transform import FASTEST_RAD_S, known, measured_unit, xyz

_STRONGEST_M_S2 = 4e3
"""400 g: shock sensors end there, and others far below."""


@dataclass(frozen=True, slots=True)
class Imu:
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
