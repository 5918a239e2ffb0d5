"""Waiting until the disk holds what was written, so that a power cut does not take it.

Files that grow at their end: an append is there as a whole, or taken back. Errors of the file system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Protocol

from edgefirst_ros.model.errors import EdgeFirstError, WriteError

_MANY = 16
"""More files than this are synced with their whole file system, in one call instead of one each."""
_EXT = 0xEF53
_FLUSHING = {_EXT: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0xF2F52010: "f2fs", 0x01021994: "tmpfs"}
"""By their numbers in statfs(2): those whose syncfs waits for the disk's own cache, too. vfat's does not, and
FUSE's does not tell whoever serves the files."""
_REPORTING = (5, 8)
"""The first Linux whose syncfs says that a file could not be written."""


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
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def tree(*tops: Path) -> Iterator[Path]:
    """Files, and folders with everything below; what is neither, as a pipe, or not there is passed over."""
    paths = (path for top in tops for path in chain((top,), top.rglob("*")))
    return (path for path in paths if path.is_file() or path.is_dir())


def sync_paths(paths: Iterable[Path], *, one_by_one: int = _MANY) -> None:
    """Wait until the disk holds files and the names in folders; what is not there is passed over.

    Args:
        paths: of any file systems.
        one_by_one: more than these of a file system are synced with all of it, where that is as good. It
            takes one to four flushes of the disk for any number of files, instead of one or two for each.

    Raises:
        OSError: the disk refuses; names one of the paths.
    """
    waiting: dict[int, list[Path]] = {}
    whole: set[int] = set()
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            device = path.stat().st_dev
            several = waiting.setdefault(device, [])
            if device not in whole:
                several.append(path)
            if len(several) > one_by_one:
                if flushes_disk(path):
                    with _named(path):
                        sync_file_system(path)
                    whole.add(device)
                    if not _has_journal(path):
                        # Such an ext4 flushes the disk's cache before it writes its own blocks, not after.
                        _sync_each([next(each for each in (path, *path.parents) if each.exists())])
                else:
                    _sync_each(several)
                several.clear()
    for several in waiting.values():
        _sync_each(several)


def sync_together(several: Iterable[Syncing]) -> None:
    """Wait until the disk holds what several have written, with as few flushes as it takes.

    Raises:
        WriteError: the disk refuses.
    """
    with ExitStack() as stack:
        paths = [path for each in several for path in stack.enter_context(each.syncing())]
        sync_paths(paths, one_by_one=1)


class Syncing(Protocol):
    """What grows on the disk, and can say where."""

    def syncing(self) -> AbstractContextManager[Collection[Path]]:
        """The files and folders that hold what was written before; where the context ends, the disk holds it.

        Entered and left by a thread of its own while others write.

        Raises:
            WriteError: the disk refuses; what it holds is unknown then.
        """


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
    """Files that were written whole and folders that gained or lost names, since the last ``take``.

    Safe to use from several threads.

    Args:
        top: the folder that they are in; before the first ``take`` they are not noted one by one.
    """

    def __init__(self, top: Path) -> None:
        self._top = top
        self._lock = threading.Lock()
        self._paths: set[Path] | None = None

    def add(self, *paths: Path) -> None:
        """Note files, or folders for the names in them."""
        with self._lock:
            if self._paths is not None:
                self._paths.update(paths)

    def take(self) -> list[Path]:
        """What was noted; the first time, all that is there."""
        with self._lock:
            paths, self._paths = self._paths, set()
        return [*tree(self._top)] if paths is None else sorted(paths)


def flushes_disk(path: Path) -> bool:
    """Whether ``sync_file_system`` is as good as syncing each file of the file system that ``path`` is on.

    Raises:
        OSError: ``path`` is not there, or the disk refuses.
    """
    release = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
    return platform.system() == "Linux" and release >= _REPORTING and _kind(path) in _FLUSHING


def _kind(path: Path) -> int:
    """Number of a file system of Linux, see statfs(2); 0 if it is not to be had."""
    found = ctypes.create_string_buffer(512)  # more than struct statfs has anywhere
    failed = ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(path), found)
    return 0 if failed else ctypes.c_long.from_buffer(found).value & 0xFFFFFFFF


