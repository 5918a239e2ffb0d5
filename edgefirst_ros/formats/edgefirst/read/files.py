"""The files of a dataset, one at a time, for any number of threads and processes.

A lock for what threads share that can be pickled and does not stay locked in a forked process.

Which samples there are, and which files in a container are of which, however others name and sort them.

The vendor's format allows ``SEQUENCE/SEQUENCE_FRAME.SENSOR.EXT`` (nested), the same without the folder and
``SEQUENCE_FRAME_NAME.EXT`` (flat), any number of digits, and ``NAME.EXT`` for pictures of no sequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from edgefirst_ros.formats.crashsafe.names import refuse_links_in
from edgefirst_ros.formats.edgefirst.store.archive import sample_name
from edgefirst_ros.formats.edgefirst.store.zipreading import MOST_BYTES, ZipEntry, read_directory, read_entry
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import open_regular, read_regular, refusing


class ForkLock:
    """A lock which is open in new processes: a fork does not copy the thread that holds it."""

    def __init__(self) -> None:
        self._lock = Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ForkLock], tuple[()]]:
        return ForkLock, ()

    def renew(self) -> None:
        """Open it, whoever holds it."""
        self._lock = Lock()


_LOCKS: WeakSet[ForkLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)


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


_SAMPLE = re.compile(r"([^\x00-\x1f]+_[0-9]{1,9})\.[a-z.]+")
_LONGEST_KIND = len("camera.jpeg")


class Version(NamedTuple):
    """What tells a file from another one of the same name."""

    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path) -> Version:
        """The version of a file, through symbolic links.

        Raises:
            OSError: there is none.
        """
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


def refuse_other(path: Path, opened: Version) -> None:
    """Refuse a file that is not the one which was opened.

    Raises:
        DatasetError: it was replaced or is gone.
    """
    try:
        same = Version.of(path) == opened
    except OSError as error:
        raise DatasetError(f"{path} is gone since the dataset was opened: {error.strerror}") from error
    if not same:
        raise DatasetError(f"{path} has changed since the dataset was opened; open it again")


class _Container(Protocol):
    @property
    def names(self) -> frozenset[str]:
        """Paths of all files in it."""

    def read(self, name: str) -> bytes:
        """One of them.

        Raises:
            DatasetError: it is damaged or gone.
        """


class _Zip:
    """Files of a ZIP. Its directory is read once; each process opens the file for itself, at its first read.

    Reads name their offset, so threads, and processes that were forked, do not move each other's position.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with refusing(path, DatasetError), open_regular(path) as file:
            self._version = Version.of(path)
            archive, _ = read_directory(file, path)
            entries = (ZipEntry.of(info) for info in archive.filelist if not info.is_dir())
            self._entries = {entry.name: entry for entry in entries}
        self._descriptor = _Descriptor(path, self._version)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def read(self, name: str) -> bytes:
        with refusing(self._path, DatasetError):
            descriptor = self._descriptor.get()
        return read_entry(descriptor, self._entries[name], self._path)


class _Descriptor:
    """A file that each process opens for itself when it needs it; pickled, it is a closed one."""

    def __init__(self, path: Path, version: Version) -> None:
        self._path, self._version = path, version
        self._open: tuple[int, int] | None = None
        self._lock = ForkLock()

    def get(self) -> int:
        """The descriptor of this process.

        Raises:
            DatasetError: the file has changed or is gone.
            OSError: it cannot be opened.
        """
        process = os.getpid()
        with self._lock:
            if self._open is None or self._open[0] != process:
                refuse_other(self._path, self._version)
                self._open = process, os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return self._open[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def __del__(self) -> None:
        if self._open is not None and self._open[0] == os.getpid():
            os.close(self._open[1])


class _Folder:
    """Files of a plain folder, which are opened for each read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.names = frozenset(_below(path))

    def read(self, name: str) -> bytes:
        with refusing(self._path / name, DatasetError):
            return read_regular(self._path / name, MOST_BYTES, follow=False)


def _below(path: Path) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        inside = Path(folder).relative_to(path)
        yield from ((inside / name).as_posix() for name in names)


class DatasetFiles:
    """Reads the files of a dataset from its ZIP or its folder.

    Args:
        dataset: the dataset's folder, which has its table, too; or its ZIP or its table.
        name: the dataset's name, where it is not that of ``dataset``.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: its ZIP is damaged, or it holds a symbolic link.
    """

    def __init__(self, dataset: Path, name: str = "") -> None:
        if dataset.suffix in {".zip", ".arrow"} and dataset.is_file():
            dataset = dataset.resolve() if dataset.is_symlink() else dataset
            name, dataset = name or dataset.stem, dataset.parent
        name = name or dataset.name
        self.table = dataset / f"{name}.arrow"
        self.archive, folder = dataset / f"{name}.zip", dataset / name
        refuse_links_in(folder, folder, self.table, self.archive)
        self._container: _Container
        if self.archive.is_file():
            self._container = _Zip(self.archive)
        elif folder.is_dir():
            self._container = _Folder(folder)
        elif not dataset.is_dir():
            what = "is no dataset, nor its ZIP" if dataset.exists() else "no such dataset"
            raise DatasetNotFound(f"{dataset}: {what}")
        else:
            below = sorted({p.parent for p in dataset.glob("**/*.arrow")})[:3]
            hint = f"; there is {', '.join(map(str, below))}" if below else ""
            raise DatasetNotFound(
                f"{dataset} holds neither {name}.zip nor {name}/; is it the folder of a dataset?{hint}"
            )
        self.names = self._container.names
        self._other_case = {
            f"{stem}.{kind.lower()}": name
            for name in self.names
            if (end := name[-_LONGEST_KIND:]) != end.lower()
            for stem, kind in split(name)
            if not kind.islower()
        }

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
