"""From a sequence to its writers: every item prepared in the pool, written in order, and settled once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from edgefirst_ros.config.topics import LABEL_ROLES
from edgefirst_ros.formats.crashsafe.sync import sync_paths, tree
from edgefirst_ros.formats.format import (
    ByCamera,
    CrashSafe,
    LeftOut,
    LooksAhead,
    MeasurementWriter,
    Watched,
    Writer,
    Written,
)
from edgefirst_ros.model.errors import DecodeError, WriteError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import guarded
from edgefirst_ros.model.sample import EgoPose, Observation, Role, Sample, SequenceInfo
from edgefirst_ros.pipeline.delivery import Delivery, Item, Result, Turn
from edgefirst_ros.pipeline.disk import Disk, GroupCommit, Mark
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.executor import Backlog, OrderedWriter
from edgefirst_ros.pipeline.ledger import SAMPLE, Ledger, Outcome, Stage, count_reason
from edgefirst_ros.pipeline.overload import Overload

LARGE_ROLES = frozenset(
    {Role.CAMERA, Role.LIDAR_POINTS, Role.LIDAR_CLUSTERS, Role.FUSION_LIDAR, Role.RADAR_CUBE, Role.DEPTH}
)
"""Measurements worth shedding; the others are small, and labels or poses of what is kept."""

Given = TypeVar("Given")
Made = TypeVar("Made")
_SHED = Written(left_out=LeftOut("dropped", Reason.SHED), items=0)
_NO_SPACE = Written(left_out=LeftOut("dropped", Reason.CUT_OFF), items=0)


@dataclass(slots=True)
class Output:
    """What one writer has written so far."""

    unit: str
    """What ``items`` are: samples, frames, measurements."""
    items: int = 0
    """How many its dataset holds now."""
    bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Samples that it left out, by reason."""
    thinned: set[str] = field(default_factory=set)
    """Those of the reasons that say it takes fewer."""

    def add(self, written: Written) -> None:
        """Count one item."""
        self.bytes += written.bytes
        if written.left_out is not None:
            count_reason(self.left_out, written.left_out.reason)
            if written.left_out.kind == "skipped":
                self.thinned.add(written.left_out.reason)
        else:
            self.items += written.items


