"""Units of work for many recordings: drives with their files, found without reading more than is needed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgefirst_ros.offline.drives import NUMBERED, find_drives, listed_files
from edgefirst_ros.offline.files import InputFile, find_files
from edgefirst_ros.offline.inputs import open_all
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.recording import Recording, device_host


@dataclass(frozen=True, slots=True)
class DriveFiles:
    """One drive: its files in order, all of them to be converted together."""

    parts: tuple[InputFile, ...]
    notes: tuple[str, ...] = ()
    """Why they are one drive, and which files are missing."""

    @property
    def name(self) -> str:
        """Stem of the first file."""
        return self.parts[0].path.stem

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

    Only files that may belong together by their names are opened. A file that cannot be opened is a drive of
    its own, so that converting it says why.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        RecordingError: a store cannot be listed.
        ConfigError: a URL that cannot be read.
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    found = find_files(places, sized=True)
    files = {file.path: file for file in reversed(found.files)}
    order = {file.path: number for number, file in enumerate(found.files)}
    together = _may_belong_together(files)
    opened = [each for each in open_all(together) if isinstance(each, Recording)]
    drives = [
        DriveFiles(tuple(files.pop(part.path) for part in drive.parts), tuple(drive.notes))
        for drive in find_drives(opened)
    ]
    drives += [DriveFiles((file,)) for file in files.values()]
    drives.sort(key=lambda drive: min(order[part.path] for part in drive.parts))
    return FoundDrives(drives, found.left_out, found.note)


def _may_belong_together(paths: Iterable[Location]) -> list[Location]:
    """Files with others of the same folder that are numbered, dated or listed with them."""
    folders: dict[Location, list[Location]] = defaultdict(list)
    for path in paths:
        folders[path.parent].append(path)
    several: list[Location] = []
    for folder, inside in folders.items():
        if len(inside) == 1:
            continue
        listed = set(listed_files(folder))
        groups: dict[tuple[str, str], list[Location]] = defaultdict(list)
        for path in inside:
            numbered = NUMBERED.fullmatch(path.stem)
            host = device_host(path.stem)
            if path.name in listed:
                groups["listed", ""].append(path)
            elif host is not None:
                groups["host", host].append(path)
            elif numbered is not None:
                groups["numbered", numbered["drive"]].append(path)
        several += [path for group in groups.values() if len(group) > 1 for path in group]
    return several
