"""Satellite fixes that are refused by themselves: no position, doubled, frozen, out of reach.

What the estimate found, for users: refused fixes, new beginnings, an IMU that is mounted rotated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import gtsam
import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.geometry import Floats, Quaternion, Vector, ecef_m, quaternion, rot3
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.model.navigation import NavSatFix
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import GeoPoint

EPOCH_NS = 75_000_000
"""A fix that follows an accepted one by less than this is of the same epoch.

Receivers send an epoch twice, about 40 ms apart. Epochs of 10 Hz and less are at least 100 ms apart, so
times tell them apart with room for jitter on both sides; positions do not, because a parked car has the
same one at every epoch. A receiver faster than 13 Hz is thinned.
"""
SAME_M = 10.0
"""Messages of one epoch further apart than this contradict each other."""


_LOWEST_M, _HIGHEST_M = -12_000.0, 100_000.0
FASTEST_M_S, SLACK_M = 100.0, 8.0

JudgedFix = tuple[int, str | None]
"""Running number of a fix's message, and why it is refused; None if it is accepted."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix with a valid position: when, number of its message, place, and declared standard deviations."""

    time_ns: int
    arrival: int
    point: GeoPoint
    ecef: Vector
    sigma_m: Vector | None


def judged(time_ns: int, arrival: int, fix: NavSatFix, last_altitude_m: float) -> Fix | str:
    """The fix if it has a valid position, or the reason why it is refused.

    A fix without an altitude, which drivers send as NaN, takes the last one.
    """
    altitude_m = last_altitude_m if math.isnan(fix.altitude_m) else fix.altitude_m
    if not fix.is_fix:
        return Reason.NO_FIX
    # With such a standard deviation a receiver says that it does not know its place.
    if fix.sigma_m is not None and max(fix.sigma_m) > 1000.0:
        return Reason.CONTRADICTORY_FIX
    if not all(map(math.isfinite, (fix.latitude_deg, fix.longitude_deg, altitude_m))):
        return Reason.NOT_FINITE_FIX
    if fix.latitude_deg == fix.longitude_deg == 0:
        return Reason.ZERO_FIX
    is_on_earth = abs(fix.latitude_deg) <= 90 and abs(fix.longitude_deg) <= 180
    if not (is_on_earth and _LOWEST_M <= altitude_m <= _HIGHEST_M):
        return Reason.FIX_OUT_OF_RANGE
    point = GeoPoint(fix.latitude_deg, fix.longitude_deg, altitude_m)
    return Fix(time_ns, arrival, point, ecef_m(point), fix.sigma_m)


def drivable(times_ns: Sequence[int], places_m: Floats) -> list[bool]:
    """Which fixes form the longest chain that a vehicle could have driven, one in each epoch.

    Args:
        times_ns: in ascending order.
        places_m: earth-centred positions (N, 3).
    """
    count = len(times_ns)
    times = np.array(times_ns, np.int64)

    def fits(apart_ns: npt.NDArray[np.int64], moves_m: Floats) -> npt.NDArray[np.bool_]:
        far_m = np.linalg.norm(moves_m, axis=1)
        return np.asarray((apart_ns >= EPOCH_NS) & (far_m <= SLACK_M + FASTEST_M_S * apart_ns / 1e9))

    if np.all(fits(np.diff(times), np.diff(places_m, axis=0))):
        return [True] * count
    length, before = np.ones(count, np.int64), np.full(count, -1, np.int64)
    for i in range(1, count):
        lengths = np.where(fits(times[i] - times[:i], places_m[i] - places_m[:i]), length[:i], 0)
        # Of several longest chains extend the one that ends last, so that there is no needless gap.
        last = i - 1 - int(np.argmax(lengths[::-1]))
        if lengths[last]:
            length[i], before[i] = lengths[last] + 1, last
    chosen = [False] * count
    at = count - 1 - int(np.argmax(length[::-1])) if count else -1
    while at >= 0:
        chosen[at] = True
        at = int(before[at])
    return chosen


@dataclass(frozen=True, slots=True)
class Vehicle:
    """What the configuration says of the vehicle and its receiver.

    Attributes:
        rolls: it moves only where it points, neither sideways nor up.
        antenna_m: where its receiver's antenna is in the rig; imu_m likewise its IMU.
    """

    rolls: bool = True
    antenna_m: Vector = (0.0, 0.0, 0.0)
    imu_m: Vector = (0.0, 0.0, 0.0)


