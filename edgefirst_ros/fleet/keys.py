"""The drives of a fleet, and the keys that tell whether one of them has to be converted again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config, chosen_config
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.untrusted import readable, safe_name
from edgefirst_ros.offline.drives import NUMBERED
from edgefirst_ros.offline.inputs import DriveFiles, find_drive_files
from edgefirst_ros.offline.naming import top_of
from edgefirst_ros.sources.location import Location, Url, location_of
from edgefirst_ros.sources.recording import Excerpt, device_host

_DIGITS = 16
_UNUSED_FOR_OUTPUT = frozenset({"workers", "queue_mb", "min_free_mb", "sync_s", "record", "decoder"})
"""Settings on which the bytes of a dataset do not depend."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a drive: path or URL, size in bytes, and ETag or time of its last change."""

    uri: str
    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class FleetDrive:
    """The files of one drive, and the name that its output is to have."""

    name: str
    files: tuple[InputFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def described(self) -> list[dict[str, Any]]:
        """The files as plain values, for notes."""
        return [asdict(file) for file in self.files]


@dataclass(frozen=True, slots=True)
class Settings:
    """How drives are converted, as plain values that can be sent to other machines.

    Attributes:
        values: of the configuration file; None without one, then a recorded session's own settings are used.
        chosen: single settings that win over ``values``; None means not given.
        version: of this package, which all workers must have.
        excerpt: the part of every drive that is converted; None for all.
        page: make the page of every report; not part of the key.
    """

    values: Mapping[str, Any] | None
    chosen: Mapping[str, Any]
    version: str
    excerpt: Excerpt | None = None
    page: bool = True

    def config(self, recorded: Mapping[str, Any] | None = None) -> Config:
        """The configuration; ``recorded`` are the settings of a live session.

        Raises:
            ConfigError: with one sentence for every fault.
        """
        values = recorded or {} if self.values is None else self.values
        return chosen_config(values, self.chosen)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a dataset was made from, as three hashes of which any may change.

    Attributes:
        drive: of the paths or URLs of the files.
        state: of their sizes and ETags or times.
        settings: of the configuration and the version of this package.
    """

    drive: str
    state: str
    settings: str

    def __str__(self) -> str:
        return f"{self.drive}-{self.state}-{self.settings}"

    @classmethod
    def parse(cls, text: str) -> Key | None:
        """The key that ``str`` made this text of; None if it is none."""
        parts = text.split("-")
        return cls(*parts) if len(parts) == 3 and all(len(part) == _DIGITS for part in parts) else None

    def changed(self, earlier: Key) -> str:
        """What differs from an earlier key of the same drive, in a few words."""
        found = ["its files"] if self.state != earlier.state else []
        found += ["configuration or version"] if self.settings != earlier.settings else []
        return " and ".join(found)


def settings_hash(settings: Settings) -> str:
    """The hash of everything that decides what is written for given files."""
    config = settings.config().model_dump(mode="json", exclude=set(_UNUSED_FOR_OUTPUT))
    part = None if settings.excerpt is None else asdict(settings.excerpt)
    own = {"recorded": settings.values is None, "version": settings.version, "excerpt": part}
    return _hash({**own, "config": config})


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several equal parts of a fleet's drives, the same whatever other drives there are."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """That of a text such as ``3/20``; numbers may begin at 0 or at 1, as those of Slurm's arrays.

        Raises:
            ConfigError: it is none.
        """
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and 0 <= int(number) <= int(count) > 0):
            raise ConfigError([f"--shard {text}: expected I/N, the I-th of N parts, such as 3/20"])
        return cls(int(number), int(count))

    def has(self, key: Key) -> bool:
        """Whether a drive is in this part."""
        return int(key.drive, 16) % self.count == self.number % self.count


def key_of(drive: FleetDrive, settings: str) -> Key:
    """The key of a drive; ``settings`` as ``settings_hash`` returns it."""
    return Key(
        _hash([file.uri for file in drive.files]),
        _hash([[file.size, file.tag] for file in drive.files]),
        settings,
    )


def unique_names(
    drives: Sequence[tuple[FleetDrive, Key]],
    among: Iterable[FleetDrive],
    known: Mapping[str, str],
    taken: Collection[str],
) -> Iterator[str]:
    """A name for the output of each drive that no other one has, valid as a file name.

    Args:
        drives: with the names that they would like.
        among: all of the run, these included.
        known: names that some of them have already, by ``Key.drive``.
        taken: names that any drive has.
    """
    count = Counter(safe_name(drive.name, "drive") for drive in among) if drives else Counter[str]()
    for drive, key in drives:
        name = safe_name(drive.name, "drive")
        is_free = count[name] == 1 and name not in taken
        yield known.get(key.drive) or (name if is_free else f"{name}-{key.drive[:8]}")


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=True, default=str)


def _hash(value: object) -> str:
    return hashlib.sha256(_ENCODER.encode(value).encode()).hexdigest()[:_DIGITS]


def discover(inputs: Sequence[str | Location]) -> tuple[list[FleetDrive], list[str]]:
    """All drives of files, folders and URLs, and notes on what was left out.

    A drive is named by its place below the input, as ``monday/bag``; of several files by what their names
    have in common.

    Raises:
        RecordingNotFound: an input does not exist, or holds no recordings.
        RecordingError: a store cannot be listed.
        ConfigError: a URL that cannot be read.
    """
    places = [place if isinstance(place, Url) else place.absolute() for place in map(location_of, inputs)]
    found = find_drive_files(places)
    tops = list(dict.fromkeys(top_of(place) for place in places))
    folders: dict[str, list[str]] = {}
    drives: list[FleetDrive] = []
    found.drives.reverse()
    while found.drives:  # two lists of 50,000 would be twice the memory
        drive = found.drives.pop()
        files = tuple(InputFile(str(part.path), part.size, part.version) for part in drive.parts)
        drives.append(FleetDrive(readable(_name(drive, tops, folders)), files))
    return drives, [found.note] if found.note else []


def _name(drive: DriveFiles, tops: Sequence[Location], known: dict[str, list[str]]) -> str:
    """The place of a drive; ``known`` keeps those of folders, of which there are fewer."""
    first = drive.parts[0].path
    name = first.stem
    if len(drive.parts) > 1 and device_host(name) is None and (numbered := NUMBERED.fullmatch(name)):
        name = numbered["drive"]
    folder = str(first)[: -len(first.name)]
    if (folders := known.get(folder)) is None:
        folders = known[folder] = max((_below(first.parent, top) for top in tops), key=len)
    return "/".join(folders if folders and folders[-1] == name else [*folders, name])


def _below(folder: Location, top: Location) -> list[str]:
    """The names of the folders from ``top`` down to this one; none if it is elsewhere."""
    if isinstance(folder, Path):
        is_below = isinstance(top, Path) and folder.is_relative_to(top)
        return list(folder.relative_to(top).parts) if is_below else []  # type: ignore[arg-type]
    head = f"{top}/"
    return str(folder)[len(head) :].split("/") if str(folder).startswith(head) else []
