"""What samples share: the calibration in force and the rig's poses."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from edgefirst_ros.config.model import EgoOptions
from edgefirst_ros.ego.fixes import JudgedFix, Vehicle
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.messages.camera import CameraInfo
from edgefirst_ros.messages.detection import ModelInfo
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.odometry import Odometry
from edgefirst_ros.messages.radar import RadarInfo
from edgefirst_ros.messages.transform import Transforms, describe_change, makes_cycle
from edgefirst_ros.pipeline.envelope import Window
from edgefirst_ros.sample import Calibration, EgoPose

POSE_EVERY_NS = 25_000_000
"""Least distance of poses for formats that take a trajectory."""
POSE_AT_LEAST_NS = 50_000_000
"""Distance of poses while no navigation message but anything else arrives, so that a trajectory covers it."""


class SampleContext:
    """Calibration in force and rig poses, from messages in order of time, at any time not forgotten.

    Args:
        options: how poses are estimated.
        held_ns: how long messages were held before they come here; the wait for poses includes that.
        has_ego: navigation messages are known to come, so poses wait for them from the start.
        odometry: odometry is known to come, and takes precedence.
        known: the calibration in force before any has come.
        motion: of the whole drive, if it is known beforehand.
        before: trajectory of the sequence before, if it continues.
        window: poses are given within it only, and at its ends.

    Attributes:
        calibration: in force now.
        due: times of which ``poses`` gives the pose once it is final.
        final_ns: poses up to this time are final, or have been waited for long enough.
        picture: width and height of the camera's pictures, None if not known yet.
        trajectory: of the rig.
        moved: first change of each frame's transform, a sentence by frame.
    """

    def __init__(
        self,
        options: EgoOptions,
        *,
        has_ego: bool,
        odometry: bool,
        held_ns: int = 0,
        known: Calibration | None = None,
        motion: Motion | None = None,
        before: Trajectory | None = None,
        window: Window | None = None,
    ) -> None:
        self._window = window or Window()
        self.calibration = known or Calibration()
        self.picture: tuple[int, int] | None = None
        self.moved: dict[str, str] = {}
        self._other_info: CameraInfo | None = None
        wait_ns = round(options.wait_s * 1e9)
        self._wait_ns = max(0, wait_ns - held_ns)
        self.trajectory = before or Trajectory(
            motion,
            vehicle=vehicle(options),
            hold_ns=round(options.hold_s * 1e9),
            reckon_ns=round(options.max_dead_reckoning_s * 1e9),
            reckon_m=options.max_position_sigma_m,
            wait_ns=wait_ns,
            rig_from_imu_xyzw=options.rig_from_imu_xyzw,
            odometry=odometry,
        )
        self._has_ego = has_ego
        self._settled_ns = self.trajectory.final_ns
        self.final_ns = self._settled_ns if has_ego else math.inf
        self._now_ns = 0
        self.due: deque[int] = deque()
        self._last_due_ns: int | None = None

    def learn(self, measurement: Measurement) -> str | None:
        """Take a calibration message; the reason if it is refused, else None.

        The newest of each kind is in force, except that a CameraInfo of another picture size does not replace
        one that fits: it belongs to pictures before or after a change of size.
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
            return self._place(datum)
        return None

    def _place(self, message: Transforms) -> str | None:
        placed = dict(self.calibration.transforms)
        refusal = None
        for transform in message.transforms:
            if makes_cycle(transform, placed):
                refusal = "transform that makes a frame its own ancestor"
            elif (before := placed.get(transform.child)) != transform:
                placed[transform.child] = transform
                if before is not None and (change := describe_change(before, transform)):
                    self.moved.setdefault(
                        transform.child,
                        f"{change}; the newest applies from then on, in formats with one place for it to "
                        "the whole sequence",
                    )
        if placed != self.calibration.transforms:
            self.calibration = replace(self.calibration, transforms=placed)
        return refusal

    def calibration_for(self, picture: tuple[int, int] | None, coming: Iterable[Measurement]) -> Calibration:
        """The calibration with a CameraInfo that fits pictures of another size, if there is one.

        Args:
            picture: width and height.
            coming: measurements received from after the change, in order of time.
        """
        came = [] if self._other_info is None else [self._other_info]
        infos = (*came, *(m.datum for m in coming if isinstance(m.datum, CameraInfo)))
        fitting = next((info for info in infos if _size(info) == picture), None)
        return self.calibration if fitting is None else replace(self.calibration, camera_info=fitting)

    def navigate(self, measurement: Measurement) -> Iterator[JudgedFix]:
        """Take a navigation message.

        Yields the running numbers of messages that are settled now, this one or earlier ones, and why they
        are refused, None if they are accepted.
        """
        datum, time_ns = measurement.datum, measurement.time_ns
        self._has_ego = True
        if isinstance(datum, NavSatFix):
            self.trajectory.add_fix(time_ns, measurement.arrival, datum)
        else:
            if isinstance(datum, Imu):
                self.trajectory.add_imu(time_ns, datum)
            elif isinstance(datum, Odometry):
                self.trajectory.add_odometry(time_ns, datum)
            yield measurement.arrival, None
        judged = list(self.trajectory.judged())
        if not isinstance(datum, NavSatFix) or not any(
            refusal is not None and arrival == measurement.arrival for arrival, refusal in judged
        ):
            self._want_pose(time_ns, POSE_EVERY_NS)
        self._settled_ns = self.trajectory.final_ns
        self.final_ns = max(self._settled_ns, self._now_ns - self._wait_ns)
        yield from judged

    def finish(self) -> Iterator[JudgedFix]:
        """No message comes any more: all is final. Settle what waited, as ``navigate`` does."""
        self.trajectory.finish()
        self.final_ns = math.inf
        if self._last_due_ns is not None:
            self._want_pose(self._now_ns, 1)
        yield from self.trajectory.judged()

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
        begin_ns, end_ns, last_ns = self._window.begin_ns, self._window.end_ns, self._last_due_ns
        if end_ns is None and last_ns is not None and time_ns - last_ns < apart_ns:
            return
        if begin_ns is not None and time_ns < begin_ns:
            return
        if begin_ns is not None and self._last_due_ns is None:
            self.due.append(begin_ns)
            self._last_due_ns = begin_ns
        if end_ns is not None and time_ns >= end_ns:
            time_ns, apart_ns = end_ns - 1, 1
        if self._last_due_ns is None or time_ns - self._last_due_ns >= apart_ns:
            self.due.append(time_ns)
            self._last_due_ns = time_ns

    def close(self) -> None:
        """Release the trajectory, which another sequence may continue."""
        self.trajectory = Trajectory(Motion())

    def pose(self, time_ns: int) -> EgoPose:
        """Pose of the rig."""
        return self.trajectory.pose(time_ns)

    def poses(self, *, located: bool = True) -> Iterator[EgoPose]:
        """Poses that are due and final, each once: at navigation messages, in their gaps, and at the end.

        There are none if no navigation message ever comes; ``located`` as in ``Trajectory.pose``.
        """
        while self.due and self.due[0] <= self.final_ns:
            time_ns = self.due.popleft()
            if self._has_ego:
                yield self.trajectory.pose(time_ns, located=located)

    def forget(self, before_ns: int) -> None:
        """Nothing before this time will be requested any more."""
        self.trajectory.forget(min(before_ns, self.due[0]) if self.due else before_ns)


def vehicle(options: EgoOptions) -> Vehicle:
    """The configured properties of the vehicle."""
    return Vehicle(
        rolls=options.non_holonomic,
        max_gap_ns=round(options.max_gap_s * 1e9),
        fix_sigma_m=options.fix_sigma_m,
    )


def _size(info: CameraInfo) -> tuple[int, int]:
    return info.picture_size
