"""Folders on local scratch (``TMPDIR``) that do not outlive their process by more than until the next one.

A folder is locked while it is in use, and a lock ends with its process, however that ends. What nobody has
locked is removed: no age is guessed, and nothing is asked of processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "edgefirst-scratch-"
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
