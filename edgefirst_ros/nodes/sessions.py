"""Sessions of a capture as the node speaks of them; knows nothing of rclpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.config.model import Config
from edgefirst_ros.hints import Seen
from edgefirst_ros.live.capture import STOPPED, LiveCapture
from edgefirst_ros.live.session import Finished, Split
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.nodes.options import CaptureOptions
from edgefirst_ros.sample import Calibration, Sample


@dataclass(frozen=True, slots=True)
class Told:
    """A line for the log; ``poor`` if it is a warning."""

    text: str
    poor: bool


class Sessions:
    """One session after another below one output folder.

    Args:
        config: what is captured. Topics come by their names without prefix, so that nothing written hangs on
            what ROS calls them.
        options: the node's own.
        host: names sessions, unless the configuration does.
        committed: told of every sample that is written.
        around: tells which topics there are that do not come.
        before: those before; if they were of the same host, their calibration holds.
        offered: quality of service by topic, for the recording; may grow.
        clock_ns: the clock that messages are received by, for latencies.

    Attributes:
        host: as given.
    """

    def __init__(
        self,
        config: Config,
        options: CaptureOptions,
        host: str,
        committed: Callable[[Sample], None],
        *,
        before: Sessions | None = None,
        around: Callable[[], Iterable[Seen]] = tuple,
        offered: Mapping[str, str] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.host = host
        known = before.known if before is not None and before.host == host else None
        self._options = options
        self._output = Path(options.output).expanduser()
        bare = config.model_copy(update={"prefix": ""})
        self._capture = LiveCapture(
            bare,
            self._output,
            host,
            clock_ns=clock_ns,
            committed=committed,
            known=known,
            offered=offered,
        )
        self._capture.around = around
        self._heard = 0
        """So many splits have been told."""

    @property
    def known(self) -> Calibration | None:
        """The calibration after the last session."""
        return self._capture.known

    @property
    def running(self) -> bool:
        """Whether a session is under way."""
        return self._capture.running

    @property
    def broken(self) -> str:
        """Why the last session ended without being asked to, else empty."""
        ended = self._capture.ended
        return "" if self._capture.running or ended == STOPPED else ended

    def begin(self) -> str:
        """Begin a session; what to tell.

        Raises:
            EdgeFirstError: the disk is full, the name is taken, or a session is under way.
        """
        paused = self._options.start_paused
        name = self._capture.start(self._options.name, sequence=self._options.session, paused=paused)
        self._heard = 0
        return f"session {name} begins in {self._output}" + (", paused" if paused else "")

    def splits(self) -> list[Split]:
        """Splits since this was last asked, each once its closed session is complete."""
        found = self._capture.splits[self._heard :]
        self._heard += len(found)
        return found

    def finish(self, within_s: float) -> list[Told]:
        """Finish the session under way, if any; what to tell of it and of those that were split off before.

        Raises:
            EdgeFirstError: what made writing fail.
        """
        done = self._capture.stop(within_s)
        told = [line for session in done[: self._heard] for line in tell(session)[:1]]
        return told + [line for session in done[self._heard :] for line in tell(session)]

    def split(self) -> str:
        """Finish the session and begin another, before the next key frame if there is video; what to tell.

        Raises:
            EdgeFirstError: no session is under way.
        """
        self._capture.split()
        return "the session is being finished and another one begun, at the next key frame if there is video"

    def pause(self) -> str:
        """Write nothing of what comes; what to tell.

        Raises:
            EdgeFirstError: no session is under way.
        """
        self._capture.pause()
        return "paused: messages are counted, and not written"

    def resume(self) -> str:
        """Write what comes again; what to tell.

        Raises:
            EdgeFirstError: no session is under way.
        """
        self._capture.resume()
        return "resumed: another sequence of the session begins, at the next key frame if there is video"

    def toggle(self) -> str:
        """Pause, or resume; what to tell.

        Raises:
            EdgeFirstError: no session is under way.
        """
        return self.resume() if self._capture.paused else self.pause()

    def abort(self) -> None:
        """End at once; what was committed stays in ``.part`` files."""
        self._capture.abort()

    def put(self, message: RawMessage) -> None:
        """Take a message, at once."""
        self._capture.put(message)

    def record(self, message: RawMessage) -> None:
        """Take a message that only the recording is for, at once."""
        self._capture.record(message)

    def status(self) -> LiveStatus:
        """Where it stands."""
        return self._capture.status()


def tell(session: Finished) -> list[Told]:
    """What to tell of a session that is complete: what came of it, then its warnings."""
    summary = Told(session.summary, poor=not session.report["samples"])
    return [summary, *(Told(warning, poor=True) for warning in session.report["warnings"])]


def split_values(split: Split) -> list[tuple[str, str]]:
    """A split as keys and values for whoever waits for whole sessions."""
    closed, totals = split.closed, split.closed.report["totals"]
    return [
        ("closed", closed.name),
        ("opened", split.opened),
        ("reason", str(closed.report["ended"])),
        ("samples", str(closed.report["samples"])),
        ("messages", str(totals["received"])),
        ("dropped", str(totals["dropped"])),
        *(("path", str(path)) for path in closed.paths),
    ]


def check_output(folder: str) -> list[str]:
    """Faults of an output folder, which is made if it is not there."""
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return [f"output: {path}: cannot be written: {error.strerror}"]
    return []
