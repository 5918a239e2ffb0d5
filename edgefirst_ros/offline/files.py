"""Finds the files of recordings in folders and object stores."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from edgefirst_ros.errors import RecordingNotFound
from edgefirst_ros.naming import REPORT
from edgefirst_ros.sources.kinds import SUFFIXES
from edgefirst_ros.sources.location import Location, Url, location_of

METADATA = "metadata.yaml"
"""Beside the files of a rosbag2 recording; lists them."""
HIDDEN = "hidden"
UNFINISHED = "unfinished (.part)"
COMPRESSED = "compressed as a whole (.zstd), to be decompressed first"
FOREIGN = "of other kinds"
LINKED = "links to folders"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a recording.

    Attributes:
        path: where it is.
        size: its bytes; -1 if it was named and not looked at.
        version: changes with its content: the ETag, or the time of its last change in nanoseconds.
        named: whether it was given by its own name, not found in a folder.
    """

    path: Location
    size: int
    version: str
    named: bool = False


@dataclass(slots=True)
class FoundFiles:
    """Files in the order of what was given, and how many others were left out, by reason."""

    files: list[InputFile] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def note(self) -> str:
        """A sentence on the files left out, empty if there are none."""
        if not self.left_out:
            return ""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.left_out.items()))
        return f"left unread in the folders given: {reasons}"


def find_files(places: Sequence[str | Location], *, sized: bool = False) -> FoundFiles:
    """The recordings of files, folders and URLs in the given order; folders and prefixes with all below.

    Within a folder they are sorted by name, numbers by value; its own files come before those of folders in
    it. A URL with the ending of a recording is a file, any other one a prefix.

    Args:
        places: paths and URLs.
        sized: find out the size and version of objects that are named, too, by a request for each.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        RecordingError: a store cannot be listed.
        ConfigError: a URL that cannot be read.
    """
    found = FoundFiles()
    for place in map(location_of, places):
        before = len(found.files)
        if isinstance(place, Url):
            found.files += _remote(place, found.left_out, sized=sized)
        else:
            found.files += _local(place, found.left_out)
        if len(found.files) == before:
            raise RecordingNotFound(
                f"{place}: holds no recordings ({', '.join(SUFFIXES)})"
                + (f"; {found.note}" if found.left_out else "")
            )
    return found


def is_recording(name: str) -> bool:
    """Whether the name of a file is that of a recording."""
    return name.lower().endswith(SUFFIXES)


def _local(place: Path, left_out: Counter[str]) -> Iterator[InputFile]:
    if not place.is_dir():
        if not place.exists():
            raise RecordingNotFound(f"{place}: no such recording")
        yield _stat(place, named=True)
        return
    for top, folders, names in os.walk(place):
        folders.sort(key=by_number)
        for name in list(folders):
            if name.startswith(".") or (Path(top) / name).is_symlink():
                folders.remove(name)
                left_out[HIDDEN if name.startswith(".") else LINKED] += 1
        for name in sorted(names, key=by_number):
            if (reason := _foreign(name)) is None:
                yield _stat(Path(top) / name)
            elif reason:
                left_out[reason] += 1


def _stat(path: Path, *, named: bool = False) -> InputFile:
    try:
        status = path.stat()
    except OSError:  # a dangling link; opening it says so
        return InputFile(path, 0, "", named)
    return InputFile(path, status.st_size, str(status.st_mtime_ns), named)


def _remote(place: Url, left_out: Counter[str], *, sized: bool) -> Iterator[InputFile]:
    from edgefirst_ros.sources.remote import ObjectVersion, list_objects, read_version  # noqa: PLC0415

    if is_recording(place.name):
        version = read_version(place) if sized else ObjectVersion(-1, "")
        yield InputFile(place, version.size, version.tag, named=True)
        return
    files: list[InputFile] = []
    for each in list_objects(place):
        below = PurePosixPath(each.url.key[len(place.key) :].strip("/"))
        hidden = any(part.startswith(".") for part in below.parts)
        reason = HIDDEN if hidden else _foreign(each.url.name)
        if reason is None:
            files.append(InputFile(each.url, each.version.size, each.version.tag))
        elif reason and (
            each.version.size or reason != FOREIGN
        ):  # consoles make empty objects in the place of folders
            left_out[reason] += 1
    yield from sorted(files, key=lambda file: _depth_first(str(file.path)))


def _depth_first(path: str) -> list[tuple[int, list[tuple[int, str]]]]:
    """Sort key: the files of a folder before those in its folders."""
    *folders, name = path.split("/")
    return [*((1, by_number(folder)) for folder in folders), (0, by_number(name))]


def _foreign(name: str) -> str | None:
    """Why a file is no recording, None if it is one; empty if it belongs to one."""
    if name.startswith("."):
        return HIDDEN
    if name.endswith(".part"):
        return UNFINISHED
    if is_recording(name):
        return None
    if name.endswith(".zstd") and is_recording(name.removesuffix(".zstd")):
        return COMPRESSED
    return "" if name == METADATA or name.endswith((".truth.json", REPORT)) else FOREIGN


def by_number(name: str) -> list[tuple[int, str]]:
    """Sort key: the parts of a name, with numbers by value, so that _2 comes before _12."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
