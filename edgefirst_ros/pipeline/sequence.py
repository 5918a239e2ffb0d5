"""One sequence: measurements of one unbroken time base in, aligned samples out."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.ego.fixes import Mounting
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, Role, SequenceInfo
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.context import PoseAccount, SampleContext
from edgefirst_ros.pipeline.emission import Emission
from edgefirst_ros.pipeline.envelope import Envelope, Window
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.images import Images, SizeChange, TileGrouper
from edgefirst_ros.pipeline.intake import SeamStart
from edgefirst_ros.pipeline.ledger import FrameCounts, Ledger, Stage
from edgefirst_ros.timing.align import Aligned, Aligner, PairingRule, Reorder, Selection
from edgefirst_ros.timing.gaps import StreamStats
from edgefirst_ros.video.bitstream import Content

WATCHED = frozenset({Role.CAMERA, Role.LIDAR_POINTS, Role.IMU, Role.GPS})
"""Roles whose messages show by what they hold whether the sensor is sound."""


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """What is kept of a sequence that has ended; see ``SequenceRun``.

    ``paired`` and ``missing`` are the samples with and without a companion, by configured topic; one is
    missing only while its topic is alive and if a complete sample has it.
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


class SequenceRun:
    """Everything between two breaks of the time base, or of a camera's picture size.

    Messages come in order of arrival through ``feed``; samples leave through the fan-out in order of time.

    Args:
        info: name, host and start.
        config: whole.
        reference: role and topics of the reference.
        images: decodes and encodes its pictures.
        ledger: of the whole run.
        fanout: takes samples and measurements.
        expected: configured topics that are known to send: they count as alive from the start.
        left_out: configured topics of which samples take no message, but of another one of their role.
        known: calibration in force before any has come.
        motion: of the whole drive, where it is known beforehand.
        before: trajectory of the sequence before, where it continues.
        window: what was acquired outside of it belongs to another sequence: it is used, and not counted.
        start: what is taken over from before a seam.

    Attributes:
        frames: reference frames by outcome.
        poses: for how long the rig's poses are based on what.
        stats: by configured topic.
        content: likewise, what its messages hold.
        motion_notes: what the estimate of the rig's motion found, once it is finished.
        mounting: how the IMU is rotated against its configuration, if it is; known once it is finished.
    """

    def __init__(
        self,
        info: SequenceInfo,
        config: Config,
        reference: tuple[Role, frozenset[str]],
        images: Images,
        ledger: Ledger,
        *,
        fanout: FanOut,
        expected: Iterable[str] = (),
        left_out: Iterable[str] = (),
        known: Calibration | None = None,
        motion: Motion | None = None,
        before: Trajectory | None = None,
        window: Window | None = None,
        start: SeamStart | None = None,
    ) -> None:
        self.info = info
        self._window = window or Window()
        self._start = start
        self._images = images
        self._ledger = ledger
        self.stats: dict[str, StreamStats] = {}
        self.content: dict[str, StreamContent] = {}
        self.motion_notes: list[str] = []
        self.mounting: Mounting | None = None
        reference_role, reference_topics = reference
        rules = pairing_rules(config, reference_role)
        self._reach_ns = max((r.tolerance_ns for r in rules.values()), default=0)
        self._window_ns = reorder_window_ns(config)
        self._reorder: Reorder[Envelope] = Reorder(self._window_ns)
        selection = Selection(rate_hz=config.rate_hz, every_n=config.every_n, keyframes=config.keyframes)
        self._aligner: Aligner[Envelope] = Aligner(rules, selection, round(config.alive_s * 1e9))
        alive = frozenset(expected)
        roles = {config.topics[name].role for name in alive}
        self._aligner.expect(alive)
        self._aligner.leave_out(left_out)
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
        self._emission = Emission(info, config, ledger, images=images, context=self._context, fanout=fanout)
        images.watch(self.content)
        self._emission.reference_topics = reference_topics
        self.frames, self.poses = self._emission.frames, self._emission.poses
        self._unjudged: dict[int, Envelope] = {}
        """Fixes that are neither accepted nor refused yet, by their running numbers."""
        self._tiles = TileGrouper()
        self._coming: dict[tuple[str, int], Envelope] = {}
        """Packets of video that are not in order of time yet, by topic and time."""
        self._now_ns = self._oldest_ns = 0
        self._newest = 0, "", 0
        """Time, topic and running number of the last measurement in order of time."""

    @property
    def reference_topics(self) -> frozenset[str]:
        """Topics whose messages are reference frames."""
        return self._emission.reference_topics

    @reference_topics.setter
    def reference_topics(self, topics: frozenset[str]) -> None:
        self._emission.reference_topics = topics

    @property
    def lacking(self) -> Mapping[str, int]:
        """Selected frames that lacked a required companion, by configured topic."""
        return self._aligner.lacking

    @property
    def result(self) -> SequenceResult:
        """What is kept once it has ended; samples that are not written yet are counted in it later."""
        counts = self.frames, self.poses, self.stats, self.content
        pairs = dict(self.lacking), dict(self._aligner.paired), dict(self._aligner.missing)
        found = self.reference_topics, self.mounting, self.calibration
        return SequenceResult(self.info, *counts, *pairs, *found)

    @property
    def calibration(self) -> Calibration:
        """In force now."""
        return self._context.calibration

    @property
    def trajectory(self) -> Trajectory:
        """Of the rig."""
        return self._context.trajectory

    def start_after(self, time_ns: int, last_ns: Mapping[str, int]) -> SeamStart:
        """What a sequence that follows from this time on takes over; this one may go on, too."""
        trajectory = copy.deepcopy(self._context.trajectory)
        trajectory.leave_telling()
        return SeamStart(time_ns, self.calibration, trajectory, self._newest, dict(last_ns))

    @property
    def moved(self) -> list[str]:
        """Sensors whose transform changed, a sentence each."""
        return list(self._context.moved.values())

    def feed(self, envelope: Envelope) -> SizeChange | None:
        """Take a message in order of arrival; the change of picture size that ends the sequence, if any.

        After a change only ``finish`` may follow, and what is in it belongs to the next sequence.
        """
        if envelope.route.rule.role is Role.CAMERA and self._is_joined(envelope):
            return None
        place = envelope.time_ns, envelope.topic, envelope.arrival
        if not self._reorder.push(*place, envelope, envelope.held_bytes):
            self._drop_late(envelope)
            return None
        return self._advance(self._reorder.pop())

    def drain(self) -> SizeChange | None:
        """Nothing more arrives: take what is left in order of time, up to a change as ``feed`` returns it."""
        return self._advance(self._reorder.flush())

    def cut(self, reason: str) -> None:
        """From now on drop samples, because there is no time left to write them."""
        self._emission.cut(reason)

    def finish(self) -> None:
        """The sequence ends: everything that is in its place leaves."""
        picture = self._tiles.flush()
        if picture is not None:
            self._pair(picture)
        self._take(self._aligner.flush())
        self._settle_fixes(self._context.finish())
        self._pump()
        self.motion_notes = self._context.trajectory.notes
        self.mounting = self._context.trajectory.mounting
        self._context.close()

    def _is_joined(self, envelope: Envelope) -> bool:
        """Give a packet to the decoder; True if it was a further slice of a picture, and that is all."""
        key = envelope.topic, envelope.time_ns
        first = self._coming.get(key)
        if envelope.content is Content.PART and first is not None:
            if not self._images.join(first, envelope):
                self._ledger.release(envelope.ticket, Stage.REFUSED, Reason.TORN)
            return True
        self._images.push(envelope)
        if envelope.unshown is None and isinstance(envelope.measurement.datum, VideoPacket):
            self._coming[key] = envelope
        return False

    def _advance(self, ready: Iterable[Envelope]) -> SizeChange | None:
        for envelope in ready:
            if self._window.is_near and not self._window.has(envelope.time_ns):
                # It may have come before anybody knew that a seam would lie before it.
                self._ledger.assign(envelope.ticket, own=False)
            if envelope.unshown is None and envelope.route.rule.role is Role.CAMERA:
                self._coming.pop((envelope.topic, envelope.time_ns), None)
                self._images.judge(envelope)
            if envelope.unshown is not None:
                self._ledger.release(envelope.ticket, *envelope.unshown)
                continue
            if envelope.is_of_other:  # which may not have been known when it came
                self._coming.pop((envelope.topic, envelope.time_ns), None)
                for part in envelope.all_parts:
                    self._ledger.release(part.ticket, Stage.REFUSED, Reason.OTHER_PUBLISHER)
                continue
            if envelope.route.rule.role is Role.CAMERA:
                is_own = self._window.has(envelope.time_ns)
                before = self._images.size_before(envelope) if is_own else None
                if before is not None:
                    return self._changed(envelope, before)
            self._take_in_order(envelope)
        return None

    def _changed(self, first: Envelope, before: tuple[int, int]) -> SizeChange:
        rest = [first, *self._reorder.flush()]
        soon_ns = first.time_ns + self._window_ns // 2
        coming = [envelope.measurement for envelope in rest if envelope.time_ns <= soon_ns]
        known = self._context.calibration_for(first.whole_size, coming)
        rest.sort(key=lambda envelope: envelope.arrival)
        return SizeChange(first, before, tuple(map(self._images.independent, rest)), known)

    def _drop_late(self, envelope: Envelope) -> None:
        """What comes too late for its place is lost; but a mount stamped at boot holds now as well."""
        if envelope.unshown is not None:
            self._ledger.release(envelope.ticket, *envelope.unshown)
        elif envelope.route.rule.role in CONTEXT_ROLES:
            self._learn(envelope)
        else:
            self._coming.pop((envelope.topic, envelope.time_ns), None)
            self._ledger.release(envelope.ticket, Stage.DROPPED, Reason.LATE, unplaced=True)

    def _learn(self, envelope: Envelope, *, observe: bool = False) -> None:
        refusal = self._context.learn(envelope.measurement)
        if refusal is not None:
            self._ledger.release(envelope.ticket, Stage.REFUSED, refusal)
            return
        if observe:
            self._observe(envelope)
        self._ledger.release(envelope.ticket, Stage.DECODED)

    def _take_in_order(self, envelope: Envelope) -> None:
        time_ns, rule = envelope.time_ns, envelope.route.rule
        self._now_ns = time_ns
        self._newest = time_ns, envelope.topic, envelope.arrival
        role = rule.role
        is_context = role in CONTEXT_ROLES
        # A latched transform is received long before anything is measured.
        self._context.passing(time_ns, measured=not is_context)
        if not self.is_foreign(envelope):
            stats = self.stats.get(envelope.route.name)
            if stats is None:
                stats = self.stats[envelope.route.name] = StreamStats(envelope.topic)
                stats.frame_id, stats.role = envelope.measurement.frame_id, role.value
                self.content[envelope.route.name] = StreamContent()
            stats.add(time_ns, envelope.receive_ns, counts_gaps=not is_context)
            if role in WATCHED:
                content = self.content[envelope.route.name]
                envelope.content_measures = content.message(time_ns, envelope.measurement.datum)
        if is_context:
            self._learn(envelope, observe=True)
        elif role in EGO_ROLES:
            self._navigate(envelope)
        else:
            if role is Role.CAMERA:
                self._emission.passing(envelope)
            else:
                self._observe(envelope)
            picture = self._tiles.add(envelope) if rule.tile else self._tiles.advance(time_ns)
            if picture is not None:
                self._pair(picture)
            if not rule.tile:
                self._pair(envelope)
        self._pump()

    def is_foreign(self, envelope: Envelope) -> bool:
        """Whether it is of the sequence across a seam; what is sent once may have the time of a boot."""
        if self._window.has(envelope.time_ns):
            return False
        is_context = envelope.route.rule.role in CONTEXT_ROLES
        return self._window.is_near or not is_context or not envelope.ticket.own

    def _observe(self, envelope: Envelope) -> None:
        if self._emission.observes and not self.is_foreign(envelope):
            self._emission.measurement(envelope)

    def _pair(self, envelope: Envelope) -> None:
        is_reference = envelope.topic in self._emission.reference_topics
        if envelope.route.rule.role is Role.CAMERA and not is_reference:
            self._observe(envelope)
        if envelope.instead and not is_reference:
            self._emission.pass_over(envelope)
            self._take(self._aligner.advance(envelope.time_ns))
            return
        is_foreign = not self._window.has(envelope.time_ns)
        if is_foreign and (is_reference or not self._aligner.takes_foreign(envelope.route.name)):
            foreign, advance = self._aligner.foreign, self._aligner.advance
            self._take(foreign(envelope) if is_reference else advance(envelope.time_ns))
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
        self._unjudged[envelope.arrival] = envelope
        self._settle_fixes(self._context.navigate(envelope.measurement))

    def _settle_fixes(self, judged: Iterable[tuple[int, str | None]]) -> None:
        for arrival, refusal in judged:
            envelope = self._unjudged.pop(arrival, None)
            if envelope is None:  # of before the seam
                continue
            if refusal is not None:
                self._ledger.release(envelope.ticket, Stage.REFUSED, refusal)
                continue
            self._observe(envelope)
            self._ledger.release(envelope.ticket, Stage.DECODED)

    def _take(self, frames: Iterable[Aligned[Envelope]]) -> None:
        for frame in frames:
            reference = frame.reference
            if frame.kind in {"sample", "incomplete"} and reference.route.rule.role is Role.CAMERA:
                self._observe(reference)
            if frame.kind == "sample":
                self._emission.sample(frame)
            else:
                self._emission.reject(frame)
        self._emission.expire(self._aligner.expired())

    def _pump(self) -> None:
        """Let samples leave whose pose is final, and forget what nothing that waits needs any more."""
        self._emission.pump()
        oldest_ns = self._emission.oldest_ns
        if oldest_ns is None:
            oldest_ns = self._aligner.oldest_ns
        if oldest_ns is None:
            oldest_ns = self._now_ns - self._reach_ns
        if oldest_ns > self._oldest_ns:
            self._oldest_ns = oldest_ns
            self._emission.forget(oldest_ns)
            self._images.release(oldest_ns - self._reach_ns)


def pairing_rules(config: Config, reference_role: Role) -> dict[str, PairingRule]:
    """How every configured topic but the reference pairs, by its name.

    A stream that none of the chosen formats makes samples of is not waited for, unless it is always required.
    """
    roles = config.sample_roles
    return {
        name: PairingRule(
            rule.tolerance_ns,
            rule.policy,
            config.required(rule),
            wanted=rule.required != "never" and rule.role in roles,
        )
        for name, rule in config.topics.items()
        if rule.topic
        and rule.role not in CONTEXT_ROLES | EGO_ROLES | {reference_role}
        and rule.tile in {"", "tl"}
    }


def reorder_window_ns(config: Config) -> int:
    """How long measurements wait for earlier ones, so that a sample is complete within the look-ahead.

    What goes to one sample only may take longer, by its tolerance.
    """
    reach_ns = max((r.tolerance_ns for r in config.topics.values() if r.policy != "once"), default=0)
    return max(0, round(config.lookahead_s * 1e9) - reach_ns)
