"""Runs work in a thread pool, and writes its results in order."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from edgefirst_ros.formats.format import Written
from edgefirst_ros.model.errors import EdgeFirstError

Prepared = TypeVar("Prepared")
Result = TypeVar("Result")


MOST_BYTES = 128 << 20
"""Messages of at most so many bytes are under way to writers."""
RECENT, MOST_SLOWER = 0.2, 3.0
"""Weight of the newest item in the mean time that an item takes, and as how many times that time it counts at
most: one during which a file was opened, or the disk flushed its cache, says nothing of those after it. Where
all become slow, the mean follows by 1.4 times an item."""


def worker_count(configured: int) -> int:
    """Encoder threads or processes: as configured, else one for every core this process may use."""
    if configured:
        return configured
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chain(
    pool: ThreadPoolExecutor | None, source: Future[Prepared], then: Callable[[Prepared], Result]
) -> Future[Result]:
    """Run ``then`` in the pool on the result of ``source``; without a pool where that becomes known.

    An error of either becomes the error of the returned future; if the pool is shut down, CancelledError.
    """
    result: Future[Result] = Future()

    def run(value: Prepared) -> None:
        try:
            result.set_result(then(value))
        except BaseException as error:  # noqa: BLE001 - handed on to whoever asks for the result
            result.set_exception(error)

    def ended(task: Future[None]) -> None:
        if task.cancelled():
            result.set_exception(CancelledError())

    def ready(done: Future[Prepared]) -> None:
        error = error_of(done)
        if error is not None:
            result.set_exception(error)
            return
        if pool is None:
            run(done.result())
            return
        try:
            pool.submit(run, done.result()).add_done_callback(ended)
        except RuntimeError:  # the pool is shut down
            result.set_exception(CancelledError())

    source.add_done_callback(ready)
    return result


def gather(sources: Sequence[Future[Prepared]]) -> Future[list[Prepared]]:
    """All results in order, or the first error among them."""
    result: Future[list[Prepared]] = Future()
    left = len(sources)
    lock = threading.Lock()
    waiting = list(sources)

    def ready(_: Future[Prepared]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if not last:
            return
        errors = [e for s in waiting if (e := error_of(s)) is not None]
        if errors:
            result.set_exception(errors[0])
        else:
            result.set_result([s.result() for s in waiting])
        waiting.clear()  # each source keeps this function, and so would keep all of them

    for source in sources:
        source.add_done_callback(ready)
    return result


def error_of(done: Future[Any]) -> BaseException | None:
    """The error of a finished future, also if it was cancelled."""
    return CancelledError() if done.cancelled() else done.exception()


class Work(Protocol):
    """An item on its way to one writer, see ``delivery.Turn``."""

    size: int
    prepared: Future[Any]

    def hold(self, written: Future[Written]) -> None:
        """The writer holds it back; once it is done, whoever closes or aborts the writer says so."""

    def settle(self, result: Written | BaseException) -> None:
        """Take what was written of it, or the error that prevented it."""


class Gathers(Protocol):
    """Gathers what items wait for until there is enough of it to begin."""

    @property
    def is_gathering(self) -> bool:
        """Whether items wait for what is not begun."""

    def flush(self) -> None:
        """Begin all of it."""


class Backlog:
    """Limits what is under way to all writers, in items and in bytes; one item may always be.

    While somebody gathers, items wait for others to come: twice as much may be under way until ``settle``.

    Attributes:
        gatherer: who gathers; None if nobody does.
    """

    def __init__(self, items: int, most_bytes: int = MOST_BYTES) -> None:
        self.gatherer: Gathers | None = None
        self._items, self._most_bytes = items, most_bytes
        self._bytes = 0
        self._count = 0
        self._changed = threading.Condition()

    def enter(self, size: int) -> None:
        """Wait until there is room for an item of this many bytes."""
        self._await(size, may_gather=True)
        with self._changed:
            self._count += 1
            self._bytes += size

    def settle(self) -> None:
        """Wait until there is room; for the thread that enters items, after gathering."""
        self._await(0, may_gather=False)

    def leave(self, size: int) -> None:
        """An item is done."""
        with self._changed:
            self._count -= 1
            self._bytes -= size
            self._changed.notify_all()

    def _await(self, size: int, *, may_gather: bool) -> None:
        gatherer = self.gatherer
        with self._changed:
            if self._has_room(size, 1):
                return
            if may_gather and gatherer is not None and gatherer.is_gathering and self._has_room(size, 2):
                return
        if gatherer is not None:
            gatherer.flush()
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size, 1))

    def _has_room(self, size: int, times: int) -> bool:
        if not self._count:
            return True
        return self._count < times * self._items and self._bytes + size <= times * self._most_bytes


class OrderedWriter(Generic[Prepared]):
    """One writer's thread: writes prepared items in the order in which they were submitted.

    An item may have been prepared to ``Written`` already, where nothing of it can be written.

    Every item is settled with what was written, or with the error that prevented it: in that thread, or in
    the one that closes or aborts a writer that held the item back. An error of the writer itself, or one that
    is not this package's own, becomes ``failure``: nothing more is written then, and all that was submitted
    settles with that error.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Prepared], Written | Future[Written]],
        backlog: Backlog,
    ) -> None:
        self._write = write
        self._backlog = backlog
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._handed_s: deque[float] = deque()
        self._done_s = 0.0
        self._each_s = 0.0
        """Recent mean time of an item, while another one was waiting."""
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"write-{name}", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Take an item; blocks while too much is under way."""
        self._backlog.enter(work.size)
        self._handed_s.append(time.monotonic())
        self._queue.put(partial(self._one, work))

    @property
    def backlog_s(self) -> float:
        """Estimated time until all items under way are written; any thread."""
        return len(self._handed_s) * self._each_s

    def call(self, action: Callable[[], Any]) -> None:
        """Run an action in the writer's thread, after everything submitted before."""
        self._queue.put(action)

    def join(self) -> None:
        """Wait until everything submitted is written."""
        self._queue.put(None)
        self._thread.join()

    def _one(self, work: Work) -> None:
        try:
            error = work.prepared.exception() if self.failure is None else self.failure
            if error is not None:
                if not isinstance(error, EdgeFirstError):
                    self.failure = error
                work.settle(error)
                return
            try:
                prepared = work.prepared.result()
                written = prepared if isinstance(prepared, Written) else self._write(prepared)
            except BaseException as failure:  # noqa: BLE001 - kept for the caller; the rest is accounted for
                self.failure = failure
                work.settle(failure)
            else:
                if isinstance(written, Future):
                    work.hold(written)
                else:
                    work.settle(written)
        finally:
            now_s = time.monotonic()
            took_s = now_s - max(self._handed_s.popleft(), self._done_s)
            if self._done_s:  # the first one also opens files and loads modules
                took_s = min(took_s, MOST_SLOWER * self._each_s) if self._each_s else took_s
                weight = RECENT if self._each_s else 1.0
                self._each_s += weight * (took_s - self._each_s)
            self._done_s = now_s
            self._backlog.leave(work.size)

    def _run(self) -> None:
        while (action := self._queue.get()) is not None:
            try:
                action()
            except BaseException as failure:  # noqa: BLE001 - kept for the caller
                self.failure = self.failure or failure
