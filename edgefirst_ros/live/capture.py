"""Live capture, independent of the transport: callbacks put messages in, sessions of datasets come out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from edgefirst_ros.config.hints import ExistingTopic
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.formats.crashsafe.sync import LOST
from edgefirst_ros.formats.datasets import RECORDINGS
from edgefirst_ros.live.queue import LiveQueue
from edgefirst_ros.live.recorder import LiveRecording, PendingRecording
from edgefirst_ros.live.session import (
    Finished,
    Pause,
    SessionNames,
    Split,
    begin_session,
    finish_session,
    overload_of,
)
from edgefirst_ros.live.split import SPLIT, SplitPoint, SplitSession, Tail, limit_reached, tail_ns
from edgefirst_ros.live.status import LiveStatus, Meter, build_status
from edgefirst_ros.model.errors import EdgeFirstError, WriteError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, RawMessage, Sample
from edgefirst_ros.pipeline.disk import Disk, Mark
from edgefirst_ros.pipeline.intake import is_batch
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.processes import give_back_memory, keep_freed_memory
from edgefirst_ros.sources.session import Seam

STOPPED = "stopped"
POLL_S = 0.2
GATHER_S = 0.03
"""For so long others are waited for that are fed with a message, as that takes less time."""
LOOK_EVERY_S = 1.0
"""How often it is looked whether what grows is still where it was made."""
GIVE_BACK_EVERY_S = 60.0
"""How often freed memory goes back to the system; it takes some hundredths of a second."""
STOP_S = 3.0
"""Time to write what is queued and to complete the files; messages that are left are dropped and counted."""
CLOSING_S = 0.8
"""The part of it that is reserved for completing the files."""
NO_SESSION = "no session is in progress; start one first"


class LiveCapture:
    """Runs successive sessions: ``start``, then ``put`` from callbacks, ``split``, ``stop``.

    ``put`` never blocks; one thread feeds the pipeline. A session ends by itself, completed, when the disk
    has less than ``min_free_mb`` left beside what completing takes, or when the folder of a format is gone,
    for the other formats; or aborted, when writing fails. Messages are then ignored until ``start``.
    A split is made on request and at ``split_every``.

    Every session begins in ``_begin`` and ends in ``_finish`` or ``_give_up``. After a split the first
    message of the new session is the one that ``_take`` has in hand, but the seam is an acquisition time, see
    ``_split``: what was acquired before it and arrives later still belongs to the session before.

    Args:
        config: the configuration; without a ``prefix`` topics are expected under their names alone.
        output: the output folder.
        host: names sessions, unless the configuration names a host.
        now_ns: returns the wall clock, for names only.
        clock_ns: returns the clock of receive times, for latencies only; default: ``now_ns``.
        steady_s: returns the clock of rates and ages: in simulated time that.
        committed: called with every sample that any format has, from a writing thread; must be fast.
        before: the capture before this one; if its host was the same, its calibration is used.
        offered: QoS of the publishers by topic, for the recording; may grow.
        beside_bytes: kept free for what the caller writes beside each session.

    Attributes:
        host: as given.
        known: the calibration after the last session.
        finished: completed sessions since ``start``.
        splits: those of them that a split ended, as soon as they are complete; may be read by any thread.
        failure: the error that ended the last session, if any.
        lost: what happened to formats that were given up; empty while all are well.
        ended: why the last session ended, empty while one is in progress.
        other_topics: returns topics that exist but are not received, for hints; called by any thread.
        publishers: returns those of topics that the middleware knows several of; likewise.
    """

    def __init__(
        self,
        config: Config,
        output: Path,
        host: str,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        clock_ns: Callable[[], int] | None = None,
        steady_s: Callable[[], float] = time.monotonic,
        committed: Callable[[Sample], None] | None = None,
        before: LiveCapture | None = None,
        offered: Mapping[str, str] | None = None,
        beside_bytes: int = 0,
    ) -> None:
        keep_freed_memory()  # before the middleware has threads
        self.host = host
        self.known: Calibration | None = before.known if before is not None and before.host == host else None
        self.finished: list[Finished] = []
        self.splits: list[Split] = []
        self.failure: Exception | None = None
        self.lost = ""
        self.ended = ""
        self.other_topics: Callable[[], Iterable[ExistingTopic]] = tuple
        self.publishers: Callable[[], Mapping[str, list[str]]] = dict
        self._config = config
        self._output = output
        self._named_host = config.host or host
        self._now_ns = now_ns
        self._clock_ns = clock_ns or now_ns
        self._on_commit = committed
        self._commit_latency_ms: float | None = None
        self._durable_ns: int | None = None
        self._beside_bytes = beside_bytes
        subfolders = (*config.formats, RECORDINGS) if config.record else config.formats
        self._disk = Disk(output, config, subfolders, self._finish_bytes, self._out_of_space)
        self._recording = LiveRecording(config, output, offered, self._disk)
        self._queue = LiveQueue(round(config.queue_mb * 1e6), self._recording.put, steady_s)
        self._meter = Meter(steady_s)
        self._looked_s = 0.0
        self._given_back_s = time.monotonic()
        self._job: Job | None = None
        self._thread: threading.Thread | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._open = False
        self._aborting = False
        self._late = False
        """The time to stop in is over."""
        self._overload: Overload | None = None
        self._names = SessionNames(self._named_host, "", "")
        self._split_point = SplitPoint()
        self._tail = Tail(self._complete_split, self._fail)
        self._pause: Pause | None = None
        self._paused = False
        self._together: list[RawMessage] = []
        """Taken, and to be fed."""

    @property
    def running(self) -> bool:
        """Whether a session is in progress and takes messages."""
        return self._open

    @property
    def paused(self) -> bool:
        """Whether the session is paused."""
        return self._paused

    @property
    def broken(self) -> str:
        """Why the last session ended by itself; empty if it did not, or while one is in progress."""
        return "" if self._open or self.ended == STOPPED else self.ended

    def start(self, name: str = "", *, sequence: str = "", paused: bool = False) -> str:
        """Begin a session, and return the name of its dataset.

        Names that are not given are made from host and time, see ``SessionNames``.

        Raises:
            OutputExists: the dataset exists.
            WriteError: the output cannot be written, or the disk has less than ``min_free_mb`` left.
            EdgeFirstError: a session is in progress.
        """
        if self._open:
            raise EdgeFirstError("a session is already in progress; stop it first, or split it")
        full = self._disk.full()
        if full:
            raise WriteError(full)
        if self._thread is not None:
            self._thread.join()
        self._names = SessionNames(self._named_host, name, sequence)
        self.finished, self.splits, self.failure, self.ended, self.lost = [], [], None, "", ""
        self._disk.begin()
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
            self._begin_pause()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._open = True
        self._thread.start()
        return job.dataset

    def put(self, message: RawMessage) -> None:
        """Queue a message; never blocks."""
        if self._open:
            self._queue.put(message)

    def record(self, message: RawMessage) -> None:
        """Queue a message that only the recording takes; never blocks."""
        if self._open and not self._paused:
            self._recording.put(message, is_used=False)

    def split(self) -> None:
        """Request the end of this session and the beginning of another one; returns at once.

        With video the split is made before the next key frame, see ``SplitPoint``.

        Raises:
            EdgeFirstError: no session is in progress, or it is paused.
        """
        if not self._open:
            raise EdgeFirstError(NO_SESSION)
        if self._paused:
            raise EdgeFirstError("the session is paused; resume it first, or stop it")
        self._queue.call(self._request_split)

    def pause(self) -> None:
        """Count messages from now on without writing them; returns at once.

        Raises:
            EdgeFirstError: no session is in progress.
        """
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Write messages again, as another sequence of the same session; returns at once.

        Raises:
            EdgeFirstError: no session is in progress.
        """
        self._set_paused(paused=False)

    def change_over(self, why: str) -> None:
        """Begin another sequence of the session with the next message; nothing if it is paused."""
        if self._open and not self._paused:
            self._queue.call(partial(self._begin_pause, why))
            self._queue.call(self._end_pause)

    def stop(self, timeout_s: float = STOP_S) -> list[Finished]:
        """Write what is queued, complete the session, and return the sessions completed since ``start``.

        What cannot be written in time is dropped and counted, so that the files are complete within the time.

        Raises:
            EdgeFirstError: writing failed.
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
        """End at once without completing anything; what was committed stays in ``.part`` files."""
        self._open, self._aborting = False, True
        self._recording.abort()
        self._cut()
        self._queue.call(lambda: None)  # wakes the capture thread
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._tail.wait(timeout_s)

    def status(self) -> LiveStatus:
        """The status now; call it at most a few times a second."""
        job = self._job
        if job is not None:
            self._look_around(job)
        return build_status(
            job,
            self._queue,
            self._meter,
            self._disk,
            failure="" if self.failure is None else str(self.failure),
            ended=self.ended,
            commit_latency_ms=self._commit_latency_ms,
            paused=self._paused and job is not None,
            recording=self._recording.outputs,
            problems=tuple(filter(None, (self.lost, self._recording.failure))),
        )

    # ------------------------------------------------------------------ the capture thread
    def _begin(self, after: tuple[Job, Seam] | None = None) -> Job:
        """Begin a session; ``after`` is the one that it continues without a gap, and the seam."""
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
            durable=self._durable,
            disk=self._disk,
        )
        self._commit_latency_ms = self._durable_ns = None
        self._meter.restart(self._queue.flows())
        self._split_point = SplitPoint()
        self._job = job
        return job

    def _durable(self, mark: Mark) -> None:
        # What was written since may be no sample: the newest one was durable before.
        if mark.time_ns is not None and mark.time_ns != self._durable_ns:
            self._durable_ns = mark.time_ns
            self._commit_latency_ms = round((self._clock_ns() - mark.time_ns) / 1e6, 1)

    def _committed(self, sample: Sample) -> None:
        if self._config.sync_s < 0:
            self._commit_latency_ms = round((self._clock_ns() - sample.time_ns) / 1e6, 1)
        if self._on_commit is not None:
            self._on_commit(sample)

    def _run(self) -> None:
        self._together = []
        while (job := self._job) is not None:
            item = self._queue.get(0.0 if self._together else POLL_S)
            if isinstance(item, RawMessage) and not self._together and self._queue.is_empty:
                time.sleep(GATHER_S)
            try:
                if not isinstance(item, RawMessage):
                    self._feed(job)
                self._count_dropped(job)
                if self.failure is not None:
                    self._give_up(job, f"failed: {self.failure}")
                elif self._aborting:
                    self._give_up(job, "stopped at once")
                elif isinstance(item, RawMessage) or item is None:
                    self._take(job, item)
                    if item is not None:
                        commits, waited_s = (
                            job.pipeline.fanout.commits,
                            time.monotonic() - self._queue.taken_s,
                        )
                        commits.waited_s = max(commits.waited_s, waited_s)
                        self._recording.passed(item.arrival)
                else:
                    item()
                self._watch()
            except Exception as error:  # noqa: BLE001 - kept for stop(), the capture cannot go on
                self._ended_by(error)
        self._open = False
        self._tail.wait()
        self._names.release()
        if self._timer is not None:
            self._timer.cancel()

    def _count_dropped(self, job: Job) -> None:
        for lost in self._queue.dropped():
            what = lost.topic, lost.schema, lost.messages, lost.bytes
            job.pipeline.lose(*what, lost.reason, receive_ns=lost.receive_ns)

    def _take(self, job: Job, message: RawMessage | None) -> None:
        if self._pause is not None:
            if message is not None:
                self._pause.take(message)
            return
        now_s = time.monotonic()
        why = "" if self._late else limit_reached(self._config, job.pipeline)
        if why:
            self._split_point.request(now_s, why)
        self._tail.end_if_over(message)
        if self._split_point.is_here(message, now_s) and not self._tail.taking:
            job = self._split(job, message)
        if message is None:
            return
        if self._late:
            what = message.topic, full_type(message.schema), 1, len(message.data)
            job.pipeline.lose(*what, Reason.CUT_OFF, receive_ns=message.receive_ns)
            return
        for each in (job, *self._tail.taking):
            if each.overload is not None:
                each.overload.feeding(self._queue.taken_s, message.receive_ns)
        together = self._together
        together.append(message)
        waited_ns = message.receive_ns - together[0].receive_ns
        if self._tail.taking or not 0 <= waited_ns < GATHER_S * 1e9 or is_batch(together):
            self._feed(job)

    def _feed(self, job: Job) -> None:
        """Feed what has been taken."""
        together, self._together = self._together, []
        if not together:
            return
        job.pipeline.feed_all(together)
        if job.overload is not None and job.overload.is_outrun:
            self._queue.drop_waiting(job.overload.latency_s)
            job.overload.dropped()

    def _split(self, job: Job, message: RawMessage | None) -> Job:
        """Begin another session before this message, whose acquisition time is the seam.

        The session before takes messages until everything acquired before the seam has arrived, with the
        companions of its last samples; then it is completed in the background. While clocks are unknown the
        seam lies between two messages in order of arrival.
        """
        self._feed(job)
        why = self._split_point.why
        seam_ns = job.pipeline.seam_ns(message)
        if seam_ns is None or self._late:
            closed = self._finish(job, why, last=False)
            following = self._begin()
            self.splits.append(Split(closed, following.dataset))
            return following
        self.known = job.pipeline.calibration
        newest_ns = seam_ns if message is None else message.receive_ns
        seam = Seam(seam_ns, newest_ns + tail_ns(self._config))
        recorded = self._recording.end(why, last=False, goes_on=True)
        try:
            following = self._begin((job, seam))
        except EdgeFirstError:
            self._complete(job, why, recorded)
            raise
        self._tail.begin(job, why, seam, following, recorded)
        return following

    def _look_around(self, job: Job) -> None:
        job.pipeline.around = tuple(self.other_topics())
        job.publishers.update(self.publishers())

    def _complete_split(self, session: SplitSession) -> None:
        self._look_around(session.job)
        finished = finish_session(session.job, self._config, session.why, session.recorded)
        self.finished.append(finished)
        self.splits.append(Split(finished, session.following.dataset))

    def _fail(self, error: Exception) -> None:
        self.failure = error

    def _watch(self) -> None:
        if not self._open:
            return
        self._disk.watch()
        if time.monotonic() - self._given_back_s >= GIVE_BACK_EVERY_S:
            give_back_memory()
            self._given_back_s = time.monotonic()
        if time.monotonic() - self._looked_s >= LOOK_EVERY_S and self._job is not None:
            self._looked_s = time.monotonic()
            if why := self._lose(self._job):
                self._end_soon(why, STOP_S)

    def _ended_by(self, error: Exception) -> None:
        """End the session because of an error: completed for other formats if the folder of one is gone."""
        try:
            if self._job is not None and (why := self._lose(self._job)):
                self._open = False
                self._end(why)
                return
        except Exception as other:  # noqa: BLE001 - kept for stop()
            error = other
        self._fail(error)
        self._give_up(self._job, f"failed: {error}")

    def _lose(self, job: Job) -> str:
        """Give up the formats whose output is gone; why the session ends then, empty if there are none.

        Raises:
            WriteError: all are.
            OSError: the disk does not answer.
        """
        fanout = job.pipeline.fanout
        lost = fanout.lost()
        if not lost:
            return ""
        # No path of this machine goes into the report.
        short = {name: f"{path.relative_to(self._output)} {LOST}" for name, path in lost.items()}
        fanout.give_up({name: WriteError(text) for name, text in short.items()})
        left = [name for name in self._config.formats if name not in fanout.given_up]
        said = "; ".join(f"{path} {LOST}" for path in lost.values())
        if not left:
            raise WriteError(f"{said}; no dataset of session {job.dataset} is saved")
        self.lost = f"{said}; the session ends, and is saved in {' and '.join(left)}"
        return "; ".join(short.values())

    def _finish_bytes(self) -> int:
        """How many bytes it takes to complete what is written; any thread."""
        jobs = [*self._tail.jobs, *([self._job] if self._job is not None else [])]
        formats = sum(job.pipeline.fanout.finish_bytes() for job in jobs)
        return formats + self._recording.finish_bytes() + self._beside_bytes * (1 + len(jobs))

    def _out_of_space(self, why: str) -> None:
        """Complete what is written, and write nothing more; any thread."""
        self._end_soon(why, 0.0)
        self._cut()

    def _end_soon(self, why: str, timeout_s: float) -> None:
        """End the session after what is queued, or when the time is over; the first call's reason is kept."""
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
        """Drop everything that is not written yet, because the time is over."""
        self._late, job = True, self._job
        self._recording.cut()
        if job is not None:
            job.pipeline.cut(Reason.CUT_OFF)
        self._tail.cut(Reason.CUT_OFF)

    def _set_paused(self, *, paused: bool) -> None:
        if not self._open:
            raise EdgeFirstError(NO_SESSION)
        if paused != self._paused:
            self._paused = paused
            self._queue.call(self._begin_pause if paused else self._end_pause)

    def _begin_pause(self, why: str = Reason.PAUSED) -> None:
        if self._job is None or self._pause is not None:
            return
        self._tail.end()
        self._split_point = SplitPoint()
        self._recording.pause()
        self._pause = Pause(self._job, self._config, self._named_host, self._names.sequence, why)

    def _end_pause(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            self._recording.resume(pause.resume(), pause.calibration)

    def _request_split(self) -> None:
        self._split_point.request(time.monotonic(), SPLIT)
        if self._job is not None:
            self._take(self._job, None)

    def _end(self, why: str) -> None:
        if self._job is not None:
            self._finish(self._job, why, last=True)

    def _finish(self, job: Job, why: str, *, last: bool) -> Finished:
        self._tail.end()
        return self._complete(job, why, self._recording.end(why, last=last))

    def _complete(self, job: Job, why: str, recorded: PendingRecording) -> Finished:
        self._look_around(job)
        finished = finish_session(job, self._config, why, recorded)
        self._tail.wait()
        if self.failure is not None:
            raise self.failure
        self.finished.append(finished)
        self.known = job.pipeline.calibration if self._pause is None else self._pause.calibration
        self._job, self.ended = None, why
        return finished

    def _give_up(self, job: Job | None, why: str) -> None:
        """Abort the session after an error; committed data stays in ``.part`` files."""
        self._open, self._job, self.ended = False, None, why
        self._tail.abort()
        recorded = self._recording.end(why, last=True)
        if job is not None:
            self.known = job.pipeline.calibration
            job.abort()
        recorded()
