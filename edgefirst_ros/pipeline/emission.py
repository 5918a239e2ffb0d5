"""What leaves a sequence for a session: samples and measurements, handed on once their poses are known."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import CONTEXT_ROLES, OF_PICTURES
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, CameraImage, EgoPose, Observation, Role, SequenceInfo
from edgefirst_ros.model.transform import bare
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.context import PoseAccount, SampleContext
from edgefirst_ros.pipeline.delivery import Delivery
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.frames import camera_sequence
from edgefirst_ros.pipeline.images import Images
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.pipeline.samples import Frame, Pictures, Samples
from edgefirst_ros.pipeline.session import SequenceResult, SequenceSummary, Session
from edgefirst_ros.pipeline.transforms import MovedFrame, unheeded, without_rig
from edgefirst_ros.timing.align import MOST_WAITING_BYTES
from edgefirst_ros.timing.finding import TopicClock
from edgefirst_ros.timing.gaps import StreamStats

WATCHED = frozenset({Role.CAMERA, Role.LIDAR_POINTS, Role.IMU})
"""Roles whose messages show by what they hold whether the sensor is sound."""


class Emission:
    """Hands one session's samples and measurements of a sequence to its fan-out, in order of time.

    Args:
        info: of the sequence.
        config: whole.
        session: takes what leaves.
        images: of the sequence.
        context: of the sequence.

    Attributes:
        poses: for how long the rig's poses are based on what.
        stats: by configured topic.
        content: likewise, what its messages hold.
        samples: of the reference.
        cameras: samples of the cameras beside it, by sensor.
        unmoved: frames that were taken because nothing says whether the rig moves.
    """

    def __init__(
        self, info: SequenceInfo, config: Config, session: Session, *, images: Images, context: SampleContext
    ) -> None:
        self.info = info
        self.session = session
        self.poses = PoseAccount()
        self.unmoved = 0
        self.stats: dict[str, StreamStats] = {}
        self.content: dict[str, StreamContent] = {}
        self._config, self._taking_all = config, config.taking_all
        self._ledger, self._fanout = session.ledger, session.fanout
        self._context = context
        self._pictures = Pictures(session, images, context, self.content)
        self.samples = Samples(info, config, session, self._pictures, context)
        self.cameras: dict[str, Samples] = {}
        self._every_camera = [self.samples]
        self._calibration: Calibration | None = None
        self._moved: dict[str, MovedFrame] = {}
        self._unposed: deque[Delivery[Observation]] = deque()
        """Measurements that wait for their pose, where they are wanted only with one."""
        self._unposed_bytes = 0

    @property
    def oldest_ns(self) -> int | None:
        """Time of the first sample that waits for its pose, None if none does."""
        waiting_ns = [each.oldest_ns for each in self._every_camera]
        return min((time_ns for time_ns in waiting_ns if time_ns is not None), default=None)

    @property
    def _held_bytes(self) -> int:
        """Memory that what waits for its pose takes."""
        return self._unposed_bytes + sum([each.held_bytes for each in self._every_camera])

    @property
    def waits_from_ns(self) -> int:
        """Time of the first measurement that waits for its pose; far ahead if none does."""
        return self._unposed[0].envelopes[0].time_ns if self._unposed else 1 << 63

    def passing(self, envelope: Envelope) -> None:
        """Look at a message in order of time."""
        name, role, time_ns = envelope.route.name, envelope.route.rule.role, envelope.time_ns
        stats = self.stats.get(name)
        if stats is None:
            stats = self.stats[name] = StreamStats(envelope.topic)
            stats.frame_id, stats.role = envelope.measurement.frame_id, role.value
            stats.sensor, stats.device = envelope.route.sensor, envelope.route.rule.device
            self.content[name] = StreamContent()
        elif envelope.measurement.frame_id not in {stats.frame_id, ""}:
            stats.other_frame_id = stats.other_frame_id or envelope.measurement.frame_id
        stats.add(time_ns, envelope.receive_ns, counts_gaps=role not in CONTEXT_ROLES)
        if role in WATCHED:
            envelope.content_measures = self.content[name].message(time_ns, envelope.measurement.datum)

    def measurement(self, envelope: Envelope) -> None:
        """Hand a measurement, or a picture that is usable, to the formats that take every one."""
        fanout, context = self._fanout, self._context
        if not fanout.observes or envelope.unusable is not None or self.session.cut:
            return
        role = envelope.route.rule.role
        for part in envelope.all_parts:
            self._ledger.hold(part.ticket)
        takers = None
        if fanout.chooses:
            is_spared, is_quick = self._pictures.is_spared(envelope), self._pictures.is_quick(envelope)
            takers = fanout.measurement_takers(envelope, possible=not is_spared, better=is_quick)
        is_wanted = role is Role.CAMERA and (takers is None or len(takers) > 0)
        image = self._pictures.request(envelope) if is_wanted else None
        calibration, picture = context.calibration, context.picture
        if role is Role.CAMERA:
            calibration = context.calibration_of(envelope.route.sensor)
            picture = envelope.whole_size or picture
        elif role in {Role.RADAR_TARGETS, Role.RADAR_CUBE}:
            calibration = context.calibration_of_radar(envelope.route.sensor)
        elif role in OF_PICTURES and calibration.other_cameras:
            calibration = self._calibration_of_its_camera(envelope)
        make = partial(_observation, role, envelope, calibration, picture)
        delivery: Delivery[Observation] = Delivery(make, (envelope,), image=image, takers=takers)
        if fanout.needs_pose:
            self._unposed.append(delivery)
            self._unposed_bytes += delivery.held_bytes
        else:
            fanout.measurement(delivery)

    def _calibration_of_its_camera(self, envelope: Envelope) -> Calibration:
        """For what is said of pictures: that of the one camera in whose frame it is, if there is only one."""
        frame, cameras = bare(envelope.measurement.frame_id), self.stats.values()
        known = {e.sensor for e in cameras if e.role == Role.CAMERA.value and bare(e.frame_id) == frame}
        own = [*(known if len(known) < 2 else known & envelope.cameras)]
        if len(own) != 1:
            return self._context.calibration
        return replace(self._context.calibration_of(own[0]), other_cameras={})

    def frame(self, frame: Frame) -> None:
        """Take what became of a reference frame: a sample is held until its pose is known."""
        reference = frame.reference
        if frame.kind in {"sample", "incomplete"} and reference.route.rule.role is Role.CAMERA:
            self.measurement(reference)
            frame = self._other_cameras(frame)
        self.samples.take(frame)

    def _other_cameras(self, frame: Frame) -> Frame:
        """Hand on the pictures of other cameras that are taken with a frame; the frame without them."""
        cameras = (item for item in frame.companions.items() if item[1].route.rule.role is Role.CAMERA)
        others = {name: each for name, each in cameras if each.instead}
        for each in others.values():
            self.other_camera(each)
        rest = {name: each for name, each in frame.companions.items() if name not in others}
        return frame._replace(companions=rest) if others else frame

    def other_camera(self, picture: Envelope) -> None:
        """Take a picture of a camera beside the reference; a sample of its own comes later."""
        self.measurement(picture)
        self.leave_out(picture)
        if picture.cameras and picture.route.sensor in self.cameras:
            self.cameras[picture.route.sensor].promise(picture)

    def samples_of(self, sensor: str, topic: str) -> Samples:
        """Samples of a camera beside the reference, which begin with its first picture."""
        if sensor not in self.cameras:
            info = camera_sequence(self.info, sensor, [each.info.name for each in self.cameras.values()])
            self._fanout.begin_camera(info)
            of = self.session, self._pictures, self._context
            self.cameras[sensor] = Samples(info, self._config, *of, camera=(sensor, topic))
            self._every_camera.append(self.cameras[sensor])
        return self.cameras[sensor]

    def pass_over(self, envelope: Envelope) -> None:
        """Leave out of samples a message of a topic in whose place they take another one of its role."""
        reason = self.leave_out(envelope)
        for part in envelope.all_parts:
            self._ledger.release(part.ticket, Stage.SKIPPED, reason)

    def leave_out(self, envelope: Envelope) -> str:
        """Tell the formats whose samples get nothing of a message why; the reason."""
        role = envelope.route.rule.role
        reason = f"samples take {role.value} from {envelope.instead}"
        if role in OF_PICTURES and envelope.cameras:
            reason = f"it is of the pictures of {envelope.instead}"
        having = [*self._taking_all.get(role, ())] if envelope.is_of_view else []
        having += self._fanout.camera_formats if envelope.cameras else []
        lacking = [name for name in self._fanout.sample_formats if name not in having]
        for part in envelope.all_parts:
            self._ledger.leave_out(part.ticket, lacking, reason)
        return reason

    def pump(self, final_ns: float, frontier_ns: float = math.inf) -> None:
        """Hand on what has its pose: all up to the time of the last final one, in order of time.

        Where too much is held, what is first does not wait for its pose.

        Args:
            final_ns: up to this time poses are final.
            frontier_ns: before this time no sample of any camera can come any more.
        """
        if self._unposed:
            self._release_posed(final_ns)
        everything = self._every_camera
        while waiting := [(first.time_ns, n) for n, each in enumerate(everything) if (first := each.first)]:
            time_ns, number = min(waiting)
            is_due = time_ns <= final_ns and time_ns < frontier_ns
            if not is_due and self._held_bytes <= MOST_WAITING_BYTES:
                break
            if any(delivery.envelopes[0] is everything[number].first for delivery in self._unposed):
                break  # where no format takes samples, what becomes of its measurement decides
            everything[number].leave()

    def pose(self, pose: EgoPose) -> None:
        """Take a pose that was due; they come in order of time."""
        self.poses.add(pose)
        if self._fanout.observes:
            self._fanout.pose(pose)

    def stop(self) -> None:
        """What is learnt from now on is not the session's."""
        if self._calibration is None:
            self._calibration = self._context.calibration
            placed, rig = self._calibration.transforms, self.info.rig_frame
            transforms = self._context.transforms
            self._moved, transforms.moved = without_rig(transforms.moved, placed, rig), {}
            for child, each in self._moved.items():
                each.held = transforms.held.pop(bare(child), 0)

    def finish(self, findings: Sequence[TopicClock], reason: str, *, goes_on: bool = False) -> None:
        """Everything has left: the session keeps what is known of the sequence.

        Args:
            findings: clocks.
            reason: why it ends.
            goes_on: whether the rig's motion does not.
        """
        self.stop()
        session, trajectory, name = self.session, self._context.trajectory, self.info.name
        session.current = None
        placed, streams = (self._calibration or Calibration()).transforms, self.stats.values()
        said = [*(() if goes_on else trajectory.notes), *(each.said for each in self._moved.values())]
        said += () if goes_on else unheeded(self._config, placed, streams)
        if self.unmoved:
            said.append(f"no motion is known of {self.unmoved:,} frames, which were taken as if it moved")
        session.notes += [f"{name}: {note}" for note in said]
        topics = self._context.reference_topics
        result = SequenceResult(
            self.samples.result(topics),
            {sensor: each.result(topics) for sensor, each in self.cameras.items()},
            self.poses,
            self.stats,
            self.content,
            trajectory.mounting,
            [*trajectory.doubts, *self.poses.doubts],
            self._calibration or Calibration(),
            self._moved,
            self._context.camera,
        )
        session.done.append(SequenceSummary(name, result, tuple(findings), reason))

    def _release_posed(self, final_ns: float) -> None:
        """Hand on measurements whose pose has come; those that have none are left out."""
        while self._unposed:
            envelope = self._unposed[0].envelopes[0]
            if envelope.time_ns > final_ns and self._held_bytes <= MOST_WAITING_BYTES:
                return
            delivery = self._unposed.popleft()
            self._unposed_bytes -= delivery.held_bytes
            if self._context.pose(envelope.time_ns).is_known:
                self._fanout.measurement(delivery)
                continue
            for part in envelope.all_parts:
                self._ledger.release(part.ticket, Stage.SKIPPED, Reason.POSE_UNKNOWN)


def _observation(
    role: Role,
    envelope: Envelope,
    calibration: Calibration,
    picture: tuple[int, int] | None,
    image: CameraImage | None,
) -> Observation:
    return Observation(role, envelope.measurement, calibration, image, picture)