def _has_journal(path: Path) -> bool:
    """False of an ext4 that has none, or does not say so."""
    if _kind(path) != _EXT:
        return True
    device = path.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    with suppress(OSError):
        return Path(f"/sys/fs/ext4/{block.name}/journal_task").read_text(encoding="ascii").strip().isdigit()
    return False


def _sync_each(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError), _named(path):
            sync_path(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def sync_file_system(path: Path) -> None:
    """Wait until the disk holds everything of the file system that ``path`` is on.

    Raises:
        OSError: ``path`` is not there, or the disk refuses.
    """
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:  # Linux alone has it
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


_BUFFERS = 1024
"""Most buffers that one system call takes (IOV_MAX)."""
_SMALL = 1024
"""Buffers of no more bytes than this on average are copied into one, which is faster than one by one."""


class AppendFile:
    """A file to append to, made if it is not there.

    Args:
        path: the file.
        exclusive: it must not be there yet.

    Attributes:
        path: where it was opened.
        descriptor: of the open file, -1 once it is closed.
        size: bytes appended so far; what was in the file counts.

    Raises:
        OSError: it cannot be opened, or is a symbolic link.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_EXCL if exclusive else 0)
        self.descriptor = os.open(path, flags, 0o644)
        self.size = os.fstat(self.descriptor).st_size
        self._lock = threading.Lock()

    def append(self, *buffers: bytes | memoryview) -> int:
        """Write buffers of bytes one behind the other; how many bytes they are.

        Raises:
            OSError: the disk is full or gone; what was written of the buffers is taken back.
        """
        position = self.size
        try:
            for start in range(0, len(buffers), _BUFFERS):
                position += self._write(buffers[start : start + _BUFFERS], position)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self.descriptor, self.size)
            raise
        written, self.size = position - self.size, position
        return written

    def read(self, size: int, offset: int) -> bytes:
        """Bytes from ``offset`` on, fewer at the end of the file."""
        return os.pread(self.descriptor, size, offset)

    def truncate(self, end: int) -> int:
        """Drop what is behind ``end``; how many bytes that is.

        Raises:
            OSError: the file system refuses.
        """
        dropped = self.size - end
        os.ftruncate(self.descriptor, end)
        self.size = end
        return dropped

    def sync(self) -> None:
        """Wait until the disk holds everything appended before; any thread, also while others append.

        Raises:
            OSError: the disk refuses.
        """
        with self._lock:  # so that the number is not another file's by then
            descriptor = os.dup(self.descriptor) if self.descriptor >= 0 else -1
        if descriptor >= 0:
            try:
                sync_data(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Release the file as it is; may be repeated."""
        with self._lock:
            descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _write(self, buffers: tuple[bytes | memoryview, ...], position: int) -> int:
        size = sum(map(len, buffers))
        if size <= len(buffers) * _SMALL:
            buffers = (b"".join(buffers),)
        written = os.pwritev(self.descriptor, buffers, position)
        if written < size:  # a signal came in between, or the next write says what is wrong
            rest = memoryview(b"".join(buffers))
            while written < size:
                written += os.pwrite(self.descriptor, rest[written:], position + written)
        return size


LOST = "is no longer there: removed, renamed or unmounted while it was written"


def is_in_place(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder still has its name: what is written to it cannot be found otherwise.

    Raises:
        OSError: the disk does not answer.
    """
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def disk_errors(
    path: Path, failed: str = "cannot be written", advice: str = "", *, below: Path | None = None
) -> Iterator[None]:
    """Turn errors of the file system into a WriteError that names the path; the package's own pass.

    Args:
        path: what was being written.
        failed: what cannot be done.
        advice: what the user can do.
        below: a folder; errors that name what is elsewhere pass.

    Raises:
        WriteError: the file system refused.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, EdgeFirstError):
            raise
        if below is not None and error.filename and not Path(error.filename).is_relative_to(below):
            raise
        sentence = f"{path}: {failed}: {error.strerror or error}"
        raise WriteError(f"{sentence}; {advice}" if advice else sentence) from error
