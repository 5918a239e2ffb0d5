"""Groups recordings into drives: one may be several files, one after another or for each sensor.

Finds the files of recordings in folders and object stores.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import merge
from itertools import accumulate, chain, combinations, pairwise
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

from edgefirst_ros.config.hints import devices_of
from edgefirst_ros.config.topics import TYPES, full_type
from edgefirst_ros.model.errors import ConfigError, RecordingNotFound
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.model.untrusted import REPORT, readable, visible
from edgefirst_ros.offline import naming
from edgefirst_ros.sources.location import Location, Url, location_of, stored_file
from edgefirst_ros.sources.order import STEP_NS
from edgefirst_ros.sources.recording import SUFFIXES, Excerpt, InFull, Recording, TimeWindow, TopicInfo
from edgefirst_ros.sources.scratch import PACKED
from edgefirst_ros.sources.simtime import SimulatedTime, simulated

METADATA = "metadata.yaml"
"""Beside the files of a rosbag2 recording; lists them."""
HIDDEN = "hidden"
UNFINISHED = "unfinished (.part)"
FOREIGN = "of other kinds"
LINKED = "links to folders"


@dataclass(slots=True)
class FoundFiles:
    """Files in the order of what was given, and how many others were left out, by reason."""

    files: list[naming.InputFile] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    bare: set[Location] = field(default_factory=set)
    """Folders of stores without a ``metadata.yaml``, as their listings say: none need be asked for."""

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
    it. A URL with the ending of a recording is a file, one with ``*``, ``?`` or ``[`` a pattern for keys and
    all below them, any other one a prefix. A path that does not exist may be a pattern, too.

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
            found.files += _remote(place, found)
        else:
            meant = naming.is_pattern(place) and not place.exists()
            found.files += (_matching if meant else _local)(place, found.left_out)
        if len(found.files) == before:
            why = f"({', '.join(SUFFIXES)})" + (f"; {found.note}" if found.left_out else "")
            raise RecordingNotFound(f"{place}: holds no recordings {why}")
    if sized:
        found.files = naming.with_sizes(found.files)
    return found


def is_recording(name: str) -> bool:
    """Whether the name of a file is that of a recording."""
    return name.lower().removesuffix(PACKED).endswith(SUFFIXES)


def _local(place: Path, left_out: Counter[str]) -> Iterator[naming.InputFile]:
    if not place.is_dir():
        if not place.exists():
            raise RecordingNotFound(f"{place}: no such recording")
        yield _stat(place, named=True)
        return
    for top, folders, names in os.walk(place):
        folder = Path(top)
        folders.sort(key=by_number)
        for name in list(folders):
            if name.startswith(".") or (folder / name).is_symlink():
                folders.remove(name)
                left_out[HIDDEN if name.startswith(".") else LINKED] += 1
        for name in sorted(names, key=by_number):
            if (reason := _foreign(name)) is None:
                yield _stat(folder / name)
            elif reason:
                left_out[reason] += 1


def _stat(path: Path, *, named: bool = False) -> naming.InputFile:
    try:
        status = path.stat()
    except OSError:  # a dangling link; opening it says so
        return naming.InputFile(path, 0, "", named)
    return naming.InputFile(path, status.st_size, str(status.st_mtime_ns), named)


def _matching(place: Path, left_out: Counter[str]) -> Iterable[naming.InputFile]:
    """The recordings that a pattern means, and those in folders that it means, each once."""
    top = naming.top_of(place)
    files: dict[Path, naming.InputFile] = {}
    for path in top.glob(str(place.relative_to(top))):
        reason = _foreign(path.name)
        if any(part.startswith(".") for part in path.relative_to(top).parts):
            left_out[HIDDEN] += 1
        elif path.is_dir():
            files |= {Path(str(each.path)): each for each in _local(path, left_out)}
        elif reason is None:
            files[path] = _stat(path)
        elif reason:
            left_out[reason] += 1
    return [files[path] for path in sorted(files, key=lambda path: _depth_first(str(path)))]


def _remote(place: Url, found: FoundFiles) -> Iterator[naming.InputFile]:
    from edgefirst_ros.sources.remote import list_objects  # noqa: PLC0415

    is_wanted = naming.key_pattern(place) if naming.is_pattern(place) else None
    if is_recording(place.name) and is_wanted is None:
        yield naming.InputFile(place, -1, "", named=True)
        return
    files: list[naming.InputFile] = []
    top = naming.top_of(place)
    folders: set[Location] = set()
    described: set[Location] = set()
    odd: list[str] = []
    for each in list_objects(top, odd):
        folders.add(each.url.parent)
        if each.url.name == METADATA:
            described.add(each.url.parent)
        if is_wanted is not None and not is_wanted(each.url.key):
            continue
        below = PurePosixPath(each.url.key[len(top.key) :].strip("/"))
        hidden = any(part.startswith(".") for part in below.parts)
        reason = HIDDEN if hidden else _foreign(each.url.name)
        if reason is None:
            files.append(naming.InputFile(each.url, each.version.size, each.version.tag))
        elif reason and (
            each.version.size or reason != FOREIGN
        ):  # consoles make empty objects in the place of folders
            found.left_out[reason] += 1
    if odd:
        found.left_out[f"groups of objects whose keys are no paths, as {visible(odd[0])}"] += len(odd)
    found.bare |= folders - described
    yield from sorted(files, key=lambda file: _depth_first(str(file.path)))


def _depth_first(path: str) -> str:
    """Sort key: the files of a folder before those in its folders."""
    *folders, name = path.split("/")
    return "".join([*(f"1{by_number(folder)}" for folder in folders), f"0{by_number(name)}"])


def _foreign(name: str) -> str | None:
    """Why a file is no recording, None if it is one; empty if it belongs to one."""
    if name.startswith("."):
        return HIDDEN
    if name.endswith(".part"):
        return UNFINISHED
    if is_recording(name):
        return None
    return "" if name == METADATA or name.endswith((".truth.json", REPORT)) else FOREIGN


def by_number(name: str) -> str:
    """Sort key: the parts of a name, with numbers by value, so that _2 comes before _12.

    It is one text, since the parts of 50,000 names are 100 MB.
    """
    parts = _NUMBER.split(name)
    parts[1::2] = map(_by_value, parts[1::2])
    return "".join(parts) + "\0\0"


_NUMBER = re.compile(r"(\d+)")


@lru_cache(maxsize=4096)  # names of drives are dates, of few numbers
def _by_value(number: str) -> str:
    """A number behind how many digits it has; a text ends before any other one goes on."""
    digits = (number.lstrip("0") or "0") if number.isascii() else str(int(number))
    return f"\0\1{len(digits):04}{digits}\0"


MOST_METADATA_BYTES = 16 << 20
ADJOINING_NS = 5_000_000_000
"""Longest gap between successive files of a drive."""
OVERLAP_NS = 500_000_000
"""Longest overlap: messages in flight when the recorder changed files."""
NUMBERED = re.compile(r"(?P<drive>.+)_(?P<number>\d+)")
MOST_BESIDE = 64
"""Files that are read side by side: a section of each is in memory."""
_COMMON = (
    *TYPES[Role.TF],
    *TYPES[Role.ROBOT_DESCRIPTION],
    "rosgraph_msgs",
    "rcl_interfaces",
    "diagnostic_msgs",
)
"""Types, or their packages, of what every recorder of a robot may have."""


@dataclass(slots=True)
class RecordedDrive:
    """The recordings of one drive in order, read as if they were one file."""

    parts: Sequence[Recording]
    notes: list[str] = field(default_factory=list)
    """Why they are one drive, and which files are missing."""
    begins: Sequence[int] = (0,)
    """Where in ``parts`` files begin that were recorded beside those before, of other sensors."""
    reading: int = 0
    """Index of the part that ``messages`` is reading."""
    window: TimeWindow | None = None
    """The log times that ``messages`` reads; None for all."""
    clock: SimulatedTime | None = None
    """Of a simulator, whose time ``messages`` have in place of their receipt."""

    @property
    def path(self) -> Location:
        """The first file."""
        return self.parts[0].path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(part.size for part in self.parts)

    @property
    def position(self) -> int:
        """Bytes read so far, for progress."""
        return sum(part.position for part in self.parts)

    @property
    def length_s(self) -> float:
        """Seconds from the first message to the last."""
        first_ns, last_ns = extent_ns(self.parts)
        return (last_ns - first_ns) / 1e9

    @property
    def recorders(self) -> list[Sequence[Recording]]:
        """The files of each recorder, one after another."""
        return [self.parts[a:b] for a, b in pairwise((*self.begins, len(self.parts)))]

    @property
    def is_excerpt(self) -> bool:
        """Whether what is read begins after the beginning of the drive."""
        return self.window is not None and 0 < extent_ns(self.parts)[0] < self.window.begin_ns

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Log times (first, last) of the sections of all files."""
        return [span for part in self.parts for span in part.spans]

    @property
    def outside(self) -> Counter[TopicInfo]:
        """Messages outside of the window, by topic, once ``messages`` has come to its end."""
        return sum((part.outside for part in self.parts), Counter())

    def restrict(self, excerpt: Excerpt) -> bool:
        """Read only a part; returns whether the drive has anything of it."""
        self.window = excerpt.window(self.spans)
        return any(self.window.overlaps(first, last) for first, last in self.spans)

    def latched(self, topics: Collection[str]) -> list[RawMessage]:
        """Messages of these topics from before the window, as far as it is cheap to read them.

        Of a recorder's many files, those of the first file and of the two at the beginning of the window.
        """
        if self.window is None or not self.is_excerpt:
            return []
        begin_ns, found = self.window.begin_ns, list[RawMessage]()
        for parts in self.recorders:
            before = [part for part in parts if any(first < begin_ns for first, _ in part.spans)]
            chosen = before if len(before) <= 3 else [before[0], *before[-2:]]
            found += [message for part in chosen for message in part.latched(topics, begin_ns)]
        return found

    def keep(self) -> None:
        """Keep local copies of what is read from now on, since it is read twice."""
        for part in self.parts:
            part.keep()

    def topics(self) -> list[TopicInfo]:
        """The topics of all files."""
        return sorted({info for part in self.parts for info in part.topics()})

    def messages(self, in_full: InFull | None = None) -> Iterator[RawMessage]:
        """All messages in order of receipt; see ``Recording.messages``."""
        for part in self.parts:
            part.position = 0
        streams = [
            chain.from_iterable(self._in_turn(first, parts, in_full))
            for first, parts in zip(self.begins, self.recorders, strict=True)
        ]
        messages = _by_receipt(streams) if streams[1:] else streams[0]
        return messages if self.clock is None else self.clock.retimed(messages)

    def follow_clock(self) -> None:
        """Find out whether it is of a simulator that did not keep real time, and note it."""
        self.clock = simulated([part for parts in self.recorders for part in (*parts[:1], *parts[1:][-1:])])
        if self.clock is not None:
            self.notes.append(self.clock.text)

    def _in_turn(
        self, first: int, parts: Sequence[Recording], in_full: InFull | None
    ) -> Iterator[Iterator[RawMessage]]:
        """The messages of every file of a recorder, the first of which has this number."""
        arrival = 0
        for number, part in enumerate(parts, first):
            self.reading = number
            yield part.messages(arrival, self.window, in_full)
            arrival = part.next_arrival


