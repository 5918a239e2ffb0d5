"""The files of a dataset, one at a time, for any number of threads and processes.

Which samples there are, and which files in a container are of which, however others name and sort them.

The vendor's format allows ``SEQUENCE/SEQUENCE_FRAME.SENSOR.EXT`` (nested), the same without the folder and
``SEQUENCE_FRAME_NAME.EXT`` (flat), any number of digits, and ``NAME.EXT`` for pictures of no sequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from edgefirst_ros.formats.crashsafe.names import refuse_links_in
from edgefirst_ros.formats.edgefirst.read.local import SharedFile, TablePath
from edgefirst_ros.formats.edgefirst.store.archive import QUALITY, sample_name
from edgefirst_ros.formats.edgefirst.store.arrowfile import Quality
from edgefirst_ros.formats.edgefirst.store.journal import FILES
from edgefirst_ros.formats.edgefirst.store.zipreading import MOST_BYTES, ZipEntry, read_directory, read_entry
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import open_regular, read_regular, refusing, stored_bytes

Key = tuple[str, int | None]
"""Sequence and frame of a sample; for a picture of no sequence its name and None."""
_SENSORS = "|".join({file.kind.partition(".")[0] for file in FILES.values()})
_FILE = re.compile(rf"([^\x00-\x1f]+?)\.((?:camera|{_SENSORS})\.(?:jpe?g|png|pcd)|jpe?g|png)", re.IGNORECASE)
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


def in_order(rows: Sequence[tuple[str, int | None, str | None]], stems: Mapping[Key, object]) -> list[Entry]:
    """All samples by sequence and frame: those of the table and those that only have files.

    Args:
        rows: sequence, frame and group of the samples of the table.
        stems: of ``find_stems``.
    """
    entries = [Entry(*row, number) for number, row in enumerate(rows)]
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


_SAMPLE = re.compile(r"([^\x00-\x1f]+_[0-9]{1,9})\.[a-z.]+")
_LONGEST_KIND = max(map(len, ("camera.jpeg", *(file.kind for file in FILES.values()))))


class _Container(Protocol):
    @property
    def names(self) -> frozenset[str]:
        """Paths of all files in it."""

    def read(self, name: str) -> bytes:
        """One of them.

        Raises:
            DatasetError: it is damaged or gone.
        """

    def release(self) -> None:
        """Close what is open until it is read again."""


class _Zip:
    """Files of a ZIP. Its directory is read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, SharedFile(path)
        with refusing(path, DatasetError), open_regular(path) as file:
            archive, _ = read_directory(file, path, stored_bytes(file))
            entries = (ZipEntry.of(info) for info in archive.filelist if not info.is_dir())
            self._entries = {entry.name: entry for entry in entries}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def read(self, name: str) -> bytes:
        return read_entry(self._file.read, self._entries[name], self._path)

    def release(self) -> None:
        self._file.release()


class _Folder:
    """Files of a plain folder, which are opened for each read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.names = frozenset(
            (Path(inside).relative_to(path) / name).as_posix()
            for inside, _, names in os.walk(path)
            for name in names
        )

    def read(self, name: str) -> bytes:
        with refusing(self._path / name, DatasetError):
            return read_regular(self._path / name, MOST_BYTES, follow=False)

    def release(self) -> None:
        pass


class DatasetFiles:
    """Reads the files of a dataset from its ZIP or its folder.

    Args:
        dataset: the dataset's folder, which has its table, too; or its ZIP or its table.
        name: the dataset's name, where it is not that of ``dataset``.

    Attributes:
        path: the dataset's folder.
        table: path of the annotation table.
        names: paths of all sensor files.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: its ZIP is damaged, or it holds a symbolic link.
    """

    def __init__(self, dataset: Path, name: str = "") -> None:
        if dataset.suffix in {".zip", ".arrow"} and dataset.is_file():
            dataset = dataset.resolve() if dataset.is_symlink() else dataset
            name, dataset = name or dataset.stem, dataset.parent
        name = name or dataset.name
        self.path, self.table = dataset, dataset / f"{name}.arrow"
        archive, folder = dataset / f"{name}.zip", dataset / name
        refuse_links_in(folder, folder, self.table, archive)
        self._container: _Container
        if archive.is_file():
            self._container = _Zip(archive)
        elif folder.is_dir():
            self._container = _Folder(folder)
        else:
            raise DatasetNotFound(_instead(dataset, name))
        self.names = self._container.names
        self._other_case = {
            f"{stem}.{kind.lower()}": name
            for name in self.names
            if (end := name[-_LONGEST_KIND:]) != end.lower()
            for stem, kind in split(name)
            if not kind.islower()
        }

    def table_path(self) -> TablePath:
        """The table.

        Raises:
            DatasetNotFound: there is none.
        """
        return TablePath(self.table)

    def quality(self) -> Quality:
        """What its sensors showed.

        Raises:
            DatasetError: the table of that is damaged.
        """
        return Quality(self.path / QUALITY, len(self.names))

    def release(self) -> None:
        """Close what is open until it is read again."""
        self._container.release()

    def find(self, stem: str, *kinds: str) -> str | None:
        """The path of the sample's file of the first kind that exists, in capital letters or not."""
        for kind in kinds:
            name = f"{stem}.{kind}"
            if name in self.names:
                return name
            if name in self._other_case:
                return self._other_case[name]
        return None

    def read(self, stem: str, *kinds: str) -> bytes | None:
        """The sample's file of the first kind that exists.

        Raises:
            DatasetError: it is damaged or gone.
        """
        name = self.find(stem, *kinds)
        return None if name is None else self.read_path(name)

    def read_path(self, name: str) -> bytes:
        """One of ``names``.

        Raises:
            DatasetError: it is damaged or gone.
        """
        return self._container.read(name)

    def stems(self) -> list[str]:
        """The paths of all samples, without sensor and extension."""
        return sorted({found[1] for name in self.names if (found := _SAMPLE.fullmatch(name))})


def _instead(path: Path, name: str) -> str:
    """What is there instead of a dataset."""
    if not path.is_dir():
        return f"{path}: {'is no dataset, nor its ZIP' if path.exists() else 'no such dataset'}"
    below = sorted({p.parent for p in path.glob("**/*.arrow")})[:3]
    hint = f"; there is {', '.join(map(str, below))}" if below else ""
    return f"{path} holds neither {name}.zip nor {name}/; is it the folder of a dataset?{hint}"
