"""Inertial measurements."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst.schemas import sensor_msgs

from edgefirst_ros.messages.cdr import decoder_of
from edgefirst_ros.messages.transform import unit_xyzw, xyz


@dataclass(frozen=True, slots=True)
class Imu:
    """Orientation, angular velocity and acceleration of the sensor (sensor_msgs/Imu).

    Attributes:
        orientation_xyzw: unit quaternion from the sensor's axes to ENU; None if zero or not finite.
        angular_velocity_rad_s: about the sensor's axes.
        linear_acceleration_m_s2: along the sensor's axes, with gravity.
    """

    orientation_xyzw: tuple[float, float, float, float] | None
    angular_velocity_rad_s: tuple[float, float, float]
    linear_acceleration_m_s2: tuple[float, float, float]


@decoder_of("sensor_msgs/Imu")
def decode_imu(message: sensor_msgs.Imu) -> Imu:
    """Decode a sensor_msgs/Imu.

    An ``orientation_covariance[0]`` of -1, which by the definition says that there is no orientation, is
    ignored: the device sends it with valid ones.
    """
    return Imu(
        orientation_xyzw=unit_xyzw(message.orientation),
        angular_velocity_rad_s=xyz(message.angular_velocity),
        linear_acceleration_m_s2=xyz(message.linear_acceleration),
    )
