"""What a run has to do: drives × the settings of their conversion, less those that notes say are done."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config, chosen_config
from edgefirst_ros.fleet.notes import BEGUN, DONE, FAILED, Key, Notes
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.model.untrusted import readable, safe_name
from edgefirst_ros.offline.drives import NUMBERED
from edgefirst_ros.offline.inputs import DriveFiles, find_drive_files
from edgefirst_ros.offline.naming import top_of
from edgefirst_ros.sources.location import Location, Url, location_of
from edgefirst_ros.sources.recording import Excerpt, device_host

_UNUSED_FOR_OUTPUT = {"workers", "queue_mb", "min_free_mb", "sync_s", "record", "decoder"}
"""Settings on which the bytes of a dataset do not depend."""


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

    @property
    def hash(self) -> str:
        """Of everything that decides what is written for given files."""
        config = self.config().model_dump(mode="json", exclude=_UNUSED_FOR_OUTPUT)
        part = None if self.excerpt is None else asdict(self.excerpt)
        return _hash([self.values is None, self.version, part, config])


@dataclass(frozen=True, slots=True)
class Drive:
    """A drive of a plan.

    Attributes:
        name: of the folder with its datasets.
        key: what they are made from.
        places: its files, as paths or URLs.
        size: bytes of all files.
        earlier: keys of other notes on it, which a conversion replaces.
    """

    name: str
    key: Key
    places: tuple[str, ...]
    size: int
    earlier: tuple[Key, ...] = ()

    @property
    def change(self) -> str:
        """Why it is converted again, in a few words; empty if it never was."""
        return self.key.changed_from(self.earlier[-1]) if self.earlier else ""


@dataclass(slots=True)
class Plan:
    """The drives of a run by what has to be done, and notes on what was left out.

    ``refused`` are those whose folder holds something that no note knows.
    """

    work: list[Drive] = field(default_factory=list)
    done: list[Drive] = field(default_factory=list)
    failed: list[Drive] = field(default_factory=list)
    refused: list[Drive] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def drives(self) -> list[Drive]:
        """All of them."""
        return [*self.work, *self.done, *self.failed, *self.refused]


def make_plan(
    inputs: Sequence[str | Location],
    settings: Settings,
    output: Output,
    *,
    retry_failed: bool = False,
    redo: bool = False,
) -> Plan:
    """Compare the drives in files, folders and URLs with the notes of an output.

    A drive is named by its place below the input, as ``monday-bag``; of several files by what their names
    have in common. It keeps a name that notes give it; if two have one, their hash is added.

    Args:
        inputs: paths, URLs and patterns.
        settings: how they are to be converted.
        output: where to.
        retry_failed: drives that failed before are tried again.
        redo: all are converted, whatever is there.

    Raises:
        RecordingNotFound: an input does not exist, or holds no recordings.
        RecordingError: a store cannot be listed.
        ConfigError: a URL that cannot be read, or settings that are invalid.
        OSError: the storage of the output does not answer.
    """
    places = [place if isinstance(place, Url) else place.absolute() for place in map(location_of, inputs)]
    found, hashed, notes = find_drive_files(places), settings.hash, Notes(output)
    done, failed, begun = (notes.list_keys(kind) for kind in (DONE, FAILED, BEGUN))
    known: dict[str, list[Key]] = {}
    for each in (failed, begun, done):
        for name, keys in each.items():
            known.setdefault(name, []).extend(keys)
    there = output.list_drives()
    plan = Plan(notes=[found.note] if found.note else [])
    for name, key, files in _named(found.drives, hashed, places, known):
        earlier = tuple(dict.fromkeys(each for each in known.get(name, ()) if each != key))
        drive = Drive(name, key, tuple(str(part.path) for part in files.parts), files.size, earlier)
        if key in done.get(name, ()) and not redo:
            plan.done.append(drive)
        elif key in failed.get(name, ()) and not (redo or retry_failed):
            plan.failed.append(drive)
        elif name in there and name not in known and not redo:
            plan.refused.append(drive)
        else:
            plan.work.append(drive)
    return plan


def _named(
    drives: Sequence[DriveFiles], settings: str, places: Sequence[Location], known: Mapping[str, list[Key]]
) -> list[tuple[str, Key, DriveFiles]]:
    """The drives with their keys, and with names that no other one has, in this run or in notes."""
    tops = list(dict.fromkeys(map(top_of, places)))
    wished = [safe_name(readable(_place(drive, tops)), "drive") for drive in drives]
    count = Counter(wished)
    own = {key.drive: name for name, keys in known.items() for key in keys}
    named = []
    for wish, drive in zip(wished, drives, strict=True):
        uris, states = zip(*((str(p.path), (p.size, p.version)) for p in drive.parts), strict=True)
        key = Key(_hash(uris), _hash(states), settings)
        name = wish if count[wish] == 1 and wish not in known else f"{wish}-{key.drive[:8]}"
        named.append((own.get(key.drive, name), key, drive))
    return named


def _place(drive: DriveFiles, tops: Sequence[Location]) -> str:
    """The place of a drive below one of the inputs, without endings."""
    first = drive.parts[0].path
    name = first.stem
    if len(drive.parts) > 1 and device_host(name) is None and (numbered := NUMBERED.fullmatch(name)):
        name = numbered["drive"]
    folders = max((_below(first.parent, top) for top in tops), key=len)
    return "/".join(folders if folders and folders[-1] == name else [*folders, name])


def _below(folder: Location, top: Location) -> list[str]:
    """The names of the folders from ``top`` down to this one; none if it is elsewhere."""
    if isinstance(folder, Path):
        is_below = isinstance(top, Path) and folder.is_relative_to(top)
        return list(folder.relative_to(top).parts) if is_below else []  # type: ignore[arg-type]
    head = f"{top}/"
    return str(folder)[len(head) :].split("/") if str(folder).startswith(head) else []


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def fleet_status(output: Output) -> dict[str, Any]:
    """How far an output is, by its notes: which drives are done, begun, failed (and why) or left.

    A drive that was begun is being converted, or its process was killed.

    Raises:
        OSError: the storage does not answer.
    """
    notes = Notes(output)
    planned, done, begun = notes.read_plan(), notes.list_keys(DONE), notes.list_keys(BEGUN)
    failed = notes.read_notes(FAILED)
    complete = {name for name, keys in done.items() if planned.get(name, str(keys[0])) in map(str, keys)}
    return {
        "done": sorted(complete),
        "begun": sorted(begun.keys() - complete),
        "failed": [{"drive": name, "reason": failed[name]["reason"]} for name in sorted(failed)],
        "left": sorted(planned.keys() - complete - begun.keys() - failed.keys()),
    }
