"""Live capture without any transport: messages in from callbacks, sessions of finished output out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import EdgeFirstError, WriteError
from edgefirst_ros.hints import Seen
from edgefirst_ros.live.names import SessionNames
from edgefirst_ros.live.queue import LiveQueue
from edgefirst_ros.live.recording import LiveRecording, Pending
from edgefirst_ros.live.session import Finished, Split, Tail, begin_session, finish_session, overload_of
from edgefirst_ros.live.split import SPLIT, SplitPoint, limit_reached, tail_ns
from edgefirst_ros.live.status import Disk, LiveStatus, Meter, build_status
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.pipeline.ledger import CUT_OFF, QUEUE_FULL
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.pause import Pause
from edgefirst_ros.sample import Calibration, Sample
from edgefirst_ros.sources.session import Seam
from edgefirst_ros.topics import full_type

__all__ = ["CUT_OFF", "QUEUE_FULL", "STOPPED", "Finished", "LiveCapture", "LiveStatus", "Split"]

STOPPED = "stopped"
POLL_S = 0.2
DISK_EVERY_S = 1.0
STOP_S = 3.0
"""Within this everything queued is written and finished; the rest is dropped, and counted."""
CLOSING_S = 0.8
"""Of that, what closing the files may take."""


class LiveCapture:
    """Runs sessions one after another: ``start``, then ``put`` from callbacks, ``split``, ``stop``.

    ``put`` never waits; one thread of its own feeds the pipeline. A session also ends by itself, finished,
    when the disk has less than ``min_free_mb`` left, or unfinished, when writing fails: then ``status`` says
    so, and what comes is ignored. It is split when asked to, and as ``split_every_s``, ``split_every_mb`` and
    ``split_every_m`` of the configuration have it.

    Every session begins in ``_begin`` and ends in ``_finish``, or in ``_give_up``. The first message of a
    session that follows a split is the one that ``_take`` looks at: its ``arrival``, which the queue gives
    in the order of ``put``, is the session's first. But the seam lies at an acquisition time, see ``_split``:
    what was acquired before it and comes later is still written by the session before.

    Args:
        config: what is captured; without a ``prefix`` topics are taken by their bare names.
        output: folder that the formats' folders go below.
        host: names sessions, unless the configuration does.
        now_ns: the wall clock, for names only.
        clock_ns: the clock that messages are received by, for latencies only; the same if not given.
        committed: told of every sample that is in all outputs, from a writing thread; must be quick.
        known: the calibration of the same sensors from before.
        offered: quality of service that topics are published with, for the recording; may grow.

    Attributes:
        known: the calibration after the last session.
    """

    def __init__(
        self,
        config: Config,
        output: Path,
        host: str,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        clock_ns: Callable[[], int] | None = None,
        committed: Callable[[Sample], None] | None = None,
        known: Calibration | None = None,
        offered: Mapping[str, str] | None = None,
    ) -> None:
        self.known = known
        self._config = config
        self._output = output
        self._host = config.host or host
        self._now_ns = now_ns
        self._clock_ns = clock_ns or now_ns
        self._on_commit = committed
        self._commit_latency_ms: float | None = None
        self._recording = LiveRecording(config, output, offered)
        self._queue = LiveQueue(round(config.queue_mb * 1e6), self._recording.put)
        self._meter = Meter()
        self._job: Job | None = None
        self._thread: threading.Thread | None = None
        self._timer: threading.Timer | None = None
        self._open = False
        self._aborting = False
        self._overload: Overload | None = None
        self._lock = threading.Lock()
        self._late = False
        """The time to stop in is up."""
        self._names = SessionNames(self._host, "", "")
        self._split_point = SplitPoint()
        self._tail: Tail | None = None
        self._finishing: threading.Thread | None = None
        self._pause: Pause | None = None
        self._paused = False
        self._disk_s = 0.0
        self.finished: list[Finished] = []
        """Sessions that are complete, since ``start``."""
        self.splits: list[Split] = []
        """Those of them that another one followed, as soon as they are; any thread may look."""
        self.failure: Exception | None = None
        self.around: Callable[[], Iterable[Seen]] = tuple
        """Tells which topics there are that do not come, for hints; any thread."""
        self.ended = ""
        """Why the last session ended, empty while one is under way."""

    @property
    def running(self) -> bool:
        """Whether a session is under way and takes messages."""
        return self._open

    @property
    def paused(self) -> bool:
        """Whether nothing of what comes is written, because somebody said so."""
        return self._paused

    def start(self, name: str = "", *, sequence: str = "", paused: bool = False) -> str:
        """Begin a session, perhaps paused; the name of its dataset.

        Names that are not given come from the host and the time, see ``SessionNames``.

        Raises:
            OutputExists: a dataset of the given name is there already.
            WriteError: the output cannot be written, or the disk has less than ``min_free_mb`` left.
            EdgeFirstError: a session is under way already.
        """
        if self._open:
            raise EdgeFirstError("a session is under way already; stop it first, or split it")
        full = Disk(self._output, self._config).full()
        if full:
            raise WriteError(full)
        if self._thread is not None:
            self._thread.join()
        self._names = SessionNames(self._host, name, sequence)
        self.finished, self.splits, self.failure, self.ended = [], [], None, ""
        self._aborting = self._late = False
        self._queue.clear()
        self._pause, self._paused = None, paused
        self._overload = None
        self._recording.start()
        try:
            job = self._begin()
        except BaseException:
            self._recording.abort()
            raise
        if paused:
            self._recording.pause()
            self._pause = Pause(job, self._config, self._host, self._names.sequence)
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._open = True
        self._thread.start()
        return job.dataset

    def put(self, message: RawMessage) -> None:
        """Take a message from a callback, at once."""
        if self._open:
            self._queue.put(message)

    def record(self, message: RawMessage) -> None:
        """Take a message that is of no use to the datasets, for the recording, at once."""
        if self._open and not self._paused:
            self._recording.put_unused(message)

    def split(self) -> None:
        """Finish the session in its place among the messages and begin another; returns at once.

        Where there is video that place is before the next key frame, see ``SplitPoint``.

        Raises:
            EdgeFirstError: no session is under way, or it is paused.
        """
        if not self._open:
            raise EdgeFirstError("no session is under way; start one first")
        if self._paused:
            raise EdgeFirstError("the session is paused; resume it first, or stop it")
        self._queue.call(self._want_split)

    def pause(self) -> None:
        """Write nothing of what comes from now on, but count it; returns at once.

        Raises:
            EdgeFirstError: no session is under way.
        """
        self._turn(paused=True)

    def resume(self) -> None:
        """Write what comes from now on, as another sequence of the same session; returns at once.

        Raises:
            EdgeFirstError: no session is under way.
        """
        self._turn(paused=False)

    def stop(self, timeout_s: float = STOP_S) -> list[Finished]:
        """Write what is queued, finish, and return the sessions finished since ``start``.

        What cannot be written in time is dropped, and counted, so that files are complete within the time.

        Raises:
            EdgeFirstError: what made writing fail.
        """
        thread = self._thread
        if thread is None:
            return []
        self._end_soon(STOPPED, timeout_s)
        thread.join()
        self._thread = None
        if self.failure is not None:
            raise self.failure
        return self.finished

    def abort(self, timeout_s: float = 1.0) -> None:
        """End at once: nothing more is written, what was committed stays in ``.part`` files."""
        self._open, self._aborting = False, True
        self._recording.abort()
        self._cut()
        self._queue.call(_nothing)
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self._finishing is not None:
            self._finishing.join(timeout_s)

    def status(self) -> LiveStatus:
        """Where the capture stands now; at most a few times a second."""
        failure = "" if self.failure is None else str(self.failure)
        if (job := self._job) is not None:
            job.pipeline.around = tuple(self.around())
        disk = Disk(self._output, self._config)
        return build_status(
            self._job,
            self._queue,
            self._meter,
            disk,
            failure=failure,
            ended=self.ended,
            commit_latency_ms=self._commit_latency_ms,
            paused=self._paused and self._job is not None,
            recording=self._recording.outputs,
        )

    # ------------------------------------------------------------------ the capture thread
    def _begin(self, after: tuple[Job, Seam] | None = None) -> Job:
        """A session begins, the first, or ``after`` another without a gap, from the time of the seam on."""
        self._overload = overload_of(self._config, self._overload)
        job = begin_session(
            self._config,
            self._output,
            self._names,
            self._now_ns(),
            self._committed,
            known=self.known,
            after=after,
            recording=self._recording,
            overload=self._overload,
        )
        self._commit_latency_ms = None
        self._meter.restart(self._queue.flows())
        self._split_point = SplitPoint()
        self._job = job
        return job

    def _committed(self, sample: Sample) -> None:
        self._commit_latency_ms = round((self._clock_ns() - sample.time_ns) / 1e6, 1)
        if self._on_commit is not None:
            self._on_commit(sample)

    def _run(self) -> None:
        while (job := self._job) is not None:
            item = self._queue.get(POLL_S)
            try:
                self._tell_drops(job)
                if self.failure is not None:
                    self._give_up(job, f"failed: {self.failure}")
                elif self._aborting:
                    self._give_up(job, "stopped at once")
                elif isinstance(item, RawMessage) or item is None:
                    self._take(job, item)
                    if item is not None:
                        self._recording.passed(item.arrival)
                else:
                    item()
                self._watch_disk()
            except Exception as error:  # noqa: BLE001 - kept for stop(), the capture cannot go on
                self.failure = error
                self._give_up(self._job, f"failed: {error}")
        self._open = False
        self._wait_for_finishing()
        if self._timer is not None:
            self._timer.cancel()

    def _tell_drops(self, job: Job) -> None:
        for lost in self._queue.dropped():
            job.pipeline.ledger.lose(lost.topic, lost.schema, lost.messages, lost.bytes, QUEUE_FULL)

    def _take(self, job: Job, message: RawMessage | None) -> None:
        if self._pause is not None:
            if message is not None:
                self._pause.take(message)
            return
        if not self._late:
            why = limit_reached(self._config, job.pipeline)
            if why:
                self._split_point.ask(time.monotonic(), why)
        tail = self._tail
        if tail is not None and tail.is_over(message, time.monotonic()):
            self._end_tail(tail)
            tail = None
        is_here = self._split_point.see(message, time.monotonic())
        if is_here and tail is None:
            job = self._split(job, message)
            tail = self._tail
        if message is not None:
            if tail is not None:
                self._tell_overload(tail.job, message)
                tail.job.pipeline.feed(message, own=False)
            self._feed(job, message)

    def _split(self, job: Job, message: RawMessage | None) -> Job:
        """Begin another session before this message, whose acquisition time is the seam.

        The session before is fed on until everything that was acquired before the seam has come, and what its
        last samples pair with; then it is finished in a thread of its own. Where clocks are not known yet the
        seam lies between two messages in order of arrival.
        """
        why = self._split_point.why
        seam_ns = job.pipeline.seam_ns(message)
        if seam_ns is None or self._late:
            closed = self._finish(job, why, last=False)
            following = self._begin()
            self.splits.append(Split(closed, following.dataset))
            return following
        self.known = job.pipeline.calibration
        newest_ns = seam_ns if message is None else message.receive_ns
        length_ns = tail_ns(self._config)
        seam = Seam(seam_ns, newest_ns + length_ns)
        recorded = self._recording.end(why, last=False, goes_on=True)
        try:
            following = self._begin((job, seam))
        except EdgeFirstError:
            self._end_recorded(job, why, recorded)
            raise
        job.pipeline.end_at(seam_ns)
        until_s = time.monotonic() + 2 * length_ns / 1e9
        self._tail = Tail(job, why, seam.until_ns, until_s, following, recorded)
        return following

    def _end_tail(self, tail: Tail) -> None:
        """Nothing more comes for the session before the seam: finish it, while this one goes on."""
        self._tail = None
        tail.following.pipeline.pass_seam()
        self._wait_for_finishing()
        self._finishing = threading.Thread(target=self._finish_tail, args=[tail], name="finish", daemon=True)
        self._finishing.start()

    def _finish_tail(self, tail: Tail) -> None:
        tail.job.pipeline.around = tuple(self.around())
        try:
            finished = finish_session(tail.job, self._config, tail.why, tail.recorded)
        except Exception as error:  # noqa: BLE001 - the capture thread gives up, stop() tells it
            tail.job.abort()
            self.failure = error
            return
        self.finished.append(finished)
        self.splits.append(Split(finished, tail.following.dataset))

    def _wait_for_finishing(self) -> None:
        thread, self._finishing = self._finishing, None
        if thread is not None:
            thread.join()

    def _feed(self, job: Job, message: RawMessage) -> None:
        if self._late:
            size = len(message.data)
            job.pipeline.ledger.lose(message.topic, full_type(message.schema), 1, size, CUT_OFF)
        else:
            self._tell_overload(job, message)
            job.pipeline.feed(message)

    def _tell_overload(self, job: Job, message: RawMessage) -> None:
        if job.overload is not None:
            job.overload.feeding(self._queue.taken_s, message.receive_ns)

    def _watch_disk(self) -> None:
        now_s = time.monotonic()
        if not self._open or now_s - self._disk_s < DISK_EVERY_S:
            return
        self._disk_s = now_s
        full = Disk(self._output, self._config).full()
        if full:
            self._end_soon(full, STOP_S)

    def _end_soon(self, why: str, timeout_s: float) -> None:
        """End after what is queued, or when the time is up; the first to ask says why."""
        with self._lock:
            if not self._open:
                return
            self._open = False
        if self._job is not None and self._job.overload is not None:
            self._job.overload.hold()
        self._timer = threading.Timer(max(0.0, timeout_s - CLOSING_S), self._cut)
        self._timer.daemon = True
        self._timer.start()
        self._queue.call(lambda: self._end(why))

    def _cut(self) -> None:
        self._late, job = True, self._job
        self._recording.cut()
        if job is not None:
            job.pipeline.cut(CUT_OFF)
        tail = self._tail
        if tail is not None:
            tail.job.pipeline.cut(CUT_OFF)

    def _turn(self, *, paused: bool) -> None:
        if not self._open:
            raise EdgeFirstError("no session is under way; start one first")
        if paused != self._paused:
            self._paused = paused
            self._queue.call(self._begin_pause if paused else self._end_pause)

    def _begin_pause(self) -> None:
        if self._job is None or self._pause is not None:
            return
        if self._tail is not None:
            self._end_tail(self._tail)
        self._split_point = SplitPoint()
        self._recording.pause()
        self._pause = Pause(self._job, self._config, self._host, self._names.sequence)

    def _end_pause(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            self._recording.resume(pause.resume(), pause.calibration)

    def _want_split(self) -> None:
        self._split_point.ask(time.monotonic(), SPLIT)
        if self._job is not None:
            self._take(self._job, None)

    def _end(self, why: str) -> None:
        if self._job is not None:
            self._finish(self._job, why, last=True)

    def _finish(self, job: Job, why: str, *, last: bool) -> Finished:
        if self._tail is not None:
            self._end_tail(self._tail)
        return self._end_recorded(job, why, self._recording.end(why, last=last))

    def _end_recorded(self, job: Job, why: str, recorded: Pending) -> Finished:
        job.pipeline.around = tuple(self.around())
        finished = finish_session(job, self._config, why, recorded)
        self._wait_for_finishing()
        if self.failure is not None:
            raise self.failure
        self.finished.append(finished)
        self.known = job.pipeline.calibration if self._pause is None else self._pause.calibration
        self._job, self.ended = None, why
        return finished

    def _give_up(self, job: Job | None, why: str) -> None:
        self._open, self._job, self.ended = False, None, why
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.job.abort()
        recorded = self._recording.end(why, last=True)
        if job is not None:
            self.known = job.pipeline.calibration
            job.abort()
        recorded.result()


def _nothing() -> None:
    """Wakes the reading thread."""
