"""Recordings that the devices of one rig made apart, joined to one drive on the clock of the first."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import find_prefix
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import readable
from edgefirst_ros.offline.drives import RecordedDrive, find_drives, find_files
from edgefirst_ros.offline.hostclocks import Compared, compared, hear
from edgefirst_ros.offline.inputs import open_all
from edgefirst_ros.sources.device import DeviceRecording, Shift
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.recording import Excerpt, InFull, Recording
from edgefirst_ros.sources.suggest import Look, look_at

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
DOUBT_S = 0.01
"""Clocks that are known less well than this put what passes at 10 m/s elsewhere by more than a decimetre."""


@dataclass(slots=True)
class JoinedDrive(RecordedDrive):
    """The recordings of several devices, read side by side in order of receipt on the rig's clock."""

    devices: Sequence[RecordedDrive] = ()

    @property
    def position(self) -> int:
        """Bytes read so far, for progress."""
        return sum(device.position for device in self.devices)

    def restrict(self, excerpt: Excerpt) -> bool:
        """Read only a part of each; returns whether there is anything of it."""
        found = RecordedDrive.restrict(self, excerpt)
        for device in self.devices:
            device.window = self.window
        return found

    def latched(self, topics: Collection[str]) -> list[RawMessage]:
        """Messages of these topics from before the window, of every device."""
        return [message for device in self.devices for message in device.latched(topics)]

    def messages(self, in_full: InFull | None = None) -> Iterator[RawMessage]:
        """All messages in order of receipt."""
        streams = (device.messages(in_full) for device in self.devices)
        merged = heapq.merge(*streams, key=lambda message: message.receive_ns)
        for number, message in enumerate(merged):
            yield message._replace(arrival=number)


@dataclass
class Rig:
    """The devices of a rig by name; the first has its clock. ``offsets_s`` are what is known of others'."""

    devices: Mapping[str, RecordedDrive]
    offsets_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def parts(self) -> list[DeviceRecording]:
        """The files of all devices."""
        parts = (part for device in self.devices.values() for part in device.parts)
        return [part for part in parts if isinstance(part, DeviceRecording)]

    @cached_property
    def drive(self) -> JoinedDrive:
        """All of them as one drive; its notes say what was found of each clock.

        Raises:
            ConfigError: a clock cannot be compared with the first one; says what to give.
            RecordingError: a file cannot be read, or has nothing in common with the first.
        """
        heard = {name: hear(device) for name, device in self.devices.items()}
        first, *others = heard
        notes = [note for device in self.devices.values() for note in device.notes]
        drive = JoinedDrive(self.parts, notes, devices=[*self.devices.values()])
        drive.notes.append(f"{first}: {_files(self.devices[first])}; the rig has its clock")
        found = {first: Compared(Shift(), 0.0, "", "")}
        for name in others:
            given_s = self.offsets_s.get(name)
            found[name] = compared((first, heard[first]), (name, heard[name]), given_s)
            drive.notes.append(f"{name}: {_files(self.devices[name])}; {found[name].text}")
            sure_s = found[name].sure_s
            drive.joined_ns[name] = None if sure_s is None else round(sure_s * 1e9)
            if (sure_s or 0.0) > DOUBT_S:
                drive.doubts.append(f"{name}: its clock is not well known: {found[name].text}")
        for part in self.parts:
            part.shift, part.joined = found[part.name].shift, found[part.name].described(part.name)
        return drive

    @property
    def source(self) -> str:
        """What it is of, in words."""
        return " ".join(f"{name}={_files(device)}" for name, device in self.devices.items())

    @property
    def look(self) -> Look:
        """What is in the beginning of each recording, to suggest a configuration from."""
        return look_at(self.parts, self.devices)


def open_rig(places: Sequence[str | Location], offsets: Sequence[str] = ()) -> Rig:
    """The recordings of a rig's devices, each ``NAME=RECORDING``, or named as its host, file or folder is.

    Args:
        places: a file or folder for each device.
        offsets: ``NAME=SECONDS``: by how much a clock is known to be ahead of the first one's.

    Raises:
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is no recording, or holds nothing.
        ConfigError: names that collide, a recording given twice, one device, or several drives in a folder.
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    given = [_named(place) for place in places]
    drives = [_one_drive(place) for _, place in given]
    names = [name or _plain(drive.parts[0].host) for (name, _), drive in zip(given, drives, strict=True)]
    if len({*names}) < len(names):  # as of files that are called alike, each in the folder of its device
        folders = [readable(drive.path.parent.name) for drive in drives]
        names = [name or _plain(folder) for (name, _), folder in zip(given, folders, strict=True)]
    found: dict[str, RecordedDrive] = {}
    files: dict[Location, str] = {}
    for name, drive in zip(names, drives, strict=True):
        if name in found or NAME.fullmatch(name) is None:
            told = f"two devices are called {name}" if name in found else f"{drive.path} names no device"
            raise ConfigError([f"--rig: {told}; give each as NAME=RECORDING"])
        for part in drive.parts:
            path = part.path.resolve() if isinstance(part.path, Path) else part.path
            if path in files:
                raise ConfigError([f"--rig: {part.path} is given as {files[path]} and as {name}"])
            files[path] = name
        found[name] = _of_device(drive, name)
    if len(found) < 2:
        raise ConfigError(["--rig joins the recordings of several devices: give at least two"])
    return Rig(found, dict(_offset(text, [*found]) for text in offsets))


def _named(given: str | Location) -> tuple[str, str | Location]:
    """The name that is given with a place, "" without one."""
    if isinstance(given, str):
        name, equals, place = given.partition("=")
        if equals and NAME.fullmatch(name) and not Path(given).exists():
            return name, place
    return "", given


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def _one_drive(place: str | Location) -> RecordedDrive:
    opened: list[Recording] = []
    for each in open_all([file.path for file in find_files([place]).files]):
        if not isinstance(each, Recording):
            raise each
        opened.append(each)
    drives = find_drives(opened)
    if len(drives) > 1:
        raise ConfigError([f"--rig: {place} holds {len(drives)} drives; name one recording of the device"])
    return drives[0]


def _of_device(drive: RecordedDrive, name: str) -> RecordedDrive:
    topics = sorted({info.topic for info in drive.topics()})
    prefix = find_prefix(topics, build_config({}))
    parts = [DeviceRecording(part, name, prefix) for part in drive.parts]
    known: dict[str, str] = {}
    for topic in topics:
        if (other := known.setdefault(parts[0].named(topic), topic)) != topic:
            raise ConfigError(
                [f"--rig: {drive.path}: {other} and {topic} would both be {parts[0].named(topic)}"]
            )
    return RecordedDrive(parts, drive.notes)


def _offset(text: str, names: Sequence[str]) -> tuple[str, float]:
    name, _, seconds = text.partition("=")
    try:
        offset_s = float(seconds)
    except ValueError:
        offset_s = math.nan
    if name not in names[1:] or not abs(offset_s) < 1e10:
        others = ", ".join(f"{each}=SECONDS" for each in names[1:])
        raise ConfigError([f"--rig-offset {text}: expected {others}"])
    return name, offset_s


def _files(device: RecordedDrive) -> str:
    more = len(device.parts) - 1
    return readable(device.path.name) + f" and {more} more" * bool(more)
