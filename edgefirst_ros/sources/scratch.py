"""Folders on local scratch (``TMPDIR``) that do not outlive their process by more than until the next one.

A folder is locked while it is in use, and a lock ends with its process, however that ends. What nobody has
locked is removed: no age is guessed, and nothing is asked of processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.sources.location import Location, stored_file
from edgefirst_ros.sources.records import FREE_BYTES, MAX_RATIO

_PREFIX = "edgefirst-scratch-"
PACKED = ".zstd"
"""What rosbag2 adds to the name of a file that it compresses as a whole."""
COPY = "copy"
_COPY_BYTES = 4 << 20
ADVICE = "set TMPDIR to a folder with more room, or lower --jobs: each job needs room for a drive of its own"


class Scratch:
    """An empty folder of this process, which goes with the object.

    Args:
        within: the folder that it is made in; None for local scratch.

    Attributes:
        path: of the folder.
    """

    def __init__(self, within: Path | None = None) -> None:
        sweep(within)
        self.path, lock = _locked_folder(within)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock)
        _HERE.add(self)

    def remove(self) -> None:
        """Remove the folder with all that is in it; may be repeated."""
        self._finalizer()


@contextmanager
def scratch_folder(within: Path | None = None) -> Iterator[Path]:
    """An empty folder for a block, which goes with it; ``within`` as for ``Scratch``."""
    scratch = Scratch(within)
    try:
        yield scratch.path
    finally:
        scratch.remove()


_HERE: weakref.WeakSet[Scratch] = weakref.WeakSet()


def remove_all() -> None:
    """Remove all folders of this process, before it ends without its own finalization."""
    for each in [*_HERE]:
        each.remove()


def sweep(within: Path | None = None) -> tuple[int, int]:
    """Remove what processes of this user left that were killed; how many folders, and their bytes."""
    count = size = 0
    for folder in (within or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = _lock(folder)
            if lock is None:
                continue
            # An entry of a directory that is removed amid this is another sweep's.
            size += sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
            _remove(folder, lock)
            count += 1
    return count, size


def _locked_folder(within: Path | None) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
        # Another process's sweep may have come between; then this folder is gone, or is about to be.
        with suppress(FileNotFoundError):
            if (lock := _lock(path)) is not None:
                return path, lock


def _lock(folder: Path) -> int | None:
    """The lock of a folder of this user, None if somebody has it, or it is gone.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        if found.st_uid == os.getuid() and found.st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def local_copy(location: Location) -> Scratch:
    """A folder with a copy of a file, ``COPY``, which is unpacked if its name ends in .zstd.

    Raises:
        RecordingError: it cannot be read, or there is no room for it.
    """
    scratch = Scratch()
    try:
        with (scratch.path / COPY).open("wb") as copy:
            for part in _parts(location):
                copy.write(part)
    except BaseException as error:
        scratch.remove()
        if isinstance(error, OSError):
            advice = f"; {ADVICE}" if error.errno == errno.ENOSPC else ""
            where = scratch.path.parent
            raise RecordingError(
                f"{location}: cannot be copied to {where}: {error.strerror or error}{advice}"
            ) from error
        raise
    return scratch


def _parts(location: Location) -> Iterator[bytes]:
    stored = stored_file(location)
    left = FREE_BYTES + MAX_RATIO * stored.size
    with refusing(location, RecordingError), stored.open() as file:
        reader: Any = file
        if location.suffix.lower() == PACKED:
            import zstandard  # noqa: PLC0415 - takes a moment, and few recordings are packed

            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        while part := reader.read(_COPY_BYTES):
            left -= len(part)
            if left < 0:
                raise RecordingError(f"{location}: unpacks to more than any recorder writes")
            yield part
