"""Rig poses over time from satellite fixes, IMU orientation and odometry, as they stream in."""

from __future__ import annotations

from edgefirst_ros.ego.course import Course
from edgefirst_ros.ego.fixes import FixJudge
from edgefirst_ros.ego.geodesy import Vector, enu_m, from_enu
from edgefirst_ros.ego.orientation import Quaternion, after, canonical, inverse, rpy_deg, slerp
from edgefirst_ros.ego.track import Track
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.odometry import Odometry
from edgefirst_ros.sample import EgoPose, GeoPoint

_Place = tuple[Vector, GeoPoint | None]
"""Position, and the fix where it is one."""


class Trajectory:
    """Where the rig was, in the frame of one sequence.

    Everything is added in order of time, whatever it is. Position and rotation come from odometry once there
    is any, and then in its frame; else position from fixes, and rotation from the IMU's orientation or, at
    times that has none, from the course over ground; else they are unknown. Positions interpolate linearly in
    ENU, rotations by slerp. Ends are held, never extrapolated. The receiver's antenna is taken for the rig's
    origin, and ENU of the IMU for that of the origin, which turns by less than 0.1° in 10 km.

    Args:
        origin: of the local frame; the first accepted fix by default.
        max_gap_ns: what lies further apart than this is not interpolated between.
        hold_ns: how far beyond an end its value still holds; beyond that it is unknown.
        memory_ns: what is older than this, seen from the latest, is forgotten unasked.
        rig_from_imu_xyzw: rotation of vectors from the IMU's axes to the rig's (x forward, y left, z up).
        odometry: positions come from odometry from the start, also before its first message.
    """

    def __init__(
        self,
        origin: GeoPoint | None = None,
        *,
        max_gap_ns: int = 5_000_000_000,
        hold_ns: int = 2_000_000_000,
        memory_ns: int = 120_000_000_000,
        rig_from_imu_xyzw: Quaternion | None = None,
        odometry: bool = False,
    ) -> None:
        self.origin = origin
        self._memory_ns = memory_ns
        self._imu_from_rig = None if rig_from_imu_xyzw is None else inverse(rig_from_imu_xyzw)
        self._has_odometry = odometry
        self._judge = FixJudge()
        self._fixes: Track[_Place] = Track(_between, max_gap_ns=max_gap_ns, hold_ns=hold_ns)
        self._imu: Track[Quaternion] = Track(slerp, max_gap_ns=max_gap_ns, hold_ns=hold_ns)
        self._course = Course(max_gap_ns=max_gap_ns, hold_ns=hold_ns)
        self._odometry: Track[tuple[Vector, Quaternion]] = Track(
            _move, max_gap_ns=max_gap_ns, hold_ns=hold_ns
        )
        self._latest_ns: int | None = None

    def add_fix(self, time_ns: int, fix: NavSatFix) -> str | None:
        """Take a fix; the reason why it is refused, or None."""
        self._advance(time_ns)
        judged = self._judge.judge(time_ns, fix)
        if isinstance(judged, str):
            return judged
        if self.origin is None:
            self.origin = judged
        position_m = enu_m(judged, self.origin)
        self._fixes.add(time_ns, (position_m, judged))
        self._course.add(time_ns, position_m)
        return None

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Take an IMU message; one without an orientation only tells the time."""
        self._advance(time_ns)
        rotation = imu.orientation_xyzw
        if rotation is not None:
            if self._imu_from_rig is not None:
                rotation = after(rotation, self._imu_from_rig)
            self._imu.add(time_ns, canonical(rotation))

    def add_odometry(self, time_ns: int, odometry: Odometry) -> None:
        """Take the pose of an odometry message for the rig's."""
        self._advance(time_ns)
        self._has_odometry = True
        self._odometry.add(time_ns, (odometry.position_m, canonical(odometry.orientation_xyzw)))

    def settled(self, time_ns: int) -> bool:
        """Whether nothing that can still come, in order of time, changes the pose at a time."""
        if self._latest_ns is None or not self._fixes.settled(time_ns, self._latest_ns):
            return False
        if self._has_odometry:
            return self._odometry.settled(time_ns, self._latest_ns)
        if not self._imu.settled(time_ns, self._latest_ns):
            return False
        if self._imu.covers(time_ns):
            return True
        return self._course.track.settled(time_ns, self._course.coming_ns(self._latest_ns))

    def pose(self, time_ns: int) -> EgoPose:
        """The pose as far as it is known by now.

        With odometry ``position_m`` and ``rotation_xyzw`` are of its frame and ``origin`` is None.
        """
        place = self._fixes.at(time_ns)
        location = fix_time_ns = None
        if place is not None and self.origin is not None:
            location = place[1] or from_enu(place[0], self.origin)
            fix_time_ns = self._fixes.nearest_ns(time_ns)
        origin = None if place is None or self._has_odometry else self.origin
        position_m: Vector | None
        rotation: Quaternion | None
        if self._has_odometry:
            position_m, rotation = self._odometry.at(time_ns) or (None, None)
            position_basis = rotation_basis = self._odometry.basis(time_ns)
        else:
            position_m = None if place is None else place[0]
            position_basis = self._fixes.basis(time_ns)
            turning = self._imu if self._imu.covers(time_ns) else self._course.track
            rotation, rotation_basis = turning.at(time_ns), turning.basis(time_ns)
        return EgoPose(
            time_ns=time_ns,
            location=location,
            fix_time_ns=fix_time_ns,
            origin=origin,
            position_m=position_m,
            rotation_xyzw=rotation,
            rpy_deg=None if rotation is None else rpy_deg(rotation),
            position_basis=position_basis,
            rotation_basis=rotation_basis,
        )

    def forget(self, before_ns: int) -> None:
        """Drop what poses from ``before_ns`` on do not need; earlier ones must not be asked for any more."""
        for track in (self._fixes, self._imu, self._course.track, self._odometry):
            track.forget(before_ns)

    def _advance(self, time_ns: int) -> None:
        self._latest_ns = time_ns if self._latest_ns is None else max(self._latest_ns, time_ns)
        self.forget(self._latest_ns - self._memory_ns)


def _line(start: Vector, end: Vector, fraction: float) -> Vector:
    x, y, z = (a + (b - a) * fraction for a, b in zip(start, end, strict=True))
    return x, y, z


def _between(start: _Place, end: _Place, fraction: float) -> _Place:
    return _line(start[0], end[0], fraction), None


def _move(
    start: tuple[Vector, Quaternion], end: tuple[Vector, Quaternion], fraction: float
) -> tuple[Vector, Quaternion]:
    return _line(start[0], end[0], fraction), slerp(start[1], end[1], fraction)
