"""Writes every message of a live capture to disk in a thread of its own, so that the capture never waits.

The recording of a live capture, if it is enabled: one recorder from ``start`` to ``stop``.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import OTHER_TOPICS
from edgefirst_ros.formats.crashsafe.names import refuse_links
from edgefirst_ros.formats.datasets import RECORDINGS
from edgefirst_ros.live.recordingfile import Latched, RecordingFile
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.model.sample import Calibration, RawMessage
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.sources.session import REPEATED, RecordedSession, Seam, resumed_message

SYNC_EVERY_S = 1.0
"""The most that a power cut can lose."""
LOOK_EVERY_S = 0.1
MOST_NAMED = 256
"""Topics whose missing messages are counted one by one."""
OVERHEAD_BYTES = 512
"""Counted for every message in addition to its data."""


@dataclass(frozen=True, slots=True)
class RecordingResult:
    """A session's recording.

    Attributes:
        path: the file.
        messages: number of the session's messages in it.
        bytes: its size.
        not_recorded: number of received messages, by topic, that are not in it.
        failure: why it ended before its session; empty if it did not.
    """

    path: Path
    messages: int
    bytes: int
    not_recorded: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""

    @property
    def warnings(self) -> list[str]:
        """Warnings for the capture report."""
        lost = sum(self.not_recorded.values())
        why = (
            f": {self.failure}"
            if self.failure
            else ", because the disk is full or slow, or the computer is slow"
        )
        found = [f"recording: {lost:,} messages were not recorded{why}"] if lost else []
        return found or ([f"recording: {self.failure}"] if self.failure else [])


@dataclass(slots=True)
class _Waiting:
    """A message in order of receipt, or a gap where there was no room for messages.

    ``arrival`` is its number in the capture's queue, None for one that only the recording takes.
    """

    arrival: int | None
    message: RawMessage | None
    lost: Counter[str] = field(default_factory=Counter)
    paused: bool = False
    """Received in a pause: not recorded, but kept if it is latched."""


_Command = Callable[[], None]


class Recorder:
    """Records successive sessions: ``begin``, then ``put`` and ``passed`` for every message, then ``end``.

    A message waits until the capture has ``passed`` it, because only then its session is known; so a file
    ends at the same message as its session. The bytes that wait are limited, and messages that do not fit are
    counted as not recorded. A disk error ends the recording, never the capture.

    ``put`` may be called by any thread, the others only by the one that feeds the pipeline.

    Args:
        folder: folder of the recordings.
        limit_bytes: limit of the messages that wait.
        latched: latched messages from before; it is updated.
        offered: QoS of the publishers by topic, where known; read at the first message of a topic.
        disk: admits what is written; None: everything is.
    """

    def __init__(
        self,
        folder: Path,
        limit_bytes: int,
        latched: Latched,
        offered: Mapping[str, str] | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._limit_bytes = limit_bytes
        self._latched = latched
        self._offered = {} if offered is None else offered
        self._lock = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._ready: deque[_Waiting | _Command] = deque()
        self._held = 0
        self._over = False
        self._aborted = False
        self._until_s = math.inf
        self._paused = False
        self._mark: RawMessage | None = None
        """Marker to be written before the next message."""
        self._file: RecordingFile | None = None
        self._path = folder
        self._failure = ""
        self._number = REPEATED
        self._missing: Counter[str] = Counter()
        self._synced_s = time.monotonic()
        self.messages = 0
        """Number of messages of the current session on disk."""
        self.bytes = 0
        """Size of the current file."""
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._thread.start()

    def put(self, message: RawMessage, arrival: int | None) -> None:
        """Queue a message in order of receipt; never blocks."""
        size = len(message.data) + OVERHEAD_BYTES
        with self._lock:
            if self._held + size > self._limit_bytes:
                _append(self._waiting, _Waiting(arrival, None, Counter({message.topic: 1})))
            else:
                self._held += size
                self._waiting.append(_Waiting(arrival, message))

    def passed(self, arrival: int) -> None:
        """The capture has taken this message, so everything up to it belongs to the current session."""
        with self._lock:
            self._make_ready(arrival)

    def begin(self, session: RecordedSession) -> None:
        """Begin a session at the first message not passed yet."""
        self._command(lambda: self._open(session))

    def pause(self) -> None:
        """Stop recording at the first message not passed yet."""
        with self._lock:
            self._paused = True

    def resume(self, mark: RawMessage) -> None:
        """Record again from the first message not passed yet on, after a marker message."""
        with self._lock:
            self._paused = False

        def note() -> None:
            self._mark = mark

        self._command(note)

    def end(self, why: str, *, last: bool, goes_on: bool = False) -> Future[RecordingResult]:
        """End the session; returns a future for its recording.

        Args:
            why: why the session ended, for the file's metadata.
            last: no other session follows; everything received belongs to this one.
            goes_on: the next session continues this one.
        """
        done: Future[RecordingResult] = Future()
        if last:
            with self._lock:
                self._make_ready(None)
        self._command(lambda: done.set_result(self._finish(why, last=last, goes_on=goes_on)))
        return done

    def cut(self) -> None:
        """Discard what is not on disk in a moment, so that the end of the session is not delayed."""
        # While the datasets are completed, what came too late for them is still recorded.
        self._until_s = time.monotonic() + WAIT_S / 3

    @property
    def failure(self) -> str:
        """Why the recording has ended before its session; empty if it has not."""
        return self._failure

    def finish_bytes(self) -> int:
        """What completing the file takes, see ``RecordingFile``; any thread."""
        return 0 if (file := self._file) is None else file.finish_bytes

    def so_far(self, failure: str) -> RecordingResult:
        """The recording as it is now, with the reason why it is incomplete. Thread-safe."""
        return RecordingResult(
            self._path, self.messages, self.bytes, dict(self._missing), f"{self._path}: {failure}"
        )

    def abort(self) -> None:
        """End at once; what has been written stays readable."""
        with self._lock:
            self._aborted = self._over = True
            self._waiting.clear()
            self._ready.clear()
            self._lock.notify()

    def _command(self, command: _Command) -> None:
        with self._lock:
            self._ready.append(command)
            self._lock.notify()

    def _make_ready(self, arrival: int | None) -> None:
        """Let messages be written: up to an arrival number, or all."""
        waiting = self._waiting
        while waiting:
            number = waiting[0].arrival
            if arrival is not None and number is not None and number > arrival:
                return
            item = waiting.popleft()
            item.paused = self._paused
            _append(self._ready, item)

    # ------------------------------------------------------------------ the recording thread
    def _run(self) -> None:
        while not self._over:
            for item in self._take():
                if self._aborted:
                    break
                if isinstance(item, _Waiting):
                    self._write(item)
                else:
                    item()
                self._sync()
            self._sync()
        if self._file is not None:
            self._guarded(RecordingFile.sync)
            self._close()

    def _sync(self) -> None:
        if time.monotonic() - self._synced_s >= SYNC_EVERY_S:
            self._guarded(RecordingFile.sync)
            self._synced_s = time.monotonic()

    def _take(self) -> deque[_Waiting | _Command]:
        with self._lock:
            # The capture passes no messages that it does not use; before the next one that it does, no split
            # can fall.
            while self._waiting and self._waiting[0].arrival is None and not self._paused:
                _append(self._ready, self._waiting.popleft())
            if not self._ready and not self._over:
                self._lock.wait(LOOK_EVERY_S)
            taken, self._ready = self._ready, deque()
            return taken

    def _open(self, session: RecordedSession) -> None:
        self.messages = self.bytes = 0
        self._number, self._failure, self._missing = REPEATED, "", Counter()
        self._mark = None
        if session.seam is not None:
            session = replace(session, after=self._path.name)
        stem = safe_name(session.sequence)
        for number in count(1):
            self._path = self._folder / f"{stem}{'' if number == 1 else f'_{number}'}.mcap"
            try:
                self._file = RecordingFile(self._path, session, self._offered)
            except FileExistsError:
                continue
            except Exception as error:  # noqa: BLE001 - the datasets can still be written
                self._fail(error)
            return

    def _write(self, item: _Waiting) -> None:
        message = item.message
        if message is None:
            for topic, count in ({} if item.paused else item.lost).items():
                self._lost(topic, count)
            return
        with self._lock:
            self._held -= len(message.data) + OVERHEAD_BYTES
        if item.paused:
            self._latched.remember(message)
            return
        if time.monotonic() > self._until_s or not self._has_room(message):
            self._lost(message.topic)
            return
        number, mark = self._number + 1, self._mark

        def write(file: RecordingFile) -> None:
            # All get the time of the first message, so that players do not pause.
            if mark is not None:
                file.write(mark._replace(publish_ns=message.receive_ns), number, message.receive_ns)
            for known in self._latched.messages() if number == 1 or mark is not None else ():
                file.write(known, REPEATED, message.receive_ns)
            file.write(message, number, message.receive_ns)
            self.bytes = file.bytes

        if self._guarded(write):
            self._number, self._mark = number, None
            self.messages += 1
            if self._disk is not None:
                self._disk.wrote(len(message.data))
        else:
            self._lost(message.topic)
        self._latched.remember(message)

    def _has_room(self, message: RawMessage) -> bool:
        """Whether the file and the disk have room for a message."""
        if self._file is not None and not self._file.has_room(message):
            return False
        return self._disk is None or self._disk.admits()

    def _lost(self, topic: str, count: int = 1) -> None:
        """Count messages as not recorded; beyond many topics together."""
        known = topic in self._missing or len(self._missing) < MOST_NAMED
        self._missing[topic if known else OTHER_TOPICS] += count

    def _finish(self, why: str, *, last: bool, goes_on: bool) -> RecordingResult:
        self._over = last
        missing = sum(self._missing.values())
        values = {"ended": why, "messages": str(self.messages), "not_recorded": str(missing)}
        values["goes_on"] = "true" if goes_on else "false"

        def finish(file: RecordingFile) -> None:
            self.bytes = file.finish(values)

        if self._guarded(finish):
            self._file = None
        return RecordingResult(self._path, self.messages, self.bytes, dict(self._missing), self._failure)

    def _guarded(self, work: Callable[[RecordingFile], None]) -> bool:
        """Run ``work`` on the file, if there is one; an error ends the recording only."""
        if self._file is None:
            return False
        try:
            work(self._file)
        except Exception as error:  # noqa: BLE001 - the datasets can still be written
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        if isinstance(error, EdgeFirstError):
            self._failure = str(error)
        else:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or repr(error)
            self._failure = f"{self._path}: cannot be written: {reason}"
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _append(queue: deque[_Waiting] | deque[_Waiting | _Command], item: _Waiting) -> None:
    """Append to a queue; successive losses are merged, so that they take no room."""
    before = queue[-1] if queue else None
    if item.message is None and isinstance(before, _Waiting) and before.message is None:
        before.lost += item.lost
    else:
        queue.append(item)


WAIT_S = 1.5
"""Longest wait for the recording at the end of a session; usually it takes some hundredths of a second."""
NAME = "recording"


PendingRecording = Callable[[], RecordingResult | None]
"""Returns a session's recording that has been ended, or its state after ``WAIT_S``; None if there is none."""


