"""Where the files of a dataset lie: in a folder of this machine, or elsewhere, by name and range.

A lock for what threads share that can be pickled and does not stay locked in a forked process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakSet

from edgefirst_ros.formats.crashsafe.names import refuse_links_in
from edgefirst_ros.formats.edgefirst.store.zipreading import MOST_BYTES
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import PositionedFile, open_regular, read_regular, refusing, stored_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer


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


class Ranges(Protocol):
    """A file that is read by ranges, by any number of threads and processes; pickled, it is a closed one.

    Attributes:
        size: in bytes.
        stored: bytes of it that are no holes.
    """

    size: int
    stored: int

    def read(self, begin: int, length: int) -> bytes | memoryview:
        """Bytes from an offset on; fewer at the end of the file.

        Raises:
            DatasetError: it cannot be read, or is not the file that was opened.
        """

    def ahead(self, ranges: Iterable[tuple[int, int]]) -> None:
        """These, as offset and length, are read soon."""

    def release(self) -> None:
        """Close it until it is read again."""


class Mapped(Protocol):
    """A file that is mapped into memory; its text is how users know it."""

    def here(self) -> Path:
        """It, or a copy of it, on this machine.

        Raises:
            DatasetError: it cannot be read, or is not the file that was opened.
        """


class Place(Protocol):
    """What a dataset lies in; it can be pickled.

    Attributes:
        path: its path, or what stands for one elsewhere; with its name.
    """

    path: Any

    def is_file(self, name: str) -> bool:
        """Whether there is such a file."""

    def is_folder(self, name: str) -> bool:
        """Whether there is such a folder."""

    def refuse_links(self, folder: str, *files: str) -> None:
        """Refuse symbolic links in the place of these, and below the folder.

        Raises:
            DatasetError: naming the link.
        """

    def mapped(self, name: str) -> Mapped:
        """A file to map into memory.

        Raises:
            DatasetNotFound: there is none.
        """

    def ranges(self, name: str) -> Ranges:
        """A file to read by ranges.

        Raises:
            DatasetError: it cannot be read.
        """

    def below(self, folder: str) -> Iterable[str]:
        """Paths of all files below a folder, from there."""

    def read(self, name: str) -> bytes:
        """All of a file.

        Raises:
            DatasetError: it cannot be read, or is not the one that was found.
        """

    def ahead(self, names: Sequence[str]) -> None:
        """These files are read soon."""


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


def _refuse_other(path: Path, opened: Version) -> None:
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


class LocalPlace:
    """A folder of this machine; see ``Place``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_file(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.path / name).is_file()

    def is_folder(self, name: str) -> bool:
        """Whether there is such a folder."""
        return (self.path / name).is_dir()

    def refuse_links(self, folder: str, *files: str) -> None:
        """Refuse symbolic links in the place of these, and below the folder."""
        refuse_links_in(self.path / folder, self.path / folder, *(self.path / name for name in files))

    def mapped(self, name: str) -> LocalMapped:
        """A file to map into memory."""
        return LocalMapped(self.path / name)

    def ranges(self, name: str) -> LocalRanges:
        """A file to read by ranges."""
        return LocalRanges(self.path / name)

    def below(self, folder: str) -> Iterator[str]:
        """Paths of all files below a folder."""
        top = self.path / folder
        for inside, _, names in os.walk(top):
            relative = Path(inside).relative_to(top)
            yield from ((relative / name).as_posix() for name in names)

    def read(self, name: str) -> bytes:
        """All of a file."""
        with refusing(self.path / name, DatasetError):
            return read_regular(self.path / name, MOST_BYTES, follow=False)

    def ahead(self, names: Sequence[str]) -> None:
        """Do nothing: they are near."""


ELSEWHERE: dict[Path, Place] = {}
"""Folders that stand for places, whose files are read from there."""


class LocalMapped:
    """A table of this machine; see ``Mapped``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            part = path.with_name(f"{path.stem}.journal.part")
            advice = (
                f"it is unfinished: edgefirst-ros recover {path.parent} finishes it"
                if part.exists()
                else "is this the folder of a dataset?"
            )
            raise DatasetNotFound(f"{path}: no annotation table; {advice}")
        with refusing(path, DatasetError):
            self._opened = Version.of(path)

    def __str__(self) -> str:
        return str(self._path)

    def here(self) -> Path:
        """Its path."""
        _refuse_other(self._path, self._opened)
        return self._path


class _Opened:
    """A descriptor of this process, which is closed once nobody reads from it any more."""

    def __init__(self, path: Path) -> None:
        self.process = os.getpid()
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "descriptor") and self.process == os.getpid():
            os.close(self.descriptor)


class LocalRanges:
    """A file that each process opens for itself when it needs it; see ``Ranges``.

    Reads name their offset, so threads, and processes that were forked, do not move each other's position.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: _Opened | None = None
        self._lock = ForkLock()
        with refusing(path, DatasetError), open_regular(path) as file:
            self._version = Version.of(path)
            self.size, self.stored = os.fstat(file.fileno()).st_size, stored_bytes(file)

    def read(self, begin: int, length: int) -> bytes:
        """Bytes from an offset on."""
        with refusing(self._path, DatasetError):
            opened = self._opened()
            return os.pread(opened.descriptor, length, begin)

    def ahead(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Do nothing: it is near."""

    def release(self) -> None:
        """Close it, once nobody reads it any more."""
        with self._lock:
            self._open = None

    def _opened(self) -> _Opened:
        with self._lock:
            if self._open is None or self._open.process != os.getpid():
                _refuse_other(self._path, self._version)
                self._open = _Opened(self._path)
            return self._open

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}


class RangeFile(PositionedFile):
    """Ranges as a file to read and seek in."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges.size)
        self._ranges: Ranges | None = ranges

    def close(self) -> None:
        """Release the ranges, which who reads the directory of an archive may keep for a while."""
        if self._ranges is not None:
            self._ranges.release()
            self._ranges = None
        super().close()

    def readinto(self, buffer: Buffer) -> int:
        """Read as much as there is room."""
        into = memoryview(buffer).cast("B")
        if self._ranges is None:
            raise ValueError("it is closed")
        data = self._ranges.read(self.position, len(into))
        into[: len(data)] = data
        self.position += len(data)
        return len(data)
