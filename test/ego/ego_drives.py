"""What navigation sensors say of the simulated drive, from its truth, and how far an estimate is off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from faulty import ImuErrors
from faulty.sensors import imu_reading
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.geometry import Quaternion, canonical, ecef_m, enu_axes
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.navigation import Imu, NavSatFix
from edgefirst_ros.model.sample import EgoPose, GeoPoint
from edgefirst_ros.simulation import sensors
from edgefirst_ros.simulation.world import World, build

S = 1_000_000_000
T0 = 1_777_626_000 * S

Stops = tuple[tuple[float, float], ...]
IDEAL = ImuErrors()
MEMS = ImuErrors(
    gyroscope_sigma_rad_s=1e-3,
    gyroscope_bias_rad_s=(0.005, -0.003, 0.007),
    accelerometer_sigma_m_s2=0.07,
    accelerometer_bias_m_s2=(0.05, -0.08, 0.06),
    orientation_sigma_rad=math.radians(0.3),
)
"""As a phone's IMU is: 0.4°/s and 8 mg of bias, 0.7 mg/√Hz of noise at 100 Hz."""


def from_yaw(yaw_rad: float) -> Quaternion:
    """The rotation by a yaw angle from east towards north."""
    return canonical((0.0, 0.0, math.sin(yaw_rad / 2), math.cos(yaw_rad / 2)))


def always(_: float) -> bool:
    """No gap."""
    return True


@dataclass(frozen=True)
class Case:
    """A drive and its sensors: ``jumps`` are metres east and north by epoch, of one message of it or both."""

    seconds: float = 20.0
    seed: int = 0
    imu_hz: float = 50.0
    imu: ImuErrors = IDEAL
    oriented: bool = True
    gps_hz: float = 10.0
    gps: Callable[[float], bool] = always
    sigma_m: float = 0.0
    jumps: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    jumping: tuple[int, ...] = (0, 1)
    jitter_s: float = 0.0
    stops: Stops = ()

    @property
    def world(self) -> World:
        """What is true."""
        return driven((self.seed, self.stops))

    def samples(self) -> list[tuple[int, Imu]]:
        """Of the IMU."""
        shared = _readings((self.seed, self.stops), self.seconds, self.imu_hz, self.imu, self.jitter_s)
        if self.oriented:
            return list(shared)
        return [
            (at, Imu(None, imu.angular_velocity_rad_s, imu.linear_acceleration_m_s2)) for at, imu in shared
        ]

    def fixes(self) -> list[tuple[int, int, NavSatFix]]:
        """Of the receiver, each with its number: two an epoch, 40 ms apart."""
        world = self.world
        made: list[tuple[int, int, NavSatFix]] = []
        epochs = _epochs((self.seed, self.stops), self.seconds, self.gps_hz, self.sigma_m, self.jitter_s)
        for epoch, (at, late, position_m, seen) in enumerate(epochs):
            if not self.gps(at):
                continue
            for message in (0, 1):
                fix = seen
                if epoch in self.jumps and message in self.jumping:
                    jumped_m = position_m + np.array([*self.jumps[epoch], 0])
                    fix = NavSatFix(*sensors.fix(world, jumped_m), 0)
                made.append((ns(at + late + 0.04 * message), len(made), fix))
        return made

    def log(self) -> NavigationLog:
        """All of it."""
        log = NavigationLog()
        for time_ns, imu in self.samples():
            log.add_imu(time_ns, imu)
        for time_ns, arrival, fix in self.fixes():
            log.add_fix(time_ns, arrival, fix)
        return log

    def live(
        self, trajectory: Trajectory, times: Iterable[float], *, wait_s: float = 2.0
    ) -> tuple[list[EgoPose], dict[int, str | None]]:
        """Poses asked for so long after their times, and what became of the fixes."""
        datum: Imu | NavSatFix
        samples: list[tuple[int, int, int, Imu | NavSatFix]]
        samples = [(time_ns, 1, 0, imu) for time_ns, imu in self.samples()]
        fixes = [(time_ns, 0, arrival, fix) for time_ns, arrival, fix in self.fixes()]
        asked = [ns(at) for at in times]
        poses: list[EgoPose] = []
        outcomes: dict[int, str | None] = {}
        for time_ns, _, arrival, datum in sorted([*samples, *fixes], key=lambda each: each[:3]):
            while len(poses) < len(asked) and time_ns >= asked[len(poses)] + wait_s * S:
                poses.append(trajectory.pose(asked[len(poses)]))
            if isinstance(datum, Imu):
                trajectory.add_imu(time_ns, datum)
            else:
                trajectory.add_fix(time_ns, arrival, datum)
            outcomes |= dict(trajectory.judged())
        trajectory.finish()
        outcomes |= dict(trajectory.judged())
        return [*poses, *map(trajectory.pose, asked[len(poses) :])], outcomes


