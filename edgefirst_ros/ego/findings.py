"""What the estimate found, for users: refused fixes, new beginnings, an IMU that is mounted rotated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Quaternion, after, quaternion
from edgefirst_ros.ego.graph import Node, Rolling

LEAST_COURSES = 5
COURSE_M_S, COURSE_NS = 3.0, 1_000_000_000
"""Courses are compared at this speed and distance in time: slower ones are as much slip and noise as way."""
LEAST_DEG = 3.0
SIGMAS = 4.0
TILTED_DEG = 20.0
LEAST_SIGMA_RAD = math.radians(0.5)


@dataclass(frozen=True, slots=True)
class Mounting:
    """How an IMU is rotated against its configuration, from comparing its axes with the course.

    ``rig_from_imu_xyzw`` would correct it; angles are in degrees.
    """

    rig_from_imu_xyzw: Quaternion
    heading_deg: float
    tilt_deg: float
    whole_deg: float
    sigma_deg: float

    @property
    def text(self) -> str:
        """A sentence for the user, with the line for the configuration."""
        x, y, z, w = self.rig_from_imu_xyzw
        off = f"{self.heading_deg:+.1f}° (±{self.sigma_deg:.1f}°)"
        head = f"the IMU's heading is {off} from the course over ground"
        if self.tilt_deg > TILTED_DEG:
            head = (
                f"the IMU's axes are rotated by {self.whole_deg:.0f}° (±{self.sigma_deg:.1f}°) from the rig's"
            )
        elif self.tilt_deg > max(LEAST_DEG, abs(self.heading_deg)):
            head = (
                f"the IMU is tilted by {self.tilt_deg:.1f}° (±{self.sigma_deg:.1f}°) against the way it moves"
            )
        return (
            f"{head}: it is mounted rotated, or its north is wrong; the rotations written are "
            f"as wrong. To correct them: ego.rig_from_imu_xyzw: [{x:.5f}, {y:.5f}, {z:.5f}, {w:.5f}]"
        )


class Courses:
    """Directions of travel and up in the axes of the rotations that are written."""

    def __init__(self) -> None:
        self._forward, self._up, self._count = np.zeros(3), np.zeros(3), 0
        self._last_ns: int | None = None

    def add(self, nodes: Sequence[Node], rolling: Rolling | None) -> None:
        """Take the courses of nodes that follow those before."""
        if rolling is None:
            return
        oriented = any(node.segment is not None and node.segment.orientation for node in nodes)
        for node in nodes:
            speed = float(np.linalg.norm(node.velocity_m_s))
            if speed < COURSE_M_S or node.segment is None or node.segment.quiet:
                continue
            if self._last_ns is not None and node.time_ns - self._last_ns < COURSE_NS:
                continue
            reading = node.segment.orientation
            if oriented and reading is None:
                continue
            self._last_ns = node.time_ns
            true = node.pose.rotation().matrix()
            ahead = true[:, 0] if rolling.travel is None else true @ rolling.travel[:, 0]
            course = node.velocity_m_s / math.copysign(speed, float(ahead @ node.velocity_m_s))
            written = true if reading is None else reading.matrix()
            forward, up = written.T @ course, written[2]
            up = up - (up @ forward) * forward
            self._forward, self._up = self._forward + forward, self._up + up / np.linalg.norm(up)
            self._count += 1

    def mounting(self, rig_from_imu_xyzw: Quaternion | None) -> Mounting | None:
        """The IMU's mounting as the drive so far shows it; None if it may be as configured."""
        if self._count < LEAST_COURSES:
            return None
        length = float(np.linalg.norm(self._forward)) / self._count
        scatter = math.sqrt(max(0.0, -2 * math.log(min(1.0, max(length, 1e-3)))))
        forward = self._forward / np.linalg.norm(self._forward)
        up = self._up - (self._up @ forward) * forward
        up = up / np.linalg.norm(up)
        rig_from_configured = np.stack([forward, np.cross(up, forward), up])
        whole_deg = math.degrees(float(np.linalg.norm(gtsam.Rot3.Logmap(gtsam.Rot3(rig_from_configured)))))
        sigma_deg = math.degrees(max(scatter / math.sqrt(self._count), LEAST_SIGMA_RAD))
        if whole_deg < max(LEAST_DEG, SIGMAS * sigma_deg):
            return None
        configured: Quaternion = (0.0, 0.0, 0.0, 1.0) if rig_from_imu_xyzw is None else rig_from_imu_xyzw
        mended = after(quaternion(gtsam.Rot3(rig_from_configured)), configured)
        heading_deg = math.degrees(math.atan2(rig_from_configured[1, 0], rig_from_configured[0, 0]))
        tilt_deg = math.degrees(math.acos(max(-1.0, min(1.0, float(rig_from_configured[2, 2])))))
        return Mounting(mended, heading_deg, tilt_deg, whole_deg, sigma_deg)


def refused_text(count: int, worst_m: float, worst_m_s: float) -> str:
    """A sentence on refused fixes."""
    speed = "" if math.isnan(worst_m_s) else f" ({worst_m_s:,.0f} m/s)"
    fixes = "1 fix was" if count == 1 else f"{count} fixes were"
    return f"{fixes} refused for contradicting the motion, the farthest by {worst_m:,.1f} m{speed}"


def restart_text(count: int) -> str:
    """A sentence on how often fixes disproved the estimated motion."""
    times = "once" if count == 1 else f"{count} times"
    return f"consistent fixes contradicted the estimated motion {times}: the position starts again from them"
