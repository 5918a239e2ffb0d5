"""Finds the recordings to convert, and leaves out those that cannot be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import ConfigError, EdgeFirstError, RecordingError, RecordingNotFound
from edgefirst_ros.hints import hints_of
from edgefirst_ros.naming import readable
from edgefirst_ros.offline.drives import RecordedDrive, find_drives
from edgefirst_ros.sources.mcap import McapRecording, TopicInfo
from edgefirst_ros.topics import TopicMap, choose_reference, find_prefix


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


def find_recordings(paths: Sequence[Path]) -> list[Path]:
    """The recordings of files and folders in the given order; within folders by name, numbers by value.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.mcap"), key=_by_number)
            if not inside:
                raise RecordingNotFound(f"{path}: the folder holds no .mcap files")
            found.extend(inside)
        elif path.exists():
            found.append(path)
        else:
            raise RecordingNotFound(f"{path}: no such recording")
    return found


def open_recordings(paths: Sequence[Path], config: Config) -> Inputs:
    """Open the recordings of files and folders, each file once.

    A recording that cannot be converted, such as one that power loss left empty, is left out and reported,
    unless it was given by its own name, or nothing else is left.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        RecordingError: a file is not a recording, or is empty.
        ConfigError: prefix or reference do not fit a recording.
    """
    named = {path for path in paths if not path.is_dir()}
    inputs = Inputs()
    seen: set[Path] = set()
    refused: list[EdgeFirstError] = []
    recordings: list[McapRecording] = []

    def refuse(path: Path, error: EdgeFirstError) -> None:
        if path in named:
            raise error
        refused.append(error)
        reason = str(error).removeprefix(f"{readable(str(path))}: ")
        inputs.left_out.append(LeftOut(readable(path.name), path.stat().st_size, reason))

    for path in find_recordings(paths):
        if (same := path.resolve()) in seen:
            inputs.notes.append(f"{readable(path.name)}: given twice, converted once")
            continue
        seen.add(same)
        try:
            recordings.append(_open(path))
        except RecordingError as error:
            refuse(path, error)
    for drive in find_drives(recordings):
        try:
            inputs.drives.append((drive, _usable_topics(drive, config)))
            inputs.notes += drive.notes
        except ConfigError as error:
            for part in drive.parts:
                refuse(part.path, error)
    if not inputs.drives:
        raise refused[0]
    return inputs


def _open(path: Path) -> McapRecording:
    recording = McapRecording(path)
    if not recording.topics():
        raise RecordingError(
            f"{path}: holds no topic ({recording.size:,} bytes); the recorder ended before its first data"
        )
    return recording


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


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Sort key: the parts of a name, with numbers by value, so that _2 comes before _12."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]