def _by_receipt(streams: Iterable[Iterator[RawMessage]]) -> Iterator[RawMessage]:
    """The messages of several recorders as of one."""
    for arrival, (_, message) in enumerate(merge(*map(_steady, streams), key=itemgetter(0))):
        yield message._replace(arrival=arrival)


def _steady(messages: Iterable[RawMessage]) -> Iterator[tuple[int, RawMessage]]:
    """Messages with a time that goes on where the wall clock was set back, as it was in every file."""
    before_ns = offset_ns = 0
    for message in messages:
        if message.receive_ns < before_ns - STEP_NS:
            offset_ns += before_ns - message.receive_ns
        before_ns = message.receive_ns
        yield before_ns + offset_ns, message


def find_drives(
    recordings: Sequence[Recording], bare: Collection[Location] = frozenset()
) -> list[RecordedDrive]:
    """Group recordings into drives, in the order in which their first files were given.

    Files belong to one drive if a ``metadata.yaml`` of rosbag2 beside them lists them; or if they are
    numbered (``_0``, ``_1``, ...), or named by host and time as on the device, and each begins where the one
    before ends. Numbered files may be missing in between. What was recorded at the same time and has other
    topics, as a bag for each sensor has, is one drive, too. A recording of a live session is always a drive
    of its own. In the folders ``bare`` there is no ``metadata.yaml``.
    """
    drives: list[RecordedDrive] = []
    left = {recording.path: recording for recording in recordings}
    for folder in dict.fromkeys(recording.path.parent for recording in recordings):
        drives += _listed(folder, left) if folder not in bare else []
    numbered: dict[tuple[Location, str], list[tuple[int, Recording]]] = defaultdict(list)
    timed: dict[tuple[Location, str], list[Recording]] = defaultdict(list)
    for recording in left.values():
        path, found = recording.path, NUMBERED.fullmatch(recording.path.stem)
        if recording.session is not None:
            drives.append(RecordedDrive([recording]))
        elif recording.sequence_name is not None:
            timed[path.parent, recording.host].append(recording)
        elif found is not None:
            numbered[path.parent, found["drive"]].append((int(found["number"]), recording))
        else:
            drives.append(RecordedDrive([recording]))
    for several in numbered.values():
        drives += _numbered(sorted(several, key=lambda each: (each[0], each[1].path.name)))
    for files in timed.values():
        drives += _numbered([*enumerate(sorted(files, key=lambda each: each.path.name))])
    given = {recording.path: number for number, recording in enumerate(recordings)}

    def place(drive: RecordedDrive) -> int:
        return min(given[part.path] for part in drive.parts)

    drives.sort(key=place)
    folders: dict[Location, list[RecordedDrive]] = defaultdict(list)
    for drive in drives:  # each of two robots may have a folder
        folders[drive.path.parent].append(drive)
    joined = [drive for several in folders.values() for drive in _beside(several)]
    return sorted(_beside(sorted(joined, key=place)) if joined[1:] else joined, key=place)


