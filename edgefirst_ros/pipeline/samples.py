"""From aligned frames of a camera, or another reference, to samples: these leave once their pose is known."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import (
    Calibration,
    CameraImage,
    Measurement,
    Role,
    Sample,
    SequenceInfo,
    View,
)
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.delivery import Delivery
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.images import Images
from edgefirst_ros.pipeline.ledger import FrameCounts, Outcome, Stage
from edgefirst_ros.pipeline.session import CameraResult, Session
from edgefirst_ros.timing.align import Aligned

Frame = Aligned[Envelope]


class Pictures:
    """Requests pictures of one session's part of a sequence, as far as there is time.

    Args:
        session: takes them.
        images: of the sequence.
        context: of the sequence.
        content: what each configured topic's messages hold, by its name.
    """

    def __init__(
        self,
        session: Session,
        images: Images,
        context: SampleContext,
        content: Mapping[str, StreamContent],
    ) -> None:
        self.images = images
        self._fanout = session.fanout
        self._context = context
        self._content = content

    def request(self, envelope: Envelope) -> Future[CameraImage]:
        """The picture, which is made once."""
        return self.images.request(envelope, self._content.get(envelope.route.name))

    def request_early(self, camera: Envelope | None) -> None:
        """Request a sample's picture in its place among those of measurements, which are requested before."""
        if camera is None:
            return
        is_spared = self.is_spared(camera)
        if self._fanout.wants_picture(possible=not is_spared, better=self.is_quick(camera)):
            self.request(camera)
        elif not is_spared:
            self.images.pass_over(camera)

    def is_quick(self, envelope: Envelope | None) -> bool:
        """Whether a measurement costs no more than others; where decoding is slow, only key frames do not."""
        if envelope is None or envelope.route.rule.role is not Role.CAMERA:
            return True
        return envelope.keyframe or not self.images.is_behind(envelope)

    def is_spared(self, envelope: Envelope | None) -> bool:
        """Whether it is a picture that there is no time to decode, because it is no key frame."""
        if envelope is None or envelope.keyframe or envelope.image is not None:
            return False
        if not self._fanout.keyframes_only or envelope.topic not in self._context.reference_topics:
            return False
        key_ns = self.images.key_ns.get(envelope.topic)
        is_camera = envelope.route.rule.role is Role.CAMERA
        # A video without a key frame for so long is decoded however little time there is.
        return is_camera and key_ns is not None and abs(envelope.time_ns - key_ns) < 10_000_000_000


