"""Groups recordings into drives: a recorder may split one drive into several files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable
from edgefirst_ros.sources.mcap import McapRecording, TopicInfo

METADATA = "metadata.yaml"
ADJOINING_NS = 5_000_000_000
"""Longest gap between successive files of a drive."""
OVERLAP_NS = 500_000_000
"""Longest overlap: messages in flight when the recorder changed files."""
_NUMBERED = re.compile(r"(?P<drive>.+)_(?P<number>\d+)")


@dataclass(slots=True)
class RecordedDrive:
    """The recordings of one drive in order, read as if they were one file."""

    parts: Sequence[McapRecording]
    notes: list[str] = field(default_factory=list)
    """Why they are one drive, and which files are missing."""
    reading: int = 0
    """Index of the part that ``messages`` is reading."""

    @property
    def path(self) -> Path:
        """The first file."""
        return self.parts[0].path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(part.size for part in self.parts)

    @property
    def position(self) -> int:
        """Bytes read so far, for progress."""
        return sum(part.size for part in self.parts[: self.reading]) + self.parts[self.reading].position

    def topics(self) -> list[TopicInfo]:
        """The topics of all files."""
        return sorted({info for part in self.parts for info in part.topics()})

    def messages(self) -> Iterator[RawMessage]:
        """All messages in order of receipt."""
        return chain.from_iterable(self._in_turn())

    def _in_turn(self) -> Iterator[Iterator[RawMessage]]:
        """The messages of every file."""
        arrival = 0
        for number, part in enumerate(self.parts):
            self.reading = number
            yield part.messages(arrival)
            arrival = part.next_arrival


def find_drives(recordings: Sequence[McapRecording]) -> list[RecordedDrive]:
    """Group recordings into drives, in the order in which their first files were given.

    Files belong to one drive if a ``metadata.yaml`` of rosbag2 beside them lists them; or if they are
    numbered (``_0``, ``_1``, ...), or named by host and time as on the device, and each begins where the one
    before ends. Numbered files may be missing in between. A recording of a live session is always a drive of
    its own.
    """
    drives: list[RecordedDrive] = []
    left = {recording.path: recording for recording in recordings}
    for folder in dict.fromkeys(recording.path.parent for recording in recordings):
        drives += _listed(folder, left)
    numbered: dict[tuple[Path, str], list[tuple[int, McapRecording]]] = defaultdict(list)
    timed: dict[tuple[Path, str], list[McapRecording]] = defaultdict(list)
    for recording in left.values():
        path, found = recording.path, _NUMBERED.fullmatch(recording.path.stem)
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
        drives += _timed(sorted(files, key=lambda each: each.path.name))
    given = {recording.path: number for number, recording in enumerate(recordings)}
    return sorted(drives, key=lambda drive: min(given[part.path] for part in drive.parts))


def _listed(folder: Path, left: dict[Path, McapRecording]) -> list[RecordedDrive]:
    """The drive that the folder's metadata.yaml lists, if any; its files are removed from ``left``."""
    names = _metadata(folder / METADATA)
    parts = [left.pop(folder / name) for name in names if folder / name in left]
    if not parts:
        return []
    lost = [name for name in names if not (folder / name).exists()]
    notes = [f"{METADATA} lists {readable(name)}, which is not there" for name in lost]
    return [_drive(parts, notes)]


def _metadata(path: Path) -> list[str]:
    """File names in a rosbag2 metadata.yaml; empty if there is none, or it cannot be read."""
    if not path.is_file():
        return []
    from edgefirst_ros.config.files import read_yaml  # noqa: PLC0415 - takes a moment, and few recordings come from rosbag2

    try:
        bag = read_yaml(path).get("rosbag2_bagfile_information")
    except ConfigError:
        return []
    names = bag.get("relative_file_paths") if isinstance(bag, Mapping) else None
    if not isinstance(names, list):
        return []
    # Early versions of rosbag2 put the folder's name first.
    return [Path(name).name for name in names if isinstance(name, str)]


def _numbered(files: Sequence[tuple[int, McapRecording]]) -> list[RecordedDrive]:
    parts: list[McapRecording] = [files[0][1]]
    notes: list[str] = []
    drives: list[RecordedDrive] = []
    for (before, earlier), (number, later) in pairwise(files):
        missing = number - before - 1
        gap_ns = _gap_ns(earlier, later)
        # A missing file may have been 1.5 times as long as the longer one beside the gap.
        room_ns = missing * 3 * max(_length_ns(earlier), _length_ns(later)) // 2
        if gap_ns is None or not -OVERLAP_NS <= gap_ns <= ADJOINING_NS + room_ns:
            drives.append(_drive(parts, notes))
            parts, notes = [], []
        elif missing:
            which = f"{before + 1}" if missing == 1 else f"{before + 1} to {number - 1}"
            notes.append(f"file {which} is missing, a gap of {gap_ns / 1e9:,.1f} s")
        parts.append(later)
    return [*drives, _drive(parts, notes)]


def _timed(files: Sequence[McapRecording]) -> list[RecordedDrive]:
    drives = [[files[0]]]
    for earlier, later in pairwise(files):
        gap_ns = _gap_ns(earlier, later)
        if gap_ns is not None and -OVERLAP_NS <= gap_ns <= ADJOINING_NS:
            drives[-1].append(later)
        else:
            drives.append([later])
    return [_drive(parts, []) for parts in drives]


def _drive(parts: Sequence[McapRecording], notes: Sequence[str]) -> RecordedDrive:
    if len(parts) == 1:
        return RecordedDrive(parts)
    first, last = (readable(parts[n].path.name) for n in (0, -1))
    head = f"{first} to {last}: {len(parts)} files of one drive"
    return RecordedDrive(parts, [head, *(f"{head}: {note}" for note in notes)])


def _gap_ns(earlier: McapRecording, later: McapRecording) -> int | None:
    """Time from the end of a file to the beginning of the next, None if one of them is empty."""
    if not earlier.spans or not later.spans:
        return None
    return min(first for first, _ in later.spans) - max(last for _, last in earlier.spans)


def _length_ns(recording: McapRecording) -> int:
    return max(last for _, last in recording.spans) - min(first for first, _ in recording.spans)
