"""Inertial measurements."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst.schemas import sensor_msgs

from edgefirst_ros.messages.cdr import Stamped, decode_as
from edgefirst_ros.messages.transform import unit_xyzw, xyz


@dataclass(frozen=True, slots=True)
class Imu:
    """Orientation, rates and acceleration (sensor_msgs/Imu).

    ``orientation_xyzw`` is the unit quaternion body to ENU, or None where the message has none
    (zero or not finite). Rates in rad/s, acceleration in m/s² with gravity.
    """

    orientation_xyzw: tuple[float, float, float, float] | None
    angular_velocity_rad_s: tuple[float, float, float]
    linear_acceleration_m_s2: tuple[float, float, float]


def decode_imu(data: bytes, definition: str = "") -> Stamped[Imu]:
    """Decode a sensor_msgs/Imu.

    ``orientation_covariance[0] == -1`` does not remove the orientation: the device sends it with every
    valid one.

    Raises:
        DecodeError: the bytes are no such message.
    """
    return decode_as("sensor_msgs/Imu", data, definition, _imu)


def _imu(message: sensor_msgs.Imu) -> Imu:
    return Imu(
        orientation_xyzw=unit_xyzw(message.orientation),
        angular_velocity_rad_s=xyz(message.angular_velocity),
        linear_acceleration_m_s2=xyz(message.linear_acceleration),
    )