def _beside(drives: Sequence[RecordedDrive]) -> Iterator[RecordedDrive]:
    """Those of the same time with other topics as one, the rest as they are."""
    extents = [(0, 0) if drive.parts[0].session else extent_ns(drive.parts) for drive in drives]
    groups: list[list[int]] = []
    until_ns = 0
    for number in sorted(range(len(drives)), key=extents.__getitem__):
        first_ns, last_ns = extents[number]
        if last_ns and (first_ns < until_ns - OVERLAP_NS or last_ns <= until_ns):
            groups[-1].append(number)
        else:
            groups.append([number])
        until_ns = max(until_ns, last_ns)
    for group in groups:
        several = [drives[number] for number in sorted(group)]
        yield from [_joined(several)] if several[1:] and _are_one(several) else several


def _are_one(drives: Sequence[RecordedDrive]) -> bool:
    """Whether drives of the same time are of one robot: no sensor's topic is in two at a time."""
    if sum(len(drive.begins) for drive in drives) > MOST_BESIDE:
        return False
    for one, other in combinations(drives, 2):
        (a, b), (c, d) = extent_ns(one.parts), extent_ns(other.parts)
        if max(a, c) <= min(b, d) and {*map(_sensor, one.topics())} & {*map(_sensor, other.topics())} - {""}:
            return False
    return not devices_of(info for drive in drives for info in drive.topics())


