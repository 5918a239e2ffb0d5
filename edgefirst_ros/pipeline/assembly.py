"""Connects the stages: messages are decoded, dated, aligned, written and counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.hints import ExistingTopic, Hint
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.formats.format import Distributes, Writer
from edgefirst_ros.model.sample import Calibration, RawMessage, Sample
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.disk import Disk, Mark
from edgefirst_ros.pipeline.envelope import Envelope, Window
from edgefirst_ros.pipeline.executor import Backlog, worker_count
from edgefirst_ros.pipeline.fanout import FanOut, Output
from edgefirst_ros.pipeline.intake import Intake, SeamStart
from edgefirst_ros.pipeline.ledger import Ledger, Stage
from edgefirst_ros.pipeline.masks import Masks
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.processes import ProcessPool
from edgefirst_ros.pipeline.report import build_report
from edgefirst_ros.pipeline.sequencer import Known, Sequencer, SequenceSummary
from edgefirst_ros.timing.gaps import StreamStats

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
        self._masks = Masks(config, self.ledger, self.notes.append)
        self._motions: deque[Motion] = deque()
        self._intake = Intake(config, self)
        self._last_known: Known | None = None
        """Once it has left its intake to another session, what it knew then."""
        self._publishers: dict[str, Mapping[str, Any]] = {}
        """Likewise; until then what was found before another session joined."""
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
            after: pipeline of the session before and time of the seam (see ``seam_ns``): what is acquired
                from then on belongs to this one. Both take messages, which are fed here, until ``pass_seam``;
                the rig's motion and what the first samples pair with are taken over.

        Raises:
            ConfigError: the prefix or the reference is ambiguous, or no topic could ever be the reference.
        """
        self._is_continued |= calibration is not None or after is not None
        self._motions = deque(motions)
        host = self.config.host or host
        if after is None:
            self._intake.begin(topics)
            self._sequencer.source(host, name, calibration)
        else:
            before, time_ns = after
            self._sequencer.source(host, name, calibration, before.start_after(time_ns))
            self._follow(before, time_ns)

    # ------------------------------------------------------------------ seams
    def seam_ns(self, message: RawMessage | None) -> int | None:
        """Acquisition time at which another session can follow, see ``Intake.seam_ns``."""
        return None if self._sequencer.current is None else self._intake.seam_ns(message)

    def pass_seam(self) -> None:
        """Take everything from now on, because no message of the session before can come any more."""
        self._window.is_near = False
        self._intake.pass_seam()

    def leave(self) -> None:
        """Take no messages any more; another session goes on."""
        self._publishers, self._last_known = dict(self.publishers), self._known()
        self._intake.leave(self)

    def start_after(self, time_ns: int) -> SeamStart | None:
        """What a session that follows from this time on takes over; None if there is no sequence."""
        run, recent = self._sequencer.current, self._intake.recent
        return None if run is None or recent is None else run.start_after(time_ns, recent.last_ns)

    def _follow(self, before: Pipeline, time_ns: int) -> None:
        """Go on with the messages of the session before, and with those that this one needs as well."""
        self._window.begin_ns, self._window.is_near = time_ns, True
        self._intake = before._intake
        recent = self._intake.recent
        for kept in [] if recent is None else recent.messages():
            self.share(kept, None)
        before._window.end_ns, before._window.is_near = time_ns, True
        before._publishers = dict(before.publishers)
        self._intake.join(self)

    def feed(self, raw: RawMessage) -> None:
        """Take one message in order of arrival; so does a session before that has not left yet.

        Raises:
            WriteError: or whatever made a writer fail; nothing more can be written then.
        """
        self._intake.feed(raw)

    def lose(
        self, topic: str, schema: str, messages: int, size: int, reason: str, *, receive_ns: int = 0
    ) -> None:
        """Count messages that were dropped unread, received about ``receive_ns``, 0 if that is unknown."""
        if self._intake.routing.route(topic, schema)[1] is None:
            topic = self.ledger.unused(topic)
        self.ledger.lose(topic, schema, messages, size, reason, receive_ns=receive_ns)

    def leave_out(self, topic: str, schema: str, messages: int, reason: str) -> None:
        """Count messages that were not selected and, as a rule, not read."""
        if self._intake.routing.route(topic, schema)[1] is None:
            topic = self.ledger.unused(topic)
        self.ledger.skip(topic, full_type(schema), messages, reason)

    def cut(self, reason: str) -> None:
        """Drop, for this reason, what has not been handed to writers, as no time is left; any thread."""
        self._cut = reason
        self._sequencer.cut(reason)

    def end_source(self, reason: str = "end of the recording") -> None:
        """The source ends: everything held leaves."""
        has_left = self._last_known is not None
        if not has_left:
            self._intake.flush()
        self._feed(self._masks.flush())
        self._sequencer.end(reason)
        if not has_left:
            self._intake.forget()
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
        self.raise_failure()
        return self._fanout.complete()

    def close(self) -> None:
        """Give the complete output its names.

        Raises:
            WriteError: or whatever made a writer fail; recovery gives the names.
        """
        self._fanout.close()

    def abort(self) -> None:
        """Release files and threads after an error."""
        self._intake.leave(self)
        self._sequencer.abort()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._processes is not None:
            self._processes.kill()
        self._fanout.abort()

    def raise_failure(self) -> None:
        """Raise what made a writer fail, if anything did."""
        self._fanout.raise_failure()
        if self._processes is not None and self._processes.failure is not None:
            raise self._processes.failure

    @property
    def fanout(self) -> FanOut:
        """The writers, to be asked how they are; any thread."""
        return self._fanout

    @property
    def publishers(self) -> Mapping[str, Mapping[str, Any]]:
        """By topic with several publishers, what tells it; any thread."""
        if self._last_known is not None:
            return self._publishers
        return dict(sorted({**self._publishers, **self._intake.publishers.found}.items()))

    def announced(self, topic: str, publishers: list[str]) -> None:
        """Note that the middleware knows several publishers of a topic; any thread."""
        if self._last_known is None:
            self._intake.publishers.announced(topic, publishers)

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
        missing = [] if self.cut_short else self._intake.routing.missing(counts, known=self._is_continued)
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
            publishers=self.publishers,
        )

    def hints(self, topics: Mapping[str, Mapping[str, Any]]) -> list[Hint]:
        """What configured topics that did not come may mean, by the ledger's counts of those that did."""
        return self._intake.routing.hints(topics, self.around)

    # ------------------------------------------------------------------ one sequence
    def _place(self, envelope: Envelope) -> None:
        """At a seam the acquisition time says to which session a message belongs, and is counted by."""
        if self._window.is_near and not self._is_broken:
            self.ledger.assign(envelope.ticket, own=self._window.has(envelope.time_ns))

    def take(self, envelope: Envelope, end: tuple[Stage, str] | None) -> None:
        """Take a message at its acquisition time, in order of arrival; ``end`` if it goes no further."""
        self._place(envelope)
        if end is not None:
            self.ledger.release(envelope.ticket, *end)
        elif self._cut:
            self.ledger.release(envelope.ticket, Stage.DROPPED, self._cut, unplaced=True)
        else:
            may_have_masks = self._intake.routing.may_have_masks
            self._feed(self._masks.feed(envelope) if may_have_masks else (envelope,))

    def share(self, envelope: Envelope, end: tuple[Stage, str] | None) -> None:
        """Take, as ``take`` does, a message that another session has, too: under a ticket of its own."""
        old = envelope.ticket
        ticket = self.ledger.receive(old.topic, old.schema, old.size, old.receive_ns, own=False)
        self.take(envelope.fresh(ticket), end)

    def refer(self, topics: frozenset[str]) -> None:
        """These topics are the reference now."""
        if self._sequencer.current is not None:
            self._sequencer.current.reference_topics = topics

    def broke(self, reason: str) -> None:
        """The time base broke: what follows is another sequence.

        Times at a seam mean nothing any more then: order of arrival decides.
        """
        self._feed(self._masks.flush())
        self.notes.append(f"new sequence: {reason}")
        self._sequencer.end(reason)
        self._is_broken = self._window.is_near
        self._window.begin_ns = self._window.end_ns = None
        self._window.is_near = False
        if self._motions:
            self._motions.popleft()

    def _feed(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            self._place(envelope)
            if self._cut:
                self.ledger.release(envelope.ticket, Stage.DROPPED, self._cut)
            elif self._is_broken and not envelope.ticket.own:
                self.ledger.release(envelope.ticket)
            else:
                self._sequencer.feed(envelope)

    def _known(self) -> Known:
        if self._last_known is not None:
            return self._last_known
        intake = self._intake
        findings = tuple(intake.findings)
        motion = self._motions[0] if self._motions else None
        topics = (finding.topic for finding in findings)
        expected, left_out = intake.routing.used(topics, intake.heard)
        return Known(intake.routing.reference, expected, left_out, findings, motion)

    def received(self, receive_ns: int) -> None:
        """A message was received then, of which it is not known yet where it belongs."""
        if receive_ns <= 0:
            return  # received before there was a time
        if self._span is None:
            self._span = (receive_ns, receive_ns)
        start, end = self._span
        if receive_ns > end:
            self._recorded_ns += receive_ns - end
            self._span = (start, receive_ns)
