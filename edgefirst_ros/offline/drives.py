"""Which recordings are one drive: the files into which a recorder split it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import yaml

from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable
from edgefirst_ros.sources.mcap import McapRecording, TopicInfo

METADATA = "metadata.yaml"
ADJOINING_NS = 5_000_000_000
"""The next file of a drive begins so soon after the last one's end."""
OVERLAP_NS = 500_000_000
"""Or so much before it: messages that were under way when the recorder changed files."""
_NUMBERED = re.compile(r"(?P<drive>.+)_(?P<number>\d+)")


@dataclass(slots=True)
class Drive:
    """The recordings of one drive in order, mostly one; read one after the other as if they were one file."""

    parts: Sequence[McapRecording]
    notes: list[str] = field(default_factory=list)
    """What to tell of how they were found to be one drive."""
    reading: int = 0
    """Which part ``messages`` is at."""

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
        """Every topic that a file has."""
        return sorted({info for part in self.parts for info in part.topics()})

    def messages(self) -> Iterator[RawMessage]:
        """All messages in the order of their receipt."""
        arrival = 0
        for number, part in enumerate(self.parts):
            self.reading = number
            for message in part.messages(arrival):
                arrival = message.arrival + 1
                yield message


def find_drives(recordings: Sequence[McapRecording]) -> list[Drive]:
    """The drives that recordings are of, in the order in which their first files were given.

    Files are of one drive if rosbag2's ``metadata.yaml`` beside them lists them; or if they are numbered
    (``_0``, ``_1``, ...), or named by host and time as the device does, and each begins where the last one
    ends. A numbered file may be missing in between. What live capture recorded is of one session for itself.
    """
    drives: list[Drive] = []
    left = {recording.path: recording for recording in recordings}
    for folder in dict.fromkeys(recording.path.parent for recording in recordings):
        drives += _listed(folder, left)
    numbered: dict[tuple[Path, str], list[tuple[int, McapRecording]]] = defaultdict(list)
    timed: dict[tuple[Path, str], list[McapRecording]] = defaultdict(list)
    for recording in left.values():
        path, found = recording.path, _NUMBERED.fullmatch(recording.path.stem)
        if recording.session is not None:
            drives.append(Drive([recording]))
        elif recording.sequence_name is not None:
            timed[path.parent, recording.host].append(recording)
        elif found is not None:
            numbered[path.parent, found["drive"]].append((int(found["number"]), recording))
        else:
            drives.append(Drive([recording]))
    for several in numbered.values():
        drives += _numbered(sorted(several, key=lambda each: (each[0], each[1].path.name)))
    for files in timed.values():
        drives += _timed(sorted(files, key=lambda each: each.path.name))
    given = {recording.path: number for number, recording in enumerate(recordings)}
    return sorted(drives, key=lambda drive: min(given[part.path] for part in drive.parts))


def _listed(folder: Path, left: dict[Path, McapRecording]) -> list[Drive]:
    """The drive of the folder's metadata.yaml, its files taken from what is left; none if it lists none."""
    names = _metadata(folder / METADATA)
    parts = [left.pop(folder / name) for name in names if folder / name in left]
    if not parts:
        return []
    lost = [name for name in names if not (folder / name).exists()]
    notes = [f"{METADATA} lists {readable(name)}, which is not there" for name in lost]
    return [_drive(parts, notes)]


def _metadata(path: Path) -> list[str]:
    """File names in a rosbag2 metadata.yaml; empty where there is none or it cannot be read."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    bag = data.get("rosbag2_bagfile_information") if isinstance(data, Mapping) else None
    names = bag.get("relative_file_paths") if isinstance(bag, Mapping) else None
    if not isinstance(names, list):
        return []
    # The first versions of rosbag2 put the folder's name before them.
    return [Path(name).name for name in names if isinstance(name, str)]


def _numbered(files: Sequence[tuple[int, McapRecording]]) -> list[Drive]:
    parts: list[McapRecording] = [files[0][1]]
    notes: list[str] = []
    drives: list[Drive] = []
    for (before, earlier), (number, later) in pairwise(files):
        missing = number - before - 1
        gap_ns = _gap_ns(earlier, later)
        # As long as the files beside them, and half as long again, is what those missing may have held.
        room_ns = missing * 3 * max(_length_ns(earlier), _length_ns(later)) // 2
        if gap_ns is None or not -OVERLAP_NS <= gap_ns <= ADJOINING_NS + room_ns:
            drives.append(_drive(parts, notes))
            parts, notes = [], []
        elif missing:
            which = f"{before + 1}" if missing == 1 else f"{before + 1} to {number - 1}"
            notes.append(f"file {which} is missing: {gap_ns / 1e9:,.1f} s are lacking")
        parts.append(later)
    return [*drives, _drive(parts, notes)]


def _timed(files: Sequence[McapRecording]) -> list[Drive]:
    drives = [[files[0]]]
    for earlier, later in pairwise(files):
        gap_ns = _gap_ns(earlier, later)
        if gap_ns is not None and -OVERLAP_NS <= gap_ns <= ADJOINING_NS:
            drives[-1].append(later)
        else:
            drives.append([later])
    return [_drive(parts, []) for parts in drives]


def _drive(parts: Sequence[McapRecording], notes: Sequence[str]) -> Drive:
    if len(parts) == 1:
        return Drive(parts)
    first, last = (readable(parts[n].path.name) for n in (0, -1))
    head = f"{first} to {last}: {len(parts)} files of one drive"
    return Drive(parts, [head, *(f"{head}: {note}" for note in notes)])


def _gap_ns(earlier: McapRecording, later: McapRecording) -> int | None:
    """Time from the end of a file to the beginning of the next, None where one holds no message."""
    if not earlier.spans or not later.spans:
        return None
    return min(first for first, _ in later.spans) - max(last for _, last in earlier.spans)


def _length_ns(recording: McapRecording) -> int:
    return max(last for _, last in recording.spans) - min(first for first, _ in recording.spans)