class LiveRecording:
    """Records sessions if the configuration says ``record``, else does nothing.

    Args:
        config: the capture's configuration.
        output: the output folder; recordings lie in a folder of their own below it.
        offered: QoS of the publishers by topic, see ``Recorder``; may grow.
        disk: admits what is written, see ``Recorder``.

    Raises:
        WriteError: the folder of the recordings is a symbolic link.
    """

    def __init__(
        self,
        config: Config,
        output: Path,
        offered: Mapping[str, str] | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._config = config
        self._disk = disk
        self._folder = output / RECORDINGS
        refuse_links(output, self._folder)
        self._offered = offered
        self._latched = Latched(config)
        self._recorder: Recorder | None = None

    def start(self) -> None:
        """Begin to take messages."""
        if self._config.record:
            # Messages in the capture's queue wait here as well; as much again may wait for the disk.
            limit_bytes = 2 * round(self._config.queue_mb * 1e6)
            self._recorder = Recorder(self._folder, limit_bytes, self._latched, self._offered, self._disk)

    def _tell(self, what: Callable[[Recorder], None]) -> None:
        if self._recorder is not None:
            what(self._recorder)

    def put(self, message: RawMessage, *, is_used: bool = True) -> None:
        """Queue a message, in order of arrival if the capture uses it, too."""
        self._tell(lambda recorder: recorder.put(message, message.arrival if is_used else None))

    def passed(self, arrival: int) -> None:
        """The capture has added the message with this arrival number to the current session."""
        self._tell(lambda recorder: recorder.passed(arrival))

    def begin(
        self, dataset: str, sequence: str, host: str, known: Calibration | None, seam: Seam | None
    ) -> None:
        """Begin a session after the last message ``passed``; ``seam`` if it continues the last one."""
        session = RecordedSession(dataset, sequence, host, live_settings(self._config), known, seam)
        self._tell(lambda recorder: recorder.begin(session))

    def pause(self) -> None:
        """Stop recording after the last message ``passed``."""
        self._tell(lambda recorder: recorder.pause())

    def resume(self, sequence: str, known: Calibration) -> None:
        """Record again, beginning with a marker for the new sequence and the calibration known by then."""
        self._tell(lambda recorder: recorder.resume(resumed_message(sequence, known)))

    def end(self, why: str, *, last: bool, goes_on: bool = False) -> PendingRecording:
        """End the session; ``last`` if none follows at once, ``goes_on`` if the next one continues it."""
        if (recorder := self._recorder) is None:
            return lambda: None
        ending = recorder.end(why, last=last, goes_on=goes_on)

        def result() -> RecordingResult:
            try:
                return ending.result(WAIT_S)
            except TimeoutError:
                return recorder.so_far("incomplete at the end of its session, because the disk is slow")

        return result

    def cut(self) -> None:
        """Discard what is not on disk yet, because no time is left."""
        self._tell(lambda recorder: recorder.cut())

    def abort(self) -> None:
        """End at once; what has been written stays readable."""
        self._tell(lambda recorder: recorder.abort())

    @property
    def failure(self) -> str:
        """Why the recording has ended before its session; empty if it has not, or nothing is recorded."""
        return "" if self._recorder is None else self._recorder.failure

    def finish_bytes(self) -> int:
        """What completing the recording takes; any thread."""
        return 0 if self._recorder is None else self._recorder.finish_bytes()

    @property
    def outputs(self) -> dict[str, Output]:
        """What has been recorded of this session, in the form of a format's output."""
        recorder = self._recorder
        return {} if recorder is None else {NAME: Output("messages", recorder.messages, recorder.bytes)}


def live_settings(config: Config) -> dict[str, Any]:
    """The configuration as it applies to live capture, as plain values.

    Poses are always smoothed over ``wait_s``, because whole-drive smoothing needs the end of the drive.
    """
    ego = config.ego.model_copy(update={"smoothing": "lag"})
    values: dict[str, Any] = config.model_copy(update={"ego": ego}).model_dump(mode="json")
    return values


def recording_report(recorded: RecordingResult) -> dict[str, Any]:
    """The recording's part of the capture report."""
    return {
        "file": f"{RECORDINGS}/{recorded.path.name}",
        "messages": recorded.messages,
        "bytes": recorded.bytes,
        "not_recorded": dict(sorted(recorded.not_recorded.items())),
        "failure": recorded.failure,
    }
