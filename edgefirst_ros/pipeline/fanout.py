"""From a sequence to its writers: pictures awaited, items prepared in the pool, written in order, settled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from edgefirst_ros.formats.base import (
    LeftOut,
    LooksAhead,
    MeasurementWriter,
    Prepared,
    SampleWriter,
    Writer,
    Written,
)
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.executor import OrderedWriter, chain
from edgefirst_ros.pipeline.ledger import Ledger, Stage
from edgefirst_ros.pipeline.overload import SHED, Overload
from edgefirst_ros.pipeline.settlement import SAMPLE, Outcome, Result, Settlement, reason_of
from edgefirst_ros.pipeline.sink import Emitted, Observed
from edgefirst_ros.sample import CameraImage, EgoPose, Observation, Role, Sample, SequenceInfo

LARGE_ROLES = frozenset(
    {Role.CAMERA, Role.LIDAR_POINTS, Role.LIDAR_CLUSTERS, Role.FUSION_LIDAR, Role.RADAR_CUBE, Role.DEPTH}
)
"""Measurements worth shedding; the others are small, and labels or poses of what is kept."""
SHED_ITEM = Written(left_out=LeftOut("dropped", SHED), items=0)

Told = Callable[[float, float], None]
"""Takes CPU seconds, and those that passed."""
Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(slots=True)
class Output:
    """What one writer has written so far."""

    unit: str
    """What ``items`` are: samples, frames, measurements."""
    items: int = 0
    """So many its dataset holds now."""
    bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Samples that it left out, by reason."""
    thinned: set[str] = field(default_factory=set)
    """Those of the reasons that say it takes fewer."""

    def add(self, written: Written) -> None:
        """Count one item."""
        self.bytes += written.bytes
        if written.left_out is not None:
            self.left_out[written.left_out.reason] += 1
            if written.left_out.kind == "skipped":
                self.thinned.add(written.left_out.reason)
        else:
            self.items += written.items