def ns(seconds: float) -> int:
    """The time of a moment of the drive."""
    return T0 + round(seconds * S)


@cache
def driven(drive: tuple[int, Stops]) -> World:
    """What is true of the drive of this seed, with these stops."""
    seed, stops = drive
    return build(seed, 640, 360, stops=stops)


@cache
def _readings(
    drive: tuple[int, Stops], seconds: float, imu_hz: float, errors: ImuErrors, jitter_s: float
) -> tuple[tuple[int, Imu], ...]:
    rng, world = np.random.default_rng(7), driven(drive)
    made: list[tuple[int, Imu]] = []
    for at in np.arange(0.004, seconds, 1 / imu_hz).tolist() if imu_hz else ():
        reading = imu_reading(world.rig.state(at), errors, rng)
        time_ns = ns(at + float(rng.uniform(0, jitter_s)))
        sample = Imu(reading.orientation_xyzw, reading.angular_rate_rad_s, reading.specific_force_m_s2)
        made.append((time_ns, sample))
    return tuple(sorted(made, key=lambda each: each[0]))


@cache
def _epochs(
    drive: tuple[int, Stops], seconds: float, gps_hz: float, sigma_m: float, jitter_s: float
) -> list[tuple[float, float, np.ndarray, NavSatFix]]:
    """Moments, how late each is, where that is with noise, and as the receiver has it."""
    rng, world = np.random.default_rng(8), driven(drive)
    made = []
    for at in np.arange(0.035, seconds, 1 / gps_hz).tolist() if gps_hz else ():
        noise = rng.normal(0, 1, 3) * (sigma_m, sigma_m, 2 * sigma_m)
        late = float(rng.uniform(0, jitter_s))
        position_m = world.rig.state(at).position_m + noise
        made.append((at, late, position_m, NavSatFix(*sensors.fix(world, position_m), 0)))
    return made


@dataclass(frozen=True)
class Off:
    """How far poses are off: metres where there is a position, degrees where there is a rotation."""

    seconds: np.ndarray
    place_m: np.ndarray
    turn_deg: np.ndarray
    poses: list[EgoPose]

    def between(self, start: float, end: float) -> Off:
        """Of the poses between two moments."""
        inside = (self.seconds >= start) & (self.seconds <= end)
        poses = [pose for pose, is_in in zip(self.poses, inside, strict=True) if is_in]
        return replace(
            self,
            seconds=self.seconds[inside],
            place_m=self.place_m[inside],
            turn_deg=self.turn_deg[inside],
            poses=poses,
        )

    @property
    def rms_m(self) -> float:
        """Of the positions; NaN unless all are known."""
        return float(np.sqrt(np.mean(self.place_m**2)))

    @property
    def rms_deg(self) -> float:
        """Of the rotations; NaN unless all are known."""
        return float(np.sqrt(np.mean(self.turn_deg**2)))


def off(world: World, poses: Iterable[EgoPose]) -> Off:
    """Poses against the truth."""
    several, places, turns = list(poses), [], []
    zero = GeoPoint(world.latitude_deg, world.longitude_deg, world.altitude_m)
    for pose in several:
        true = world.rig.state((pose.time_ns - T0) / S)
        place = turn = math.nan
        if pose.location is not None:
            found_m = enu_axes(zero) @ np.subtract(ecef_m(pose.location), ecef_m(zero))
            place = float(np.linalg.norm(found_m - true.position_m))
        if pose.rotation_xyzw is not None:
            found = Rotation.from_quat(pose.rotation_xyzw)
            turn = math.degrees((found.inv() * Rotation.from_matrix(true.rotation())).magnitude())
        places.append(place)
        turns.append(turn)
    seconds = np.array([(pose.time_ns - T0) / S for pose in several])
    return Off(seconds, np.array(places), np.array(turns), several)


def whole(case: Case, solution: Motion, times: Iterable[float]) -> Off:
    """The poses of a drive whose motion is known."""
    trajectory = Trajectory(solution)
    for time_ns, imu in case.samples():
        trajectory.add_imu(time_ns, imu)
    return off(case.world, [trajectory.pose(ns(at)) for at in times])
