"""What samples share: the calibration in force and the rig's poses.

How long poses were measured, interpolated, dead-reckoned or assumed; the distance driven; the track.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import camera_infos, motion_place, placed, rectified_cameras, rig_from_imu
from edgefirst_ros.ego.fixes import JudgedFix, Vehicle
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.camera import CameraInfo, rectified
from edgefirst_ros.model.detection import ModelInfo
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.radar import RadarInfo
from edgefirst_ros.model.sample import Calibration, EgoPose, GeoPoint, Measurement, PoseBasis, Role
from edgefirst_ros.model.transform import RobotDescription, Transform, Transforms
from edgefirst_ros.pipeline.transforms import TransformBuffer

MOST_SHOWN = 5
"""Joints that a sentence names."""
POSE_EVERY_NS = 25_000_000
"""Least distance of poses for formats that take a trajectory."""
POSE_AT_LEAST_NS = 50_000_000
"""Distance of poses while no navigation message but anything else arrives, so that a trajectory covers it."""


class SampleContext:
    """Calibration in force and rig poses, from messages in order of time, at any time not forgotten.

    Args:
        config: whole.
        held_ns: how long messages were held before they come here; the wait for poses includes that.
        has_ego: navigation messages are known to come, so poses wait for them from the start.
        odometry: odometry is known to come, and takes precedence.
        known: the calibration in force before any has come.
        motion: of the whole drive, if it is known beforehand.
        before: trajectory of the sequence before, if it continues.

    Attributes:
        calibration: in force now.
        due: times of which ``poses`` gives the pose once it is final.
        final_ns: poses up to this time are final, or have been waited for long enough.
        picture: width and height of the camera's pictures, None if not known yet.
        trajectory: of the rig.
        transforms: where frames are.
        told: sentences about calibration that came, to be said once.
        reference_topics: topics whose messages samples begin with.
        camera: the sensor whose pictures samples take.
    """

    def __init__(
        self,
        config: Config,
        *,
        camera: str = "",
        has_ego: bool = False,
        odometry: bool = False,
        held_ns: int = 0,
        known: Calibration | None = None,
        motion: Motion | None = None,
        before: Trajectory | None = None,
        reference_topics: frozenset[str] = frozenset(),
        transforms: TransformBuffer | None = None,
    ) -> None:
        self.reference_topics = reference_topics
        known = known or Calibration()
        infos = self._infos = camera_infos(config)
        self._rectified = rectified_cameras(config)
        self.transforms = transforms or TransformBuffer(config.rig_frame, placed(config))
        self.transforms.begin(known.transforms, goes_on=before is not None)
        self._flat: dict[str, tuple[CameraInfo, CameraInfo]] = {}
        """The newest CameraInfo of each camera whose pictures are rectified, as sent and as it counts."""
        self.calibration = replace(
            known,
            transforms=self.transforms.in_force,
            camera_info=infos.get(camera, known.camera_info),
            other_cameras={**known.other_cameras, **{n: infos[n] for n in infos if n != camera}},
        )
        self.camera = camera
        self.picture: tuple[int, int] | None = None
        self.told: list[str] = []
        self._other_info: CameraInfo | None = None
        wait_ns = round(config.ego.wait_s * 1e9)
        self._wait_ns = max(0, wait_ns - held_ns)
        # Of a drive that is known so many are made at a time: one by one they take twice as long.
        self._together = 1 if motion is None else 32
        self.trajectory = before or Trajectory(
            motion,
            vehicle=vehicle_of(config),
            wait_ns=wait_ns,
            rig_from_imu_xyzw=rig_from_imu(config),
            odometry=odometry,
        )
        self._has_ego = has_ego
        self._settled_ns = self.trajectory.final_ns
        self.final_ns = self._settled_ns if has_ego else math.inf
        self._now_ns = 0
        self.due: deque[int] = deque()
        self._last_due_ns: int | None = None

    def learn(self, measurement: Measurement, sensor: str = "") -> str | None:
        """Take a calibration message of a sensor; the reason if it is refused, else None.

        The newest of each kind is in force, except that a CameraInfo of another picture size does not replace
        one that fits: it belongs to pictures before or after a change of size.
        """
        datum, known = measurement.datum, self.calibration
        if isinstance(datum, CameraInfo):
            self._see(datum, sensor)
        elif isinstance(datum, RadarInfo):
            self.calibration = replace(known, radar_info=datum, radars={**known.radars, sensor: datum})
        elif isinstance(datum, ModelInfo):
            self.calibration = replace(known, model_info=datum)
        elif isinstance(datum, Transforms | RobotDescription):
            refusal = self.transforms.learn(datum)
            if self.transforms.in_force is not known.transforms:
                self.calibration = replace(known, transforms=self.transforms.in_force)
            if isinstance(datum, RobotDescription) and datum.moving:
                self.told.append(
                    f"robot_description: of {', '.join(datum.moving[:MOST_SHOWN])}"
                    f"{', …' * (len(datum.moving) > MOST_SHOWN)} the place is not fixed, and not taken"
                )
            return refusal
        return None

    def _see(self, info: CameraInfo, sensor: str) -> None:
        if sensor in self._infos:
            return
        info, known = self._of_pictures(info, sensor), self.calibration
        before = known.camera_info
        if self.camera not in {"", sensor}:
            self.calibration = replace(known, other_cameras={**known.other_cameras, sensor: info})
        elif before is not None and _size(info) != self.picture == _size(before):
            self._other_info = info
        elif info is not before:  # which mostly comes again and again
            self.calibration = replace(known, camera_info=info)

    def _of_pictures(self, info: CameraInfo, sensor: str) -> CameraInfo:
        if sensor not in self._rectified:
            return info
        if sensor not in self._flat or self._flat[sensor][0] is not info:
            self._flat[sensor] = info, rectified(info)
        flat = self._flat[sensor][1]
        text = f"the pictures of {sensor} are rectified: P of its CameraInfo counts, not K and D"
        if flat is not info and text not in self.told:
            self.told.append(text)
        return flat

    def take_camera(self, sensor: str) -> None:
        """Samples take the pictures of this camera, as is known by now."""
        if sensor == self.camera:
            return
        known, before = self.calibration, self.camera
        others = {name: info for name, info in known.other_cameras.items() if name != sensor}
        if before and known.camera_info is not None:
            others[before] = known.camera_info
        info = known.other_cameras.get(sensor)
        self.calibration = replace(known, camera_info=info, other_cameras=others)
        self.camera = sensor

    def calibration_of(self, camera: str) -> Calibration:
        """The calibration with a camera's own CameraInfo."""
        if self.camera in {"", camera}:
            return self.calibration
        return replace(self.calibration, camera_info=self.calibration.other_cameras.get(camera))

    def calibration_of_radar(self, radar: str) -> Calibration:
        """The calibration with a radar's own settings."""
        known = self.calibration
        if not known.radars or [*known.radars] == [radar]:
            return known
        return replace(known, radar_info=known.radars.get(radar))

    def calibration_for(self, picture: tuple[int, int] | None, coming: Iterable[Measurement]) -> Calibration:
        """The calibration with a CameraInfo that fits pictures of another size, if there is one.

        Args:
            picture: width and height.
            coming: measurements received from after the change, in order of time.
        """
        if self.camera in self._infos:
            return self.calibration
        came = [] if self._other_info is None else [self._other_info]
        infos = (
            *came,
            *(self._of_pictures(m.datum, self.camera) for m in coming if isinstance(m.datum, CameraInfo)),
        )
        fitting = next((info for info in infos if _size(info) == picture), None)
        return self.calibration if fitting is None else replace(self.calibration, camera_info=fitting)

    def navigate(self, measurement: Measurement) -> list[JudgedFix]:
        """Take a navigation message.

        Returns the running numbers of messages that are settled now, this one or earlier ones, and why they
        are refused, None if they are accepted.
        """
        datum, time_ns = measurement.datum, measurement.time_ns
        self._has_ego = True
        settled: list[JudgedFix] = []
        if isinstance(datum, NavSatFix):
            self.trajectory.add_fix(time_ns, measurement.arrival, datum)
        else:
            if isinstance(datum, Imu):
                self.trajectory.add_imu(time_ns, datum)
            elif isinstance(datum, Odometry):
                self.trajectory.add_odometry(time_ns, datum)
            settled.append((measurement.arrival, None))
        judged = self.trajectory.judged()
        if not isinstance(datum, NavSatFix) or not any(
            refusal is not None and arrival == measurement.arrival for arrival, refusal in judged
        ):
            self._want_pose(time_ns, POSE_EVERY_NS)
        self._settled_ns = self.trajectory.final_ns
        self.final_ns = max(self._settled_ns, self._now_ns - self._wait_ns)
        return settled + judged

    def finish(self) -> list[JudgedFix]:
        """No message comes any more: all is final. Settle what waited, as ``navigate`` does."""
        self.trajectory.finish()
        self.final_ns = math.inf
        self.end_at(self._now_ns)
        return self.trajectory.judged()

    def passing(self, time_ns: int, *, measured: bool = True) -> None:
        """A message of that time is next; if it is ``measured`` then, a pose is due there at the latest."""
        self._now_ns = time_ns
        if self._has_ego:
            self.final_ns = max(self._settled_ns, time_ns - self._wait_ns)
        else:
            self.due.clear()  # of before the first navigation message
        if measured:
            self._want_pose(time_ns, POSE_AT_LEAST_NS)

    def _want_pose(self, time_ns: int, apart_ns: int) -> None:
        if self._last_due_ns is None or time_ns - self._last_due_ns >= apart_ns:
            self.due.append(time_ns)
            self._last_due_ns = time_ns

    def end_at(self, time_ns: int) -> None:
        """A pose is due at the end of a session, if any was."""
        if self._last_due_ns is not None:
            self._want_pose(time_ns, 1)

    def close(self) -> None:
        """Release the trajectory, which another sequence may continue."""
        self.trajectory = Trajectory(Motion())

    def mounted(self, time_ns: int, frame: str) -> Mapping[str, Transform]:
        """Where frames on mounts that move are, for a measurement in one of them."""
        return self.transforms.at(time_ns, frame)

    def pose(self, time_ns: int) -> EgoPose:
        """Pose of the rig."""
        return self.trajectory.pose(time_ns)

    @property
    def has_poses(self) -> bool:
        """Whether there are poses to take: of a drive that is known several at a time, which is faster."""
        count = self._together
        return len(self.due) >= count and self.due[count - 1] <= self.final_ns

    def poses(self, until_ns: int | None = None) -> Iterator[EgoPose]:
        """Poses that are due and final, each once: at navigation messages, in their gaps, and at the end.

        Up to ``until_ns`` they are given whether they are final or not.

        There are none if no navigation message ever comes. They have no ``location``.
        """
        final_ns = self.final_ns if until_ns is None else max(self.final_ns, until_ns)
        while self.due and self.due[0] <= final_ns:
            time_ns = self.due.popleft()
            if self._has_ego:
                yield self.trajectory.pose(time_ns, located=False)

    def forget(self, before_ns: int) -> None:
        """Nothing before this time will be requested any more."""
        self.transforms.forget(before_ns)
        self.trajectory.forget(min(before_ns, self.due[0]) if self.due else before_ns)


