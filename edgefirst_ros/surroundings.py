"""What samples share: the calibration in force and where the vehicle was."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from edgefirst_ros.config import EgoOptions
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.messages.camera import CameraInfo
from edgefirst_ros.messages.detection import ModelInfo
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.odometry import Odometry
from edgefirst_ros.messages.radar import RadarInfo
from edgefirst_ros.messages.transform import Transforms, loops
from edgefirst_ros.sample import Calibration, EgoPose

POSE_EVERY_NS = 25_000_000
"""Poses for formats that take a trajectory are no closer together than this."""
POSE_AT_LEAST_NS = 50_000_000
"""While anything arrives they are hardly further apart, so that a trajectory covers its sequence."""


class Surroundings:
    """Takes calibration and navigation messages in order of time; answers for any time not forgotten.

    Args:
        options: how positions are interpolated and held.
        has_ego: navigation messages are known to come, so that answers wait for them from the start.
        odometry: odometry is known to come and leads.
        known: the calibration in force before any has come.

    Attributes:
        calibration: in force now.
        picture: width and height of the camera's pictures, None if not known yet.
    """

    def __init__(
        self, options: EgoOptions, *, has_ego: bool, odometry: bool, known: Calibration | None = None
    ) -> None:
        self.calibration = known or Calibration()
        self.picture: tuple[int, int] | None = None
        self._other_info: CameraInfo | None = None
        self._trajectory = Trajectory(
            max_gap_ns=round(options.max_gap_s * 1e9),
            hold_ns=round(options.hold_s * 1e9),
            rig_from_imu_xyzw=options.rig_from_imu_xyzw,
            odometry=odometry,
        )
        self._has_ego = has_ego
        self._wait_ns = round(options.wait_s * 1e9)
        self._due: deque[int] = deque()
        self._last_due_ns: int | None = None

    def learn(self, measurement: Measurement) -> str | None:
        """Take a calibration message, the newest of each kind is in force; why it is refused, None if not.

        But a CameraInfo of another picture size does not replace one that fits: it is of the pictures before
        a change of size, or of those after one.
        """
        datum, known = measurement.datum, self.calibration
        if isinstance(datum, CameraInfo):
            if known.camera_info is not None and _size(datum) != self.picture == _size(known.camera_info):
                self._other_info = datum
            else:
                self.calibration = replace(known, camera_info=datum)
        elif isinstance(datum, RadarInfo):
            self.calibration = replace(known, radar_info=datum)
        elif isinstance(datum, ModelInfo):
            self.calibration = replace(known, model_info=datum)
        elif isinstance(datum, Transforms):
            placed = dict(known.transforms)
            refusal = None
            for transform in datum.transforms:
                if loops(transform, placed):
                    refusal = "transform that makes a frame its own ancestor"
                elif placed.get(transform.child) != transform:
                    placed[transform.child] = transform
            if placed != known.transforms:
                self.calibration = replace(known, transforms=placed)
            return refusal
        return None

    def calibration_for(self, picture: tuple[int, int] | None, coming: Iterable[Measurement]) -> Calibration:
        """What is known for pictures of another size, with a CameraInfo that fits them if there is one.

        Args:
            picture: width and height.
            coming: what is known already of the time after the change, in order of time.
        """
        came = [] if self._other_info is None else [self._other_info]
        infos = (*came, *(m.datum for m in coming if isinstance(m.datum, CameraInfo)))
        fitting = next((info for info in infos if _size(info) == picture), None)
        return self.calibration if fitting is None else replace(self.calibration, camera_info=fitting)

    def navigate(self, measurement: Measurement) -> str | None:
        """Take a navigation message; why it is refused, None if it is not."""
        datum, time_ns, refusal = measurement.datum, measurement.time_ns, None
        self._has_ego = True
        if isinstance(datum, NavSatFix):
            refusal = self._trajectory.add_fix(time_ns, datum)
        elif isinstance(datum, Imu):
            self._trajectory.add_imu(time_ns, datum)
        elif isinstance(datum, Odometry):
            self._trajectory.add_odometry(time_ns, datum)
        if refusal is None:
            self._want_pose(time_ns, POSE_EVERY_NS)
        return refusal

    def passing(self, time_ns: int) -> None:
        """Anything at all was measured then: a trajectory has a pose there where navigation is silent."""
        self._want_pose(time_ns, POSE_AT_LEAST_NS)

    def _want_pose(self, time_ns: int, apart_ns: int) -> None:
        if self._last_due_ns is None or time_ns - self._last_due_ns >= apart_ns:
            self._due.append(time_ns)
            self._last_due_ns = time_ns

    def is_known(self, time_ns: int, now_ns: int) -> bool:
        """Whether the pose at a time is as good as it will be, or has been waited for long enough."""
        if not self._has_ego or now_ns >= time_ns + self._wait_ns:
            return True
        return self._trajectory.settled(time_ns)

    def pose(self, time_ns: int) -> EgoPose:
        """Where the vehicle was."""
        return self._trajectory.pose(time_ns)

    def poses(self, now_ns: int, *, final: bool) -> Iterator[EgoPose]:
        """Poses at the times of navigation messages and in their gaps, each once, as soon as they are known.

        The last one is at the end of the sequence. Where no navigation message ever comes there is none.
        """
        if final and self._last_due_ns is not None and now_ns > self._last_due_ns:
            self._due.append(now_ns)
        while self._due and (final or self.is_known(self._due[0], now_ns)):
            time_ns = self._due.popleft()
            if self._has_ego:
                yield self._trajectory.pose(time_ns)

    def forget(self, before_ns: int) -> None:
        """Nothing before this time will be asked for."""
        self._trajectory.forget(min(before_ns, self._due[0]) if self._due else before_ns)


def _size(info: CameraInfo) -> tuple[int, int]:
    return info.picture_size
