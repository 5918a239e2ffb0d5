"""What the estimate found, for users: refused fixes, restarts, an IMU that is mounted rotated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.ego.alignment import Alignment
from edgefirst_ros.ego.gate import Gate
from edgefirst_ros.ego.geometry import Quaternion, after, logarithm, quaternion

LEAST_COURSES = 5
LEAST_DEG = 3.0
SIGMAS = 4.0
TILTED_DEG = 20.0


@dataclass(frozen=True, slots=True)
class Mounting:
    """How an IMU is rotated against its configuration, from comparing its orientation with the course.

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
        return (
            f"{head}: it is mounted rotated, or its north is wrong; the rotations written are "
            f"as wrong. To correct them: ego.rig_from_imu_xyzw: [{x:.5f}, {y:.5f}, {z:.5f}, {w:.5f}]"
        )


def mounting(alignment: Alignment, rig_from_imu_xyzw: Quaternion | None) -> Mounting | None:
    """The IMU's mounting as the drive so far shows it; None if it may be as configured."""
    found = alignment.mounting
    if found is None or found[2] < LEAST_COURSES:
        return None
    axes, sigma_rad, _ = found
    rig_from_configured = axes.T
    whole_deg = math.degrees(float(np.linalg.norm(logarithm(rig_from_configured))))
    sigma_deg = math.degrees(sigma_rad)
    if whole_deg < max(LEAST_DEG, SIGMAS * sigma_deg):
        return None
    configured: Quaternion = (0.0, 0.0, 0.0, 1.0) if rig_from_imu_xyzw is None else rig_from_imu_xyzw
    mended = after(quaternion(rig_from_configured), configured)
    heading_deg = math.degrees(math.atan2(rig_from_configured[1, 0], rig_from_configured[0, 0]))
    tilt_deg = math.degrees(math.acos(max(-1.0, min(1.0, float(rig_from_configured[2, 2])))))
    return Mounting(mended, heading_deg, tilt_deg, whole_deg, sigma_deg)


def refused_text(count: int, gate_worst_m: float, worst_m_s: float) -> str:
    """A sentence on refused fixes."""
    speed = "" if math.isnan(worst_m_s) else f" ({worst_m_s:,.0f} m/s)"
    fixes = "1 fix was" if count == 1 else f"{count} fixes were"
    return f"{fixes} refused for contradicting the motion, the farthest by {gate_worst_m:,.1f} m{speed}"


def restart_text(gate: Gate) -> str:
    """A sentence on how often fixes disproved the estimated motion."""
    times = "once" if gate.restarts == 1 else f"{gate.restarts} times"
    return f"consistent fixes contradicted the estimated motion {times}: the position starts again from them"