def vehicle_of(config: Config) -> Vehicle:
    """The configured properties of the vehicle."""
    ego, places = config.ego, [motion_place(config, role) for role in (Role.GPS, Role.IMU)]
    antenna_m, imu_m = (tuple(place[:3, 3].tolist()) for place in places)
    return Vehicle(ego.non_holonomic, antenna_m, imu_m)


def _size(info: CameraInfo) -> tuple[int, int]:
    return info.picture_size


_WORST_FIRST = tuple(reversed(PoseBasis))
STEP_M = 5.0
"""The distance is a sum of chords of at least this length, so that noise at rest does not add up ..."""
FASTEST_M_S = 100.0
"""Faster than this the estimate, or the odometry's frame, has jumped."""
MOST_POINTS = 1200
_BASES = tuple(PoseBasis)


class Track:
    """Where the rig was, for the report, at regular times; if there are too many, every other one goes.

    Poses come in order of time.
    """

    def __init__(self) -> None:
        self._points: list[list[float]] = []
        self._step_ns, self._next_ns = 100_000_000, -(2**63)
        self._origins: list[GeoPoint | None] = []
        """By number of the local frame."""

    def add(self, pose: EgoPose) -> None:
        """Take a pose, which is left out if it has no position or comes too soon after the one before."""
        if pose.time_ns < self._next_ns or pose.position_m is None:
            return
        # Local frames that are told apart.
        if (not self._origins or self._origins[-1] != pose.origin) and len(self._origins) < 64:
            self._origins.append(pose.origin)
        place_m = [round(value, 3) for value in pose.position_m]
        self._points.append(
            [pose.time_ns, *place_m, len(self._origins) - 1, _BASES.index(pose.position_basis)]
        )
        if len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._step_ns *= 2
        self._next_ns = int(self._points[-1][0]) + self._step_ns

    def summary(self) -> dict[str, Any] | None:
        """The points as plain values, None without any.

        Returns:
            ``origins`` of the local frames (latitude, longitude; None where odometry has no place on earth),
            and ``points``: time in nanoseconds, metres east, north and up of the origin, number of the
            local frame, and basis as its number in ``bases``.
        """
        if not self._points:
            return None
        places = (
            each and {"latitude": each.latitude_deg, "longitude": each.longitude_deg}
            for each in self._origins
        )
        return {"origins": [*places], "bases": [str(basis) for basis in _BASES], "points": self._points}


