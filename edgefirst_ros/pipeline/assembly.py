"""The one assembly: messages in, decoded, timed, aligned, written, and accounted for."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.ego.whole import Solution
from edgefirst_ros.errors import ConfigError, DecodeError
from edgefirst_ros.formats.base import Writer
from edgefirst_ros.hints import Hint, Seen, hints_of
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.measurement import Decoded, Measurement, RawMessage
from edgefirst_ros.messages.odometry import odometry_of
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.messages.transform import Transforms
from edgefirst_ros.pipeline.duplicates import Duplicates
from edgefirst_ros.pipeline.envelope import Envelope, Heard
from edgefirst_ros.pipeline.executor import worker_count
from edgefirst_ros.pipeline.fanout import FanOut, Output
from edgefirst_ros.pipeline.ledger import Ledger, Stage, Ticket
from edgefirst_ros.pipeline.masks import Masks
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.report import build_report
from edgefirst_ros.pipeline.seam import STALE_NS, Recent, Start, Window
from edgefirst_ros.pipeline.sequencer import Known, Sequencer, SequenceSummary
from edgefirst_ros.sample import Calibration, Role, Sample
from edgefirst_ros.timing.clock import Boundary, ClockFinder, Timed
from edgefirst_ros.timing.finding import Times
from edgefirst_ros.timing.streamstats import StreamStats
from edgefirst_ros.topics import (
    TF,
    TYPES,
    Route,
    TopicMap,
    choose_reference,
    find_prefix,
    full_type,
    reference_role,
)
from edgefirst_ros.video.bitstream import Content, content_of
from edgefirst_ros.video.integrity import UNJUDGED, judges_h265

SETS = "parameter sets, for the pictures after them"


def unwanted(raw: RawMessage, schema: str, route: Route | None) -> tuple[Stage, str] | None:
    """Why a message is not even decoded, None if it is."""
    if raw.fault:
        return Stage.REFUSED, raw.fault
    if route is None:
        return Stage.SKIPPED, f"no use for {schema or 'a message without type'} on this topic"
    if route.instead:
        return Stage.SKIPPED, f"topics.{route.name} takes {route.instead}"
    if schema not in TYPES[route.rule.role]:
        return Stage.REFUSED, f"type {schema}, expected {' or '.join(TYPES[route.rule.role])}"
    return None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    received: int
    samples: int
    bytes_written: int
    recorded_s: float
    """Recording time gone through."""
    driven_m: float = 0.0
    """How far the rig has driven, as far as its poses are known."""


class Pipeline:
    """Feeds writers from sources, one recording after another.

    For each source ``begin_source``, then ``feed`` every message, then ``end_source``; at last ``close``.
    Not safe for several threads: one thread feeds. With the same messages the same bytes are written,
    whatever the number of workers.
    """

    def __init__(
        self,
        config: Config,
        writers: Sequence[Writer],
        committed: Callable[[Sample], None] | None = None,
        overload: Overload | None = None,
    ) -> None:
        self.config = config
        self.ledger = Ledger()
        workers = worker_count(config.workers)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="encode")
        self._fanout = FanOut(writers, self._pool, workers, self.ledger, committed, overload=overload)
        self._window = Window()
        self._recent: Recent | None = None
        self._broken = False
        """The time base broke while a seam was near."""
        self._sequencer = Sequencer(
            config,
            self._pool,
            workers,
            ledger=self.ledger,
            fanout=self._fanout,
            known=self._known,
            window=self._window,
        )
        self.sequences: list[SequenceSummary] = self._sequencer.done
        self.notes: list[str] = self._sequencer.notes
        self.unread: list[str] = []
        """Sentences on sources of which nothing was fed, though they were asked for."""
        """Findings worth telling while running, once each; also in the report."""
        self._routes = TopicMap(config, config.prefix or "")
        self.around: Collection[Seen] = ()
        """Topics that are there besides those that are fed; only hints come of them."""
        self._masks = Masks(config, self.ledger, self.notes.append)
        self._duplicates = Duplicates()
        self._recorded_ns = 0
        self._span: tuple[int, int] | None = None
        self._cut = ""

    # ------------------------------------------------------------------ sources
    def begin_source(
        self,
        topics: Iterable[tuple[str, str]] | None,
        host: str,
        name: str | None = None,
        motions: Iterable[Solution] = (),
        *,
        calibration: Calibration | None = None,
        after: tuple[Pipeline, int] | None = None,
    ) -> None:
        """A source starts: its (topic, type) pairs if known, its host, its sequence name if any.

        ``motions`` are the rig's between breaks of the time base, where they were found beforehand;
        ``calibration`` is known from before, where the source goes on with the same sensors. ``after`` is the
        pipeline of the session before and the time of the seam, see ``seam_ns``: clocks, the rig's motion and
        what the first samples pair with are taken over from it.

        Where topics are not known beforehand (live), the prefix is the configured one, and the reference the
        first fitting topic whose clock is known.

        Raises:
            ConfigError: if its prefix or reference cannot be told, or no topic could ever be the reference.
        """
        if topics is None:
            self._routes = TopicMap(self.config, self.config.prefix or "")
            self._reference: tuple[Role, frozenset[str]] = reference_role(self.config), frozenset()
            self._missed = False
            self._recent = Recent(self.config)
        else:
            pairs = list(topics)
            known = [topic for topic, _ in pairs]
            self._routes = TopicMap(self.config, find_prefix(known, self.config), pairs)
            self._reference = choose_reference(self.config, known, self._routes)
            self._tell_choices()
        start = None if after is None else after[0].start_after(after[1])
        self._sequencer.source(self.config.host or host, name, calibration, start)
        self._clock: ClockFinder[Heard] = ClockFinder(
            round(self.config.clock_window_s * 1e9), tell=self._note
        )
        self._told: set[str] = set()
        self._motions = deque(motions)
        self._has_odometer = False
        if after is not None:
            self._go_on(*after)

    def _note(self, text: str) -> None:
        self.notes.append(text)

    # ------------------------------------------------------------------ seams
    def seam_ns(self, message: RawMessage | None) -> int | None:
        """Acquisition time at which another session can follow without a loss, before this message.

        None where none can: clocks are not known yet, or may just have been stepped. Before a packet of video
        it is the packet's own time, else later than all that has come.
        """
        if self._recent is None or self._sequencer.current is None or not self._clock.is_settled:
            return None
        newest_ns = self._recent.newest_ns + 1
        route = None if message is None else self._routes.route(message.topic)
        if message is None or route is None or route.rule.role is not Role.CAMERA:
            return newest_ns
        try:
            decoded = decode(message)
        except DecodeError:
            return newest_ns
        times = Times(message.topic, decoded.stamp_ns, message.publish_ns, message.receive_ns)
        if not isinstance(decoded.datum, VideoPacket):
            return newest_ns
        time_ns = self._clock.time_ns(times)
        # Out of line with what came before it is the first that tells of a step.
        return None if time_ns is None or abs(time_ns - newest_ns) > STALE_NS else time_ns

    def end_at(self, time_ns: int) -> None:
        """What was acquired from then on is another session's; go on being fed for what was before."""
        self._window.end_ns, self._window.is_near = time_ns, True

    def pass_seam(self) -> None:
        """Nothing of the session before can come any more: from now on whatever comes is this one's."""
        self._window.is_near = False

    def start_after(self, time_ns: int) -> Start | None:
        """What a session that follows from then on begins with."""
        run = self._sequencer.current
        return None if run is None or self._recent is None else run.start_after(time_ns, self._recent.last_ns)

    def _go_on(self, before: Pipeline, time_ns: int) -> None:
        """Take over what the session before knows, and what of its messages this one needs."""
        self._window.begin_ns, self._window.is_near = time_ns, True
        self._clock = copy.deepcopy(before._clock, {id(before): self})
        self._reference, self._missed = before._reference, before._missed
        self._has_odometer, self._routes = before._has_odometer, before._routes
        self._tell_choices()
        self._duplicates = before._duplicates.copy()
        for heard, known_ns, unshown in [] if before._recent is None else before._recent.messages():
            raw = heard.raw
            ticket = self.ledger.receive(raw.topic, full_type(raw.schema), len(raw.data), own=False)
            again = replace(heard, ticket=ticket)
            if self._recent is not None:
                self._recent.add(again, known_ns, unshown)
            self._assign(ticket, known_ns)
            self._feed(self._masks.feed(_envelope_of(again, known_ns, unshown)))

    def feed(self, raw: RawMessage, *, own: bool = True) -> None:
        """Take one message in order of arrival.

        ``own`` says whose it is at a seam if its acquisition time cannot be told: not own are messages that
        came before the session's first, or after its last.

        Raises:
            WriteError: or whatever made a writer fail; nothing more can be written then.
        """
        schema = full_type(raw.schema)
        ticket = self.ledger.receive(raw.topic, schema, len(raw.data), own=own)
        if own:
            self._advance(raw.receive_ns)
        route = self._routes.route(raw.topic, schema)
        refusal = unwanted(raw, schema, route)
        if refusal is not None or route is None:
            self.ledger.release(ticket, *(refusal or (Stage.SKIPPED, "not used")), unplaced=True)
            return
        try:
            decoded = decoded_for(route.rule, raw)
        except DecodeError as error:
            self.ledger.release(ticket, Stage.REFUSED, str(error), unplaced=True)
            return
        if decoded is None:
            pair = f"{route.rule.parent_frame} to {route.rule.child_frame}"
            reason = f"no transform from {pair} (parent_frame, child_frame)"
            self.ledger.release(ticket, Stage.SKIPPED, reason, unplaced=True)
            return
        if route.rule.role is Role.ODOMETRY and schema != TF:
            self._has_odometer = True
        if raw.topic not in self._told:
            self._told.add(raw.topic)
            self._clock.rule(raw.topic, route.rule.times)
            if isinstance(decoded.datum, VideoPacket) and decoded.datum.codec == "h265" and not judges_h265():
                self.notes.append(UNJUDGED)
        heard = Heard(raw, decoded, ticket, route)
        repeat = self._duplicates.received(heard)
        if repeat is not None:
            self.ledger.release(ticket, Stage.REFUSED, repeat.reason)
            return
        times = Times(raw.topic, decoded.stamp_ns, raw.publish_ns, raw.receive_ns)
        self._timed(self._clock.feed(heard, times))
        self._fanout.raise_failure()

    def cut(self, reason: str) -> None:
        """No time is left: what is not in the writers' hands yet is dropped, for this reason; any thread."""
        self._cut = reason
        self._sequencer.cut(reason)

    def end_source(self, reason: str = "end of the recording") -> None:
        """The source is exhausted, or is to be: everything held comes out."""
        self._timed(self._clock.flush())
        self._feed(self._masks.flush())
        self._end_run(reason)
        self._span = None

    def close(self) -> list[Path]:
        """Write what is under way and finish the output; the paths a user should look at.

        Raises:
            WriteError: or whatever made a writer fail.
        """
        self._fanout.join()
        self._pool.shutdown()
        return self._fanout.close()

    def abort(self) -> None:
        """Let go of files and threads after an error."""
        self._sequencer.abort()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._fanout.abort()

    @property
    def outputs(self) -> Mapping[str, Output]:
        """What each writer has written so far, by its name."""
        return self._fanout.outputs

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        return Progress(
            self.ledger.totals["received"],
            self._fanout.samples,
            self._fanout.bytes_written,
            self._recorded_ns / 1e9,
            self._sequencer.driven_m,
        )

    @property
    def calibration(self) -> Calibration | None:
        """As it is known now, for a source that goes on with the same sensors; None if nothing is."""
        return self._sequencer.calibration

    @property
    def has_poses(self) -> bool:
        """Whether the rig's position was ever known."""
        return any(summary.run.poses.has_position for summary in self.sequences)

    @property
    def streams(self) -> list[StreamStats]:
        """How the topics of every sequence so far went by, the one under way included; any thread."""
        run = self._sequencer.current
        runs = [s.run for s in self.sequences] + ([] if run is None else [run])
        return [stats for each in runs for stats in list(each.stats.values())]

    def report(self) -> dict[str, Any]:
        """The capture report as plain values; the same input gives the same report."""
        return build_report(
            self.config,
            self.ledger,
            self.sequences,
            outputs=self.outputs,
            samples=self._fanout.samples,
            notes=self.notes,
            unread=self.unread,
            hints=[hint.text for hint in self.hints(self.ledger.snapshot())],
        )

    def hints(self, topics: Mapping[str, Mapping[str, Any]]) -> list[Hint]:
        """What may be meant by what is configured and did not come, from the accounts by topic."""
        return hints_of(self.config, self._routes, topics, self.around)

    # ------------------------------------------------------------------ one sequence
    def _timed(self, events: Iterable[Timed[Heard] | Boundary]) -> None:
        for event in events:
            if self._cut and not isinstance(event, Boundary):
                self.ledger.release(event.item.ticket, Stage.DROPPED, self._cut, unplaced=True)
                continue
            if isinstance(event, Boundary):
                self._feed(self._masks.flush())
                self.notes.append(f"new sequence: {event.reason}")
                self._end_run(event.reason)
                self._break()
                if self._motions:
                    self._motions.popleft()
                continue
            known = event.item
            if event.refusal is None:
                self._assign(known.ticket, event.time_ns)
            if event.refusal is not None:
                self.ledger.release(known.ticket, Stage.REFUSED, event.refusal, unplaced=True)
                continue
            unused = self._unused(known.route)
            if unused:
                self.ledger.release(known.ticket, Stage.SKIPPED, unused)
                continue
            if self._has_odometer and known.route.rule.role is Role.ODOMETRY and _is_tf(known):
                self.ledger.release(known.ticket, Stage.SKIPPED, "another topic sends odometry as such")
                continue
            envelope = self._envelope(known, event.time_ns)
            if envelope is not None:
                self._feed(self._masks.feed(envelope))

    def _envelope(self, known: Heard, time_ns: int) -> Envelope | None:
        """A message that has its time on its way; None for one that came before."""
        raw, decoded = known.raw, known.decoded
        is_video = isinstance(decoded.datum, VideoPacket)
        content = content_of(decoded.datum) if isinstance(decoded.datum, VideoPacket) else Content.PICTURE
        unshown = (Stage.DECODED, SETS) if content is Content.SETS else None
        found = (finding for finding in reversed(self._clock.findings) if finding.topic == raw.topic)
        finding = next(found, None)
        stamped = finding is None or finding.group is not None
        repeat = self._duplicates.timed(known, content, time_ns, stamped=stamped)
        if repeat is not None and not (is_video and repeat.number):
            self.ledger.release(known.ticket, Stage.REFUSED, repeat.reason)
            return None
        if repeat is not None:
            # Images after it are built on it all the same, so the decoder gets it, at a time of its own.
            unshown, time_ns = (Stage.REFUSED, repeat.reason), time_ns + repeat.number
        if self._recent is not None:
            self._recent.add(known, time_ns, unshown)
        return _envelope_of(known, time_ns, unshown)

    def _feed(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            self._assign(envelope.ticket, envelope.time_ns)
            if self._cut:
                self.ledger.release(envelope.ticket, Stage.DROPPED, self._cut)
            elif self._broken and not envelope.ticket.own:
                self.ledger.release(envelope.ticket)
            else:
                self._sequencer.feed(envelope)

    def _assign(self, ticket: Ticket, time_ns: int) -> None:
        """At a seam the acquisition time says which session a message is of."""
        if self._window.is_near and not self._broken:
            self.ledger.assign(ticket, own=self._window.has(time_ns))

    def _break(self) -> None:
        """The time base broke, so that the times at a seam mean nothing now: order of arrival decides."""
        self._broken = self._window.is_near
        self._window.begin_ns = self._window.end_ns = None
        self._window.is_near = False
        if self._recent is not None:
            self._recent.clear()

    def _unused(self, route: Route) -> str:
        """Why a topic is not used, now that the others are known, else empty: of several that fit one is."""
        if route.rule.is_choice:
            if not self._routes.has_chosen(route.name):
                self._routes.settle((topic, "") for topic in self._told)
                self._tell_choices()
            now = self._routes.route(route.topic)
            if now is not None and now.instead:
                return f"topics.{route.name} takes {now.instead}"
        if not self._reference[1]:
            self._look_for_reference()
        role, topics = self._reference
        is_other = role is Role.CAMERA is route.rule.role and topics and route.topic not in topics
        return "another camera topic is the reference" if is_other else ""

    def _tell_choices(self) -> None:
        self.notes += [note for note in self._routes.notes if note not in self.notes]

    def _look_for_reference(self) -> None:
        """A live reference may come later than the others; a sequence that has begun takes it up then."""
        seen = [f.topic for f in self._clock.findings]
        try:
            self._reference = choose_reference(self.config, seen, self._routes)
        except ConfigError as error:
            if not self._missed:
                self._missed = True
                self.notes.append(f"{error} (so far)")
        else:
            if self._sequencer.current is not None:
                self._sequencer.current.reference_topics = self._reference[1]

    def _known(self) -> Known:
        findings = tuple(self._clock.findings)
        found = [self._routes.route(finding.topic) for finding in findings]
        motion = self._motions[0] if self._motions else None
        expected = [route.name for route in found if route is not None and not route.instead]
        return Known(self._reference, expected, findings, motion)

    def _end_run(self, reason: str) -> None:
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


def _envelope_of(known: Heard, time_ns: int, unshown: tuple[Stage, str] | None) -> Envelope:
    raw, decoded = known.raw, known.decoded
    content = content_of(decoded.datum) if isinstance(decoded.datum, VideoPacket) else Content.PICTURE
    measurement = Measurement(
        raw.topic, time_ns, decoded.stamp_ns, raw.receive_ns, raw.arrival, decoded.frame_id, decoded.datum
    )
    return Envelope(measurement, known.route, known.ticket, content=content, unshown=unshown)


def decoded_for(rule: TopicRule, raw: RawMessage) -> Decoded | None:
    """A message's datum as its role has it; None for transforms that are not of the rule's pair of frames.

    Raises:
        DecodeError: why it cannot be used.
    """
    decoded = decode(raw)
    if rule.role is not Role.ODOMETRY or not isinstance(decoded.datum, Transforms):
        return decoded
    found = odometry_of(decoded.datum, rule.parent_frame, rule.child_frame)
    return None if found is None else Decoded(*found)


def _is_tf(known: Heard) -> bool:
    return full_type(known.raw.schema) == TF
