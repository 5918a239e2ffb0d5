"""Poses of the rig over time and what they are based on: an estimate, the IMU's orientation, odometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import gtsam
import numpy as np

from edgefirst_ros.ego.fixes import JudgedFix, Mounting, Vehicle
from edgefirst_ros.ego.geometry import (
    Quaternion,
    Series,
    Vector,
    basis,
    canonical,
    from_enu,
    nearest_ns,
    quaternion,
    rot3,
    rpy_deg,
)
from edgefirst_ros.ego.inertia import sample_row
from edgefirst_ros.ego.motion import Motion, lagging
from edgefirst_ros.ego.path import SPEED_DECIMALS, Point
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import EgoPose, PoseBasis

SWIFT_NS = 250_000_000
"""Orientations further apart are not interpolated: rates and courses are more accurate."""
AHRS_RAD: Vector = (math.radians(1), math.radians(1), math.radians(30))
"""Standard deviations of an orientation while nothing shows the heading: magnetic, or beside iron."""
MOST_GAP_NS = 5_000_000_000
"""Poses are interpolated over gaps up to this, and dead-reckoned in longer ones: a car may have turned."""
RECKON_NS, RECKON_M = 20_000_000_000, 3.0
"""How far from a fix, and up to which standard deviation, a position is dead-reckoned: without a fix nothing
checks the estimate of its error."""
HOLD_NS = 2_000_000_000
"""How long odometry is extrapolated, and a heading without a gyroscope: a turn takes longer."""

_Rotation = tuple[Quaternion | None, PoseBasis, Vector | None]


class Trajectory:
    """Poses of the rig in the frame of one sequence.

    Messages are added in order of time. If there is odometry, position and rotation come from it, in its
    frame. Otherwise the position is the estimated one, in ENU at the first accepted fix; the rotation is the
    IMU's own orientation, mounted as configured, or the estimated one if it has none. ENU at the IMU is taken
    for ENU at the frame's origin: 10 km turn it by less than 0.1°.

    Args:
        motion: of the whole drive, if it is known beforehand; otherwise it is estimated as messages arrive.
        vehicle: what the configuration says of it.
        wait_ns: how much later than its time a pose is usually asked for, reordering included.
        memory_ns: what is this much older than the latest message is dropped.
        rig_from_imu_xyzw: rotates vectors from the IMU's axes to the rig's (x forward, y left, z up).
        odometry: positions come from odometry from the start, also before its first message.
    """

    def __init__(
        self,
        motion: Motion | None = None,
        *,
        vehicle: Vehicle | None = None,
        wait_ns: int = 2_000_000_000,
        memory_ns: int = 120_000_000_000,
        rig_from_imu_xyzw: Quaternion | None = None,
        odometry: bool = False,
    ) -> None:
        self._vehicle = vehicle or Vehicle()
        self._known = motion is not None
        self._motion = motion or Motion(self._vehicle, rig_from_imu_xyzw, lagging(wait_ns))
        self._memory_ns = memory_ns
        self._imu_from_rig = rot3(rig_from_imu_xyzw or (0.0, 0.0, 0.0, 1.0)).inverse()
        self._has_odometry = odometry
        self._orientation = Series(4)
        self._judged_fixes: list[JudgedFix] = []
        self._latest_ns: int | None = None

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message; ``judged`` returns the result."""
        self._advance(time_ns)
        if self._known:
            self._judged_fixes.append((arrival, self._motion.refusals.get(arrival)))
        else:
            self._motion.add_fix(time_ns, arrival, fix)

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU message."""
        self._advance(time_ns)
        if self._known and imu.orientation_xyzw is None:
            return
        sample, units = np.array([sample_row(imu)]), self._motion.units
        if not self._known:
            self._motion.add_samples((time_ns,), sample)
        told = units.scaled(sample)[0, :4].tolist()
        if math.isfinite(told[0]):
            self._orientation.add(time_ns, quaternion(rot3(told).compose(self._imu_from_rig)))
        elif not units.oriented:
            self._orientation.forget(time_ns)

    def add_odometry(self, time_ns: int, odometry: Odometry) -> None:
        """Add an odometry message, whose pose is the rig's."""
        self._advance(time_ns)
        self._has_odometry = True
        if not self._known:
            self._motion.odometer.add(time_ns, odometry)

    def finish(self) -> None:
        """Process what is waiting: nothing more arrives."""
        if not self._known:
            self._motion.finish()

    def judged(self) -> list[JudgedFix]:
        """Fixes accepted or refused since the last call."""
        if not self._known:
            return self._motion.receiver.judged()
        outcomes, self._judged_fixes = self._judged_fixes, []
        return outcomes

    @property
    def notes(self) -> list[str]:
        """Sentences on what has been found so far."""
        odometer, found = self._motion.odometer, [*self._motion.notes]
        if self._has_odometry and not self._follows:
            found.append(f"the odometry {odometer.fault}: it is not used")
        return found

    @property
    def doubts(self) -> list[str]:
        """Sentences on what makes the poses wrong that are written."""
        found, fault = [*self._motion.doubts], self._motion.odometer.fault
        if fault and self._follows:
            found.append(f"the odometry {fault}: the poses that are written are as wrong")
        return found

    @property
    def _follows(self) -> bool:
        """Whether poses are the odometry's, in its frame.

        They are not if they are useless and fixes show better ones. Live they stay so, as a sequence has one
        frame, and a drive without poses is no better.
        """
        is_useless = not self._motion.odometer.usable and self._motion.origin is not None
        return self._has_odometry and not (self._known and is_useless)

    @property
    def mounting(self) -> Mounting | None:
        """How the IMU is rotated against its configuration, None if it may be as configured."""
        return self._motion.mounting

    @property
    def final_ns(self) -> float:
        """Poses up to this time are final: no message that can still come, in order of time, changes them."""
        is_estimated = not self._known and (not self._has_odometry or bool(self._motion.nodes))
        if self._latest_ns is None or is_estimated:
            return -math.inf
        if self._follows:
            return self._motion.odometer.series.final_ns(self._latest_ns, MOST_GAP_NS)
        return self._orientation.final_ns(self._latest_ns, SWIFT_NS) if self._motion.oriented else math.inf

    def pose(self, time_ns: int, *, located: bool = True) -> EgoPose:
        """The pose as far as it is known so far.

        With odometry ``position_m`` and ``rotation_xyzw`` are in its frame and ``origin`` is None.

        Args:
            time_ns: of the pose.
            located: whether its ``location`` is needed, which takes longer than all the rest.
        """
        motion = self._motion
        point = motion.path.at(time_ns)
        place_basis = self._place_basis(motion.fixes_ns, time_ns, point)
        position = point.position_m if point is not None and place_basis is not PoseBasis.ASSUMED else None
        origin = None if position is None else motion.origin
        location = None if position is None or origin is None or not located else from_enu(position, origin)
        fix_time_ns = None if origin is None else nearest_ns(motion.fixes_ns, time_ns)
        if self._follows:
            return self._of_odometry(EgoPose(time_ns, location=location, fix_time_ns=fix_time_ns))
        rotation, rotation_basis, rotation_sigma = self._rotation(motion.fixes_ns, time_ns, point)
        return EgoPose(
            time_ns=time_ns,
            location=location,
            fix_time_ns=fix_time_ns,
            origin=origin,
            position_m=position,
            rotation_xyzw=rotation,
            rpy_deg=None if rotation is None else rpy_deg(rotation),
            position_basis=place_basis,
            rotation_basis=rotation_basis,
            position_sigma_m=None if point is None or position is None else point.position_sigma_m,
            rotation_sigma_rad=rotation_sigma,
            speed_m_s=None if point is None or position is None else point.speed_m_s,
        )

    def forget(self, before_ns: int) -> None:
        """Drop what poses from ``before_ns`` on do not need."""
        # Earlier times show how often orientations come.
        self._orientation.forget(before_ns - SWIFT_NS)
        if not self._known:
            self._motion.forget(before_ns)

    def _place_basis(self, fixes_ns: Sequence[int], time_ns: int, point: Point | None) -> PoseBasis:
        if point is None:
            return PoseBasis.ASSUMED
        found = basis(fixes_ns, time_ns, MOST_GAP_NS)
        near = _is_near(fixes_ns, time_ns, RECKON_NS) and max(point.position_sigma_m[:2]) <= RECKON_M
        return found if near or found is not PoseBasis.DEAD_RECKONED else PoseBasis.ASSUMED

    def _rotation(self, fixes_ns: Sequence[int], time_ns: int, point: Point | None) -> _Rotation:
        """Rotation, its basis, and its standard deviations."""
        times_ns = self._orientation.times_ns
        read = basis(times_ns, time_ns, MOST_GAP_NS)
        own = self._orientation.at(time_ns, SWIFT_NS)
        if own is not None:
            x, y, z, w = own.tolist()
            return (x, y, z, w), read, None if point is None else _of_written((x, y, z, w), point)
        if point is None:
            return None, PoseBasis.ASSUMED, None
        sigma = point.rotation_sigma_rad
        # A heading less certain than this is unknown, unless there is a gyroscope.
        headed = max(sigma) < 0.6
        course = basis(fixes_ns, time_ns, MOST_GAP_NS)
        if times_ns and (point.turns or (headed and _is_near(times_ns, time_ns, HOLD_NS))):
            return point.rotation_xyzw, read, sigma
        if headed and course in {PoseBasis.MEASURED, PoseBasis.INTERPOLATED}:
            # No sensor measures it: it is the course between fixes.
            return point.rotation_xyzw, PoseBasis.INTERPOLATED, sigma
        if point.turns or (headed and _is_near(fixes_ns, time_ns, HOLD_NS)):
            return point.rotation_xyzw, PoseBasis.DEAD_RECKONED, sigma
        return None, PoseBasis.ASSUMED, None

    def _of_odometry(self, pose: EgoPose) -> EgoPose:
        """The pose in the odometry's frame."""
        found = self._motion.odometer.pose(pose.time_ns, MOST_GAP_NS, HOLD_NS)
        if found is None:
            return pose
        row, speed_m_s, rests_on = found
        a, b, c, d, x, y, z, *sigmas = row.tolist()
        rotation = canonical((a, b, c, d))
        return replace(
            pose,
            position_m=(x, y, z),
            rotation_xyzw=rotation,
            rpy_deg=rpy_deg(rotation),
            position_basis=rests_on,
            rotation_basis=rests_on,
            position_sigma_m=_known(sigmas[:3]),
            rotation_sigma_rad=_known(sigmas[3:]),
            speed_m_s=None if math.isnan(speed_m_s) else round(speed_m_s, SPEED_DECIMALS),
        )

    def _advance(self, time_ns: int) -> None:
        self._latest_ns = time_ns if self._latest_ns is None else max(self._latest_ns, time_ns)
        self.forget(self._latest_ns - self._memory_ns)


def _of_written(rotation: Quaternion, point: Point) -> Vector:
    """Standard deviations of a rotation that is not the estimated one, from which it differs in error."""
    if max(point.rotation_sigma_rad) > 0.6:
        return AHRS_RAD
    off = gtsam.Rot3.Logmap(rot3(point.rotation_xyzw).between(rot3(rotation))).tolist()
    a, b, c = (math.hypot(*each) for each in zip(off, point.rotation_sigma_rad, strict=True))
    return a, b, c


def _is_near(times_ns: Sequence[int], time_ns: int, most_ns: int) -> bool:
    """Whether one of the times is no further away than this."""
    nearest = nearest_ns(times_ns, time_ns)
    return nearest is not None and abs(nearest - time_ns) <= most_ns


def _known(numbers: list[float]) -> Vector | None:
    x, y, z = numbers
    return None if math.isnan(x) else (x, y, z)
