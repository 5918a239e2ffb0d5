"""What leaves a sequence: samples and measurements, handed on as soon as their poses are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, CameraImage, Observation, Role, Sample, SequenceInfo
from edgefirst_ros.pipeline.context import PoseAccount, SampleContext
from edgefirst_ros.pipeline.delivery import Delivery
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.images import Images
from edgefirst_ros.pipeline.ledger import FrameCounts, Ledger, Outcome, Stage
from edgefirst_ros.timing.align import MOST_WAITING_BYTES, Aligned

KEYS_APART_NS = 10_000_000_000
"""A video without a key frame for so long is decoded however little time there is."""


_Frame = Aligned[Envelope]


class Emission:
    """Hands one sequence's samples and measurements to the fan-out, in order of time.

    Args:
        info: of the sequence.
        config: whole.
        ledger: of the whole run.
        images: of the sequence.
        context: of the sequence.
        fanout: takes what leaves.

    Attributes:
        frames: reference frames by outcome.
        poses: for how long the rig's poses are based on what.
        reference_topics: whose messages are reference frames.
        observes: whether any format takes measurements.
        oldest_ns: time of the first sample that waits for its pose, None if none does.
    """

    def __init__(
        self,
        info: SequenceInfo,
        config: Config,
        ledger: Ledger,
        *,
        images: Images,
        context: SampleContext,
        fanout: FanOut,
    ) -> None:
        self.frames = FrameCounts()
        self.poses = PoseAccount()
        self.reference_topics: frozenset[str] = frozenset()
        self._info = info
        self._topics = config.topics
        self._ledger = ledger
        self._images = images
        self._context = context
        self._fanout = fanout
        self.observes = fanout.observes
        self.oldest_ns: int | None = None
        self._waiting: deque[tuple[_Frame, Calibration]] = deque()
        """Samples that wait for their pose."""
        self._unposed: deque[Delivery[Observation]] = deque()
        """Measurements that wait for their pose, where they are wanted only with one."""
        self._waiting_bytes = 0
        self._key_ns: dict[str, int] = {}
        """Time of the last key frame by topic."""
        self._cut = ""

    def cut(self, reason: str) -> None:
        """From now on drop samples, because there is no time left to write them."""
        self._cut = reason

    def passing(self, camera: Envelope) -> None:
        """Look at a picture in order of time: which key frame was last, and how large pictures are."""
        if not camera.instead:
            self._context.picture = camera.whole_size or self._context.picture
        if camera.keyframe:
            self._key_ns[camera.topic] = camera.time_ns

    def measurement(self, envelope: Envelope) -> None:
        """Hand a measurement, or a picture that is usable, to the formats that take every one.

        To be called only if there are any, see ``observes``.
        """
        fanout, context = self._fanout, self._context
        if envelope.unusable is not None or self._cut:
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
        image = self._images.request(envelope) if is_wanted else None
        make = partial(_observation, role, envelope, context.calibration, context.picture)
        delivery: Delivery[Observation] = Delivery(make, (envelope,), image=image, takers=takers)
        if fanout.needs_pose:
            self._unposed.append(delivery)
            self._waiting_bytes += delivery.held_bytes
        else:
            fanout.measurement(delivery)

    def sample(self, frame: _Frame) -> None:
        """Hold a sample until its pose is known."""
        for companion in frame.companions.values():
            for part in companion.all_parts:
                self._ledger.hold(part.ticket)
        if self._fanout.sheds_early:
            self._request_early(_camera(frame))
        self._waiting.append((frame, self._context.calibration))
        self.oldest_ns = self._waiting[0][0].reference.time_ns
        self._waiting_bytes += _held_bytes(frame)

    def reject(self, frame: _Frame) -> None:
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
        reason = f"samples take {envelope.route.rule.role.value} from {envelope.instead}"
        for part in envelope.all_parts:
            self._ledger.leave_out(part.ticket, self._fanout.sample_formats, reason)
            self._ledger.release(part.ticket, Stage.SKIPPED, reason)

    def expire(self, companions: Iterable[tuple[str, Envelope]]) -> None:
        """Release companions that no frame can take any more, each with its configured topic."""
        for name, envelope in companions:
            rule = self._topics[name]
            reason = f"not paired with a reference frame within {rule.tolerance_ms:g} ms"
            if rule.policy == "once":
                reason = f"no sample within {rule.tolerance_ms:g} ms, or another one is nearer to it"
            for part in envelope.all_parts:
                if part.unusable is not None:
                    self._ledger.release(part.ticket, Stage.DROPPED, part.unusable)
                elif part.ticket.holds == 1 and part.ticket.stage is None:
                    self._ledger.release(part.ticket, Stage.UNPAIRED, reason)
                else:
                    self._ledger.release(part.ticket)

    def pump(self) -> None:
        """Hand on what has its pose, and poses that are due: all up to the time of the last final one.

        Where too much is held, what is first does not wait for its pose.
        """
        final_ns, waiting = self._context.final_ns, self._waiting
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
        due = self._context.due
        if due and due[0] <= final_ns:
            for pose in self._context.poses(located=self.observes):
                self.poses.add(pose)
                if self.observes:
                    self._fanout.pose(pose)

    def forget(self, before_ns: int) -> None:
        """Nothing before this time is aligned or waits as a sample any more."""
        unposed_ns = self._unposed[0].envelopes[0].time_ns if self._unposed else before_ns
        self._context.forget(min(before_ns, unposed_ns))

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
        if self._cut:
            self._count(frame.reference.time_ns, Outcome("dropped", self._cut))
            for part in _messages(frame):
                self._ledger.release(part.ticket, Stage.DROPPED, self._cut)
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
        make = partial(
            Sample,
            self._info,
            frame.number,
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
                image = self._images.request(camera)
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
                place=(self._info.name, frame.number, reference.time_ns),
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
        if not self._fanout.keyframes_only or envelope.topic not in self.reference_topics:
            return False
        key_ns = self._key_ns.get(envelope.topic)
        is_camera = envelope.route.rule.role is Role.CAMERA
        return is_camera and key_ns is not None and abs(envelope.time_ns - key_ns) < KEYS_APART_NS

    def _request_early(self, camera: Envelope | None) -> None:
        """Request a sample's picture in its place among those of measurements, which are requested before."""
        if camera is None:
            return
        is_spared = self._is_spared(camera)
        if self._fanout.wants_picture(possible=not is_spared, better=self._is_quick(camera)):
            self._images.request(camera)
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
