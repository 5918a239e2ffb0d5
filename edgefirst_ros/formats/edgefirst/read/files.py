"""The files of a dataset, one at a time, for any number of threads and processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.crashsafe.links import refuse_links_in
from edgefirst_ros.formats.edgefirst.read.forklock import ForkLock
from edgefirst_ros.formats.edgefirst.read.stems import split
from edgefirst_ros.formats.edgefirst.store.zipreading import MOST_BYTES, Entry, read_directory, read_entry
from edgefirst_ros.model.untrusted import open_regular, read_regular, refusing

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
            entries = (Entry.of(info) for info in archive.filelist if not info.is_dir())
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
