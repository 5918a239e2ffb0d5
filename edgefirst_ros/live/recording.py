"""The recording of a live capture, if there is to be one: a recorder for every run of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.live.latched import Latched
from edgefirst_ros.live.recorder import FOLDER, Recorded, Recorder
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.sample import Calibration
from edgefirst_ros.sources.session import RecordedSession, Seam, resumed_message

WAIT_S = 1.5
"""So long a session's end waits for its recording to be complete; usually it is within a few hundredths."""
NAME = "recording"


@dataclass(frozen=True, slots=True)
class Pending:
    """A session's recording that was ended and may not be complete yet."""

    recorder: Recorder | None = None
    ending: Future[Recorded] | None = None

    def result(self) -> Recorded | None:
        """What became of it, None if there is none; waits a little for its end."""
        if self.recorder is None or self.ending is None:
            return None
        try:
            return self.ending.result(WAIT_S)
        except TimeoutError:
            return self.recorder.so_far("was not complete when its session ended, since the disk is slow")


class LiveRecording:
    """Does nothing unless the configuration says ``record``.

    Args:
        config: of the capture.
        output: folder that recordings go below, beside the datasets.
        offered: quality of service by topic, see ``Recorder``; may grow.
    """

    def __init__(self, config: Config, output: Path, offered: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._folder = output / FOLDER
        self._offered = offered
        self._latched = Latched(config)
        self._recorder: Recorder | None = None

    def start(self) -> None:
        """Messages may come from now on."""
        if self._config.record:
            # As much as waits for the capture is waited for by the recorder, too; and so much more may.
            limit_bytes = 2 * round(self._config.queue_mb * 1e6)
            self._recorder = Recorder(self._folder, limit_bytes, self._latched, self._offered)

    def put(self, message: RawMessage) -> None:
        """Take a message that the capture's queue was given."""
        if self._recorder is not None:
            self._recorder.put(message, message.arrival)

    def put_unused(self, message: RawMessage) -> None:
        """Take a message that goes nowhere else."""
        if self._recorder is not None:
            self._recorder.put(message, None)

    def passed(self, arrival: int) -> None:
        """The capture has taken a message into the session under way."""
        if self._recorder is not None:
            self._recorder.passed(arrival)

    def begin(
        self, dataset: str, sequence: str, host: str, known: Calibration | None, seam: Seam | None
    ) -> None:
        """A session begins, with what the capture has not taken yet; ``seam`` if it goes on from the last."""
        if self._recorder is not None:
            settings = live_settings(self._config)
            self._recorder.begin(RecordedSession(dataset, sequence, host, settings, known, seam))

    def pause(self) -> None:
        """Nothing is recorded from here on among what the capture takes."""
        if self._recorder is not None:
            self._recorder.pause()

    def resume(self, sequence: str, known: Calibration) -> None:
        """It is again, and a sequence of this name begins with so much known."""
        if self._recorder is not None:
            self._recorder.resume(resumed_message(sequence, known))

    def end(self, why: str, *, last: bool, goes_on: bool = False) -> Pending:
        """The session ends; ``last`` if no other one follows it at once, ``goes_on`` if one without a gap."""
        recorder = self._recorder
        return (
            Pending()
            if recorder is None
            else Pending(recorder, recorder.end(why, last=last, goes_on=goes_on))
        )

    def cut(self) -> None:
        """No time is left: what is not on disk yet is not recorded."""
        if self._recorder is not None:
            self._recorder.cut()

    def abort(self) -> None:
        """End at once; what has been written stays and can be read."""
        if self._recorder is not None:
            self._recorder.abort()

    @property
    def outputs(self) -> dict[str, Output]:
        """What has been written in this session, as of a format."""
        recorder = self._recorder
        return {} if recorder is None else {NAME: Output("messages", recorder.messages, recorder.bytes)}


def live_settings(config: Config) -> dict[str, Any]:
    """A configuration as live capture takes it, in plain values.

    Poses are smoothed with what comes within ``wait_s``, whatever it says: nobody knows what comes later.
    """
    ego = config.ego.model_copy(update={"smoothing": "lag"})
    values: dict[str, Any] = config.model_copy(update={"ego": ego}).model_dump(mode="json")
    return values


def said_of(recorded: Recorded) -> dict[str, Any]:
    """For the capture report."""
    return {
        "file": f"{FOLDER}/{recorded.path.name}",
        "messages": recorded.messages,
        "bytes": recorded.bytes,
        "not_recorded": dict(sorted(recorded.not_recorded.items())),
        "failure": recorded.failure,
    }
