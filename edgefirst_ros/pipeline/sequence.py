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
from edgefirst_ros.pipeline.context import Surroundings
from edgefirst_ros.pipeline.envelope import Entry
from edgefirst_ros.pipeline.ledger import LATE, Ledger, Outcome
from edgefirst_ros.pipeline.outcomes import FrameCounts, Verdicts, entries_of
from edgefirst_ros.pipeline.pairing import pairing_rules, reorder_window_ns
from edgefirst_ros.pipeline.pictures import Pictures
from edgefirst_ros.pipeline.picturesize import PictureChange, PictureSizes, Size, whole_size
from edgefirst_ros.pipeline.seam import Start, Window
from edgefirst_ros.pipeline.settlement import Verdict
from edgefirst_ros.pipeline.sink import Emitted, Observed, Sink
from edgefirst_ros.pipeline.tiles import TileGrouper
from edgefirst_ros.sample import Calibration, Observation, Role, Sample, SequenceInfo
from edgefirst_ros.timing.align import Aligned, Aligner
from edgefirst_ros.timing.reorder import Reorder
from edgefirst_ros.timing.select import Selection
from edgefirst_ros.timing.streamstats import StreamStats
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.video.annexb import Content

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
    ``expected`` are the entries of the configuration's topics that are known to send: they count as alive
    from the start. ``known`` is the calibration in force before anything has come. Entries come in order of
    arrival through ``feed``; samples leave through the sink in order of time.
    """

    def __init__(
        self,
        info: SequenceInfo,
        config: Config,
        reference: tuple[Role, frozenset[str]],
        pictures: Pictures,
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
        """By entry of the configuration's topics."""
        self.poses = PoseAccount()
        """How long the rig's poses rest on what."""
        self.motion_notes: list[str] = []
        """What the estimate of the rig's motion found, once it is finished."""
        self.mounting: Mounting | None = None
        """How the IMU is turned against what is configured, if it is; known once it is finished."""
        self._config = config
        reference_role, self.reference_topics = reference
        self._pictures = pictures
        self._ledger = ledger
        self._sink = sink
        self._verdicts = Verdicts(ledger, config.topics)
        rules = pairing_rules(config, reference_role)
        self._reach_ns = max((r.tolerance_ns for r in rules.values()), default=0)
        self._window_ns = reorder_window_ns(config)
        self._reorder: Reorder[Entry] = Reorder(self._window_ns)
        selection = Selection(rate_hz=config.rate_hz, every_n=config.every_n, keyframes=config.keyframes)
        self._aligner: Aligner[Entry] = Aligner(rules, selection, round(config.alive_s * 1e9))
        alive = frozenset(expected)
        roles = {config.topics[name].role for name in alive}
        self._aligner.expect(alive)
        if start is not None:
            self._aligner.heard(start.last_ns)
        self._around = Surroundings(
            config.ego,
            held_ns=self._window_ns,
            has_ego=bool(roles & EGO_ROLES),
            odometry=Role.ODOMETRY in roles,
            known=known,
            motion=motion,
            before=before,
            window=self._window,
        )
        self._unjudged: dict[int, Entry] = {}
        """Fixes of which it is not known yet whether they are believed, by their running numbers."""
        self._tiles = TileGrouper()
        self._sizes = PictureSizes()
        self._coming: dict[tuple[str, int], Entry] = {}
        """Packets of video that are not in the order of time yet, by topic and time."""
        self._waiting: deque[tuple[Aligned[Entry], Calibration]] = deque()
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
        """Selected frames that lacked a required companion, by entry of the configuration's topics."""
        return self._aligner.lacking

    @property
    def calibration(self) -> Calibration:
        """In force now."""
        return self._around.calibration

    @property
    def trajectory(self) -> Trajectory:
        """Of the rig."""
        return self._around.trajectory

    def start_after(self, time_ns: int, last_ns: Mapping[str, int]) -> Start:
        """What a sequence that goes on from a seam at this time begins with; this one may go on, too."""
        trajectory = copy.deepcopy(self._around.trajectory)
        return Start(time_ns, self.calibration, trajectory, self._newest, dict(last_ns))

    @property
    def moved(self) -> list[str]:
        """Sensors whose transform changed, a sentence each."""
        return list(self._around.moved.values())

    def feed(self, entry: Entry) -> PictureChange | None:
        """Take a measurement in order of arrival; the change that ends the sequence, if there is one.

        After a change only ``finish`` may follow, and what is in it belongs to the next sequence.
        """
        if entry.route.rule.role is Role.CAMERA and self._arrived(entry):
            return None
        measurement = entry.measurement
        if not self._reorder.push(entry.time_ns, measurement.topic, measurement.arrival, entry):
            self._late(entry)
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
        self._judge(self._around.finish())
        self._pump(final=True)
        self.motion_notes = self._around.trajectory.notes
        self.mounting = self._around.trajectory.mounting
        self._around.close()

    def _arrived(self, entry: Entry) -> bool:
        """Give the decoder a packet; True if that is all, because it is a part of a picture known already."""
        key = entry.route.topic, entry.time_ns
        first = self._coming.get(key)
        if entry.content is Content.PART and first is not None:
            if not self._pictures.join(first, entry):
                self._ledger.release(entry.ticket, Outcome.REFUSED, TORN)
            return True
        self._pictures.arrive(entry)
        if entry.unshown is None and isinstance(entry.measurement.datum, VideoPacket):
            self._coming[key] = entry
        return False

    def _advance(self, ready: Iterable[tuple[int, Entry]]) -> PictureChange | None:
        for _, entry in ready:
            if self._window.is_near and not self._window.has(entry.time_ns):
                # It may have come before anybody knew that a seam would lie before it.
                self._ledger.assign(entry.ticket, own=False)
            if entry.unshown is not None:
                self._ledger.release(entry.ticket, *entry.unshown)
                continue
            if entry.route.rule.role is Role.CAMERA:
                self._coming.pop((entry.route.topic, entry.time_ns), None)
                self._pictures.judge(entry)
                before = self._sizes.changed(entry) if self._window.has(entry.time_ns) else None
                if before is not None:
                    return self._changed(entry, before)
            self._ordered(entry)
        return None

    def _changed(self, first: Entry, before: Size) -> PictureChange:
        rest = [first, *(entry for _, entry in self._reorder.flush())]
        soon_ns = first.time_ns + self._window_ns // 2
        coming = [entry.measurement for entry in rest if entry.time_ns <= soon_ns]
        known = self._around.calibration_for(whole_size(first), coming)
        rest.sort(key=lambda entry: entry.measurement.arrival)
        return PictureChange(first, before, tuple(map(self._pictures.independent, rest)), known)

    def _late(self, entry: Entry) -> None:
        """What comes too late for its place is lost; but a mount stamped at boot holds now as well."""
        if entry.unshown is not None:
            self._ledger.release(entry.ticket, *entry.unshown)
        elif entry.route.rule.role in CONTEXT_ROLES:
            self._learn(entry)
        else:
            self._coming.pop((entry.route.topic, entry.time_ns), None)
            self._ledger.release(entry.ticket, Outcome.DROPPED, LATE, unplaced=True)

    def _learn(self, entry: Entry, *, observe: bool = False) -> None:
        refusal = self._around.learn(entry.measurement)
        if refusal is not None:
            self._ledger.release(entry.ticket, Outcome.REFUSED, refusal)
            return
        if observe:
            self._observe(entry)
        self._ledger.release(entry.ticket, Outcome.DECODED)

    def _ordered(self, entry: Entry) -> None:
        """One measurement in order of time."""
        self._now_ns = entry.time_ns
        self._newest = entry.time_ns, entry.measurement.topic, entry.measurement.arrival
        self._around.passing(entry.time_ns)
        role = entry.route.rule.role
        if not self._is_foreign(entry):
            stats = self.stats.setdefault(entry.route.name, StreamStats(entry.route.topic))
            stats.add(entry.time_ns, entry.measurement.receive_ns)
            if role not in CONTEXT_ROLES:
                stats.gaps.add(entry.time_ns)
        if role in CONTEXT_ROLES:
            self._learn(entry, observe=True)
        elif role in EGO_ROLES:
            self._navigate(entry)
        else:
            if role is not Role.CAMERA:
                self._observe(entry)
            else:
                self._around.picture = whole_size(entry) or self._around.picture
                if entry.keyframe:
                    self._key_ns[entry.route.topic] = entry.time_ns
            if entry.route.rule.tile:
                self._joined(self._tiles.feed(entry))
            else:
                self._joined(self._tiles.advance(entry.time_ns))
                self._pair(entry)
        self._pump(final=False)

    def _is_foreign(self, entry: Entry) -> bool:
        """Whether it is of the sequence across a seam; what is told once may have the time of a boot."""
        told_once = entry.route.rule.role in CONTEXT_ROLES and not self._window.is_near
        return not (told_once or self._window.has(entry.time_ns))

    def _joined(self, picture: Entry | None) -> None:
        if picture is not None:
            self._pair(picture)

    def _observe(self, entry: Entry) -> None:
        """Hand a measurement, or a picture that is usable, to the formats that take every one."""
        if not self._sink.observes or entry.unusable is not None or self._cut or self._is_foreign(entry):
            return
        role = entry.route.rule.role
        for part in entry.all_parts:
            self._ledger.hold(part.ticket)
        takers = self._sink.measurement_takers(
            entry, possible=not self._is_spared(entry), better=self._is_quick(entry)
        )
        wanted = role is Role.CAMERA and (takers is None or len(takers) > 0)
        image = self._pictures.request(entry) if wanted else None
        around = self._around
        observation = Observation(role, entry.measurement, around.calibration, picture=around.picture)
        observed = Observed(observation, image, entry, takers)
        if self._sink.needs_pose:
            self._unposed.append(observed)
        else:
            self._sink.measurement(observed)

    def _pair(self, entry: Entry) -> None:
        is_reference = entry.route.topic in self.reference_topics
        if entry.route.rule.role is Role.CAMERA and not is_reference:
            self._observe(entry)
        if is_reference and not self._window.has(entry.time_ns):
            self._take(self._aligner.advance(entry.time_ns))
            for part in entry.all_parts:
                self._ledger.release(part.ticket)
        elif is_reference:
            self._take(self._aligner.reference(entry))
        else:
            self._take(self._aligner.companion(entry.route.name, entry))

    def _navigate(self, entry: Entry) -> None:
        if self._start is not None and self._start.is_taken(entry.measurement):
            self._ledger.release(entry.ticket)
            return
        self._unjudged[entry.measurement.arrival] = entry
        self._judge(self._around.navigate(entry.measurement))

    def _is_quick(self, entry: Entry | None) -> bool:
        """Whether a measurement costs no more than others; where decoding is slow, only key frames do not."""
        return (
            entry is None
            or entry.route.rule.role is not Role.CAMERA
            or (entry.keyframe or not self._pictures.is_behind(entry))
        )

    def _is_spared(self, entry: Entry | None) -> bool:
        """Whether it is a picture that there is no time to decode, because it is no key frame."""
        if entry is None or entry.keyframe or entry.image is not None or not self._sink.keyframes_only:
            return False
        if entry.route.rule.role is not Role.CAMERA or entry.route.topic not in self.reference_topics:
            return False
        key_ns = self._key_ns.get(entry.route.topic)
        return key_ns is not None and abs(entry.time_ns - key_ns) < KEYS_APART_NS

    def _ask_early(self, camera: Entry | None) -> None:
        """Ask for a sample's picture in its place among those of measurements, which are asked for before."""
        if camera is None or not self._sink.sheds_early:
            return
        spared = self._is_spared(camera)
        if self._sink.wants_picture(possible=not spared, better=self._is_quick(camera)):
            self._pictures.request(camera)
        elif not spared:
            self._pictures.pass_over(camera)

    def _judge(self, verdicts: Iterable[tuple[int, str | None]]) -> None:
        for arrival, refusal in verdicts:
            entry = self._unjudged.pop(arrival, None)
            if entry is None:  # of before the seam
                continue
            if refusal is not None:
                self._ledger.release(entry.ticket, Outcome.REFUSED, refusal)
                continue
            self._observe(entry)
            self._ledger.release(entry.ticket, Outcome.DECODED)

    def _take(self, verdicts: Iterable[Aligned[Entry]]) -> None:
        for aligned in verdicts:
            reference = aligned.reference
            if aligned.kind in {"sample", "incomplete"} and reference.route.rule.role is Role.CAMERA:
                self._observe(reference)
            if aligned.kind == "sample":
                for entry in entries_of(aligned):
                    self._ledger.hold(entry.ticket)
                self._ask_early(_camera(aligned))
                self._waiting.append((aligned, self._around.calibration))
                for part in reference.all_parts:
                    self._ledger.release(part.ticket)
                continue
            self.frames.count(Verdict(aligned.kind, aligned.reason))
            self._verdicts.rejected(aligned)
        self._verdicts.expired(self._aligner.expired())

    def _pump(self, *, final: bool) -> None:
        """Let samples go whose pose is known, and pictures that nobody can ask for any more."""
        self._release_posed(final=final)
        while self._waiting:
            reference = self._waiting[0][0].reference
            if not (final or self._around.is_known(reference.time_ns, self._now_ns)):
                break
            if any(observed.entry is reference for observed in self._unposed):
                break  # where no format takes samples, what becomes of its measurement decides
            self._emit(*self._waiting.popleft())
        for pose in self._around.poses(self._now_ns, final=final):
            self.poses.add(pose)
            if self._sink.observes:
                self._sink.pose(pose)
        oldest_ns = self._waiting[0][0].reference.time_ns if self._waiting else self._aligner_oldest_ns()
        unposed_ns = self._unposed[0].observation.measurement.time_ns if self._unposed else oldest_ns
        self._around.forget(min(oldest_ns, unposed_ns))
        self._pictures.release(oldest_ns - self._reach_ns)

    def _release_posed(self, *, final: bool) -> None:
        """Let measurements go whose pose has come; those that have none are left out."""
        while self._unposed:
            time_ns = self._unposed[0].observation.measurement.time_ns
            if not (final or self._around.is_known(time_ns, self._now_ns)):
                return
            observed = self._unposed.popleft()
            if self._around.pose(time_ns).is_known:
                self._sink.measurement(observed)
                continue
            for entry in observed.entry.all_parts:
                self._ledger.release(entry.ticket, Outcome.SKIPPED, POSE_UNKNOWN)

    def _emit(self, aligned: Aligned[Entry], calibration: Calibration) -> None:
        if not self._cut:
            self._sink.sample(self._sample(aligned, calibration))
            return
        self.frames.count(Verdict("dropped", self._cut))
        for entry in entries_of(aligned):
            self._ledger.release(entry.ticket, Outcome.DROPPED, self._cut)

    def _aligner_oldest_ns(self) -> int:
        oldest = self._aligner.oldest_ns
        return self._now_ns - self._reach_ns if oldest is None else oldest

    def _sample(self, aligned: Aligned[Entry], calibration: Calibration) -> Emitted:
        reference = aligned.reference
        by_role: dict[Role, Entry] = {reference.route.rule.role: reference}
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
            companions={role: entry.measurement for role, entry in by_role.items()},
            error_ns={role: entry.time_ns - reference.time_ns for role, entry in by_role.items()},
            ego=self._around.pose(reference.time_ns),
            calibration=calibration,
        )
        image = None
        if camera is not None:
            if takers is None or takers:
                image = self._pictures.request(camera)
            else:
                image = camera.image
                if not (spared or self._sink.sheds_early):
                    self._pictures.pass_over(camera)
        entries = (reference, *aligned.companions.values())
        return Emitted(sample, image, entries, self.frames.count, takers)


def _camera(aligned: Aligned[Entry]) -> Entry | None:
    """What the picture of a sample is of."""
    entries = (aligned.reference, *aligned.companions.values())
    return next((entry for entry in entries if entry.route.rule.role is Role.CAMERA), None)
