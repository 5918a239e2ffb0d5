"""Connects the stages: messages are decoded, dated, aligned, written and counted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.hints import ExistingTopic
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.formats.format import Distributes, Writer
from edgefirst_ros.model.reasons import Code, Finding
from edgefirst_ros.model.sample import Calibration, RawMessage, Sample
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.context import PoseAccount
from edgefirst_ros.pipeline.disk import Disk, Mark
from edgefirst_ros.pipeline.fanout import FanOut, Output
from edgefirst_ros.pipeline.intake import Intake
from edgefirst_ros.pipeline.ledger import Ledger
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.processes import Workers
from edgefirst_ros.pipeline.report import build_report
from edgefirst_ros.pipeline.sequencer import SPLIT
from edgefirst_ros.pipeline.session import SequenceSummary, Session
from edgefirst_ros.timing.gaps import StreamStats

DRIVE_ENDED = "end of the recording"
"""Why a source ends that is not just paused."""


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
    newest: tuple[str, int, int] = "", 0, 0
    """Sequence, frame and time of the newest sample that is written."""


class Pipeline:
    """Turns the messages of sources into datasets, one source after another.

    For each source call ``begin_source``, then ``feed`` with every message, then ``end_source``; finally
    ``close``. One thread feeds; other methods say where any thread may call them. The same messages give the
    same bytes, whatever the number of workers.

    A source may go on with another pipeline's writers: what is acquired from a time on is of that one. Each
    message is processed once, and belongs to the session of its time.

    Args:
        config: whole.
        writers: of all formats.
        committed: called with every sample that any format has; see ``FanOut``.
        overload: decides what a live capture sheds.
        disk: admits what is written, see ``FanOut``.
        durable: called with how far the disk holds what was written; see ``GroupCommit``.
        processes: whether as many processes as there are workers decode and encode, in place of threads.
        shown: which samples the writers get, by their times, see ``FanOut``.
        workers: of a pipeline that this one follows or is followed by; None: its own.
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
        shown: Callable[[int, str], bool] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.config = config
        self.ledger = Ledger()
        self.workers = workers or Workers(config.workers, processes=processes)
        self.workers.enter(self)
        if self.workers.processes is not None:
            for writer in writers:
                if isinstance(writer, Distributes):
                    writer.distribute(self.workers.processes.call)
        self._fanout = FanOut(
            writers,
            self.workers.pool,
            self.workers.count,
            self.ledger,
            committed,
            sync_s=config.sync_s,
            durable=durable,
            overload=overload,
            disk=disk,
            backlog=self.workers.backlog,
            shown=shown,
        )
        self._session = Session(self.ledger, self._fanout)
        self.sequences: list[SequenceSummary] = self._session.done
        self.notes: list[str] = self._session.notes
        """Findings for the user while the run goes on, once each; also in the report."""
        self.unread: list[str] = []
        """Sentences on sources that were requested and of which nothing was fed."""
        self.around: Collection[ExistingTopic] = ()
        """Topics that exist but are not fed; used for hints only."""
        self.cut_short = False
        """Whether a source was not read to its end, so that topics may not have come yet."""
        self._is_continued = False
        """Whether calibration was known before the first message."""
        self._intake = Intake(config, self._session, self.workers)

    def tell_unusable(self, topics: Mapping[str, str]) -> None:
        """These topics are of sensors, and cannot be used; why, by topic."""
        self._intake.routing.unusable = topics

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
            after: no new source: that of this pipeline goes on here with what is acquired from a time on (see
                ``seam_ns``). Messages are fed here then; the one before has the rest until ``pass_seam``.

        Raises:
            ConfigError: the prefix or the reference is ambiguous, or no topic could ever be the reference.
        """
        self._is_continued |= calibration is not None or after is not None
        self._session.host = self.config.host or host
        self._session.name = None if name is None else safe_name(name)
        if after is None:
            self._intake.begin(topics, motions, calibration)
        else:
            self._follow(*after)

    def _follow(self, before: Pipeline, time_ns: int) -> None:
        self._intake = before._intake
        self._intake.join(self._session, time_ns)

    def seam_ns(self, message: RawMessage | None) -> int | None:
        """Acquisition time at which another session can follow, see ``Intake.seam_ns``."""
        return self._intake.seam_ns(message)

    def pass_seam(self, reason: str = SPLIT) -> None:
        """Take everything from now on: no message of the session before can come any more, which ends."""
        self._intake.leave(reason)

    def feed(self, raw: RawMessage) -> None:
        """Take one message in order of arrival.

        Raises:
            WriteError: or whatever made a writer fail; nothing more can be written then.
        """
        self._intake.feed((raw,))

    def feed_all(self, raws: Sequence[RawMessage]) -> None:
        """Take several messages, as ``feed`` takes one; that is faster."""
        self._intake.feed(raws)

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
        self._session.cut = reason

    def end_source(self, reason: str = DRIVE_ENDED) -> None:
        """The source ends: everything held leaves, unless it goes on elsewhere."""
        if self._is_last:
            self._intake.end(reason)
        self._session.last_ns = None
        if reason == DRIVE_ENDED:  # after a pause the drive goes on
            self._session.drive = ""
            self.ledger.drives += 1

    @property
    def _is_last(self) -> bool:
        """Whether no other pipeline goes on with the source."""
        return self._intake.sessions[-1] is self._session

    def complete(self) -> list[Path]:
        """Write what is under way and finish the output except for final names; returns the user's paths.

        Raises:
            WriteError: or whatever made a writer fail.
        """
        self._fanout.join()
        self.workers.leave(self)
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
        self._intake.abort(self._session)
        self.workers.leave(self, at_once=True)
        self._fanout.abort()

    def raise_failure(self) -> None:
        """Raise what made a writer fail, if anything did."""
        self._fanout.raise_failure()
        self.workers.raise_failure()

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
            self._session.recorded_ns / 1e9,
            self._fanout.commits.durable.samples,
            self._fanout.newest,
        )

    @property
    def calibration(self) -> Calibration | None:
        """Known now, for a source that continues with the same sensors; None if nothing is known."""
        return self._intake.sequencer.calibration

    @property
    def camera(self) -> str:
        """The sensor whose pictures samples take."""
        return self._intake.routing.camera

    @property
    def _poses(self) -> list[PoseAccount]:
        now = self._session.current
        return [*(each.result.poses for each in self.sequences), *([] if now is None else [now.poses])]

    @property
    def streams(self) -> list[StreamStats]:
        """Statistics of the topics of every sequence so far, including the one under way; any thread."""
        now = self._session.current
        known = [summary.result.stats for summary in self.sequences] + ([] if now is None else [now.stats])
        return [stats for each in known for stats in list(each.values())]

    @property
    def contents(self) -> dict[str, StreamContent]:
        """By topic, what is watched in the sequence under way; any thread."""
        now = self._session.current
        return (
            {}
            if now is None
            else {now.stats[n].topic: c for n, c in list(now.content.items()) if c.is_watched}
        )

    def report(self) -> dict[str, Any]:
        """The capture report as plain values; the same input gives the same report."""
        counts = self.ledger.snapshot()
        return build_report(
            self.config,
            self.ledger,
            self.sequences,
            outputs={n: each for n, each in self.outputs.items() if n not in self._fanout.given_up},
            samples=self._fanout.samples,
            notes=[*self.notes, *(self._intake.sequencer.remarks.notes if self._is_last else ())],
            unread=self.unread,
            # What had not come when a run was cut short may have come later.
            absent=[e for e in self.absences(counts) if not (self.cut_short and e.code is Code.MISSING)],
            cut_short=self.cut_short,
        )

    def absences(self, topics: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
        """What is configured and did not come, by the ledger's counts of what did."""
        return self._intake.routing.absences(topics, self.around, known=self._is_continued)