class FanOut:
    """Takes the samples, measurements and poses of all sequences, in order of time, to every writer.

    Each writer has a thread of its own and takes items in the order in which they come here.

    Args:
        writers: of all formats.
        pool: prepares.
        workers: threads of the pool.
        ledger: of the whole run.
        committed: called with every sample that is in the output of any format, picture included, in a
            writer's thread: it must be quick and must not raise.
        sync_s: how often what is written is synced, see ``GroupCommit``.
        durable: called with how far the disk holds what was written, see ``GroupCommit``.
        overload: decides which samples each writer has time for.
        disk: admits what is written; None: everything is.
        backlog: limits what is under way; default: what suits a pool of so many threads.
        shown: called with the time of each sample in order, and with its camera's sensor, empty for the
            reference: whether the writers get it. Others are counted as samples all the same, and their
            pictures are not decoded. None: they get all.

    Attributes:
        observes: whether any format takes measurements and poses.
        sample_formats: names of the formats that take samples.
        camera_formats: names of those that take samples of every camera.
        commits: makes durable what is written.
        needs_pose: whether measurements at times of unknown pose are left out.
        chooses: whether ``sample_takers`` and ``measurement_takers`` may be fewer than all.
        sheds_early: whether pictures are shed with measurements, which are handed over before their samples.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        pool: ThreadPoolExecutor,
        workers: int,
        ledger: Ledger,
        committed: Callable[[Sample], None] | None = None,
        *,
        sync_s: float = -1.0,
        durable: Callable[[Mark], None] | None = None,
        overload: Overload | None = None,
        disk: Disk | None = None,
        backlog: Backlog | None = None,
        shown: Callable[[int, str], bool] | None = None,
    ) -> None:
        self._shown = shown
        self.samples, self.newest = 0, ("", 0, 0)
        self._in_all = 0
        self._newest_ns: int | None = None
        self.bytes_written = 0
        self.outputs = {writer.name: Output(writer.unit) for writer in writers}
        self._committed = committed
        self._overload = overload
        self._disk = disk
        self._given_up: set[str] = set()
        self._pool = pool
        self._ledger = ledger
        self._lock = threading.Lock()
        self._has_begun = False
        # Enough under way to keep every core busy while one slow picture holds the order up.
        self.backlog = backlog or Backlog(4 * workers + 8)
        self._all: list[tuple[Writer, OrderedWriter[Any]]] = []
        self._samplers: list[tuple[Writer, OrderedWriter[Any]]] = []
        self._observers: list[tuple[Writer, OrderedWriter[Any]]] = []
        for writer in writers:
            write = (
                writer.write
                if overload is None
                else partial(_measured, overload.wrote, writer.name, writer.write)
            )
            if disk is not None:
                write = partial(_admitted, disk, write)
            thread: OrderedWriter[Any] = OrderedWriter(writer.name, write, self.backlog)
            group = self._observers if isinstance(writer, MeasurementWriter) else self._samplers
            group.append((writer, thread))
            self._all.append((writer, thread))
        self.sample_formats = [writer.name for writer, _ in self._samplers]
        self._by_camera = [each for each in self._samplers if isinstance(each[0], ByCamera)]
        self.camera_formats = [writer.name for writer, _ in self._by_camera]
        self.commits = GroupCommit(writers, sync_s, lambda: self.mark, durable)
        self.observes = bool(self._observers)
        self.chooses = overload is not None or shown is not None
        self.sheds_early = self.observes and overload is not None
        self.needs_pose = self.observes and all(
            w.needs_pose for w in writers if isinstance(w, MeasurementWriter)
        )

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; what follows belongs to it.

        Raises:
            EdgeFirstError: an output cannot be opened, or another process is writing it.
        """
        if self._has_begun:
            for writer, thread in self._all:
                thread.call(partial(writer.begin, sequence))
        else:
            # Outputs are locked in one order, so that of two runs that begin at once one gets all of them.
            for writer, _ in sorted(self._all, key=lambda each: each[0].name):
                writer.begin(sequence)
            self._has_begun = True
        if self._overload is not None:
            self._overload.begin()

    def begin_camera(self, sequence: SequenceInfo) -> None:
        """A sequence of a camera beside the reference starts."""
        for writer, thread in self._by_camera:
            if isinstance(writer, ByCamera):
                thread.call(partial(writer.begin_camera, sequence))

    @property
    def keyframes_only(self) -> bool:
        """Whether there is only time to decode the key frames of a video that has some."""
        return self._overload is not None and self._overload.keyframes_only

    def sample_takers(
        self, reference: Envelope, camera: Envelope | None, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """Formats that have time for the next sample, by its reference and its picture; None if all.

        ``possible`` says that there is time to decode its picture, ``better`` that it costs no more than
        others; so in the methods below.
        """
        overload = self._overload
        if self._shown is not None:
            return frozenset(self.sample_formats if self._shown(reference.time_ns, "") else ())
        if overload is None:
            return None
        overload.look(reference.receive_ns, self._backlog_s(), reference.time_ns)
        shares, takers = overload.shares, set[str]()
        # Where measurements have their pictures made before, an earlier one cannot be had any more.
        possible = possible and (not self.observes or camera is None or camera.image is not None)
        for number, name in enumerate(sorted(self.sample_formats, key=lambda name: -shares[name])):
            # What another format has, too, costs less.
            cheap = len(takers) > 0 if number else better or self.observes
            if overload.takes(name, possible=possible, better=cheap):
                takers.add(name)
        overload.counted()
        return frozenset(takers)

    def camera_takers(
        self, camera: Envelope, sensor: str, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """As ``sample_takers``, of the next sample of a camera beside the reference."""
        overload, names = self._overload, self.camera_formats
        if self._shown is not None:
            return frozenset(names if self._shown(camera.time_ns, sensor) else ())
        if overload is None:
            return None
        takes = partial(overload.takes, stream=sensor, possible=possible, better=better)
        return frozenset(name for name in names if takes(name))

    def wants_picture(self, *, possible: bool, better: bool) -> bool:
        """Where ``sheds_early``: whether to make the next sample's picture, should a format take it."""
        overload, names = self._overload, self.sample_formats
        return overload is not None and overload.wants_picture(names, possible=possible, better=better)

    def measurement_takers(
        self, envelope: Envelope, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """Formats that have time for a measurement; None if all, as for small ones and labels of others."""
        overload = self._overload
        if overload is None or envelope.route.rule.role not in LARGE_ROLES:
            return None
        overload.look(envelope.receive_ns, self._backlog_s(), envelope.time_ns, sample=False)
        takes = partial(overload.takes, stream=envelope.topic, possible=possible, better=better)
        return frozenset(w.name for w, _ in self._observers if takes(w.name))

    def sample(self, delivery: Delivery[Sample]) -> None:
        """Hand a sample to every writer of samples."""
        if self._samplers and (self._shown is None or delivery.takers):
            delivery.awaited = 1 + len(self._observers)
            self._hand(delivery, self._samplers)
            for _, thread in self._observers:  # its measurements went there before it
                thread.call(partial(self._arrive, delivery, thread))
        else:
            # Without a format of samples, a sample counts by its reference, which the writers had before it.
            delivery.awaited = len(self._observers)
            for _, thread in self._observers:
                thread.call(partial(self._followed, delivery))
            if not self._observers:
                delivery.item.add_done_callback(partial(self._unseen, delivery))

    def camera_sample(self, delivery: Delivery[Sample]) -> None:
        """Hand a sample of a camera beside the reference to every writer that takes such."""
        if self._by_camera and (self._shown is None or delivery.takers):
            self._hand(delivery, self._by_camera)
        else:
            delivery.item.add_done_callback(partial(self._unseen, delivery))

    def measurement(self, delivery: Delivery[Observation]) -> None:
        """Hand a measurement to every writer of measurements."""
        self._hand(delivery, self._observers)

    def pose(self, pose: EgoPose) -> None:
        """Hand a pose to every writer of measurements."""
        for writer, thread in self._observers:
            if isinstance(writer, MeasurementWriter):
                thread.call(partial(writer.pose, pose))

    def raise_failure(self) -> None:
        """Raise what ended a writer, if anything did."""
        for writer, thread in self._all:
            if thread.failure is not None and writer.name not in self._given_up:
                raise thread.failure
        if self.commits.failure is not None:
            raise self.commits.failure

    def finish_bytes(self) -> int:
        """By how many bytes, at most, ``complete`` makes grow what is on the disk by now; any thread."""
        return sum(
            writer.finish_bytes()
            if isinstance(writer, Watched)
            # A format that does not say what completing it takes may take this part of what it has written.
            else self.outputs[writer.name].bytes // 10
            for writer, _ in self._left()
        )

    def lost(self) -> dict[str, Path]:
        """What grows and is no longer where it was made, by format, see ``Watched``; any thread.

        Raises:
            OSError: the disk does not answer.
        """
        watched = [writer for writer, _ in self._left() if isinstance(writer, Watched)]
        # What was completed while it was looked at is asked about no more the second time.
        return {w.name: path for w in watched if w.lost() and (path := w.lost()) is not None}

    def give_up(self, lost: Mapping[str, WriteError]) -> None:
        """Write nothing more of some formats, by the reasons; the others can be completed."""
        for writer, thread in self._all:
            if writer.name in lost:
                thread.failure = thread.failure or lost[writer.name]
        self._given_up |= lost.keys()

    @property
    def given_up(self) -> frozenset[str]:
        """Formats that were given up."""
        return frozenset(self._given_up)

    def _left(self) -> Iterator[tuple[Writer, OrderedWriter[Any]]]:
        """The writers that were not given up."""
        return (each for each in self._all if each[0].name not in self._given_up)

    @property
    def mark(self) -> Mark:
        """How far writing has come; any thread."""
        with self._lock:
            return Mark(self._in_all, self._newest_ns, self.bytes_written)

    def join(self) -> None:
        """Wait until everything handed over is written."""
        for _, thread in self._all:
            thread.join()

    def complete(self) -> list[Path]:
        """Finish every output, so that ``close`` or recovery can give it its names; the paths to look at.

        Raises:
            WriteError: or whatever made a writer fail.
        """
        self.commits.stop()
        self.raise_failure()
        paths = []
        for writer, _ in self._all:
            if writer.name in self._given_up:
                with suppress(WriteError, OSError):
                    writer.abort()
            elif isinstance(writer, CrashSafe):
                paths += writer.complete()
            else:
                closed = writer.close()
                sync_paths([*tree(*closed), *{path.parent for path in closed}])
                paths += closed
        return paths

    def close(self) -> None:
        """Give every output its names.

        Raises:
            WriteError: or whatever made a writer fail; recovery gives the names.
        """
        for writer, _ in self._left():
            if isinstance(writer, CrashSafe):
                writer.close()
        self.commits.complete(self.mark)

    def abort(self) -> None:
        """Release every output as it is."""
        self.commits.stop()
        self.join()
        for writer, _ in self._all:
            writer.abort()

    def _backlog_s(self) -> float:
        """How long an item handed over now will wait."""
        return max((thread.backlog_s for _, thread in self._all), default=0.0)

    def _hand(self, delivery: Delivery[Item], writers: Sequence[tuple[Writer, OrderedWriter[Any]]]) -> None:
        overload, takers = self._overload, delivery.takers
        delivery.writers = len(writers)
        for writer, thread in writers:
            if takers is not None and writer.name not in takers:
                if isinstance(writer, LooksAhead) and delivery.ego is not None:
                    thread.call(partial(writer.pass_by, delivery.ego))
                self._settle(delivery, writer.name, _SHED)
                continue
            prepare: Callable[[Any], Any] = partial(_prepared, writer)
            if overload is not None:
                prepare = partial(_measured, overload.prepared, writer.name, prepare)
            thread.submit(Turn(delivery, writer.name, self._pool, prepare, self._settle))

    def _settle(self, delivery: Delivery[Any], name: str, result: Result) -> None:
        """A writer is done with an item; in that writer's thread."""
        with self._lock:
            if isinstance(result, Written):
                self.bytes_written += result.bytes
                self.outputs[name].add(result)
                if self._disk is not None:
                    self._disk.wrote(result.bytes)
            is_last = delivery.settle(name, result)
        self.commits.wrote()
        if not is_last:
            return
        if delivery.count is not None:
            self._count(delivery, delivery.outcome)
            if delivery.is_reference:
                self._arrive(delivery)
        delivery.close(self._ledger)

    def _arrive(self, delivery: Delivery[Any], *threads: OrderedWriter[Any]) -> None:
        """All writers of samples are done with one, or a writer of measurements with those of its time."""
        with self._lock:
            delivery.awaited -= 1
            delivery.is_lacking |= any(thread.failure is not None for thread in threads)
            if delivery.awaited or delivery.outcome != SAMPLE:
                return
            self._newest_ns = delivery.envelopes[0].time_ns
            self._in_all += delivery.is_in_all
        self.commits.wrote()

    def _followed(self, delivery: Delivery[Sample]) -> None:
        """A writer of measurements is done with those of a sample that no format takes."""
        with self._lock:
            delivery.awaited -= 1
            if delivery.awaited:
                return
        ticket = delivery.envelopes[0].ticket
        kind = "dropped" if ticket.reason == Reason.SHED else "unusable"
        self._let_go(delivery, SAMPLE if ticket.stage is Stage.WRITTEN else Outcome(kind, ticket.reason))

    def _unseen(self, delivery: Delivery[Sample], _: object) -> None:
        """A sample is made, and there is no format at all."""
        self._let_go(delivery, Outcome("unusable", delivery.damage) if delivery.damage else SAMPLE)

    def _let_go(self, delivery: Delivery[Sample], outcome: Outcome) -> None:
        self._count(delivery, outcome)
        if outcome == SAMPLE and delivery.is_reference:
            with self._lock:
                self._newest_ns = delivery.envelopes[0].time_ns
                self._in_all += all(thread.failure is None for _, thread in self._observers)
        for envelope in delivery.envelopes:
            for part in envelope.all_parts:
                self._ledger.release(part.ticket)

    def _count(self, delivery: Delivery[Sample], outcome: Outcome) -> None:
        """Count a sample, and its pairs, once, whatever the formats."""
        if delivery.count is not None:
            delivery.count(outcome)
        if delivery.damage:
            return
        reference, *others = delivery.envelopes
        place = None
        if outcome == SAMPLE:
            place = delivery.place
        if outcome == SAMPLE and delivery.is_reference:
            labelled = any(envelope.route.rule.role in LABEL_ROLES for envelope in delivery.envelopes)
            self._ledger.combined({envelope.topic for envelope in others}, labelled=labelled)
        for envelope in others:
            for topic in {part.topic for part in envelope.all_parts}:
                self._ledger.paired(topic, envelope.time_ns - reference.time_ns, place)
        if outcome == SAMPLE and delivery.is_reference:
            with self._lock:
                self.samples += 1
                self.newest = delivery.place or self.newest
            if self._committed is not None:
                self._committed(delivery.item.result())


def _prepared(writer: Writer, item: Sample | Observation) -> Any:  # noqa: ANN401 - whatever the writer takes
    """What the writer prepares, or what to count in its place: what one item holds costs that item only."""
    prepare: Callable[[Any], Any] = writer.prepare
    try:
        return guarded(f"preparing it for {writer.name}", prepare, item)
    except DecodeError as error:
        if isinstance(item, Sample):
            return Written(left_out=LeftOut("unusable", str(error)))
        return Written(refused=((item.measurement.topic, str(error)),))


def _admitted(disk: Disk, write: Callable[[Given], Any], given: Given) -> Any:  # noqa: ANN401 - what it writes
    """Write an item, if there is space for it."""
    return write(given) if disk.admits() else _NO_SPACE


def _measured(
    report: Callable[[str, float, float], None], name: str, action: Callable[[Given], Made], given: Given
) -> Made:
    """Run an action, and report its CPU seconds and those that passed for a format."""
    cpu_s, start_s = time.thread_time(), time.monotonic()
    try:
        return action(given)
    finally:
        report(name, time.thread_time() - cpu_s, time.monotonic() - start_s)
