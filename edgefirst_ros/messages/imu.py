"""Inertial measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Imu:
    """Orientation, rates and acceleration (sensor_msgs/Imu).

    ``orientation_xyzw`` is the unit quaternion body to ENU, or None where the message has none
    (zero or not finite). Rates in rad/s, acceleration in m/s² with gravity.
    """

    orientation_xyzw: tuple[float, float, float, float] | None
    angular_velocity_rad_s: tuple[float, float, float]
    linear_acceleration_m_s2: tuple[float, float, float]
