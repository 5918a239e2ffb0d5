"""Finds the recordings to convert, and leaves out those that cannot be.

Units of work for many recordings: drives with their files, found without reading more than is needed.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from edgefirst_ros.config.hints import absences, devices_of
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import TopicMap, choose_reference, find_prefix
from edgefirst_ros.model import errors
from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.model.untrusted import readable
from edgefirst_ros.offline.drives import (
    NUMBERED,
    FoundFiles,
    RecordedDrive,
    extent_ns,
    find_drives,
    find_files,
    listed_files,
)
from edgefirst_ros.offline.naming import AT_ONCE, InputFile
from edgefirst_ros.sources.location import Location, Url
from edgefirst_ros.sources.recording import Excerpt, Recording, TopicInfo, device_host, open_recording
from edgefirst_ros.sources.remote import begin
from edgefirst_ros.sources.scratch import PACKED

if TYPE_CHECKING:
    from edgefirst_ros.sources.suggest import Look, Suggestion

SUGGEST = "edgefirst-ros suggest makes a configuration of what is there"


Places: TypeAlias = Sequence[str | Location] | RecordedDrive
"""Files, folders and URLs of recordings, or a drive that is open already."""


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


def open_recordings(places: Places, config: Config, excerpt: Excerpt | None = None) -> Inputs:
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
    if not isinstance(places, RecordedDrive):
        return _open_places(places, config, excerpt)
    if excerpt is not None and not places.restrict(excerpt):
        raise nothing_between(places)
    return Inputs([(places, _usable_topics(places, config))], notes=[*places.notes])


def _open_places(places: Sequence[str | Location], config: Config, excerpt: Excerpt | None) -> Inputs:
    """What ``open_recordings`` opens of places."""
    inputs = Inputs()
    refused: list[errors.EdgeFirstError] = []
    given = {file.path: file for file in _once(find_files(places), inputs.notes)}

    def refuse(path: Location, error: errors.EdgeFirstError) -> None:
        file = given.get(path) or given[path.with_name(path.name + PACKED)]
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
            drive.follow_clock()
            inputs.notes += drive.notes
        except errors.ConfigError as error:
            for part in drive.parts:
                refuse(part.path, error)
    if not inputs.drives:
        raise refused[0]
    return inputs


def suggested(places: Sequence[str | Location], config: Config) -> Suggestion | None:
    """A configuration for recordings of which this one can use nothing, or one device of several.

    None if it can use them, or none can be read.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        StorageUnreachable: the store of one of them does not answer.
        ConfigError: nothing in them can be used by any configuration.
    """
    found = open_all({file.path: file for file in find_files(places).files})
    if away := [each for each in found if isinstance(each, errors.StorageUnreachable)]:
        raise away[0]
    recordings = [each for each in found if isinstance(each, Recording)]
    if any(is_foreign(drive.topics(), config) for drive in find_drives(recordings)):
        name = readable(recordings[0].path.name) + f" and {len(recordings) - 1} more" * (len(recordings) > 1)
        from edgefirst_ros.sources.suggest import look_at  # noqa: PLC0415 - a device's own names need none

        return look_at(recordings).suggestion(name, config.prefix)
    return None


def is_foreign(topics: Collection[tuple[str, str]], config: Config) -> bool:
    """Whether a configuration can use nothing of these (topic, type), or one device of several."""
    names = [topic for topic, _ in topics]
    try:
        choose_reference(config, names, TopicMap(config, find_prefix(names, config), topics))
    except errors.ConfigError:
        return True
    return config.prefix is None and bool(devices_of(topics))


def suggestion_of(look: Look, config: Config) -> Suggestion | None:
    """A configuration for what is heard, where ``suggested`` would make one of its recording."""
    if is_foreign([(seen.topic, seen.type) for seen in look.topics.values()], config):
        with suppress(errors.ConfigError):
            return look.suggestion("what was heard", config.prefix)
    return None


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


def open_all(paths: Collection[Location]) -> list[Recording | errors.EdgeFirstError]:
    """The recordings of files, or why they cannot be read; remote ones are opened side by side.

    Raises:
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    found: dict[Location, Recording | errors.EdgeFirstError]
    found = {path: _open(path) for path in paths if not isinstance(path, Url)}
    remote = [path for path in paths if isinstance(path, Url)]
    for first in range(0, len(remote), AT_ONCE):
        begun = [(path, begin(partial(_open, path))) for path in remote[first : first + AT_ONCE]]
        found.update((path, future.result()) for path, future in begun)
    return [found[path] for path in paths]


