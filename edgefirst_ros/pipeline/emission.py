"""What leaves a sequence for a session: samples and measurements, handed on once their poses are known."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import CONTEXT_ROLES
from edgefirst_ros.ego.fixes import Mounting
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import (
    Calibration,
    CameraImage,
    EgoPose,
    Observation,
    Role,
    Sample,
    SequenceInfo,
)
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.context import PoseAccount, SampleContext
from edgefirst_ros.pipeline.delivery import Delivery
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.images import Images
from edgefirst_ros.pipeline.ledger import FrameCounts, Ledger, Outcome, Stage
from edgefirst_ros.timing.align import MOST_WAITING_BYTES, Aligned
from edgefirst_ros.timing.finding import TopicClock
from edgefirst_ros.timing.gaps import StreamStats

WATCHED = frozenset({Role.CAMERA, Role.LIDAR_POINTS, Role.IMU, Role.GPS})
"""Roles whose messages show by what they hold whether the sensor is sound."""
KEYS_APART_NS = 10_000_000_000
"""A video without a key frame for so long is decoded however little time there is."""


_Frame = Aligned[Envelope]


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """What is kept of a sequence that has ended, or whose session has.

    ``paired`` and ``missing`` are the samples with and without a companion, by configured topic; one is
    missing only while its topic is alive and if a complete sample has it. ``lacking`` are the selected frames
    without a required one. Samples that are not written yet are counted in it later.
    """

    info: SequenceInfo
    frames: FrameCounts
    poses: PoseAccount
    stats: Mapping[str, StreamStats]
    content: Mapping[str, StreamContent]
    lacking: Mapping[str, int]
    paired: Mapping[str, int]
    missing: Mapping[str, int]
    reference_topics: frozenset[str]
    mounting: Mounting | None
    calibration: Calibration
    """In force at its end."""


@dataclass(frozen=True, slots=True)
class SequenceSummary:
    """One sequence that has ended."""

    name: str
    result: SequenceResult
    findings: tuple[TopicClock, ...]
    ended: str
    """Why it ended: end of the source, break of the time base, or change of picture size."""


@dataclass(slots=True, eq=False)
class Session:
    """What messages become from one time to another: a dataset.

    Attributes:
        ledger: counts its messages.
        fanout: takes its samples and measurements.
        host: that they come from.
        name: of its next sequence; None for one made of host and time.
        end_ns: acquisition time from which on messages belong to the next session; None while there is none.
        cut: why nothing is handed to writers any more; empty while there is time. Any thread may set it.
        notes: sentences for the user, once each.
        done: its sequences that have ended.
        current: the one under way; any thread may read it.
    """

    ledger: Ledger
    fanout: FanOut
    host: str = ""
    name: str | None = None
    end_ns: int | None = None
    cut: str = ""
    notes: list[str] = field(default_factory=list)
    done: list[SequenceSummary] = field(default_factory=list)
    current: Emission | None = None
    recorded_ns: int = 0
    """From its first message's receipt to its last one's, in every source."""
    last_ns: int | None = None
    """Receipt of the source's newest message."""

    def received(self, receive_ns: int) -> None:
        """A message was received then, of which it is not known yet where it belongs."""
        if receive_ns <= 0:
            return  # received before there was a time
        if self.last_ns is not None and receive_ns > self.last_ns:
            self.recorded_ns += receive_ns - self.last_ns
        self.last_ns = max(receive_ns, self.last_ns or receive_ns)


def session_at(sessions: Sequence[Session], time_ns: int) -> Session:
    """The one to which what was acquired then belongs."""
    for session in sessions:
        if session.end_ns is None or time_ns < session.end_ns:
            return session
    return sessions[-1]


