"""Finds the recordings to convert, and leaves out those that cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import ConfigError, EdgeFirstError, RecordingError, RecordingNotFound
from edgefirst_ros.hints import hints_of
from edgefirst_ros.naming import readable
from edgefirst_ros.offline.drives import RecordedDrive, find_drives
from edgefirst_ros.offline.files import FoundFiles, InputFile, find_files
from edgefirst_ros.sources.kinds import open_recording
from edgefirst_ros.sources.location import Location, Url
from edgefirst_ros.sources.recording import Recording, TopicInfo
from edgefirst_ros.sources.window import Excerpt
from edgefirst_ros.topics import TopicMap, choose_reference, find_prefix

MOST_REQUESTS = 16
"""Remote files that are opened at a time."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A recording in a folder that cannot be converted, and why."""

    file: str
    bytes: int
    reason: str

    @property
    def text(self) -> str:
        """One sentence for people."""
        return f"{self.file}: left out: {self.reason}"


@dataclass(slots=True)
class Inputs:
    """The drives in order, each with its topics; recordings that were left out; notes for the report."""

    drives: list[tuple[RecordedDrive, list[TopicInfo]]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def open_recordings(
    places: Sequence[str | Location], config: Config, excerpt: Excerpt | None = None
) -> Inputs:
    """Open the recordings of files, folders and URLs, each file once.

    A recording that cannot be converted, such as one that power loss left empty, is left out and reported,
    unless it was given by its own name, or nothing else is left. Drives without anything of the excerpt are
    left out and noted.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        RecordingError: a file is not a recording, or is empty, or nothing is of the excerpt.
        ConfigError: prefix or reference do not fit a recording, or a URL cannot be read.
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    inputs = Inputs()
    refused: list[EdgeFirstError] = []
    given = {file.path: file for file in _once(find_files(places), inputs.notes)}

    def refuse(path: Location, error: EdgeFirstError) -> None:
        file = given[path]
        if file.named:
            raise error
        refused.append(error)
        reason = str(error).removeprefix(f"{readable(str(path))}: ")
        inputs.left_out.append(LeftOut(readable(path.name), file.size, reason))

    recordings: list[Recording] = []
    for path, opened in zip(given, open_all(given), strict=True):
        if isinstance(opened, Recording):
            recordings.append(opened)
        else:
            refuse(path, opened)
    for drive in find_drives(recordings):
        try:
            if excerpt is not None and not drive.restrict(excerpt):
                refused.append(nothing_between(drive))
                inputs.notes.append(str(refused[-1]))
                continue
            inputs.drives.append((drive, _usable_topics(drive, config)))
            inputs.notes += drive.notes
        except ConfigError as error:
            for part in drive.parts:
                refuse(part.path, error)
    if not inputs.drives:
        raise refused[0]
    return inputs


def _once(found: FoundFiles, notes: list[str]) -> Iterable[InputFile]:
    """Every file once, with notes on the others."""
    notes += [found.note] if found.note else []
    files: dict[Location, InputFile] = {}
    for file in found.files:
        same = file.path.resolve() if isinstance(file.path, Path) else file.path
        if same in files:
            notes.append(f"{readable(file.path.name)}: given twice, converted once")
        else:
            files[same] = file
    return files.values()


def open_all(paths: Collection[Location]) -> list[Recording | EdgeFirstError]:
    """The recordings of files, or why they cannot be read; remote ones are opened side by side.

    Raises:
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    pool = ThreadPoolExecutor(MOST_REQUESTS)
    try:
        remote = {path: pool.submit(_open, path) for path in paths if isinstance(path, Url)}
        return [remote[path].result() if path in remote else _open(path) for path in paths]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _open(path: Location) -> Recording | EdgeFirstError:
    try:
        recording = open_recording(path)
        if recording.topics():
            return recording
    except (RecordingError, RecordingNotFound) as error:
        return error
    return RecordingError(
        f"{path}: holds no topic ({recording.size:,} bytes); the recorder ended before its first data"
    )


def nothing_between(drive: RecordedDrive) -> RecordingError:
    """The error of a drive of which nothing is in the excerpt; says when it was recorded."""
    recorded = "it holds no message"
    if spans := drive.spans:
        first_ns, last_ns = min(first for first, _ in spans), max(last for _, last in spans)
        first, last = (datetime.fromtimestamp(ns // 10**9, UTC) for ns in (first_ns, last_ns))
        recorded = f"it was recorded from {first:%Y-%m-%dT%H:%M:%S} to {last:%Y-%m-%dT%H:%M:%S} UTC"
    name = readable(drive.path.name)
    return RecordingError(f"{name}: nothing in it is between --start and --end; {recorded}")


def _usable_topics(drive: RecordedDrive, config: Config) -> list[TopicInfo]:
    topics = drive.topics()
    names = [t.topic for t in topics]
    try:
        routes = TopicMap(config, find_prefix(names, config), topics)
        choose_reference(config, names, routes)
    except ConfigError as error:
        accounts = {t.topic: {"type": t.schema, "received": 1, "refused": 0} for t in topics}
        found = hints_of(config, TopicMap(config, config.prefix or "", topics), accounts)
        hints = [hint.text for hint in found if hint.is_reference]
        faults = [f"{readable(str(drive.path))}: {'; '.join([fault, *hints])}" for fault in error.faults]
        raise ConfigError(faults) from error
    return topics
