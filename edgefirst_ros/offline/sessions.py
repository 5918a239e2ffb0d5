"""Recordings of live sessions: the settings they carry, and those that continue others.

Those before are replayed to restore what such a session took over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.model.errors import ConfigError, RecordingError, RecordingNotFound, StorageUnreachable
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import readable
from edgefirst_ros.offline.drives import RecordedDrive, find_files
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.pipeline.sequencer import SPLIT
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.recording import Recording, open_recording
from edgefirst_ros.sources.session import RESUMED, RecordedSession, resumed_of


@dataclass(frozen=True, slots=True)
class SessionChain:
    """A session's recording, the last part of ``drive``, after those that it continues.

    ``following`` is the recording that continues it; late messages for its last samples are in there.
    """

    drive: RecordedDrive
    following: Recording | None = None
    notes: list[str] = field(default_factory=list)


def find_chain(recording: Recording) -> SessionChain:
    """The recordings in the same folder that this one continues, and the one that continues it."""
    parts, notes = [recording], []
    name = readable(recording.path.name)
    while (session := parts[0].session) is not None and session.seam is not None:
        before = _open(recording.path.with_name(session.after)) if session.after else None
        if before is None or before.path in {part.path for part in parts}:
            notes.append(
                f"{name}: continues {readable(session.after)}, which is not in its folder: the first seconds "
                "may differ from what was captured"
            )
            break
        parts.insert(0, before)
    following = None
    for name_beside in _beside(recording):
        other = _open(recording.path.with_name(name_beside))
        session = None if other is None else other.session
        if session is not None and session.seam is not None and session.after == recording.path.name:
            following = other
    if following is None and recording.goes_on:
        notes.append(
            f"{name}: the recording that continues it is not in its folder: the last seconds may differ "
            "from what was captured"
        )
    if len(parts) > 1:
        notes.append(f"{name}: continues the {len(parts) - 1} before it, which are read first")
    return SessionChain(RecordedDrive(parts), following, notes)


def _beside(recording: Recording) -> list[str]:
    """Names of the recordings in the same folder; of a remote one only those that could continue it."""
    folder = recording.path.parent
    if isinstance(folder, Path):
        return sorted(path.name for path in folder.glob("*.mcap"))
    if not recording.goes_on:
        return []
    files = find_files([f"{folder}/"]).files
    return sorted(file.path.name for file in files if file.path.parent == folder)


def _open(path: Location) -> Recording | None:
    """A recording whose session can be read, None if it is none."""
    try:
        recording = open_recording(path)
        _ = recording.session  # which may be damaged
    except (RecordingError, RecordingNotFound) as error:
        if isinstance(error, StorageUnreachable):
            raise
        return None
    return recording


class ChainReplay:
    """Replays a chain as one run in which a session follows the other, as in the live capture.

    Call ``feed`` with every message of the chain's drive, then ``finish``; ``close`` in any case.

    Args:
        chain: the session and those before.
        pipeline: receives the last session; nothing is written of the others.
    """

    def __init__(self, chain: SessionChain, pipeline: Pipeline) -> None:
        self._chain = chain
        self._last = pipeline
        self._current: Pipeline | None = None
        self._others: list[Pipeline] = []
        self._at = -1
        self._arrival = -1
        self._until_ns: int | None = None
        """The session before the current one needs no message received from then on; None if it has ended."""

    def feed(self, message: RawMessage) -> None:
        """Feed the next message of the drive."""
        self._reach(self._chain.drive.reading)
        self._arrival = message.arrival
        if message.repeated or self._current is None:
            return
        resumed = resumed_of(message) if message.topic == RESUMED else None
        if resumed is not None:
            self._pass_seam()
            self._current.end_source(Reason.PAUSED)
            name, known = resumed
            self._current.begin_source(None, self._chain.drive.parts[self._at].host, name, calibration=known)
            return
        if self._until_ns is not None and message.receive_ns >= self._until_ns:
            self._pass_seam()
        self._current.feed(message)

    def finish(self, proceed: Callable[[], bool]) -> None:
        """Feed late messages from the recording after the last session, while ``proceed`` returns True."""
        self._reach(len(self._chain.drive.parts) - 1)
        self._pass_seam()
        following = self._chain.following
        session = None if following is None else following.session
        if following is None or session is None or session.seam is None:
            return
        self._begin(session, self._other())
        for message in following.messages(self._arrival + 1):
            is_resumed = message.topic == RESUMED and resumed_of(message) is not None
            if is_resumed or message.receive_ns >= session.seam.until_ns or not proceed():
                break
            if not message.repeated and self._current is not None:
                self._current.feed(message)
        self._pass_seam("end of the recording")

    def close(self) -> None:
        """Release what the sessions of which nothing is written have."""
        self._pass_seam()
        for pipeline in self._others:
            pipeline.abort()

    def _other(self) -> Pipeline:
        """A pipeline that writes nothing."""
        self._others.append(Pipeline(self._last.config, [], workers=self._last.workers))
        return self._others[-1]

    def _reach(self, part: int) -> None:
        while self._at < part:
            self._at += 1
            session = self._chain.drive.parts[self._at].session
            if session is not None:
                is_last = self._at == len(self._chain.drive.parts) - 1
                self._begin(session, self._last if is_last else self._other())

    def _begin(self, session: RecordedSession, pipeline: Pipeline) -> None:
        """Begin a session, as a continuation of the one before if it was one."""
        self._pass_seam()
        after, known = None, session.known
        if self._current is not None and session.seam is not None:
            after, known = (self._current, session.seam.time_ns), self._current.calibration
            self._until_ns = session.seam.until_ns
        pipeline.begin_source(None, session.host, session.sequence, calibration=known, after=after)
        self._current = pipeline

    def _pass_seam(self, reason: str = SPLIT) -> None:
        """End the session before the current one, if it has not ended: it needs no more messages."""
        if self._until_ns is not None and self._current is not None:
            self._until_ns = None
            self._current.pass_seam(reason)


LIVE_ONLY = frozenset({"record", "queue_mb", "min_free_mb", "sync_s", "workers", "split_every"})
"""Settings that do not affect what is written for given messages."""


def recorded_settings(places: Sequence[str | Location]) -> tuple[dict[str, Any], str] | None:
    """The settings of the recorded sessions as plain values, and a note about their use.

    None if any of the recordings was made by another program.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        StorageUnreachable: the store of one of them does not answer.
        ConfigError: the sessions had different settings, or settings that this version does not know.
    """
    found: list[tuple[Location, RecordedSession]] = []
    for file in find_files(places).files:
        recording = _open(file.path)
        session = None if recording is None else recording.session
        if session is None:
            return None
        found.append((file.path, session))
    (first, chosen), *others = found
    for path, session in others:
        if _relevant(session.settings) != _relevant(chosen.settings):
            which = f"{readable(first.name)} and {readable(path.name)}"
            remedy = "give --config for all, or convert one after the other"
            raise ConfigError([f"{which} were captured with different settings: {remedy}"])
    try:
        build_config(chosen.settings)
    except ConfigError as error:
        raise ConfigError(
            [
                f"{readable(first.name)}: captured by another version, its settings cannot be used: {fault}; "
                "give --config"
                for fault in error.faults
            ]
        ) from error
    which = readable(first.name) if not others else f"the {len(found)} recordings"
    return dict(chosen.settings), f"settings from {which}, as captured; --config overrides them"


def is_as_captured(session: RecordedSession, config: Config) -> bool:
    """Whether topics are configured as in the session, so that its initial calibration is valid."""
    try:
        captured = build_config(session.settings)
    except ConfigError:
        return False
    return (captured.topics, captured.prefix, captured.reference) == (
        config.topics,
        config.prefix,
        config.reference,
    )


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in LIVE_ONLY}
