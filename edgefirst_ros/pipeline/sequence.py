"""One sequence: measurements of one unbroken time base in, aligned samples out."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Mapping

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.account import PoseAccount
from edgefirst_ros.ego.findings import Mounting
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.ego.whole import Solution
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.images import Images
from edgefirst_ros.pipeline.ledger import LATE, Ledger, Stage
from edgefirst_ros.pipeline.outcomes import FrameCounts, Rejections, envelopes_of
from edgefirst_ros.pipeline.pairing import pairing_rules, reorder_window_ns
from edgefirst_ros.pipeline.picturesize import PictureChange, PictureSizes, Size, whole_size
from edgefirst_ros.pipeline.seam import Start, Window
from edgefirst_ros.pipeline.settlement import Outcome
from edgefirst_ros.pipeline.sink import Emitted, Observed, Sink
from edgefirst_ros.pipeline.tiles import TileGrouper
from edgefirst_ros.sample import Calibration, Observation, Role, Sample, SequenceInfo
from edgefirst_ros.timing.align import Aligned, Aligner
from edgefirst_ros.timing.reorder import Reorder
from edgefirst_ros.timing.select import Selection
from edgefirst_ros.timing.streamstats import StreamStats
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.video.bitstream import Content

TORN = "a part of a picture that was given to the decoder without it"

KEYS_APART_NS = 10_000_000_000
"""A video without a key frame for so long is decoded however little time there is."""

POSE_UNKNOWN = "the rig's pose is unknown then (ncore.unknown_pose: cut)"


class SequenceRun:
    """Everything between two breaks of the time base, or of a camera's picture size.

    ``motion`` is the whole drive's, where it is known beforehand; ``before`` the trajectory of the sequence
    before, where it goes on.
    What was acquired outside of the ``window`` is of another sequence: it is used for what lies within, and
    not counted. ``start`` is what is known from before a seam.
    ``expected`` are the configured topics that are known to send: they count as alive
    from the start. ``known`` is the calibration in force before anything has come. Entries come in order of
    arrival through ``feed``; samples leave through the sink in order of time.
    """

    def __init__(
        self,
        info: SequenceInfo,
        config: Config,
        reference: tuple[Role, frozenset[str]],
        images: Images,
        ledger: Ledger,
        *,
        sink: Sink,
        expected: Iterable[str] = (),
        known: Calibration | None = None,
        motion: Solution | None = None,
        before: Trajectory | None = None,
        window: Window | None = None,
        start: Start | None = None,
    ) -> None:
        self.info = info
        self._window = window or Window()
        self._start = start
        self.frames = FrameCounts()
        self.stats: dict[str, StreamStats] = {}
        """by configured topic."""
        self.poses = PoseAccount()
        """How long the rig's poses rest on what."""
        self.motion_notes: list[str] = []
        """What the estimate of the rig's motion found, once it is finished."""
        self.mounting: Mounting | None = None
        """How the IMU is turned against what is configured, if it is; known once it is finished."""
        self._config = config
        reference_role, self.reference_topics = reference
        self._images = images
        self._ledger = ledger
        self._sink = sink
        self._rejections = Rejections(ledger, config.topics)
        rules = pairing_rules(config, reference_role)
        self._reach_ns = max((r.tolerance_ns for r in rules.values()), default=0)
        self._window_ns = reorder_window_ns(config)
        self._reorder: Reorder[Envelope] = Reorder(self._window_ns)
        selection = Selection(rate_hz=config.rate_hz, every_n=config.every_n, keyframes=config.keyframes)
        self._aligner: Aligner[Envelope] = Aligner(rules, selection, round(config.alive_s * 1e9))
        alive = frozenset(expected)
        roles = {config.topics[name].role for name in alive}
        self._aligner.expect(alive)
        if start is not None:
            self._aligner.heard(start.last_ns)
        self._context = SampleContext(
            config.ego,
            held_ns=self._window_ns,
            has_ego=bool(roles & EGO_ROLES),
            odometry=Role.ODOMETRY in roles,
            known=known,
            motion=motion,
            before=before,
            window=self._window,
        )
        self._unjudged: dict[int, Envelope] = {}
        """Fixes of which it is not known yet whether they are believed, by their running numbers."""
        self._tiles = TileGrouper()
        self._sizes = PictureSizes()
        self._coming: dict[tuple[str, int], Envelope] = {}
        """Packets of video that are not in the order of time yet, by topic and time."""
        self._waiting: deque[tuple[Aligned[Envelope], Calibration]] = deque()
        self._unposed: deque[Observed] = deque()
        """Measurements that wait for their pose, where they are wanted only with one."""
        self._now_ns = 0
        self._key_ns: dict[str, int] = {}
        """Time of the last key frame by topic."""
        self._newest = 0, "", 0
        """The last measurement in order of time."""
        self._cut = ""

    @property
    def lacking(self) -> Mapping[str, int]:
        """Selected frames that lacked a required companion, by configured topic."""
        return self._aligner.lacking

    @property
    def calibration(self) -> Calibration:
        """In force now."""
        return self._context.calibration

    @property
    def trajectory(self) -> Trajectory:
        """Of the rig."""
        return self._context.trajectory

    def start_after(self, time_ns: int, last_ns: Mapping[str, int]) -> Start:
        """What a sequence that goes on from a seam at this time begins with; this one may go on, too."""
        trajectory = copy.deepcopy(self._context.trajectory)
        return Start(time_ns, self.calibration, trajectory, self._newest, dict(last_ns))

    @property
    def moved(self) -> list[str]:
        """Sensors whose transform changed, a sentence each."""
        return list(self._context.moved.values())

    def feed(self, envelope: Envelope) -> PictureChange | None:
        """Take a measurement in order of arrival; the change that ends the sequence, if there is one.

        After a change only ``finish`` may follow, and what is in it belongs to the next sequence.
        """
        if envelope.route.rule.role is Role.CAMERA and self._arrived(envelope):
            return None
        measurement = envelope.measurement
        if not self._reorder.push(envelope.time_ns, measurement.topic, measurement.arrival, envelope):
            self._late(envelope)
            return None
        return self._advance(self._reorder.pop())

    def drain(self) -> PictureChange | None:
        """Nothing more arrives: take what is left in order of time, up to a change as ``feed`` tells it."""
        return self._advance(self._reorder.flush())

    def cut(self, reason: str) -> None:
        """From now on samples are dropped instead of made, because there is no time left to write them."""
        self._cut = reason

    def finish(self) -> None:
        """The sequence ends: everything that is in its place comes out."""
        self._joined(self._tiles.flush())
        self._take(self._aligner.flush())
        self._judge(self._context.finish())
        self._pump(final=True)
        self.motion_notes = self._context.trajectory.notes
        self.mounting = self._context.trajectory.mounting
        self._context.close()

    def _arrived(self, envelope: Envelope) -> bool:
        """Give the decoder a packet; True if that is all, because it is a part of a picture known already."""
        key = envelope.route.topic, envelope.time_ns
        first = self._coming.get(key)
        if envelope.content is Content.PART and first is not None:
            if not self._images.join(first, envelope):
                self._ledger.release(envelope.ticket, Stage.REFUSED, TORN)
            return True
        self._images.arrive(envelope)
        if envelope.unshown is None and isinstance(envelope.measurement.datum, VideoPacket):
            self._coming[key] = envelope
        return False

    def _advance(self, ready: Iterable[tuple[int, Envelope]]) -> PictureChange | None:
        for _, envelope in ready:
            if self._window.is_near and not self._window.has(envelope.time_ns):
                # It may have come before anybody knew that a seam would lie before it.
                self._ledger.assign(envelope.ticket, own=False)
            if envelope.unshown is not None:
                self._ledger.release(envelope.ticket, *envelope.unshown)
                continue
            if envelope.route.rule.role is Role.CAMERA:
                self._coming.pop((envelope.route.topic, envelope.time_ns), None)
                self._images.judge(envelope)
                before = self._sizes.changed(envelope) if self._window.has(envelope.time_ns) else None
                if before is not None:
                    return self._changed(envelope, before)
            self._ordered(envelope)
        return None

    def _changed(self, first: Envelope, before: Size) -> PictureChange:
        rest = [first, *(envelope for _, envelope in self._reorder.flush())]
        soon_ns = first.time_ns + self._window_ns // 2
        coming = [envelope.measurement for envelope in rest if envelope.time_ns <= soon_ns]
        known = self._context.calibration_for(whole_size(first), coming)
        rest.sort(key=lambda envelope: envelope.measurement.arrival)
        return PictureChange(first, before, tuple(map(self._images.independent, rest)), known)

    def _late(self, envelope: Envelope) -> None:
        """What comes too late for its place is lost; but a mount stamped at boot holds now as well."""
        if envelope.unshown is not None:
            self._ledger.release(envelope.ticket, *envelope.unshown)
        elif envelope.route.rule.role in CONTEXT_ROLES:
            self._learn(envelope)
        else:
            self._coming.pop((envelope.route.topic, envelope.time_ns), None)
            self._ledger.release(envelope.ticket, Stage.DROPPED, LATE, unplaced=True)

    def _learn(self, envelope: Envelope, *, observe: bool = False) -> None:
        refusal = self._context.learn(envelope.measurement)
        if refusal is not None:
            self._ledger.release(envelope.ticket, Stage.REFUSED, refusal)
            return
        if observe:
            self._observe(envelope)
        self._ledger.release(envelope.ticket, Stage.DECODED)

    def _ordered(self, envelope: Envelope) -> None:
        """One measurement in order of time."""
        self._now_ns = envelope.time_ns
        self._newest = envelope.time_ns, envelope.measurement.topic, envelope.measurement.arrival
        self._context.passing(envelope.time_ns)
        role = envelope.route.rule.role
        if not self._is_foreign(envelope):
            stats = self.stats.setdefault(envelope.route.name, StreamStats(envelope.route.topic))
            stats.add(envelope.time_ns, envelope.measurement.receive_ns)
            if role not in CONTEXT_ROLES:
                stats.gaps.add(envelope.time_ns)
        if role in CONTEXT_ROLES:
            self._learn(envelope, observe=True)
        elif role in EGO_ROLES:
            self._navigate(envelope)
        else:
            if role is not Role.CAMERA:
                self._observe(envelope)
            else:
                self._context.picture = whole_size(envelope) or self._context.picture
                if envelope.keyframe:
                    self._key_ns[envelope.route.topic] = envelope.time_ns
            if envelope.route.rule.tile:
                self._joined(self._tiles.feed(envelope))
            else:
                self._joined(self._tiles.advance(envelope.time_ns))
                self._pair(envelope)
        self._pump(final=False)

    def _is_foreign(self, envelope: Envelope) -> bool:
        """Whether it is of the sequence across a seam; what is told once may have the time of a boot."""
        told_once = envelope.route.rule.role in CONTEXT_ROLES and not self._window.is_near
        return not (told_once or self._window.has(envelope.time_ns))

    def _joined(self, picture: Envelope | None) -> None:
        if picture is not None:
            self._pair(picture)

    def _observe(self, envelope: Envelope) -> None:
        """Hand a measurement, or a picture that is usable, to the formats that take every one."""
        if (
            not self._sink.observes
            or envelope.unusable is not None
            or self._cut
            or self._is_foreign(envelope)
        ):
            return
        role = envelope.route.rule.role
        for part in envelope.all_parts:
            self._ledger.hold(part.ticket)
        takers = self._sink.measurement_takers(
            envelope, possible=not self._is_spared(envelope), better=self._is_quick(envelope)
        )
        wanted = role is Role.CAMERA and (takers is None or len(takers) > 0)
        image = self._images.request(envelope) if wanted else None
        around = self._context
        observation = Observation(role, envelope.measurement, around.calibration, picture=around.picture)
        observed = Observed(observation, image, envelope, takers)
        if self._sink.needs_pose:
            self._unposed.append(observed)
        else:
            self._sink.measurement(observed)

    def _pair(self, envelope: Envelope) -> None:
        is_reference = envelope.route.topic in self.reference_topics
        if envelope.route.rule.role is Role.CAMERA and not is_reference:
            self._observe(envelope)
        if is_reference and not self._window.has(envelope.time_ns):
            self._take(self._aligner.advance(envelope.time_ns))
            for part in envelope.all_parts:
                self._ledger.release(part.ticket)
        elif is_reference:
            self._take(self._aligner.reference(envelope))
        else:
            self._take(self._aligner.companion(envelope.route.name, envelope))

    def _navigate(self, envelope: Envelope) -> None:
        if self._start is not None and self._start.is_taken(envelope.measurement):
            self._ledger.release(envelope.ticket)
            return
        self._unjudged[envelope.measurement.arrival] = envelope
        self._judge(self._context.navigate(envelope.measurement))

    def _is_quick(self, envelope: Envelope | None) -> bool:
        """Whether a measurement costs no more than others; where decoding is slow, only key frames do not."""
        return (
            envelope is None
            or envelope.route.rule.role is not Role.CAMERA
            or (envelope.keyframe or not self._images.is_behind(envelope))
        )

    def _is_spared(self, envelope: Envelope | None) -> bool:
        """Whether it is a picture that there is no time to decode, because it is no key frame."""
        if (
            envelope is None
            or envelope.keyframe
            or envelope.image is not None
            or not self._sink.keyframes_only
        ):
            return False
        if envelope.route.rule.role is not Role.CAMERA or envelope.route.topic not in self.reference_topics:
            return False
        key_ns = self._key_ns.get(envelope.route.topic)
        return key_ns is not None and abs(envelope.time_ns - key_ns) < KEYS_APART_NS

    def _ask_early(self, camera: Envelope | None) -> None:
        """Ask for a sample's picture in its place among those of measurements, which are asked for before."""
        if camera is None or not self._sink.sheds_early:
            return
        spared = self._is_spared(camera)
        if self._sink.wants_picture(possible=not spared, better=self._is_quick(camera)):
            self._images.request(camera)
        elif not spared:
            self._images.pass_over(camera)

    def _judge(self, outcomes: Iterable[tuple[int, str | None]]) -> None:
        for arrival, refusal in outcomes:
            envelope = self._unjudged.pop(arrival, None)
            if envelope is None:  # of before the seam
                continue
            if refusal is not None:
                self._ledger.release(envelope.ticket, Stage.REFUSED, refusal)
                continue
            self._observe(envelope)
            self._ledger.release(envelope.ticket, Stage.DECODED)

    def _take(self, outcomes: Iterable[Aligned[Envelope]]) -> None:
        for aligned in outcomes:
            reference = aligned.reference
            if aligned.kind in {"sample", "incomplete"} and reference.route.rule.role is Role.CAMERA:
                self._observe(reference)
            if aligned.kind == "sample":
                for envelope in envelopes_of(aligned):
                    self._ledger.hold(envelope.ticket)
                self._ask_early(_camera(aligned))
                self._waiting.append((aligned, self._context.calibration))
                for part in reference.all_parts:
                    self._ledger.release(part.ticket)
                continue
            self.frames.count(Outcome(aligned.kind, aligned.reason))
            self._rejections.rejected(aligned)
        self._rejections.expired(self._aligner.expired())

    def _pump(self, *, final: bool) -> None:
        """Let samples go whose pose is known, and pictures that nobody can ask for any more."""
        self._release_posed(final=final)
        while self._waiting:
            reference = self._waiting[0][0].reference
            if not (final or self._context.is_known(reference.time_ns, self._now_ns)):
                break
            if any(observed.envelope is reference for observed in self._unposed):
                break  # where no format takes samples, what becomes of its measurement decides
            self._emit(*self._waiting.popleft())
        for pose in self._context.poses(self._now_ns, final=final):
            self.poses.add(pose)
            if self._sink.observes:
                self._sink.pose(pose)
        oldest_ns = self._waiting[0][0].reference.time_ns if self._waiting else self._aligner_oldest_ns()
        unposed_ns = self._unposed[0].observation.measurement.time_ns if self._unposed else oldest_ns
        self._context.forget(min(oldest_ns, unposed_ns))
        self._images.release(oldest_ns - self._reach_ns)

    def _release_posed(self, *, final: bool) -> None:
        """Let measurements go whose pose has come; those that have none are left out."""
        while self._unposed:
            time_ns = self._unposed[0].observation.measurement.time_ns
            if not (final or self._context.is_known(time_ns, self._now_ns)):
                return
            observed = self._unposed.popleft()
            if self._context.pose(time_ns).is_known:
                self._sink.measurement(observed)
                continue
            for envelope in observed.envelope.all_parts:
                self._ledger.release(envelope.ticket, Stage.SKIPPED, POSE_UNKNOWN)

    def _emit(self, aligned: Aligned[Envelope], calibration: Calibration) -> None:
        if not self._cut:
            self._sink.sample(self._sample(aligned, calibration))
            return
        self.frames.count(Outcome("dropped", self._cut))
        for envelope in envelopes_of(aligned):
            self._ledger.release(envelope.ticket, Stage.DROPPED, self._cut)

    def _aligner_oldest_ns(self) -> int:
        oldest = self._aligner.oldest_ns
        return self._now_ns - self._reach_ns if oldest is None else oldest

    def _sample(self, aligned: Aligned[Envelope], calibration: Calibration) -> Emitted:
        reference = aligned.reference
        by_role: dict[Role, Envelope] = {reference.route.rule.role: reference}
        for companion in aligned.companions.values():
            by_role.setdefault(companion.route.rule.role, companion)
        camera = _camera(aligned)
        spared = self._is_spared(camera)
        takers = self._sink.sample_takers(
            reference, camera, possible=not spared, better=self._is_quick(camera)
        )
        sample = Sample(
            sequence=self.info,
            frame=aligned.frame,
            time_ns=reference.time_ns,
            companions={role: envelope.measurement for role, envelope in by_role.items()},
            error_ns={role: envelope.time_ns - reference.time_ns for role, envelope in by_role.items()},
            ego=self._context.pose(reference.time_ns),
            calibration=calibration,
        )
        image = None
        if camera is not None:
            if takers is None or takers:
                image = self._images.request(camera)
            else:
                image = camera.image
                if not (spared or self._sink.sheds_early):
                    self._images.pass_over(camera)
        envelopes = (reference, *aligned.companions.values())
        return Emitted(sample, image, envelopes, self.frames.count, takers)


def _camera(aligned: Aligned[Envelope]) -> Envelope | None:
    """What the picture of a sample is of."""
    envelopes = (aligned.reference, *aligned.companions.values())
    return next((envelope for envelope in envelopes if envelope.route.rule.role is Role.CAMERA), None)