def _sensor(info: TopicInfo) -> str:
    """The name of a topic that only one recorder of a robot has, else empty."""
    return "" if full_type(info.schema).startswith(_COMMON) else info.topic


def _joined(drives: Sequence[RecordedDrive]) -> RecordedDrive:
    parts = [part for drive in drives for part in drive.parts]
    starts = accumulate((len(drive.parts) for drive in drives[:-1]), initial=0)
    begins = [start + each for start, drive in zip(starts, drives, strict=True) for each in drive.begins]
    notes = [note for drive in drives for note in drive.notes]
    head = f"{readable(parts[0].path.name)} and {len(drives) - 1} more of the same time"
    return RecordedDrive(parts, [*notes, f"{head}: {len(parts)} files of one drive"], begins)


def _listed(folder: Location, left: dict[Location, Recording]) -> list[RecordedDrive]:
    """The drive that the folder's metadata.yaml lists, if any; its files are removed from ``left``."""
    if isinstance(folder, Url) and sum(path.parent == folder for path in left) == 1:
        return []  # a request for every single file would be for nothing
    names = listed_files(folder)
    parts = [left.pop(folder / name) for name in names if folder / name in left]
    if not parts:
        return []
    known = {part.path for part in parts}
    lost = [name for name in names if folder / name not in known and not _exists(folder / name)]
    notes = [f"{METADATA} lists {readable(name)}, which is not there" for name in lost]
    return [_drive(parts, notes)]