class Samples:
    """Samples of the reference, or of one camera beside it, that leave a sequence for a session.

    Args:
        info: of the sequence.
        config: whole.
        session: takes what leaves.
        pictures: of the session.
        context: of the sequence.
        camera: sensor and topic of a camera beside the reference, None for the reference.

    Attributes:
        frames: by outcome.
        held_bytes: memory that samples which wait for their pose take.
    """

    def __init__(
        self,
        info: SequenceInfo,
        config: Config,
        session: Session,
        pictures: Pictures,
        context: SampleContext,
        *,
        camera: tuple[str, str] | None = None,
    ) -> None:
        self.info = info
        self.frames = FrameCounts()
        self.held_bytes = 0
        self._topics = config.topics
        self._viewed = frozenset(config.taking_all)
        self._first_number = config.first_frame
        self._session = session
        self._ledger, self._fanout = session.ledger, session.fanout
        self._pictures = pictures
        self._context = context
        self._camera = camera
        # A recording is replayed without any, up to the session that is wanted.
        self._has_takers = camera is None or bool(session.fanout.camera_formats)
        self._lacking, self._paired, self._missing = Counter[str](), Counter[str](), Counter[str]()
        self._promised: dict[int, frozenset[str] | None] = {}
        """Formats that have time for a sample of a camera beside the reference, by its picture's arrival."""
        self._first: int | None = None
        """Number of its first frame; it counts them from there."""
        self._waiting: deque[tuple[Frame, Calibration]] = deque()
        """Samples that wait for their pose."""

    @property
    def first(self) -> Envelope | None:
        """Reference of the first sample that waits for its pose, None if none does."""
        return self._waiting[0][0].reference if self._waiting else None

    @property
    def oldest_ns(self) -> int | None:
        """Its time."""
        return None if self.first is None else self.first.time_ns

    def result(self, references: frozenset[str]) -> CameraResult:
        """What became of the frames, whose references are of these topics."""
        topics = references if self._camera is None else frozenset({self._camera[1]})
        return CameraResult(self.info, self.frames, self._lacking, self._paired, self._missing, topics)

    def take(self, frame: Frame) -> None:
        """Take what became of a reference frame: a sample is held until its pose is known."""
        if self._first is None:
            self._first = frame.number
        if frame.kind != "sample":
            self._reject(frame)
            return
        self._missing.update(frame.lacks)
        self._paired.update(frame.companions.keys())
        for companion in frame.companions.values():
            for part in companion.all_parts:
                self._ledger.hold(part.ticket)
        camera = _camera(frame)
        if self._fanout.sheds_early and self._camera is None:
            self._pictures.request_early(camera)
        sensor = self._context.camera if camera is None else camera.route.sensor
        self._waiting.append((frame, self._context.calibration_of(sensor)))
        self.held_bytes += held_bytes(frame)

    def promise(self, picture: Envelope) -> None:
        """Decide who has time for a sample of a camera beside the reference, and request its picture.

        So that it is requested in its place among all pictures.
        """
        if self._camera is None or not self._has_takers or picture.unusable is not None or self._session.cut:
            return
        takers = None
        if self._fanout.chooses:
            is_spared, is_quick = self._pictures.is_spared(picture), self._pictures.is_quick(picture)
            takers = self._fanout.camera_takers(
                picture, self._camera[0], possible=not is_spared, better=is_quick
            )
            self._promised[picture.arrival] = takers
        if takers is None or takers:
            self._pictures.request(picture)
        elif picture.image is None:
            self._pictures.images.pass_over(picture)

    def leave(self) -> None:
        """Hand the first sample on."""
        frame, calibration = self._waiting.popleft()
        self.held_bytes -= held_bytes(frame)
        self._emit(frame, calibration)

    def _reject(self, frame: Frame) -> None:
        """Count a reference frame that became no sample, and give its companions the reason."""
        self._promised.pop(frame.reference.arrival, None)
        self._count(frame.reference.time_ns, Outcome(frame.kind, frame.reason))
        own: tuple[Stage, str]
        theirs: tuple[Stage, str]
        if frame.kind == "skipped":
            own = (Stage.SKIPPED, frame.reason if isinstance(frame.reason, Reason) else Reason.NOT_SELECTED)
            theirs = (Stage.SKIPPED, Reason.FRAME_NOT_SELECTED)
        elif frame.kind == "unusable":
            own = (Stage.DROPPED, frame.reason)
            theirs = (Stage.UNPAIRED, f"its frame was not usable: {frame.reason}")
        else:
            self._lacking.update(frame.reason.split())
            lacked = ", ".join(self._topics[name].topic for name in frame.reason.split())
            own = (Stage.UNPAIRED, f"no {lacked} close enough")
            theirs = (Stage.UNPAIRED, f"its frame lacked {lacked}")
        for companion in frame.companions.values():
            for part in companion.all_parts:
                self._ledger.note(part.ticket, *theirs)
        for part in frame.reference.all_parts:
            self._ledger.release(part.ticket, *own)

    def _emit(self, frame: Frame, calibration: Calibration) -> None:
        if cut := self._session.cut:
            self._count(frame.reference.time_ns, Outcome("dropped", cut))
            for part in _messages(frame):
                self._ledger.release(part.ticket, Stage.DROPPED, cut)
            return
        reference, camera = frame.reference, _camera(frame)
        every = (reference, *frame.companions.values())
        by_role = {each.route.rule.role: each for each in every if self._is_own(each)}
        is_spared, takers = False, self._promised.pop(reference.arrival, None)
        if self._fanout.chooses and self._camera is None:
            is_spared = self._pictures.is_spared(camera)
            takers = self._fanout.sample_takers(
                reference, camera, possible=not is_spared, better=self._pictures.is_quick(camera)
            )
        ego = self._context.pose(reference.time_ns)
        number = frame.number - (self._first or 0) + self._first_number
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
            views=self._views(every, calibration) if self._camera is None else (),
        )
        image = None
        if camera is not None and self._has_takers:
            if takers is None or takers:
                image = self._pictures.request(camera)
            else:
                image = camera.image
                if not (is_spared or self._fanout.sheds_early or self._camera is not None):
                    self._pictures.images.pass_over(camera)
        hand = self._fanout.sample if self._camera is None else self._fanout.camera_sample
        hand(
            Delivery(
                make,
                every,
                image=image,
                takers=takers,
                outcome=partial(self._count, reference.time_ns, is_complete=not frame.lacks),
                ego=ego,
                place=(self.info.name, number, reference.time_ns),
                is_reference=self._camera is None,
            )
        )

    def _is_own(self, envelope: Envelope) -> bool:
        """Whether it is the one of its role that these samples take."""
        if self._camera is None:
            return not envelope.instead
        return envelope.route.sensor == self._camera[0] or self._camera[0] in envelope.cameras

    def _views(self, every: Iterable[Envelope], calibration: Calibration) -> tuple[View, ...]:
        """What goes with the other cameras, each with its own CameraInfo."""
        found: dict[str, dict[Role, Measurement]] = {}
        for each in every:
            role = each.route.rule.role
            if each.instead and each.cameras and role in self._viewed:
                found.setdefault(min(each.cameras), {})[role] = each.measurement
        infos = calibration.other_cameras
        return tuple(
            View(camera, companions, replace(calibration, camera_info=infos.get(camera)))
            for camera, companions in sorted(found.items())
        )

    def _count(self, time_ns: int, outcome: Outcome, *, is_complete: bool = False) -> None:
        """Count what became of the reference frame of that time."""
        self.frames.count(outcome, is_complete=is_complete)
        if self._camera is None:
            self._ledger.frame(outcome.kind, time_ns)


def held_bytes(frame: Frame) -> int:
    """Memory that a frame and its companions take."""
    return sum(part.held_bytes for part in _messages(frame))


def _messages(frame: Frame) -> Iterator[Envelope]:
    """All messages of a frame and its companions."""
    yield from frame.reference.all_parts
    for companion in frame.companions.values():
        yield from companion.all_parts


def _camera(frame: Frame) -> Envelope | None:
    """What the picture of a sample is of."""
    found = (frame.reference, *frame.companions.values())
    return next((envelope for envelope in found if envelope.route.rule.role is Role.CAMERA), None)
