"""Inertial measurements."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst.schemas import sensor_msgs

from edgefirst_ros.messages.cdr import decoder_of
from edgefirst_ros.messages.transform import known_xyz, unit_xyzw

_FASTEST_RAD_S = 1e3
_STRONGEST_M_S2 = 1e5


@dataclass(frozen=True, slots=True)
class Imu:
    """Orientation, angular velocity and acceleration of the sensor (sensor_msgs/Imu).

    Attributes:
        orientation_xyzw: unit quaternion from the sensor's axes to ENU; None if zero or not finite.
        angular_velocity_rad_s: about the sensor's axes; NaN if not finite, or impossibly fast.
        linear_acceleration_m_s2: along the sensor's axes, with gravity; NaN likewise.
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
        angular_velocity_rad_s=known_xyz(message.angular_velocity, _FASTEST_RAD_S),
        linear_acceleration_m_s2=known_xyz(message.linear_acceleration, _STRONGEST_M_S2),
    )
