"""Connects the stages: messages are decoded, dated, aligned, written and counted."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.base import Distributes, Writer
from edgefirst_ros.hints import ExistingTopic, Hint
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.pointcloud import TOO_FAR, PointCloud, has_far_points
from edgefirst_ros.messages.reasons import Reason
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.pipeline.duplicates import Duplicates
from edgefirst_ros.pipeline.envelope import Envelope, Window, decoded_for, envelope_of, unwanted
from edgefirst_ros.pipeline.executor import Backlog, worker_count
from edgefirst_ros.pipeline.fanout import FanOut, Output
from edgefirst_ros.pipeline.groupcommit import Mark
from edgefirst_ros.pipeline.ledger import Ledger, Stage
from edgefirst_ros.pipeline.masks import Masks
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.processes import ProcessPool
from edgefirst_ros.pipeline.publishers import Publishers
from edgefirst_ros.pipeline.report import build_report
from edgefirst_ros.pipeline.routing import Routing
from edgefirst_ros.pipeline.seam import STALE_NS, RecentMessages, SeamStart
from edgefirst_ros.pipeline.sequencer import Known, Sequencer, SequenceSummary
from edgefirst_ros.sample import Calibration, Role, Sample
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes
from edgefirst_ros.timing.gaps import StreamStats
from edgefirst_ros.topics import TF, full_type

GROUP_ITEMS, GROUP_BYTES = 256, 64 << 20
"""Items, and bytes of messages, under way for each group of pictures that a process decodes."""
WAITING_THREADS = 4


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    received: int
    samples: int
    bytes_written: int
    recorded_s: float
    """Seconds of recording that were read."""
    durable: int = 0
    """Samples that the disk holds, so that they survive a power cut."""
    driven_m: float = 0.0
    """Distance that the rig has driven, as far as its poses are known."""


class Pipeline:
    """Turns the messages of sources into datasets, one source after another.

    For each source call ``begin_source``, then ``feed`` with every message, then ``end_source``; finally
    ``close``. One thread feeds; other methods say where any thread may call them. The same messages give the
    same bytes, whatever the number of workers.

    Args:
        config: whole.
        writers: of all formats.
        committed: called with every sample that any format has; see ``FanOut``.
        overload: decides what a live capture sheds.
        disk: admits what is written, see ``FanOut``.
        durable: called with how far the disk holds what was written; see ``GroupCommit``.
        processes: whether as many processes as there are workers decode and encode, in place of threads.
        shown: which samples the writers get, by their times, see ``FanOut``.
    """

    def __init__(
        self,
        config: Config,
        writers: Sequence[Writer],
        committed: Callable[[Sample], None] | None = None,
        overload: Overload | None = None,
        *,
        durable: Callable[[Mark], None] | None = None,
        disk: Disk | None = None,
        processes: bool = False,
        shown: Callable[[int], bool] | None = None,
    ) -> None:
        self.config = config
        self.ledger = Ledger()
        workers = worker_count(config.workers)
        self._processes = ProcessPool(workers) if processes else None
        if self._processes is not None:
            for writer in writers:
                if isinstance(writer, Distributes):
                    writer.distribute(self._processes.call)
        # Threads that wait for processes take no time.
        threads = WAITING_THREADS * workers if processes else workers
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="encode")
        self._fanout = FanOut(
            writers,
            self._pool,
            workers,
            self.ledger,
            committed,
            sync_s=config.sync_s,
            durable=durable,
            overload=overload,
            disk=disk,
            backlog=Backlog(GROUP_ITEMS * workers, GROUP_BYTES * (workers + 2)) if processes else None,
            shown=shown,
        )
        self._window = Window()
        self._recent: RecentMessages | None = None
        self._is_broken = False
        """Whether the time base broke while a seam was near."""
        self._sequencer = Sequencer(
            config,
            self._pool,
            workers,
            ledger=self.ledger,
            fanout=self._fanout,
            known=self._known,
            window=self._window,
            send=None if self._processes is None else self._processes.submit,
        )
        self.sequences: list[SequenceSummary] = self._sequencer.done
        self.notes: list[str] = self._sequencer.notes
        """Findings for the user while the run goes on, once each; also in the report."""
        self.unread: list[str] = []
        """Sentences on sources that were requested and of which nothing was fed."""
        self.around: Collection[ExistingTopic] = ()
        """Topics that exist but are not fed; used for hints only."""
        self.cut_short = False
        """Whether a source was not read to its end, so that topics may not have come yet."""
        self._is_continued = False
        """Whether calibration was known before the first message."""
        self._routing = Routing(config, self.notes)
        self._masks = Masks(config, self.ledger, self.notes.append)
        self._duplicates = Duplicates()
        self.publishers = Publishers()
        """Of every topic, whether it has several."""
        self._recorded_ns = 0
        self._span: tuple[int, int] | None = None
        self._cut = ""

    # ------------------------------------------------------------------ sources
    def begin_source(
        self,
        topics: Iterable[tuple[str, str]] | None,
        host: str,
        name: str | None = None,
        motions: Iterable[Motion] = (),
        *,
        calibration: Calibration | None = None,
        after: tuple[Pipeline, int] | None = None,
    ) -> None:
        """A source starts.

        Args:
            topics: its (topic, type) pairs; None where they are not known beforehand (live): then the prefix
                is the configured one, and the reference the first fitting topic whose clock is known.
            host: that it comes from.
            name: of its first sequence; None for one made of host and time.
            motions: the rig's motion between breaks of the time base, where it was estimated beforehand.
            calibration: known from before, where the source continues with the same sensors.
            after: pipeline of the session before and time of the seam (see ``seam_ns``); clocks, the rig's
                motion and what the first samples pair with are taken over from it.

        Raises:
            ConfigError: the prefix or the reference is ambiguous, or no topic could ever be the reference.
        """
        self._routing.begin(topics)
        self._is_continued |= calibration is not None or after is not None
        self._recent = RecentMessages(self.config) if topics is None else self._recent
        start = None if after is None else after[0].start_after(after[1])
        self._sequencer.source(self.config.host or host, name, calibration, start)
        self._clock: ClockFinder[Envelope] = ClockFinder(
            round(self.config.clock_window_s * 1e9), tell=self._note
        )
        self._heard: set[str] = set()
        self._motions = deque(motions)
        self._has_odometer = False
        if after is not None:
            self._go_on(*after)

    def _note(self, text: str) -> None:
        self.notes.append(text)

    # ------------------------------------------------------------------ seams
    def seam_ns(self, message: RawMessage | None) -> int | None:
        """Acquisition time at which another session can follow without loss, before this message.

        None if none can, because clocks are not known yet or may just have been stepped. Before a video
        packet it is the packet's own time, else later than everything received.
        """
        if self._recent is None or self._sequencer.current is None or not self._clock.is_settled:
            return None
        newest_ns = self._recent.newest_ns + 1
        route = None if message is None else self._routing.route(message.topic)[1]
        if message is None or route is None or route.rule.role is not Role.CAMERA:
            return newest_ns
        try:
            decoded = decode(message)
        except DecodeError:
            return newest_ns
        if not isinstance(decoded.datum, VideoPacket):
            return newest_ns
        times = MessageTimes(message.topic, decoded.stamp_ns, message.publish_ns, message.receive_ns)
        time_ns = self._clock.time_ns(times)
        # Out of line with what came before it is the first that tells of a step.
        return None if time_ns is None or abs(time_ns - newest_ns) > STALE_NS else time_ns

    def end_at(self, time_ns: int) -> None:
        """Leave what is acquired from this time on to the next session; ``feed`` may go on."""
        self._window.end_ns, self._window.is_near = time_ns, True

    def pass_seam(self) -> None:
        """Take everything from now on, because no message of the session before can come any more."""
        self._window.is_near = False

    def start_after(self, time_ns: int) -> SeamStart | None:
        """What a session that follows from this time on takes over; None if there is no sequence."""
        run = self._sequencer.current
        return None if run is None or self._recent is None else run.start_after(time_ns, self._recent.last_ns)

    def _go_on(self, before: Pipeline, time_ns: int) -> None:
        """Take over the state of the session before, and the messages that this one needs as well."""
        self._window.begin_ns, self._window.is_near = time_ns, True
        self._clock = copy.deepcopy(before._clock, {id(before): self})
        self._routing.continue_from(before._routing)
        self._has_odometer = before._has_odometer
        self._duplicates = before._duplicates.copy()
        self.publishers = before.publishers.copy()
        for kept in [] if before._recent is None else before._recent.messages():
            old = kept.ticket
            envelope = kept.fresh(
                self.ledger.receive(old.topic, old.schema, old.size, old.receive_ns, own=False)
            )
            if self._recent is not None:
                self._recent.add(envelope)
            self._assign(envelope)
            self._feed(self._masks.feed(envelope))

    def feed(self, raw: RawMessage, *, own: bool = True) -> None:
        """Take one message in order of arrival.

        Args:
            raw: the message.
            own: whether it is counted by this session if its acquisition time stays unknown; near a seam,
                messages from before the session's first or after its last are not.

        Raises:
            WriteError: or whatever made a writer fail; nothing more can be written then.
        """
        known = self._routing.routes.get((raw.topic, raw.schema))
        schema, route = known or self._routing.route(raw.topic, raw.schema)
        topic = raw.topic if route is not None else self.ledger.unused(raw.topic)
        ticket = self.ledger.receive(topic, schema, len(raw.data), raw.receive_ns, own=own)
        if own:
            self._advance(raw.receive_ns)
        refusal = unwanted(raw, schema, route)
        if refusal is not None or route is None:
            self.ledger.release(ticket, *(refusal or (Stage.SKIPPED, Reason.UNUSED)), unplaced=True)
            return
        rule = route.rule
        try:
            decoded = decoded_for(rule, raw)
        except DecodeError as error:
            self.ledger.release(ticket, Stage.REFUSED, str(error), unplaced=True)
            return
        if decoded is None:
            reason = (
                f"no transform from {rule.parent_frame} to {rule.child_frame} (parent_frame, child_frame)"
            )
            self.ledger.release(ticket, Stage.SKIPPED, reason, unplaced=True)
            return
        if rule.role is Role.ODOMETRY and schema != TF:
            self._has_odometer = True
        if raw.topic not in self._heard:
            self._heard.add(raw.topic)
            self._clock.rule(raw.topic, rule.times)
        envelope = envelope_of(raw, decoded, ticket, route)
        repeat = self._duplicates.received(route, raw.receive_ns, envelope.digest)
        if repeat is not None:
            self.ledger.release(ticket, Stage.REFUSED, repeat.reason)
            return
        self.publishers.see(envelope)
        if envelope.is_of_other:
            self.ledger.release(ticket, Stage.REFUSED, Reason.OTHER_PUBLISHER)
            return
        if own and isinstance(decoded.datum, PointCloud) and has_far_points(decoded.datum):
            self.ledger.refuse_part(raw.topic, TOO_FAR)
        self._timed(self._clock.feed(envelope))
        self._raise_failure()

    def lose(
        self, topic: str, schema: str, messages: int, size: int, reason: str, *, receive_ns: int = 0
    ) -> None:
        """Count messages that were dropped unread, received about ``receive_ns``, 0 if that is unknown."""
        if self._routing.route(topic, schema)[1] is None:
            topic = self.ledger.unused(topic)
        self.ledger.lose(topic, schema, messages, size, reason, receive_ns=receive_ns)

    def leave_out(self, topic: str, schema: str, messages: int, reason: str) -> None:
        """Count messages that were not selected and, as a rule, not read."""
        if self._routing.route(topic, schema)[1] is None:
            topic = self.ledger.unused(topic)
        self.ledger.skip(topic, full_type(schema), messages, reason)

    def cut(self, reason: str) -> None:
        """Drop, for this reason, what has not been handed to writers, as no time is left; any thread."""
        self._cut = reason
        self._sequencer.cut(reason)

    def end_source(self, reason: str = "end of the recording") -> None:
        """The source ends: everything held leaves."""
        self._timed(self._clock.flush())
        self._feed(self._masks.flush())
        self._end_sequence(reason)
        self._span = None

    def complete(self) -> list[Path]:
        """Write what is under way and finish the output except for final names; returns the user's paths.

        Raises:
            WriteError: or whatever made a writer fail.
        """
        self._fanout.join()
        self._pool.shutdown()
        if self._processes is not None:
            self._processes.shutdown()
        self._raise_failure()
        return self._fanout.complete()

    def close(self) -> None:
        """Give the complete output its names.

        Raises:
            WriteError: or whatever made a writer fail; recovery gives the names.
        """
        self._fanout.close()

    def abort(self) -> None:
        """Release files and threads after an error."""
        self._sequencer.abort()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._processes is not None:
            self._processes.kill()
        self._fanout.abort()

    def _raise_failure(self) -> None:
        self._fanout.raise_failure()
        if self._processes is not None and self._processes.failure is not None:
            raise self._processes.failure

    @property
    def fanout(self) -> FanOut:
        """The writers, to be asked how they are; any thread."""
        return self._fanout

    @property
    def outputs(self) -> Mapping[str, Output]:
        """What each writer has written so far, by its name."""
        return self._fanout.outputs

    @property
    def progress(self) -> Progress:
        """How far the run has come; any thread."""
        return Progress(
            self.ledger.totals["received"],
            self._fanout.samples,
            self._fanout.bytes_written,
            self._recorded_ns / 1e9,
            self._fanout.commits.durable.samples,
            self._sequencer.driven_m,
        )

    @property
    def calibration(self) -> Calibration | None:
        """Known now, for a source that continues with the same sensors; None if nothing is known."""
        return self._sequencer.calibration

    @property
    def has_poses(self) -> bool:
        """Whether the rig's position was ever known."""
        return any(summary.result.poses.has_position for summary in self.sequences)

    @property
    def streams(self) -> list[StreamStats]:
        """Statistics of the topics of every sequence so far, including the one under way; any thread."""
        run = self._sequencer.current
        known = [summary.result.stats for summary in self.sequences] + ([] if run is None else [run.stats])
        return [stats for each in known for stats in list(each.values())]

    @property
    def contents(self) -> dict[str, StreamContent]:
        """By topic, what is watched in the sequence under way; any thread."""
        run = self._sequencer.current
        return (
            {}
            if run is None
            else {run.stats[n].topic: c for n, c in list(run.content.items()) if c.is_watched}
        )

    def report(self) -> dict[str, Any]:
        """The capture report as plain values; the same input gives the same report."""
        counts = self.ledger.snapshot()
        missing = [] if self.cut_short else self._routing.missing(counts, known=self._is_continued)
        return build_report(
            self.config,
            self.ledger,
            self.sequences,
            outputs={n: each for n, each in self.outputs.items() if n not in self._fanout.given_up},
            samples=self._fanout.samples,
            notes=[*self.notes, *self._sequencer.remarks.notes],
            unread=self.unread,
            hints=[hint.text for hint in self.hints(counts)],
            missing=missing,
            publishers=self.publishers.found,
        )

    def hints(self, topics: Mapping[str, Mapping[str, Any]]) -> list[Hint]:
        """What configured topics that did not come may mean, by the ledger's counts of those that did."""
        return self._routing.hints(topics, self.around)

    # ------------------------------------------------------------------ one sequence
    def _timed(self, events: Iterable[Envelope | Boundary]) -> None:
        for event in events:
            if isinstance(event, Boundary):
                self._feed(self._masks.flush())
                self.notes.append(f"new sequence: {event.reason}")
                self._end_sequence(event.reason)
                self._break()
                if self._motions:
                    self._motions.popleft()
            elif self._cut:
                self.ledger.release(event.ticket, Stage.DROPPED, self._cut, unplaced=True)
            elif event.is_of_other:
                self.ledger.release(event.ticket, Stage.REFUSED, Reason.OTHER_PUBLISHER)
            elif event.refusal is not None:
                self.ledger.release(event.ticket, Stage.REFUSED, event.refusal, unplaced=True)
            elif self._is_placed(event):
                self._feed(self._masks.feed(event) if self._routing.may_have_masks else (event,))

    def _is_placed(self, envelope: Envelope) -> bool:
        """Place a message at its time; False if it goes no further: unused, or a repetition."""
        self._assign(envelope)
        unused = self._unused(envelope)
        if unused:
            self.ledger.release(envelope.ticket, Stage.SKIPPED, unused)
            return False
        envelope.instead = self._routing.instead(envelope.route, self._heard)
        stamped = True
        for finding in reversed(self._clock.findings):
            if finding.topic == envelope.topic:
                stamped = finding.group is not None
                break
        repeat = self._duplicates.timed(envelope, stamped=stamped)
        time_ns = envelope.time_ns
        if repeat is not None:
            if not (repeat.number and isinstance(envelope.decoded.datum, VideoPacket)):
                self.ledger.release(envelope.ticket, Stage.REFUSED, repeat.reason)
                return False
            # Pictures after it are built on it all the same, so the decoder gets it, at a time of its own.
            envelope.unshown, time_ns = (Stage.REFUSED, repeat.reason), time_ns + repeat.number
        envelope.place(time_ns)
        if self._recent is not None:
            self._recent.add(envelope)
        return True

    def _unused(self, envelope: Envelope) -> str:
        """Why a topic is not used, now that others are known; empty if it is."""
        route, routing = envelope.route, self._routing
        if route.name in routing.choices or not routing.reference[1]:
            before = routing.reference
            instead = routing.choose(route, self._heard, self._clock.findings)
            if routing.reference is not before and self._sequencer.current is not None:
                self._sequencer.current.reference_topics = routing.reference[1]
            if instead:
                return f"topics.{route.name} takes {instead}"
        role, topics = routing.reference
        if role is Role.CAMERA is route.rule.role and topics and route.topic not in topics:
            return "another camera topic is the reference"
        if self._has_odometer and route.rule.role is Role.ODOMETRY and envelope.ticket.schema == TF:
            return "another topic sends odometry messages"
        return ""

    def _feed(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            self._assign(envelope)
            if self._cut:
                self.ledger.release(envelope.ticket, Stage.DROPPED, self._cut)
            elif self._is_broken and not envelope.ticket.own:
                self.ledger.release(envelope.ticket)
            else:
                self._sequencer.feed(envelope)

    def _assign(self, envelope: Envelope) -> None:
        """At a seam the acquisition time says to which session a message belongs."""
        if self._window.is_near and not self._is_broken:
            self.ledger.assign(envelope.ticket, own=self._window.has(envelope.time_ns))

    def _break(self) -> None:
        """The time base broke, so times at a seam mean nothing any more: order of arrival decides."""
        self._is_broken = self._window.is_near
        self._window.begin_ns = self._window.end_ns = None
        self._window.is_near = False
        if self._recent is not None:
            self._recent.clear()

    def _known(self) -> Known:
        findings = tuple(self._clock.findings)
        motion = self._motions[0] if self._motions else None
        expected, left_out = self._routing.used((finding.topic for finding in findings), self._heard)
        return Known(self._routing.reference, expected, left_out, findings, motion)

    def _end_sequence(self, reason: str) -> None:
        self._sequencer.end(reason)
        self._clock.findings = []
        self._duplicates.forget()

    def _advance(self, receive_ns: int) -> None:
        if receive_ns <= 0:
            return  # received before there was a time
        if self._span is None:
            self._span = (receive_ns, receive_ns)
        start, end = self._span
        if receive_ns > end:
            self._recorded_ns += receive_ns - end
            self._span = (start, receive_ns)
