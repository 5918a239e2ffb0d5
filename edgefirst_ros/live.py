"""Live capture without any transport: messages in from callbacks, sessions of finished output out."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.accounting import Outcome
from edgefirst_ros.config import Config
from edgefirst_ros.errors import EdgeFirstError
from edgefirst_ros.job import Job
from edgefirst_ros.livequeue import LiveQueue
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import sequence_name
from edgefirst_ros.topics import full_type

QUEUE_FULL = "pushed out of a full queue"
CUT_OFF = "not written before the end"


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """Where a capture stands; ``topics`` is the account so far."""

    session: str
    """Name of the session under way, empty between sessions."""
    samples: int
    received: int
    dropped: int
    bytes_written: int
    queue_fill: float
    free_bytes: int
    topics: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]
    failure: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A session that is complete on disk."""

    name: str
    paths: tuple[Path, ...]
    report: dict[str, Any]


class LiveCapture:
    """Runs sessions one after another: ``start``, then ``put`` from callbacks, ``split`` or ``stop``.

    ``put`` never waits; one thread of its own feeds the pipeline. ``stop`` writes everything queued within
    its time and counts the rest as dropped.
    """

    def __init__(
        self,
        config: Config,
        output: Path,
        host: str,
        *,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._config = config
        self._output = output
        self._host = config.host or host
        self._now_ns = now_ns
        self._queue = LiveQueue(round(config.queue_mb * 1e6), self._drop)
        self._job: Job | None = None
        self._thread: threading.Thread | None = None
        self._deadline_s: float | None = None
        self.finished: list[Finished] = []
        self.failure: Exception | None = None

    @property
    def running(self) -> bool:
        """Whether a session is under way."""
        return self._thread is not None

    def start(self, name: str = "") -> str:
        """Begin a session; its name.

        Raises:
            OutputExists: a session of that name is there already.
            WriteError: the output cannot be written.
            EdgeFirstError: a session is under way already.
        """
        if self._thread is not None:
            raise EdgeFirstError("a session is under way already; stop it first, or split it")
        self._deadline_s, self.failure = None, None
        job = self._begin(name)
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._thread.start()
        return job.dataset

    def put(self, message: RawMessage) -> None:
        """Take a message from a callback, at once."""
        if self._thread is not None:
            self._queue.put(message)

    def split(self) -> None:
        """Finish the session in its place among the messages and begin another; returns at once."""
        self._queue.call(self._split)

    def stop(self, timeout_s: float = 3.0) -> list[Finished]:
        """Write what is queued, finish, and return the sessions finished since ``start``.

        Raises:
            EdgeFirstError: what made writing fail.
        """
        thread = self._thread
        if thread is None:
            return []
        self._deadline_s = time.monotonic() + timeout_s
        self._queue.call(self._end)
        thread.join()
        self._thread = None
        if self.failure is not None:
            raise self.failure
        return self.finished

    def status(self) -> LiveStatus:
        """Where the capture stands now."""
        job, free = self._job, _free_bytes(self._output)
        failure = "" if self.failure is None else str(self.failure)
        if job is None:
            return LiveStatus("", 0, 0, 0, 0, self._queue.fill, free, {}, (), failure)
        progress, totals = job.pipeline.progress, job.pipeline.ledger.totals
        return LiveStatus(
            job.dataset,
            progress.samples,
            progress.received,
            totals["dropped"],
            progress.bytes_written,
            self._queue.fill,
            free,
            job.pipeline.ledger.snapshot(),
            tuple(job.pipeline.notes),
            failure,
        )

    def _begin(self, name: str = "") -> Job:
        job = Job(self._config, self._output, name or sequence_name(self._host, self._now_ns()))
        job.pipeline.begin_source(None, self._host, job.dataset)
        self._job = job
        return job

    def _run(self) -> None:
        while self._job is not None:
            item = self._queue.get(0.2)
            if item is None:
                continue
            try:
                if isinstance(item, RawMessage):
                    self._feed(self._job, item)
                else:
                    item()
            except Exception as error:  # noqa: BLE001 - kept for stop(), the capture cannot go on
                self.failure = error
                self._job.abort()
                self._job = None

    def _feed(self, job: Job, message: RawMessage) -> None:
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            ticket = job.pipeline.ledger.receive(message.topic, full_type(message.schema), len(message.data))
            job.pipeline.ledger.release(ticket, Outcome.DROPPED, CUT_OFF)
        else:
            job.pipeline.feed(message)

    def _split(self) -> None:
        self._finish("split")
        self._begin()

    def _end(self) -> None:
        self._finish("stopped")

    def _finish(self, why: str) -> None:
        job = self._job
        if job is None:
            return
        job.pipeline.end_source(why)
        paths, report = job.finish({"recordings": [], "interrupted": False})
        self.finished.append(Finished(job.dataset, tuple(paths), report))
        self._job = None

    def _drop(self, message: RawMessage) -> None:
        job = self._job
        if job is not None:
            ticket = job.pipeline.ledger.receive(message.topic, full_type(message.schema), len(message.data))
            job.pipeline.ledger.release(ticket, Outcome.DROPPED, QUEUE_FULL)


def _free_bytes(path: Path) -> int:
    """Free space where the path is, or will be."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free
