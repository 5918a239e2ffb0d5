"""Waiting until the disk holds what was written, so that a power cut does not take it."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

_MANY = 16
"""More files than this are synced with their whole file system, in one call instead of one each."""


def sync_file(descriptor: int) -> None:
    """Wait until the disk holds the bytes of an open file, and its size.

    Raises:
        OSError: the disk refuses.
    """
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """The same without times, which nobody needs after a power cut."""
    (getattr(os, "fdatasync", None) or os.fsync)(descriptor)


def sync_path(path: Path) -> None:
    """Wait until the disk holds a file's bytes, or the names in a folder.

    Raises:
        OSError: it is not there, or the disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_trees(paths: Iterable[Path]) -> None:
    """Wait until the disk holds files, and folders with everything below; what is not there is passed over.

    Raises:
        OSError: the disk refuses.
    """
    every = (path for top in paths for path in chain((top,), top.rglob("*")) if path.exists())
    sync_paths(set(islice(every, _MANY + 1)))


def sync_paths(paths: Iterable[Path]) -> None:
    """Wait until the disk holds files and the names in folders; what is not there is passed over.

    Raises:
        OSError: the disk refuses.
    """
    several = sorted(paths)
    if len(several) > _MANY:
        above = chain.from_iterable((path, *path.parents) for path in several)
        sync_file_system(next(path for path in above if path.exists()))
        return
    for path in several:
        with suppress(FileNotFoundError):
            sync_path(path)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, if they are not there, so that a power cut does not take their names.

    Raises:
        OSError: the file system refuses.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
    sync_path(path.parent)


class Unsynced:
    """Files that were written whole and folders that gained or lost names, since the last sync.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: set[Path] = set()

    def add(self, *paths: Path) -> None:
        """Remember files, or folders for the names in them."""
        with self._lock:
            if len(self._paths) <= _MANY:  # else the whole file system is synced
                self._paths.update(paths)

    def sync(self) -> None:
        """Wait until the disk holds everything that was added before this call.

        Raises:
            OSError: the disk refuses; what it holds of all this is unknown then.
        """
        with self._lock:
            paths, self._paths = self._paths, set()
        sync_paths(paths)


def sync_file_system(path: Path) -> None:
    """Wait until the disk holds everything of the file system that ``path`` is on.

    Raises:
        OSError: ``path`` is not there, or the disk refuses.
    """
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:  # Linux alone has it
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