class FanOut:
    """A sequence's sink: every sample and measurement to every writer that takes it.

    Each writer has a thread of its own and takes items in the order in which they come here. ``committed`` is
    called with every sample that is in the output, picture included, in one of those threads: it must be
    quick and must not raise. An ``overload`` decides which samples each writer has time for.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        pool: ThreadPoolExecutor,
        workers: int,
        ledger: Ledger,
        committed: Callable[[Sample], None] | None = None,
        *,
        overload: Overload | None = None,
    ) -> None:
        self.samples = 0
        self.bytes_written = 0
        self.outputs = {writer.name: Output(writer.unit) for writer in writers}
        self._committed = committed
        self._overload = overload
        self._pool = pool
        self._ledger = ledger
        self._lock = threading.Lock()
        # Enough under way to keep every core busy while one slow picture holds the order up.
        limit = threading.Semaphore(4 * workers + 8)
        self._writers = list(writers)
        self._threads: list[OrderedWriter[Any]] = []
        self._samplers: list[tuple[SampleWriter[Any], OrderedWriter[Any]]] = []
        self._observers: list[tuple[MeasurementWriter[Any], OrderedWriter[Any]]] = []
        for writer in writers:
            write = partial(_timed, self._wrote(writer), writer.write)
            thread: OrderedWriter[Any] = OrderedWriter(writer.name, write, limit)
            self._threads.append(thread)
            if isinstance(writer, MeasurementWriter):
                self._observers.append((writer, thread))
            else:
                self._samplers.append((writer, thread))
        self._sampler_names = [writer.name for writer, _ in self._samplers]
        self.observes = bool(self._observers)
        self.sheds_early = self.observes and overload is not None
        self.needs_pose = self.observes and all(writer.needs_pose for writer, _ in self._observers)

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; what follows belongs to it."""
        for writer, thread in zip(self._writers, self._threads, strict=True):
            thread.call(partial(writer.begin, sequence))
        if self._overload is not None:
            self._overload.begin()

    @property
    def keyframes_only(self) -> bool:
        """Whether there is no time to decode other pictures of a video that has key frames."""
        return self._overload is not None and self._overload.keyframes_only

    def sample_takers(
        self, reference: Envelope, camera: Envelope | None, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """Formats that have time for the sample to come, by its reference and its picture; None if all."""
        overload = self._overload
        if overload is None:
            return None
        overload.look(reference.measurement.receive_ns, self._backlog_s())
        shares, takers = overload.shares, set[str]()
        # Where measurements have their pictures made before, an earlier one cannot be had any more.
        possible = possible and (not self.observes or camera is None or camera.image is not None)
        for number, name in enumerate(sorted(self._sampler_names, key=lambda name: -shares[name])):
            # What another format has, too, costs less.
            cheap = len(takers) > 0 if number else better or self.observes
            if overload.takes(name, reference.time_ns, possible=possible, better=cheap):
                takers.add(name)
        overload.counted()
        return frozenset(takers)

    def wants_picture(self, *, possible: bool, better: bool) -> bool:
        """Where ``sheds_early``: whether the next sample's picture is to be made, should a format take it."""
        overload, names = self._overload, self._sampler_names
        return overload is not None and overload.wants_picture(names, possible=possible, better=better)

    def measurement_takers(
        self, envelope: Envelope, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """Formats that have time for a measurement; None if all, as for what is small and labels others."""
        overload, topic = self._overload, envelope.route.topic
        if overload is None or envelope.route.rule.role not in LARGE_ROLES:
            return None
        overload.look(envelope.measurement.receive_ns, self._backlog_s(), sample=False)
        names = [writer.name for writer, _ in self._observers]
        takes = partial(overload.takes, stream=topic, possible=possible, better=better)
        return frozenset(name for name in names if takes(name, envelope.time_ns))

    def sample(self, emitted: Emitted) -> None:
        """Hand a sample to every writer of samples; its envelopes stay open until all have settled."""
        if not self._samplers:
            self._follow(emitted)
            return
        settlement = Settlement(
            self._ledger,
            emitted.envelopes,
            len(self._samplers),
            damaged=partial(_damage, emitted.image),
            done=partial(self._sampled, emitted),
        )
        for writer, thread in self._samplers:
            if emitted.takers is not None and writer.name not in emitted.takers:
                if isinstance(writer, LooksAhead):
                    thread.call(partial(writer.pass_by, emitted.sample.ego))
                self._settle(settlement, writer.name, SHED_ITEM, None)
                continue
            prepare = partial(_prepare_sample, writer, emitted.sample)
            timed = partial(_timed, self._prepared(writer), prepare)
            submitted = chain(self._pool, _ready(emitted.image), timed)
            thread.submit(submitted, partial(self._settle, settlement, writer.name))

    def measurement(self, observed: Observed) -> None:
        """Hand a measurement to every writer of measurements."""
        envelope = observed.envelope
        settlement = Settlement(
            self._ledger, (envelope,), len(self._observers), damaged=partial(_damage, observed.image)
        )
        for writer, thread in self._observers:
            if observed.takers is not None and writer.name not in observed.takers:
                self._settle(settlement, writer.name, SHED_ITEM, None)
                continue
            prepare = partial(_prepare_observation, writer, observed.observation)
            timed = partial(_timed, self._prepared(writer), prepare)
            submitted = chain(self._pool, _ready(observed.image), timed)
            thread.submit(submitted, partial(self._settle, settlement, writer.name))

    def pose(self, pose: EgoPose) -> None:
        """Hand a pose to every writer of measurements."""
        for writer, thread in self._observers:
            thread.call(partial(writer.pose, pose))

    def raise_failure(self) -> None:
        """Raise what ended a writer, if anything did."""
        for thread in self._threads:
            if thread.failure is not None:
                raise thread.failure

    def join(self) -> None:
        """Wait until everything handed over is written."""
        for thread in self._threads:
            thread.join()

    def close(self) -> list[Path]:
        """Finish every output; the paths a user should look at."""
        self.raise_failure()
        return [path for writer in self._writers for path in writer.close()]

    def abort(self) -> None:
        """Let go of every output as it is."""
        self.join()
        for writer in self._writers:
            writer.abort()

    def _wrote(self, writer: Writer) -> Told | None:
        """Takes what writing costs a writer."""
        return None if self._overload is None else partial(self._overload.wrote, writer.name)

    def _prepared(self, writer: Writer) -> Told | None:
        """Takes what preparing costs a writer."""
        return None if self._overload is None else partial(self._overload.prepared, writer.name)

    def _backlog_s(self) -> float:
        """How long what is handed to the writers now will wait."""
        return max((thread.backlog_s for thread in self._threads), default=0.0)

    def _settle(
        self, settlement: Settlement, writer: str, written: Written | None, error: BaseException | None
    ) -> None:
        """An item is written or cannot be; in that writer's thread."""
        result: Result = written if written is not None else error or CancelledError()
        if isinstance(result, Written):
            with self._lock:
                self.bytes_written += result.bytes
                self.outputs[writer].add(result)
        settlement.settle(writer, result)

    def _follow(self, emitted: Emitted) -> None:
        """Without a format of samples, one counts by its reference, which came to the writers before it."""
        left = len(self._observers)

        def followed() -> None:
            nonlocal left
            with self._lock:
                left -= 1
                if left:
                    return
            ticket = emitted.envelopes[0].ticket
            written = ticket.stage is Stage.WRITTEN
            kind = "dropped" if ticket.reason == SHED else "unusable"
            self._close(emitted, SAMPLE if written else Outcome(kind, ticket.reason))

        for _, thread in self._observers:
            thread.call(followed)
        if not self._observers:
            image = _ready(emitted.image)
            image.add_done_callback(lambda done: self._close(emitted, _outcome(_damage(done))))

    def _close(self, emitted: Emitted, outcome: Outcome) -> None:
        """Close the accounts of a sample that no format of samples takes."""
        self._judged(emitted, outcome)
        for envelope in emitted.envelopes:
            for part in envelope.all_parts:
                self._ledger.release(part.ticket)

    def _sampled(self, emitted: Emitted, settlement: Settlement) -> None:
        self._judged(emitted, settlement.outcome)

    def _judged(self, emitted: Emitted, outcome: Outcome) -> None:
        """It is known what became of a sample: count it once, and its pairs, whatever the formats."""
        emitted.judged(outcome)
        if _damage(emitted.image):
            return
        for envelope in emitted.envelopes[1:]:
            for topic in {part.route.topic for part in envelope.all_parts}:
                self._ledger.paired(topic, envelope.time_ns - emitted.sample.time_ns)
        if outcome == SAMPLE:
            with self._lock:
                self.samples += 1
            self._tell(emitted)

    def _tell(self, emitted: Emitted) -> None:
        """Tell who watches that a sample is in every output that takes it."""
        if self._committed is not None and not _damage(emitted.image):
            image = None if emitted.image is None else emitted.image.result()
            self._committed(replace(emitted.sample, image=image))


def _timed(told: Told | None, action: Callable[[Given], Made], given: Given) -> Made:
    """What an action makes; its CPU time and what passed meanwhile are told."""
    if told is None:
        return action(given)
    cpu_s, start_s = time.thread_time(), time.monotonic()
    try:
        return action(given)
    finally:
        told(time.thread_time() - cpu_s, time.monotonic() - start_s)


def _prepare_sample(writer: SampleWriter[Prepared], sample: Sample, image: CameraImage | None) -> Prepared:
    return writer.prepare(replace(sample, image=image))


def _prepare_observation(
    writer: MeasurementWriter[Prepared], observation: Observation, image: CameraImage | None
) -> Prepared:
    return writer.prepare(replace(observation, image=image))


def _ready(image: Future[CameraImage] | None) -> Future[Any]:
    if image is not None:
        return image
    done: Future[Any] = Future()
    done.set_result(None)
    return done


def _outcome(damage: str) -> Outcome:
    return Outcome("unusable", damage) if damage else SAMPLE


def _damage(image: Future[CameraImage] | None) -> str:
    """Why a picture cannot be had, empty if it can or nobody asked for one; only once that is known."""
    if image is None or not image.done():
        return ""
    if image.cancelled():
        return reason_of(CancelledError())
    error = image.exception()
    return "" if error is None else reason_of(error)
