"""The recording of a live capture, if it is enabled: one recorder from ``start`` to ``stop``."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.crashsafe.links import refuse_links
from edgefirst_ros.live.recorder import FOLDER, Recorder, RecordingResult
from edgefirst_ros.live.recordingfile import Latched
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.sample import Calibration
from edgefirst_ros.sources.session import RecordedSession, Seam, resumed_message

WAIT_S = 1.5
"""Longest wait for the recording at the end of a session; usually it takes some hundredths of a second."""
NAME = "recording"


@dataclass(frozen=True, slots=True)
class PendingRecording:
    """A session's recording that has been ended and may not be complete yet."""

    recorder: Recorder | None = None
    ending: Future[RecordingResult] | None = None

    def result(self) -> RecordingResult | None:
        """The completed recording, or its state after ``WAIT_S``; None if nothing was recorded."""
        if self.recorder is None or self.ending is None:
            return None
        try:
            return self.ending.result(WAIT_S)
        except TimeoutError:
            return self.recorder.so_far("incomplete at the end of its session, because the disk is slow")


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
        self._folder = output / FOLDER
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

    def put(self, message: RawMessage) -> None:
        """Queue a message that the capture uses; called in order of arrival."""
        if self._recorder is not None:
            self._recorder.put(message, message.arrival)

    def put_unused(self, message: RawMessage) -> None:
        """Queue a message that only the recording takes."""
        if self._recorder is not None:
            self._recorder.put(message, None)

    def passed(self, arrival: int) -> None:
        """The capture has added the message with this arrival number to the current session."""
        if self._recorder is not None:
            self._recorder.passed(arrival)

    def begin(
        self, dataset: str, sequence: str, host: str, known: Calibration | None, seam: Seam | None
    ) -> None:
        """Begin a session after the last message ``passed``; ``seam`` if it continues the last one."""
        if self._recorder is not None:
            settings = live_settings(self._config)
            self._recorder.begin(RecordedSession(dataset, sequence, host, settings, known, seam))

    def pause(self) -> None:
        """Stop recording after the last message ``passed``."""
        if self._recorder is not None:
            self._recorder.pause()

    def resume(self, sequence: str, known: Calibration) -> None:
        """Record again, beginning with a marker for the new sequence and the calibration known by then."""
        if self._recorder is not None:
            self._recorder.resume(resumed_message(sequence, known))

    def end(self, why: str, *, last: bool, goes_on: bool = False) -> PendingRecording:
        """End the session; ``last`` if none follows at once, ``goes_on`` if the next one continues it."""
        recorder = self._recorder
        return (
            PendingRecording()
            if recorder is None
            else PendingRecording(recorder, recorder.end(why, last=last, goes_on=goes_on))
        )

    def cut(self) -> None:
        """Discard what is not on disk yet, because no time is left."""
        if self._recorder is not None:
            self._recorder.cut()

    def abort(self) -> None:
        """End at once; what has been written stays readable."""
        if self._recorder is not None:
            self._recorder.abort()

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
        "file": f"{FOLDER}/{recorded.path.name}",
        "messages": recorded.messages,
        "bytes": recorded.bytes,
        "not_recorded": dict(sorted(recorded.not_recorded.items())),
        "failure": recorded.failure,
    }
