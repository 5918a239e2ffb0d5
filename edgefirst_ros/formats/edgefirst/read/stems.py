"""Which samples there are, and which files in a container are of which, however others name and sort them.

The vendor's format allows ``SEQUENCE/SEQUENCE_FRAME.SENSOR.EXT`` (nested), the same without the folder and
``SEQUENCE_FRAME_NAME.EXT`` (flat), any number of digits, and ``NAME.EXT`` for pictures of no sequence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from edgefirst_ros.formats.edgefirst.store.archive import sample_name

Key = tuple[str, int | None]
"""Sequence and frame of a sample; for a picture of no sequence its name and None."""
_FILE = re.compile(
    r"([^\x00-\x1f]+?)\.((?:camera|radar|lidar|depth)\.(?:jpe?g|png|pcd)|jpe?g|png)", re.IGNORECASE
)
_SENSOR_FILE = re.compile(r"([^\x00-\x1f]+_[0-9]{1,9})\.([a-z0-9_-]+\.[a-z0-9]+)", re.IGNORECASE)
"""One of any sensor, of which the format has more than this package knows."""
_NUMBERED = re.compile(r"(.+)_([0-9]{1,9})", re.DOTALL)
_NUMBER = re.compile(r"_([0-9]{1,9})(?=_)")
_FOREIGN = "__MACOSX"
_LONGEST = 255
"""Characters of a file's name; file systems have no longer ones."""


class Entry(NamedTuple):
    """A sample in the order of the dataset.

    Attributes:
        sequence: its sequence, or the name of a picture of none.
        frame: its frame.
        group: its group.
        row: its number in the table; None if that has no rows of it.
    """

    sequence: str
    frame: int | None
    group: str | None
    row: int | None

    @property
    def key(self) -> Key:
        """What its files are found by."""
        return self.sequence, self.frame

    @property
    def order(self) -> int:
        """Its place in its sequence."""
        return -1 if self.frame is None else self.frame

    @property
    def name(self) -> str:
        """As this package names files."""
        return self.sequence if self.frame is None else sample_name(self.sequence, self.frame)


def split(path: str) -> Iterator[tuple[str, str]]:
    """A sample's file without its kind, and its kind, such as ``camera.jpeg``; nothing for other files."""
    name = path.rpartition("/")[2]
    if len(name) > _LONGEST or name.startswith(".") or path.startswith(_FOREIGN):
        return
    found = _SENSOR_FILE.fullmatch(path) or _FILE.fullmatch(path)
    if found is not None:
        yield found[1], found[2]


def find_stems(paths: Iterable[str], rows: Collection[Key]) -> dict[Key, tuple[str, ...]]:
    """The paths without kinds of each sample that has files, those that are named as this package does first.

    Args:
        paths: of all files.
        rows: the samples of the table, which says what a name means where it can mean several samples.
    """
    known = set(rows)
    sequences = {sequence for sequence, frame in known if frame is not None}
    of_sensors: dict[str, bool] = {}
    for path in paths:
        for stem, kind in split(path):
            of_sensors[stem] = of_sensors.get(stem, False) or "." in kind
    found: dict[Key, list[str]] = {}
    for stem in sorted(of_sensors):
        found.setdefault(_key(stem, known, sequences, of_sensor=of_sensors[stem]), []).append(stem)
    return {key: tuple(sorted(stems, key=lambda stem: _is_odd(stem, key))) for key, stems in found.items()}


def in_order(
    rows: Sequence[tuple[str, int | None, str | None]], stems: Mapping[Key, object], group: str | None
) -> list[Entry]:
    """All samples by sequence and frame: those of the table and those that only have files.

    Args:
        rows: sequence, frame and group of the samples of the table.
        stems: of ``find_stems``.
        group: the only group to take, if any; samples without rows have none.
    """
    entries = [Entry(*row, number) for number, row in enumerate(rows) if group in {None, row[2]}]
    if group is None:
        known = {(sequence, frame) for sequence, frame, _ in rows}
        entries += [Entry(*key, None, None) for key in stems if key not in known]
    return sorted(entries, key=lambda entry: (entry.sequence, entry.order))


def _key(stem: str, known: Collection[Key], sequences: Collection[str], *, of_sensor: bool) -> Key:
    folder, _, name = stem.rpartition("/")
    if (name, None) in known:
        return name, None
    numbered = _NUMBERED.fullmatch(name)
    if numbered is not None:
        key = numbered[1], int(numbered[2])
        if key in known:
            return key
    for each in _NUMBER.finditer(name):
        if (key := (name[: each.start()], int(each[1]))) in known:
            return key
    if numbered is not None:
        sequence, frame = numbered[1], int(numbered[2])
        if of_sensor or sequence in sequences or folder.rpartition("/")[2] == sequence:
            return sequence, frame
    return name, None


def _is_odd(stem: str, key: Key) -> bool:
    sequence, frame = key
    return frame is not None and stem.rpartition("/")[2] != sample_name(sequence, frame)