def opened(places: Sequence[str]) -> list[Recording]:
    """All recordings at some places.

    Raises:
        EdgeFirstError: why the first of those cannot be read that cannot.
    """
    found = open_all([file.path for file in find_files(places).files])
    for error in (each for each in found if isinstance(each, errors.EdgeFirstError)):
        raise error
    return [each for each in found if isinstance(each, Recording)]


def _open(path: Location) -> Recording | errors.EdgeFirstError:
    try:
        recording = open_recording(path)
        if recording.topics():
            return recording
        # What is damaged is known when all is read.
        deque(recording.messages(), maxlen=0)
    except (errors.RecordingError, errors.RecordingNotFound) as error:
        return error
    why = recording.faults[0].text if recording.faults else "the recorder ended before its first data"
    return errors.RecordingError(f"{path}: holds no topic ({recording.size:,} bytes): {why}")


def nothing_between(drive: RecordedDrive) -> errors.RecordingError:
    """The error of a drive of which nothing is in the excerpt; says when it was recorded."""
    recorded = "it holds no message"
    if drive.spans:
        first, last = (datetime.fromtimestamp(ns // 10**9, UTC) for ns in extent_ns(drive.parts))
        recorded = f"it was recorded from {first:%Y-%m-%dT%H:%M:%S} to {last:%Y-%m-%dT%H:%M:%S} UTC"
    name = readable(drive.path.name)
    return errors.RecordingError(f"{name}: nothing in it is between --start and --end; {recorded}")


def _usable_topics(drive: RecordedDrive, config: Config) -> list[TopicInfo]:
    topics = drive.topics()
    names = [t.topic for t in topics]
    try:
        routes = TopicMap(config, find_prefix(names, config), topics)
        choose_reference(config, names, routes)
    except errors.ConfigError as error:
        accounts = {t.topic: {"type": t.schema, "received": 1, "refused": 0} for t in topics}
        found = absences(config, TopicMap(config, config.prefix or "", topics), accounts)
        hints = [h.text for h in found if h.severity is Severity.ERROR and h.topics[1:]] + [SUGGEST]
        faults = [f"{readable(str(drive.path))}: {'; '.join([fault, *hints])}" for fault in error.faults]
        raise errors.ConfigError(faults) from error
    return topics


@dataclass(frozen=True, slots=True)
class DriveFiles:
    """One drive: its files in order, all of them to be converted together."""

    parts: tuple[InputFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(part.size for part in self.parts)


@dataclass(slots=True)
class FoundDrives:
    """Drives in the order of what was given; files that are no recordings, by reason."""

    drives: list[DriveFiles] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    note: str = ""
    """A sentence on ``left_out``; empty if nothing was."""


def find_drive_files(places: Sequence[str | Location]) -> FoundDrives:
    """The drives in files, folders and URLs, each file once.

    Only files that may belong together by their names, times and sizes are opened. A file that cannot be
    opened is a drive of its own, so that converting it says why.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        RecordingError: a store cannot be listed.
        ConfigError: a URL that cannot be read.
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    found = find_files(places, sized=True)
    files = {str(file.path): file for file in found.files}
    opened = open_all(_may_belong_together(files.values(), found.bare))
    joined = find_drives([each for each in opened if isinstance(each, Recording)], found.bare)
    several = {str(part.path): drive for drive in joined for part in drive.parts}
    drives: list[DriveFiles] = []
    for text, file in files.items():
        if (drive := several.get(text)) is None:
            drives.append(DriveFiles((file,)))
        elif drive.parts:
            drives.append(DriveFiles(tuple(files[str(p.path)] for p in drive.parts)))
            drive.parts = ()  # its other files are in it
    return FoundDrives(drives, found.left_out, found.note)


def _may_belong_together(files: Iterable[InputFile], bare: Collection[Location]) -> list[Location]:
    """Files with others of the same folder that are numbered, dated or listed with them, or near at hand."""
    folders: dict[str, list[InputFile]] = defaultdict(list)
    for file in files:
        folders[str(file.path)[: -len(file.path.name)]].append(file)
    several: list[Location] = []
    for inside in folders.values():
        if len(inside) == 1:
            continue
        folder = inside[0].path.parent
        listed = set() if folder in bare else set(listed_files(folder))
        alike: dict[str, list[Location]] = defaultdict(list)
        for path in (file.path for file in inside):
            if path.name in listed or isinstance(path, Path):
                several.append(path)
            elif (host := device_host(path.stem)) is not None:
                alike[f"/{host}"].append(path)
            elif (numbered := NUMBERED.fullmatch(path.stem)) is not None:
                alike[numbered["drive"]].append(path)
        several += [path for group in alike.values() if len(group) > 1 for path in group]
    return several
