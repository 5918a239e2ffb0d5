"""Sessions that went on from one another: what one took over is found by going through those before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import RecordingError
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable
from edgefirst_ros.offline.drives import Drive
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.pipeline.pause import PAUSED
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.session import RecordedSession, Seam, resumed_of


@dataclass(frozen=True, slots=True)
class Run:
    """A session's recording, last of ``drive``, with those before that it went on from.

    ``following`` is the one that went on from it: late messages for its last samples are in there.
    """

    drive: Drive
    following: McapRecording | None = None
    notes: list[str] = field(default_factory=list)


def find_run(recording: McapRecording) -> Run:
    """The recordings beside one that it goes on from, and the one that goes on from it."""
    parts, notes = [recording], []
    name = readable(recording.path.name)
    while (session := parts[0].session) is not None and session.seam is not None:
        before = _open(parts[0], session.after)
        if before is None or before.path in {part.path for part in parts}:
            notes.append(
                f"{name}: goes on from {readable(session.after)}, which is not beside it: its first seconds "
                "may differ from the session's"
            )
            break
        parts.insert(0, before)
    following = None
    for path in sorted(recording.path.parent.glob("*.mcap")):
        other = _open(recording, path.name)
        session = None if other is None else other.session
        if session is not None and session.seam is not None and session.after == recording.path.name:
            following = other
    if following is None and recording.goes_on:
        notes.append(
            f"{name}: the recording that goes on from it is not beside it: its last seconds may differ from "
            "the session's"
        )
    if len(parts) > 1:
        notes.append(f"{name}: goes on from {len(parts) - 1} before it, which are gone through first")
    return Run(Drive(parts), following, notes)


def _open(beside: McapRecording, name: str) -> McapRecording | None:
    path = beside.path.with_name(name)
    try:
        return McapRecording(path) if name and path.is_file() else None
    except RecordingError:
        return None


class Replay:
    """Feeds a pipeline the last session of a run as live capture did.

    ``take`` every message of the run's drive in turn, then ``finish``; ``end`` in any case.

    Args:
        run: the session and those before.
        config: of the conversion.
        pipeline: gets the last session; the others go nowhere.
    """

    def __init__(self, run: Run, config: Config, pipeline: Pipeline) -> None:
        self._run = run
        self._config = config.model_copy(update={"workers": 1})
        self._last = pipeline
        self._at = -1
        self._arrival = -1
        self._host = ""
        self._current: Pipeline | None = None
        self._tail: tuple[Pipeline, Seam] | None = None

    def take(self, message: RawMessage) -> None:
        """The next message of the drive."""
        self._reach(self._run.drive.reading)
        self._arrival = message.arrival
        if message.repeated or self._current is None:
            return
        resumed = resumed_of(message)
        if resumed is not None:
            self._pass_seam()
            self._current.end_source(PAUSED)
            name, known = resumed
            self._current.begin_source(None, self._host, name, calibration=known)
            return
        if self._tail is not None and message.receive_ns >= self._tail[1].until_ns:
            self._pass_seam()
        if self._tail is not None:
            self._tail[0].feed(message, own=False)
        self._current.feed(message)

    def finish(self, proceed: Callable[[], bool]) -> None:
        """The drive is through: what came late for its last session, while that may go on."""
        self._reach(len(self._run.drive.parts) - 1)
        self._pass_seam()
        following = self._run.following
        session = None if following is None else following.session
        if following is None or session is None or session.seam is None:
            return
        self._last.end_at(session.seam.time_ns)
        for message in following.messages(self._arrival + 1):
            over = message.receive_ns >= session.seam.until_ns or resumed_of(message) is not None
            if over or not proceed():
                break
            if not message.repeated:
                self._last.feed(message, own=False)

    def end(self) -> None:
        """Let go of the sessions before."""
        for pipeline in (self._current, self._tail and self._tail[0]):
            if pipeline is not None and pipeline is not self._last:
                pipeline.abort()

    def _reach(self, part: int) -> None:
        while self._at < part:
            self._at += 1
            session = self._run.drive.parts[self._at].session
            if session is not None:
                self._begin(session)

    def _begin(self, session: RecordedSession) -> None:
        """Another session begins, after the one before if it went on from that."""
        self._host = session.host
        is_last = self._at == len(self._run.drive.parts) - 1
        pipeline = self._last if is_last else Pipeline(self._config, [])
        before, seam = self._current, session.seam
        self._pass_seam()
        if before is None or seam is None:
            pipeline.begin_source(None, session.host, session.sequence, calibration=session.known)
        else:
            pipeline.begin_source(
                None,
                session.host,
                session.sequence,
                calibration=before.calibration,
                after=(before, seam.time_ns),
            )
            before.end_at(seam.time_ns)
            self._tail = before, seam
        self._current = pipeline

    def _pass_seam(self) -> None:
        """Nothing of the session before can come any more."""
        tail, self._tail = self._tail, None
        if tail is not None and self._current is not None:
            self._current.pass_seam()
            tail[0].abort()