def listed_files(folder: Location) -> list[str]:
    """File names in the folder's rosbag2 metadata.yaml; empty if there is none, or it cannot be read."""
    try:
        data = _read_metadata(folder / METADATA)
    except (ConfigError, RecordingNotFound):
        return []
    bag = data.get("rosbag2_bagfile_information")
    names = bag.get("relative_file_paths") if isinstance(bag, Mapping) else None
    if not isinstance(names, list):
        return []
    # Early versions of rosbag2 put the folder's name first.
    return [Path(name).name.removesuffix(PACKED) for name in names if isinstance(name, str)]


def _read_metadata(path: Location) -> Mapping[str, Any]:
    if isinstance(path, Path) and not path.is_file():
        return {}
    # Takes a moment, and few recordings come from rosbag2.
    from edgefirst_ros.config.yamltext import read_yaml, yaml_mapping  # noqa: PLC0415

    if isinstance(path, Path):
        return read_yaml(path)
    stored = stored_file(path)
    with stored.open() as file:
        return yaml_mapping(str(path), file.read(min(stored.size, MOST_METADATA_BYTES)))


def _exists(path: Location) -> bool:
    if isinstance(path, Path):
        return path.exists()
    try:
        return stored_file(path).size >= 0
    except RecordingNotFound:
        return False


def _numbered(files: Sequence[tuple[int, Recording]]) -> list[RecordedDrive]:
    parts: list[Recording] = [files[0][1]]
    notes: list[str] = []
    drives: list[RecordedDrive] = []
    for (before, earlier), (number, later) in pairwise(files):
        missing = number - before - 1
        gap_ns = _gap_ns(earlier, later)
        # A missing file may have been 1.5 times as long as the longer one beside the gap.
        longest_s = max(RecordedDrive([each]).length_s for each in (earlier, later))
        room_ns = round(missing * 1.5e9 * longest_s)
        if gap_ns is None or not -OVERLAP_NS <= gap_ns <= ADJOINING_NS + room_ns:
            drives.append(_drive(parts, notes))
            parts, notes = [], []
        elif missing:
            which = f"{before + 1}" if missing == 1 else f"{before + 1} to {number - 1}"
            notes.append(f"file {which} is missing, a gap of {gap_ns / 1e9:,.1f} s")
        parts.append(later)
    return [*drives, _drive(parts, notes)]


def _drive(parts: Sequence[Recording], notes: Sequence[str]) -> RecordedDrive:
    if len(parts) == 1:
        return RecordedDrive(parts)
    first, last = (readable(parts[n].path.name) for n in (0, -1))
    head = f"{first} to {last}: {len(parts)} files of one drive"
    return RecordedDrive(parts, [head, *(f"{head}: {note}" for note in notes)])


def _gap_ns(earlier: Recording, later: Recording) -> int | None:
    """Time from the end of a file to the beginning of the next, None if one of them is empty."""
    if not earlier.spans or not later.spans:
        return None
    return extent_ns([later])[0] - extent_ns([earlier])[1]


def extent_ns(parts: Iterable[Recording]) -> tuple[int, int]:
    """First and last log time of files, zero if all are empty."""
    spans = [span for part in parts for span in part.spans]
    return min((first for first, _ in spans), default=0), max((last for _, last in spans), default=0)