class PoseAccount:
    """Sums the time between poses by basis, the worse one of the two poses, for position and for rotation."""

    def __init__(self) -> None:
        self._time_ns: int | None = None
        self._last: tuple[PoseBasis, PoseBasis] | None = None
        self._spans_ns: dict[str, Counter[PoseBasis]] = {"position": Counter(), "rotation": Counter()}
        self._left: EgoPose | None = None
        """The pose at which the next chord begins."""
        self._before: EgoPose | None = None
        self.track = Track()
        self.driven_m = 0.0
        """Horizontal distance driven while the position was known, in metres."""
        self._lying = 0
        """Poses in which the rig leans by more than 60°, less the others."""

    def add(self, pose: EgoPose) -> None:
        """Count a pose; poses come in order of time."""
        self.track.add(pose)
        if pose.rotation_xyzw is not None:
            x, y, _, _ = pose.rotation_xyzw
            self._lying += 1 if x * x + y * y > 0.25 else -1
        bases = (
            PoseBasis.ASSUMED if pose.position_m is None else pose.position_basis,
            PoseBasis.ASSUMED if pose.rotation_xyzw is None else pose.rotation_basis,
        )
        if self._time_ns is not None and self._last is not None:
            span_ns = max(0, pose.time_ns - self._time_ns)
            for spans, now, before in zip(self._spans_ns.values(), bases, self._last, strict=True):
                worse = next(basis for basis in _WORST_FIRST if basis in {now, before})
                spans[worse] += span_ns
        self._time_ns, self._last = pose.time_ns, bases
        if bases[0] is not PoseBasis.ASSUMED:
            self._drive(pose)

    @property
    def doubts(self) -> list[str]:
        """That the rig lies on its side, as no vehicle does: its IMU does."""
        text = "the rig lies on its side by its IMU: where that is mounted (mount.xyzw) is not known"
        return [text] * (self._lying > 0)

    def _drive(self, pose: EgoPose) -> None:
        left, before, self._before = self._left, self._before, pose
        if left is None or before is None or _jumped(before, pose):
            self._left = pose
            return
        chord_m = _apart_m(left, pose)
        sigma_m = max((*(pose.position_sigma_m or (0.0,))[:2], *(left.position_sigma_m or (0.0,))[:2]))
        # ... and of at least this many standard deviations of the position.
        if chord_m >= max(STEP_M, 4.0 * sigma_m):
            self.driven_m += chord_m
            self._left = pose

    def summary(self) -> dict[str, dict[str, float]] | None:
        """Seconds by basis, for the position and the rotation; None if there was no pose."""
        if self._last is None:
            return None
        return {
            part: {str(basis): round(spans[basis] / 1e9, 3) for basis in PoseBasis}
            for part, spans in self._spans_ns.items()
        }


def _apart_m(one: EgoPose, other: EgoPose) -> float:
    """The horizontal distance between two known positions of one frame."""
    return math.dist((one.position_m or ())[:2], (other.position_m or ())[:2])


def _jumped(before: EgoPose, pose: EgoPose) -> bool:
    """Whether the estimate jumped or changed its frame, because no rig moves so fast."""
    apart_s = (pose.time_ns - before.time_ns) / 1e9
    return before.origin != pose.origin or _apart_m(before, pose) > STEP_M + FASTEST_M_S * apart_s
