"""Files of this machine that any number of threads and processes read, each for itself.

A lock for what threads share that can be pickled and does not stay locked in a forked process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakSet

from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, recovery
from edgefirst_ros.model.untrusted import refusing


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


class TablePath:
    """The path of a table, which is given only while the file is the one that was found.

    Raises:
        DatasetNotFound: there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            is_unfinished = path.with_name(f"{path.stem}.journal.part").exists()
            mended = f"it is unfinished: {recovery(path.parent)} finishes it"
            advice = mended if is_unfinished else "is this the folder of a dataset?"
            raise DatasetNotFound(f"{path}: no annotation table; {advice}")
        with refusing(path, DatasetError):
            self._opened = Version.of(path)

    def __str__(self) -> str:
        return str(self._path)

    def checked(self) -> Path:
        """Its path.

        Raises:
            DatasetError: it was replaced or is gone.
        """
        _refuse_other(self._path, self._opened)
        return self._path


class _Opened:
    """A descriptor of this process, which is closed once nobody reads from it any more."""

    def __init__(self, path: Path) -> None:
        self.process = os.getpid()
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(
        self, close: Callable[[int], None] = os.close, process: Callable[[], int] = os.getpid
    ) -> None:  # at the interpreter's end modules have nothing left
        if hasattr(self, "descriptor") and self.process == process():
            close(self.descriptor)


class SharedFile:
    """A file that each process opens for itself when it needs it; pickled, it is a closed one.

    Reads name their offset, so threads, and processes that were forked, do not move each other's position.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: _Opened | None = None
        self._lock = ForkLock()
        with refusing(path, DatasetError):
            self._version = Version.of(path)

    def read(self, begin: int, length: int) -> bytes:
        """Bytes from an offset on; fewer at the end of the file.

        Raises:
            DatasetError: it cannot be read, or is not the file that was found.
        """
        with refusing(self._path, DatasetError):
            opened = self._opened()
            return os.pread(opened.descriptor, length, begin)

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
