"""Files that grow at their end: an append is there as a whole, or taken back. Errors of the file system."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgefirst_ros.errors import EdgeFirstError, WriteError
from edgefirst_ros.formats.crashsafe.sync import sync_data

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
