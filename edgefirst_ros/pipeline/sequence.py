"""One sequence: measurements of one unbroken time base in, aligned samples out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import (
    CONTEXT_ROLES,
    EGO_ROLES,
    sensor_of,
)
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, Role, SequenceInfo
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.emission import Emission
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.frames import ALIVE_NS, CameraFrames, Choosing
from edgefirst_ros.pipeline.images import Images, SizeChange, TileGrouper
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.pipeline.session import Session, session_at
from edgefirst_ros.pipeline.transforms import TransformBuffer
from edgefirst_ros.timing.align import Aligned, Aligner, PairingRule, Reorder, Selection
from edgefirst_ros.video.headers import Content

VIEW_NS = 250_000_000
"""What is of another camera or lidar only travels with a sample, and has its own time. Half the period of a
reference at 2 Hz: the nearest message comes with every sample, whatever its phase."""


class SequenceRun:
    """Everything between two breaks of the time base, or of a camera's picture size.

    Messages come in order of arrival through ``feed``; samples leave in order of time, each for the session
    of its time. A message that samples of two sessions take is counted by that of its own time.

    Args:
        sessions: in order of time; may grow, and lose those that have ended.
        begin: called with a session and a time when its part of the sequence begins; names and announces it.
        config: whole.
        images: decodes and encodes its pictures.
        time_ns: of the first message.
        reference: role and topics of the reference.
        camera: the sensor whose pictures samples take.
        expected: configured topics that are known to send: they count as alive from the start.
        left_out: configured topics of which samples take no message, but of another one of their role.
        known: calibration in force before any has come.
        transforms: of the source.
        motion: of the whole drive, where it is known beforehand.
        before: trajectory of the sequence before, where it continues.

    Attributes:
        emissions: what leaves, by session.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        begin: Callable[[Session, int], SequenceInfo],
        config: Config,
        images: Images,
        *,
        time_ns: int,
        reference: tuple[Role, frozenset[str]],
        camera: str = "",
        expected: Iterable[str] = (),
        left_out: Iterable[str] = (),
        known: Calibration | None = None,
        transforms: TransformBuffer | None = None,
        motion: Motion | None = None,
        before: Trajectory | None = None,
    ) -> None:
        self._sessions = sessions
        self._begin = begin
        self._config = config
        self._images = images
        reference_role, reference_topics = reference
        self._viewed = frozenset(config.taking_all)
        left_out = tuple(left_out)
        views = (n for n in left_out if config.topics[n].role in self._viewed)
        beside = PairingRule(VIEW_NS, "once", "never", wanted=False)
        rules = pairing_rules(config, reference_role, camera) | dict.fromkeys(views, beside)
        self._reach_ns = max((r.tolerance_ns for r in rules.values()), default=0)
        self._window_ns = reorder_window_ns(config)
        self._reorder: Reorder[Envelope] = Reorder(self._window_ns)
        alive = frozenset(expected)
        roles = {config.topics[name].role for name in alive}
        self._context = SampleContext(
            config,
            camera=camera,
            held_ns=self._window_ns,
            has_ego=bool(roles & EGO_ROLES),
            odometry=Role.ODOMETRY in roles,
            known=known,
            motion=motion,
            before=before,
            reference_topics=reference_topics,
            transforms=transforms,
        )
        self._choosing = Choosing(config, self._context)
        selection = Selection(
            rate_hz=config.rate_hz, every=config.select.every, keyframes=config.select.keyframes
        )
        if self._choosing.chooses:
            selection.refusal = self._choosing.refusal
        reach_ns = self._reach_ns if self._choosing.chooses else 0
        self._aligner: Aligner[Envelope] = Aligner(rules, selection, ALIVE_NS, reach_ns)
        self._aligner.expect(alive)
        self._aligner.leave_out(left_out)
        self._selects = config.selects or self._choosing.chooses
        self.emissions: dict[Session, Emission] = {}
        self._unjudged: dict[int, Envelope] = {}
        """Fixes that are neither accepted nor refused yet, by their running numbers."""
        self._cameras: dict[str, CameraFrames] = {}
        """Cameras beside the reference that formats take samples of, by sensor."""
        self._samples_all_cameras = config.samples_all_cameras
        self._tiles = TileGrouper()
        self._coming: dict[tuple[str, int], Envelope] = {}
        """Packets of video and scans that are not in order of time yet, by topic and time."""
        self._scans: dict[str, tuple[int, int]] = {}
        """Time of each topic's newest scan, and since the one before."""
        self._now_ns = self._oldest_ns = self._forget_ns = 0
        self._open(session_at(sessions, time_ns), time_ns)

    @property
    def reference_topics(self) -> frozenset[str]:
        """Topics whose messages are reference frames."""
        return self._context.reference_topics

    def refer_to(self, topics: frozenset[str], camera: str) -> None:
        """Take these as the reference's topics, and this as the camera of samples, which came later."""
        self._context.reference_topics = topics
        self._context.take_camera(camera)

    @property
    def calibration(self) -> Calibration:
        """In force now."""
        return self._context.calibration

    @property
    def trajectory(self) -> Trajectory:
        """Of the rig."""
        return self._context.trajectory

    @property
    def next_ns(self) -> int:
        """Earliest time at which another session can begin: everything before is in order of time."""
        return (self._reorder.left_ns or 0) + 1

    def feed(self, envelopes: deque[Envelope]) -> SizeChange | None:
        """Take messages in order of arrival; the change of picture size that ends the sequence, if any.

        What is in its place is taken out of order of time, for several of them at once where that makes no
        difference. After a change only ``finish`` may follow; what is in it belongs to the next sequence, and
        so do the messages that are left.
        """
        while envelopes:
            envelope = envelopes[0]
            if not self._may_wait(envelope) and (change := self._advance(self._reorder.pop())) is not None:
                return change
            self._push(envelopes.popleft())
        return self._advance(self._reorder.pop())

    def _may_wait(self, envelope: Envelope) -> bool:
        """Whether what is in its place by now becomes the same if this message is pushed first."""
        role = envelope.route.rule.role
        return (
            self._reorder.is_next(envelope.time_ns)
            and not self._context.transforms.is_news(envelope.measurement, role)
            and not (role is Role.CAMERA and self._images.learns_from(envelope))
        )

    def _push(self, envelope: Envelope) -> None:
        is_picture = envelope.route.rule.role is Role.CAMERA
        if self._is_joined(envelope) if is_picture else self._is_segment(envelope):
            return
        self._context.transforms.arrive(envelope.measurement, envelope.route.rule.role)
        place = envelope.time_ns, envelope.topic, envelope.arrival
        if not self._reorder.push(*place, envelope, envelope.held_bytes):
            self._drop_late(envelope)

    def drain(self) -> SizeChange | None:
        """Nothing more arrives: take what is left in order of time, up to a change as ``feed`` returns it."""
        return self._advance(self._reorder.flush())

    def reach(self, time_ns: int) -> SizeChange | None:
        """Take what samples before a time need, without waiting for more of it; as ``feed`` otherwise."""
        return self._advance(self._reorder.pop(time_ns + self._reach_ns))

    def finish(self) -> None:
        """The sequence ends: everything that is in its place leaves."""
        picture = self._tiles.flush()
        if picture is not None:
            self._pair(picture)
        if self._choosing.chooses:  # which frames are taken is known only then
            self._settle_fixes(self._context.finish())
            self._align_ready(math.inf)
        self._take(self._aligner.flush())
        for sensor, frames in self._cameras.items():
            self._take(frames.flush(), sensor)
        if not self._choosing.chooses:
            self._settle_fixes(self._context.finish())
        for emission in self.emissions.values():
            # Not ``_pump``: until now a frame of another camera might still have come at the newest time.
            emission.pump(self._context.final_ns)
        self._give_poses()

    def close(self) -> None:
        """Release the trajectory, which another sequence may continue."""
        self._context.close()

    def let_go(self, emission: Emission, end_ns: int) -> None:
        """A session has ended then: what is still held of it leaves as far as it has come."""
        picture = self._tiles.advance(end_ns)
        if picture is not None:
            self._pair(picture)
        self._align_ready(end_ns - 1)
        self._take(self._aligner.leave(end_ns))
        for sensor, frames in self._cameras.items():
            self._take(frames.leave(end_ns), sensor)
        session = emission.session
        for arrival, envelope in [*self._unjudged.items()]:
            if envelope.ticket.ledger is session.ledger:
                self._settle_fixes([(arrival, None)])
        if self._now_ns < end_ns:
            self._context.end_at(self._now_ns)
        emission.pump(end_ns)
        self._give_poses(end_ns - 1)
        del self.emissions[session]

    def _open(self, session: Session, time_ns: int) -> Emission:
        """What is from this time on leaves for this session; the one before ends there."""
        for before in self.emissions.values():
            before.stop()
            self._context.end_at(time_ns - 1)
        if self._now_ns:
            self._context.end_at(time_ns)
        info = self._begin(session, time_ns)
        emission = Emission(info, self._config, session, images=self._images, context=self._context)
        session.current = self.emissions[session] = emission
        return emission

    def _own(self, envelope: Envelope) -> Emission:
        """Of the session to which a message in its place belongs, and by which it is counted from now on."""
        time_ns = envelope.time_ns
        session = session_at(self._sessions, time_ns)
        for part in envelope.all_parts:
            session.ledger.take(part.ticket)
        if (emission := self.emissions.get(session)) is not None:
            return emission
        seams_ns = (each.end_ns for each in self._sessions if each.end_ns is not None)
        return self._open(session, max((ns for ns in seams_ns if ns <= time_ns), default=time_ns))

    def _is_joined(self, envelope: Envelope) -> bool:
        """Give a packet to the decoder; True if it was a further slice of a picture, and that is all."""
        key = envelope.topic, envelope.time_ns
        first = self._coming.get(key)
        if envelope.content is Content.PART and first is not None:
            if not self._images.join(first, envelope):
                self._own(envelope)
                _release(envelope, Stage.REFUSED, Reason.TORN)
            return True
        self._images.push(envelope)
        if envelope.unshown is None and isinstance(envelope.measurement.datum, VideoPacket):
            self._coming[key] = envelope
        return False

    def _is_segment(self, envelope: Envelope) -> bool:
        """Add a segment to the scan of its stamp; True if it was one, and that is all.

        A sweep that repeats the stamp of the one before is refused: it comes as late as the next one.
        """
        datum, key = envelope.measurement.datum, (envelope.topic, envelope.time_ns)
        if not isinstance(datum, PointCloud):
            return False
        if envelope.content is not Content.PART:
            before_ns, _ = self._scans.get(envelope.topic, (envelope.time_ns, 0))
            self._scans[envelope.topic] = envelope.time_ns, envelope.time_ns - before_ns
            self._coming[key] = envelope
            return False
        first, period_ns = self._coming.get(key), self._scans[envelope.topic][1]
        if first is not None and isinstance(scan := first.measurement.datum, PointCloud):
            since_ns = envelope.receive_ns - first.all_parts[-1].receive_ns
            if since_ns < (period_ns * 2 / 3 or math.inf) and scan.points.dtype == datum.points.dtype:
                points = np.concatenate([scan.points, datum.points])
                whole = PointCloud(points, 1, len(points), scan.class_names)
                first.measurement = first.measurement._replace(datum=whole)
                first.slices = (*first.slices, envelope)
                return True
        self._own(envelope)
        _release(envelope, Stage.REFUSED, Reason.SAME_STAMP)
        return True

    def _advance(self, ready: Iterable[Envelope]) -> SizeChange | None:
        ready = list(ready)
        before, left = None, []
        for number, envelope in enumerate(ready):
            before = self._judge(envelope)
            if before is not None:
                ready, left = ready[:number], ready[number:]
                break
        for several in [ready] if self._are_of_one_kind(ready) else [[each] for each in ready]:
            self._take_in_order(several)
        if before is None:
            return None
        self._own(left[0])
        return self._changed(left, before)

    def _judge(self, envelope: Envelope) -> tuple[int, int] | None:
        """Judge a picture; the size of those before it if it has another."""
        if envelope.unshown is not None:
            return None
        self._coming.pop((envelope.topic, envelope.time_ns), None)
        if envelope.route.rule.role is not Role.CAMERA:
            return None
        self._images.judge(envelope)
        return self._images.size_before(envelope) if envelope.unshown is None else None

    def _are_of_one_kind(self, ready: Iterable[Envelope]) -> bool:
        """Whether all are of one session and of topics that are known in it, so that none begins anything."""
        emission = self.emissions.get(self._sessions[0]) if len(self._sessions) == 1 else None
        return emission is not None and all(each.route.name in emission.stats for each in ready)

    def _take_in_order(self, several: Iterable[Envelope]) -> None:
        used = []
        for envelope in several:
            emission = self._own(envelope)
            if envelope.unshown is not None:
                _release(envelope, *envelope.unshown)
            else:
                emission.passing(envelope)
                used.append((envelope, emission))
        for envelope, emission in used:
            self._use(envelope, emission)

    def _changed(self, left: Sequence[Envelope], before: tuple[int, int]) -> SizeChange:
        first, rest = left[0], [*left, *self._reorder.flush()]
        soon_ns = first.time_ns + self._window_ns // 2
        coming = [envelope.measurement for envelope in rest if envelope.time_ns <= soon_ns]
        known = self._context.calibration_for(first.whole_size, coming)
        rest.sort(key=lambda envelope: envelope.arrival)
        return SizeChange(first, before, tuple(map(self._images.independent, rest)), known)

    def _drop_late(self, envelope: Envelope) -> None:
        """What comes too late for its place is lost; but a mount stamped at boot holds now as well."""
        self._own(envelope)
        if envelope.unshown is not None:
            _release(envelope, *envelope.unshown)
        elif envelope.route.rule.role in CONTEXT_ROLES:
            self._learn(envelope)
        else:
            self._coming.pop((envelope.topic, envelope.time_ns), None)
            _release(envelope, Stage.DROPPED, Reason.LATE, unplaced=True)

    def _learn(self, envelope: Envelope, emission: Emission | None = None) -> None:
        refusal = self._context.learn(envelope.measurement, envelope.route.sensor)
        if refusal is not None:
            _release(envelope, Stage.REFUSED, refusal)
            return
        notes = self._own(envelope).session.notes
        notes += [text for text in self._context.told if text not in notes]
        self._context.told.clear()
        if emission is not None:
            emission.measurement(envelope)
        _release(envelope, Stage.DECODED)

    def _use(self, envelope: Envelope, emission: Emission) -> None:
        time_ns, rule = envelope.time_ns, envelope.route.rule
        self._now_ns = time_ns
        role = rule.role
        envelope.mount(self._context.mounted(time_ns, envelope.measurement.frame_id))
        # A latched transform is received long before anything is measured.
        self._context.passing(time_ns, measured=role not in CONTEXT_ROLES)
        if role in CONTEXT_ROLES:
            self._learn(envelope, emission)
        elif role in EGO_ROLES:
            self._unjudged[envelope.arrival] = envelope
            self._settle_fixes(self._context.navigate(envelope.measurement))
        else:
            if role is not Role.CAMERA:
                emission.measurement(envelope)
            elif not envelope.instead:
                self._context.picture = envelope.whole_size or self._context.picture
            picture = self._tiles.add(envelope) if rule.tile else self._tiles.advance(time_ns)
            if picture is not None:
                self._pair(picture)
            if not rule.tile:
                self._pair(envelope)
        self._pump()

    def _pair(self, envelope: Envelope) -> None:
        is_reference = envelope.topic in self._context.reference_topics
        if is_reference:
            self._align(envelope)
            return
        emission = self.emissions[session_at(self._sessions, envelope.time_ns)]
        is_camera = envelope.route.rule.role is Role.CAMERA
        is_taken = self._for_cameras(envelope, emission)
        if is_camera and envelope.instead and self._selects:
            self._align(envelope, envelope.route.name)
            return
        if is_camera and is_taken:
            emission.other_camera(envelope)
        elif is_camera:
            emission.measurement(envelope)
        is_more = envelope.route.rule.role in self._viewed and envelope.is_of_view
        if not envelope.instead or is_more:
            if envelope.instead:
                emission.leave_out(envelope)
            self._align(envelope, envelope.route.name)
            return
        if not is_taken:
            emission.pass_over(envelope)
        else:
            if not is_camera:
                emission.leave_out(envelope)
            for part in envelope.all_parts:
                _release(part)
        self._pass_by(envelope.time_ns)

    def _align(self, envelope: Envelope, name: str = "") -> None:
        """Align a companion of a configured topic, or a frame; where frames are chosen by motion, later."""
        if self._choosing.chooses:
            self._choosing.add(envelope, name)
            self._align_ready()
        else:
            self._take(self._aligned(envelope, name))

    def _pass_by(self, time_ns: int) -> None:
        """Time goes on; frames that are chosen by motion are settled by what is aligned."""
        if not self._choosing.chooses:
            self._take(self._aligner.advance(time_ns))

    def _align_ready(self, until_ns: float | None = None) -> None:
        """Align what settles frames with final poses only, or what is up to a time."""
        # The aligner settles a frame when what comes is later by its reach.
        until_ns = self._context.final_ns + self._reach_ns if until_ns is None else until_ns
        for envelope, name in self._choosing.ready(until_ns):
            self._take(self._aligned(envelope, name))

    def _aligned(self, envelope: Envelope, name: str) -> Iterator[Aligned[Envelope]]:
        return self._aligner.companion(name, envelope) if name else self._aligner.reference(envelope)

    def _for_cameras(self, envelope: Envelope, emission: Emission) -> bool:
        """Give a message to the cameras beside the reference whose samples take it; whether any does."""
        if not self._samples_all_cameras:
            return False
        is_frame, cameras = envelope.route.rule.role is Role.CAMERA, set(envelope.cameras)
        for sensor in sorted(cameras):
            if sensor not in self._cameras:
                rules = pairing_rules(self._config, Role.CAMERA, sensor, others=False)
                self._cameras[sensor] = CameraFrames(rules, selects=self._selects)
            if is_frame:
                emission.samples_of(sensor, envelope.topic)
            for part in envelope.all_parts:
                part.ticket.ledger.hold(part.ticket)
            self._cameras[sensor].add(envelope, is_frame=is_frame)
        return bool(cameras)

    def _settle_fixes(self, judged: Iterable[tuple[int, str | None]]) -> None:
        for arrival, refusal in judged:
            envelope = self._unjudged.pop(arrival, None)
            if envelope is None:  # of a session that has ended, or of the sequence before
                continue
            if refusal is not None:
                _release(envelope, Stage.REFUSED, refusal)
                continue
            self.emissions[session_at(self._sessions, envelope.time_ns)].measurement(envelope)
            _release(envelope, Stage.DECODED)

    def _take(self, frames: Iterable[Aligned[Envelope]], camera: str = "") -> None:
        """Hand on frames of the reference, or of a camera beside it, as far as they need not wait."""
        for frame in frames:
            if camera:
                self._emission_of(frame).samples_of(camera, frame.reference.topic).take(frame)
            else:
                self._hand(frame)
        for name, envelope in (self._cameras[camera] if camera else self._aligner).expired():
            self._choose(envelope, chosen=False)
            self._expire(name, envelope)

    def _emission_of(self, frame: Aligned[Envelope]) -> Emission:
        return self.emissions[session_at(self._sessions, frame.reference.time_ns)]

    def _hand(self, frame: Aligned[Envelope]) -> None:
        """Hand on a frame of the reference."""
        for each in frame.companions.values():
            self._choose(each, chosen=frame.kind in {"sample", "incomplete"})
        emission, time_ns = self._emission_of(frame), frame.reference.time_ns
        if time_ns in self._choosing.unmoved_ns:
            self._choosing.unmoved_ns.remove(time_ns)
            emission.unmoved += 1
        emission.frame(frame)

    def _choose(self, envelope: Envelope, *, chosen: bool) -> None:
        """A picture of another camera goes with a selected frame of the reference, or with none."""
        is_picture = envelope.instead and envelope.route.rule.role is Role.CAMERA
        if is_picture and (frames := self._cameras.get(envelope.route.sensor)) is not None:
            frames.choose(envelope, chosen=chosen)

    def _expire(self, name: str, envelope: Envelope) -> None:
        """Release a companion that no frame can take any more, of this configured topic."""
        rule = self._config.topics[name]
        reason = f"no frame within {rule.tolerance_ms:g} ms"
        if rule.policy == "once":
            reason = f"no sample within {rule.tolerance_ms:g} ms, or another one is nearer to it"
        # A picture of another camera is no companion: it was only to be selected with a frame.
        is_picture = envelope.instead and rule.role is Role.CAMERA
        end = (Stage.SKIPPED, Reason.NOT_SELECTED) if is_picture else (Stage.UNPAIRED, reason)
        for part in envelope.all_parts:
            if part.unusable is not None:
                _release(part, Stage.DROPPED, part.unusable)
            elif part.ticket.holds == 1 and part.ticket.stage is None:
                _release(part, *end)
            else:
                _release(part)

    def _pump(self) -> None:
        """Let samples leave whose pose is final, and forget, now and then, what is not needed any more."""
        context = self._context
        frontier_ns: float = math.inf
        if self._choosing.chooses:
            self._align_ready()
        if self._cameras:
            for sensor, frames in self._cameras.items():
                self._take(frames.advance(self._now_ns), sensor)
            known_ns = [each.frontier_ns(self._now_ns) for each in self._cameras.values()]
            undecided_ns = (self._choosing.oldest_ns, self._aligner.oldest_ns, self._now_ns)
            frontier_ns = min(*known_ns, self._now_ns, *(ns for ns in undecided_ns if ns))
        for emission in self.emissions.values():
            emission.pump(context.final_ns, frontier_ns)
        if context.has_poses:
            self._give_poses()
        if self._now_ns >= self._forget_ns:
            # A few messages' memory for a look at what waits with each of them.
            self._forget_ns = self._now_ns + 250_000_000
            self._forget(frontier_ns)

    def _forget(self, frontier_ns: float) -> None:
        """Drop what nothing that waits needs any more; before the frontier no camera's sample can come."""
        waiting_ns = [each.oldest_ns for each in self.emissions.values()]
        waiting_ns += [self._aligner.oldest_ns, self._choosing.oldest_ns]
        oldest_ns = next((ns for ns in waiting_ns if ns is not None), self._now_ns - self._reach_ns)
        if self._cameras:
            oldest_ns = min(oldest_ns, round(min(frontier_ns, self._now_ns)))
        if oldest_ns > self._oldest_ns:
            self._oldest_ns = oldest_ns
            waits_from_ns = [each.waits_from_ns for each in self.emissions.values()]
            self._context.forget(min([oldest_ns, *waits_from_ns]))
            self._images.release(oldest_ns - self._reach_ns)

    def _give_poses(self, until_ns: int | None = None) -> None:
        for pose in self._context.poses(until_ns):
            self.emissions[session_at(self._sessions, pose.time_ns)].pose(pose)


def _release(
    envelope: Envelope, stage: Stage | None = None, reason: str = "", *, unplaced: bool = False
) -> None:
    """In the ledger that counts the message."""
    ticket = envelope.ticket
    ticket.ledger.release(ticket, stage, reason, unplaced=unplaced)


def pairing_rules(
    config: Config, reference_role: Role, camera: str = "", *, others: bool = True
) -> dict[str, PairingRule]:
    """How every configured topic but the reference pairs, by its name.

    A stream that none of the chosen formats makes samples of is not waited for, unless it is always required.
    Of ``others``, cameras that are not the reference, the picture nearest to a selected frame goes with it.
    """
    roles = config.sample_roles
    beside = {
        name: PairingRule(max(rule.tolerance_ns, VIEW_NS), "once", "never", wanted=False)
        for name, rule in config.topics.items()
        if others and rule.topic and rule.role is Role.CAMERA is reference_role
        if sensor_of(name, rule) != camera
    }
    return beside | {
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