class Emission:
    """Hands one session's samples and measurements of a sequence to its fan-out, in order of time.

    Args:
        info: of the sequence.
        config: whole.
        session: takes what leaves.
        images: of the sequence.
        context: of the sequence.

    Attributes:
        frames: reference frames by outcome.
        poses: for how long the rig's poses are based on what.
        stats: by configured topic.
        content: likewise, what its messages hold.
        oldest_ns: time of the first sample that waits for its pose, None if none does.
    """

    def __init__(
        self, info: SequenceInfo, config: Config, session: Session, *, images: Images, context: SampleContext
    ) -> None:
        self.info = info
        self.session = session
        self.frames = FrameCounts()
        self.poses = PoseAccount()
        self.stats: dict[str, StreamStats] = {}
        self.content: dict[str, StreamContent] = {}
        self._lacking, self._paired, self._missing = Counter[str](), Counter[str](), Counter[str]()
        self._topics = config.topics
        self._ledger, self._fanout = session.ledger, session.fanout
        self._images = images
        self._context = context
        self._calibration: Calibration | None = None
        self._moved: list[str] = []
        self._first: int | None = None
        """Number of its first frame; it counts them from there."""
        self.oldest_ns: int | None = None
        self._waiting: deque[tuple[_Frame, Calibration]] = deque()
        """Samples that wait for their pose."""
        self._unposed: deque[Delivery[Observation]] = deque()
        """Measurements that wait for their pose, where they are wanted only with one."""
        self._waiting_bytes = 0

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
            self.content[name] = StreamContent()
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
            takers = fanout.measurement_takers(
                envelope, possible=not self._is_spared(envelope), better=self._is_quick(envelope)
            )
        is_wanted = role is Role.CAMERA and (takers is None or len(takers) > 0)
        image = self._request(envelope) if is_wanted else None
        calibration, picture = context.calibration, context.picture
        if role is Role.CAMERA:
            calibration = context.calibration_of(envelope.route.sensor)
            picture = envelope.whole_size or picture
        elif role in {Role.RADAR_TARGETS, Role.RADAR_CUBE}:
            calibration = context.calibration_of_radar(envelope.route.sensor)
        make = partial(_observation, role, envelope, calibration, picture)
        delivery: Delivery[Observation] = Delivery(make, (envelope,), image=image, takers=takers)
        if fanout.needs_pose:
            self._unposed.append(delivery)
            self._waiting_bytes += delivery.held_bytes
        else:
            fanout.measurement(delivery)

    def frame(self, frame: _Frame) -> None:
        """Take what became of a reference frame: a sample is held until its pose is known."""
        if self._first is None:
            self._first = frame.number
        reference, is_sample = frame.reference, frame.kind == "sample"
        if (is_sample or frame.kind == "incomplete") and reference.route.rule.role is Role.CAMERA:
            self.measurement(reference)
            frame = self._other_cameras(frame)
        if not is_sample:
            self._reject(frame)
            return
        self._missing.update(frame.lacks)
        self._paired.update(frame.companions.keys())
        for companion in frame.companions.values():
            for part in companion.all_parts:
                self._ledger.hold(part.ticket)
        if self._fanout.sheds_early:
            self._request_early(_camera(frame))
        camera = _camera(frame)
        sensor = self._context.camera if camera is None else camera.route.sensor
        self._waiting.append((frame, self._context.calibration_of(sensor)))
        self.oldest_ns = self._waiting[0][0].reference.time_ns
        self._waiting_bytes += _held_bytes(frame)

    def _other_cameras(self, frame: _Frame) -> _Frame:
        """Hand on the pictures of other cameras that are taken with a frame; the frame without them."""
        others = {name: each for name, each in frame.companions.items() if each.instead}
        for each in others.values():
            self.measurement(each)
            self._leave_out(each)
        rest = {name: each for name, each in frame.companions.items() if name not in others}
        return replace(frame, companions=rest) if others else frame

    def _reject(self, frame: _Frame) -> None:
        """Count a reference frame that became no sample, and give its companions the reason."""
        self._count(frame.reference.time_ns, Outcome(frame.kind, frame.reason))
        own: tuple[Stage, str]
        theirs: tuple[Stage, str]
        if frame.kind == "skipped":
            own = (Stage.SKIPPED, Reason.NOT_SELECTED)
            theirs = (Stage.SKIPPED, Reason.FRAME_NOT_SELECTED)
        elif frame.kind == "unusable":
            own = (Stage.DROPPED, frame.reason)
            theirs = (Stage.UNPAIRED, f"its reference frame was not usable: {frame.reason}")
        else:
            self._lacking.update(frame.reason.split())
            lacked = ", ".join(self._topics[name].topic for name in frame.reason.split())
            own = (Stage.UNPAIRED, f"no {lacked} close enough")
            theirs = (Stage.UNPAIRED, f"its reference frame lacked {lacked}")
        for companion in frame.companions.values():
            for part in companion.all_parts:
                self._ledger.note(part.ticket, *theirs)
        for part in frame.reference.all_parts:
            self._ledger.release(part.ticket, *own)

    def pass_over(self, envelope: Envelope) -> None:
        """Leave out of samples a message of a topic in whose place they take another one of its role."""
        reason = self._leave_out(envelope)
        for part in envelope.all_parts:
            self._ledger.release(part.ticket, Stage.SKIPPED, reason)

    def _leave_out(self, envelope: Envelope) -> str:
        """Tell the formats that take samples why they get nothing of a message; the reason."""
        reason = f"samples take {envelope.route.rule.role.value} from {envelope.instead}"
        for part in envelope.all_parts:
            self._ledger.leave_out(part.ticket, self._fanout.sample_formats, reason)
        return reason

    def pump(self, final_ns: float) -> None:
        """Hand on what has its pose: all up to the time of the last final one.

        Where too much is held, what is first does not wait for its pose.
        """
        waiting = self._waiting
        if self._unposed:
            self._release_posed(final_ns)
        while waiting:
            reference = waiting[0][0].reference
            if reference.time_ns > final_ns and self._waiting_bytes <= MOST_WAITING_BYTES:
                break
            if any(delivery.envelopes[0] is reference for delivery in self._unposed):
                break  # where no format takes samples, what becomes of its measurement decides
            frame, calibration = waiting.popleft()
            self.oldest_ns = waiting[0][0].reference.time_ns if waiting else None
            self._waiting_bytes -= _held_bytes(frame)
            self._emit(frame, calibration)

    def pose(self, pose: EgoPose) -> None:
        """Take a pose that was due; they come in order of time."""
        self.poses.add(pose)
        if self._fanout.observes:
            self._fanout.pose(pose)

    def stop(self) -> None:
        """What is learnt from now on is not the session's."""
        if self._calibration is None:
            self._calibration = self._context.calibration
            self._moved, self._context.moved = list(self._context.moved.values()), {}

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
        said = (*(() if goes_on else trajectory.notes), *self._moved)
        session.notes += [f"{name}: {note}" for note in said]
        result = SequenceResult(
            self.info,
            self.frames,
            self.poses,
            self.stats,
            self.content,
            self._lacking,
            self._paired,
            self._missing,
            self._context.reference_topics,
            trajectory.mounting,
            self._calibration or Calibration(),
        )
        session.done.append(SequenceSummary(name, result, tuple(findings), reason))

    def _release_posed(self, final_ns: float) -> None:
        """Hand on measurements whose pose has come; those that have none are left out."""
        while self._unposed:
            envelope = self._unposed[0].envelopes[0]
            if envelope.time_ns > final_ns and self._waiting_bytes <= MOST_WAITING_BYTES:
                return
            delivery = self._unposed.popleft()
            self._waiting_bytes -= delivery.held_bytes
            if self._context.pose(envelope.time_ns).is_known:
                self._fanout.measurement(delivery)
                continue
            for part in envelope.all_parts:
                self._ledger.release(part.ticket, Stage.SKIPPED, Reason.POSE_UNKNOWN)

    def _emit(self, frame: _Frame, calibration: Calibration) -> None:
        if cut := self.session.cut:
            self._count(frame.reference.time_ns, Outcome("dropped", cut))
            for part in _messages(frame):
                self._ledger.release(part.ticket, Stage.DROPPED, cut)
            return
        reference, camera = frame.reference, _camera(frame)
        by_role = {each.route.rule.role: each for each in (reference, *frame.companions.values())}
        is_spared, takers = False, None
        if self._fanout.chooses:
            is_spared = self._is_spared(camera)
            takers = self._fanout.sample_takers(
                reference, camera, possible=not is_spared, better=self._is_quick(camera)
            )
        ego = self._context.pose(reference.time_ns)
        number = frame.number - (self._first or 0)
        make = partial(
            Sample,
            self.info,
            number,
            reference.time_ns,
            {role: envelope.measurement for role, envelope in by_role.items()},
            {role: envelope.time_ns - reference.time_ns for role, envelope in by_role.items()},
            ego,
            calibration,
            content={role: envelope.content_measures for role, envelope in by_role.items()},
        )
        image = None
        if camera is not None:
            if takers is None or takers:
                image = self._request(camera)
            else:
                image = camera.image
                if not (is_spared or self._fanout.sheds_early):
                    self._images.pass_over(camera)
        envelopes = (reference, *frame.companions.values())
        self._fanout.sample(
            Delivery(
                make,
                envelopes,
                image=image,
                takers=takers,
                outcome=partial(self._count, reference.time_ns, is_complete=not frame.lacks),
                ego=ego,
                place=(self.info.name, number, reference.time_ns),
            )
        )

    def _count(self, time_ns: int, outcome: Outcome, *, is_complete: bool = False) -> None:
        """Count what became of the reference frame of that time."""
        self.frames.count(outcome, is_complete=is_complete)
        self._ledger.frame(outcome.kind, time_ns)

    def _is_quick(self, envelope: Envelope | None) -> bool:
        """Whether a measurement costs no more than others; where decoding is slow, only key frames do not."""
        if envelope is None or envelope.route.rule.role is not Role.CAMERA:
            return True
        return envelope.keyframe or not self._images.is_behind(envelope)

    def _is_spared(self, envelope: Envelope | None) -> bool:
        """Whether it is a picture that there is no time to decode, because it is no key frame."""
        if envelope is None or envelope.keyframe or envelope.image is not None:
            return False
        if not self._fanout.keyframes_only or envelope.topic not in self._context.reference_topics:
            return False
        key_ns = self._images.key_ns.get(envelope.topic)
        is_camera = envelope.route.rule.role is Role.CAMERA
        return is_camera and key_ns is not None and abs(envelope.time_ns - key_ns) < KEYS_APART_NS

    def _request(self, envelope: Envelope) -> Future[CameraImage]:
        return self._images.request(envelope, self.content.get(envelope.route.name))

    def _request_early(self, camera: Envelope | None) -> None:
        """Request a sample's picture in its place among those of measurements, which are requested before."""
        if camera is None:
            return
        is_spared = self._is_spared(camera)
        if self._fanout.wants_picture(possible=not is_spared, better=self._is_quick(camera)):
            self._request(camera)
        elif not is_spared:
            self._images.pass_over(camera)


def _observation(
    role: Role,
    envelope: Envelope,
    calibration: Calibration,
    picture: tuple[int, int] | None,
    image: CameraImage | None,
) -> Observation:
    return Observation(role, envelope.measurement, calibration, image, picture)


def _held_bytes(frame: _Frame) -> int:
    """Memory that a frame and its companions take."""
    return sum(part.held_bytes for part in _messages(frame))


def _messages(frame: _Frame) -> Iterator[Envelope]:
    """All messages of a frame and its companions."""
    yield from frame.reference.all_parts
    for companion in frame.companions.values():
        yield from companion.all_parts


def _camera(frame: _Frame) -> Envelope | None:
    """What the picture of a sample is of."""
    found = (frame.reference, *frame.companions.values())
    return next((envelope for envelope in found if envelope.route.rule.role is Role.CAMERA), None)