COURSE_NS = 1_000_000_000
"""Directions are compared so often."""
LEAST_DEG, SIGMAS = 3.0, 4.0
COURSE_M_S = 3.0
"""The velocity shows a direction at this speed, and so fast nothing goes backwards for long."""


@dataclass(frozen=True, slots=True)
class Mounting:
    """How an IMU is rotated against its configuration, from comparing its axes with the course.

    ``rig_from_imu_xyzw`` would correct it; ``text`` is a sentence for the user; angles are in degrees.
    """

    rig_from_imu_xyzw: Quaternion
    heading_deg: float
    whole_deg: float
    text: str


class Courses:
    """Directions of travel, ahead and up in the axes of the rotations that are written.

    Attributes:
        oriented: an AHRS tells these.
    """

    def __init__(self) -> None:
        self._course, self._ahead, self._up = np.zeros((3, 3))
        self._courses = self._count = 0
        self._last_ns, self._sigma_rad, self.oriented = -(2**63), 0.0, False

    def add(self, nodes: Sequence[Node], sigma_rad: float, *, rolls: bool) -> None:
        """Take nodes that follow those before, whose headings are as sure."""
        self.oriented |= any(node.segment is not None and node.segment.orientation for node in nodes)
        self._sigma_rad = sigma_rad
        for node in nodes:
            segment = node.segment
            if segment is None or segment.quiet or (self.oriented and segment.orientation is None):
                continue
            if node.time_ns - self._last_ns < COURSE_NS:
                continue
            self._last_ns, true = node.time_ns, node.pose.rotation().matrix()
            written = true if segment.orientation is None else segment.orientation.matrix()
            ahead, speed_m_s = written.T @ true[:, 0], float(np.linalg.norm(node.velocity_m_s))
            self._ahead, self._count = self._ahead + ahead, self._count + 1
            if rolls or speed_m_s > COURSE_M_S:
                course = written.T @ node.velocity_m_s / speed_m_s if speed_m_s > COURSE_M_S else ahead
                up = written[2] - (written[2] @ course) * course
                self._course, self._courses = self._course + course, self._courses + 1
                self._up = self._up + up / np.linalg.norm(up)

    @property
    def scatter_rad(self) -> float:
        """How much the axes that are written scatter about the true ones; 0 if there are few."""
        return 0.0 if self._count < 20 else _scatter_rad(self._ahead, self._count)

    def mounting(self, rig_from_imu_xyzw: Quaternion | None) -> Mounting | None:
        """The IMU's mounting as the drive so far shows it; None if it may be as configured.

        What moves sideways has no direction of travel.
        """
        scatter_rad = _scatter_rad(self._course, self._courses)
        if self._courses < 5 or scatter_rad > math.radians(LEAST_DEG):
            return None
        forward = self._course / np.linalg.norm(self._course)
        up = self._up - (self._up @ forward) * forward
        up = up / np.linalg.norm(up)
        rig_from_configured = np.stack([forward, np.cross(up, forward), up])
        whole_deg = math.degrees(float(np.linalg.norm(gtsam.Rot3.Logmap(gtsam.Rot3(rig_from_configured)))))
        scatter_deg = math.degrees(scatter_rad / math.sqrt(self._courses))
        heading_deg = math.degrees(self._sigma_rad)
        if whole_deg < max(LEAST_DEG, SIGMAS * scatter_deg, 2 * heading_deg):
            return None
        turned = gtsam.Rot3(rig_from_configured)
        x, y, z, w = mended = quaternion(turned.compose(rot3(rig_from_imu_xyzw or (0.0, 0.0, 0.0, 1.0))))
        sigma_deg, heading_deg = math.hypot(scatter_deg, heading_deg), math.degrees(turned.yaw())
        text = (
            f"the IMU's heading is {heading_deg:+.1f}° (±{sigma_deg:.1f}°) from the course over ground, "
            f"its axes {whole_deg:.0f}°: it is mounted rotated, or its north is wrong; the rotations written "
            f"are as wrong. To correct them: topics.imu.mount.xyzw: [{x:.5f}, {y:.5f}, {z:.5f}, {w:.5f}]"
        )
        return Mounting(mended, heading_deg, whole_deg, text)


def _scatter_rad(total: Floats, count: int) -> float:
    """Of so many directions, from their sum."""
    length = float(np.linalg.norm(total)) / max(count, 1)
    return math.sqrt(-2 * math.log(min(1.0, max(length, 1e-3))))
