"""From a sequence to its writers: pictures awaited, items prepared in the pool, written in order, settled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgefirst_ros.accounting import Ledger, Outcome
from edgefirst_ros.entry import Entry
from edgefirst_ros.errors import EdgeFirstError
from edgefirst_ros.formats.base import MeasurementWriter, Prepared, SampleWriter, Writer, Written
from edgefirst_ros.production import OrderedWriter, chain
from edgefirst_ros.sample import CameraImage, EgoPose, Observation, Sample, SequenceInfo
from edgefirst_ros.sink import Emitted, Observed

NO_FILE = "the format has no file for it"


@dataclass(slots=True)
class Output:
    """What one writer has written so far."""

    items: int = 0
    """Samples, or measurements where the format takes those."""
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one item."""
        self.items += 1
        self.bytes += size


class Delivery:
    """A sequence's sink: every sample and measurement to every writer that takes it.

    Each writer has a thread of its own and takes items in the order in which they come here. ``committed`` is
    called with every sample that is in all outputs, picture included, in one of those threads: it must be
    quick and must not raise.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        pool: ThreadPoolExecutor,
        workers: int,
        ledger: Ledger,
        committed: Callable[[Sample], None] | None = None,
    ) -> None:
        self.samples = 0
        self.bytes_written = 0
        self.outputs = {writer.name: Output() for writer in writers}
        self._committed = committed
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
            thread: OrderedWriter[Any] = OrderedWriter(writer.name, writer.write, limit)
            self._threads.append(thread)
            if isinstance(writer, MeasurementWriter):
                self._observers.append((writer, thread))
            else:
                self._samplers.append((writer, thread))
        self.observes = bool(self._observers)

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; what follows belongs to it."""
        for writer, thread in zip(self._writers, self._threads, strict=True):
            thread.call(partial(writer.begin, sequence))

    def sample(self, emitted: Emitted) -> None:
        """Hand a sample to every writer of samples; its entries stay open until all have settled."""
        settle = self._settlement(emitted.entries, len(self._samplers), emitted)
        for writer, thread in self._samplers:
            prepare = partial(_prepare_sample, writer, emitted.sample)
            submitted = chain(self._pool, _ready(emitted.image), prepare)
            thread.submit(submitted, partial(settle, writer.name))
        if not self._samplers:
            self.samples += 1
            if self._committed is not None:
                _ready(emitted.image).add_done_callback(lambda _: self._tell(emitted))
            for entry in emitted.entries:
                self._ledger.release(entry.ticket)

    def measurement(self, observed: Observed) -> None:
        """Hand a measurement to every writer of measurements."""
        settle = self._settlement(observed.entries, len(self._observers), None)
        for writer, thread in self._observers:
            prepare = partial(_prepare_observation, writer, observed.observation)
            submitted = chain(self._pool, _ready(observed.image), prepare)
            thread.submit(submitted, partial(settle, writer.name))

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

    def _settlement(
        self, entries: Sequence[Entry], writers: int, emitted: Emitted | None
    ) -> Callable[[str, Written | None, BaseException | None], None]:
        """What to call, in each writer's thread, when an item is written or cannot be."""
        left = writers

        def settle(writer: str, written: Written | None, error: BaseException | None) -> None:
            nonlocal left
            with self._lock:
                left -= 1
                last = left == 0
                if written is not None:
                    self.bytes_written += written.bytes
                    self.outputs[writer].add(written.bytes)
                    self.samples += last and emitted is not None
            for topic, reason in () if written is None else written.refused:
                self._ledger.refuse_part(topic, reason)
            for entry in entries:
                self._note(entry, written, error, emitted)
                if last:
                    self._ledger.release(entry.ticket)
            if last and written is not None and emitted is not None:
                self._tell(emitted)

        return settle

    def _tell(self, emitted: Emitted) -> None:
        """Tell who watches that a sample is in every output."""
        if self._committed is None:
            return
        image = emitted.image
        if image is None:
            self._committed(emitted.sample)
        elif not image.cancelled() and image.exception() is None:
            self._committed(replace(emitted.sample, image=image.result()))

    def _note(
        self, entry: Entry, written: Written | None, error: BaseException | None, emitted: Emitted | None
    ) -> None:
        topic = entry.route.topic
        if written is None:
            self._ledger.note(entry.ticket, Outcome.DROPPED, _reason(error))
        elif topic in written.topics:
            self._ledger.note(entry.ticket, Outcome.WRITTEN)
            if emitted is not None and entry.route.rule.role is not emitted.reference_role:
                self._ledger.paired(topic, entry.time_ns - emitted.sample.time_ns)
        else:
            self._ledger.note(entry.ticket, Outcome.DECODED, NO_FILE)


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


def _reason(error: BaseException | None) -> str:
    if isinstance(error, EdgeFirstError):
        return str(error)
    return f"could not be written: {type(error).__name__}"
