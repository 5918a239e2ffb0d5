"""Odometry of a robot that has some."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Odometry:
    """Pose of ``child_frame_id`` in the message's frame (nav_msgs/Odometry).

    Metres, unit quaternion, m/s, rad/s.
    """

    child_frame_id: str
    position_m: tuple[float, float, float]
    orientation_xyzw: tuple[float, float, float, float]
    linear_m_s: tuple[float, float, float]
    angular_rad_s: tuple[float, float, float]
