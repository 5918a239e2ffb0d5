"""The journal of an unfinished dataset: what was committed, as records that are each whole or not there.

One writer at a time: a lock on a file or folder that lasts until its owner ends, and who that is.
"""

from __future__ import annotations

import os
import shlex
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from edgefirst_ros.formats.crashsafe.sync import AppendFile, is_in_place
from edgefirst_ros.model.errors import DatasetError, OutputBusy
from edgefirst_ros.model.untrusted import open_regular, readable, visible

try:
    import fcntl
except ImportError:  # not a POSIX system: two writers at once go unnoticed there
    fcntl = None  # type: ignore[assignment]

_TRIES, _MOST_TRIES, _PAUSE_S = 6, 200, 0.05
"""A lock is asked for this often, and longer while others only look whether it is held, as ``holder``."""
_MOST_SHOWN = 160
"""Characters of a command line that are shown."""


class Lock:
    """Keeps other processes from writing or recovering a file or folder; a context manager.

    File systems without locks let two writers pass.

    Raises:
        OutputBusy: another process holds it, or has just removed it.
        OSError: it cannot be opened, or is a symbolic link.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            lock_open_file(self._descriptor, path)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others have it; may be repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_open_file(descriptor: int, path: Path) -> None:
    """Lock the file or folder at ``path`` until its descriptor is closed.

    Raises:
        OutputBusy: another process holds it, or has just removed it.
    """
    if fcntl is None:
        return
    for tries in range(_MOST_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had the lock before may have finished and removed what was opened here.
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return
            break
        except BlockingIOError:
            if tries >= _TRIES and _is_exclusive(descriptor):
                break
            time.sleep(_PAUSE_S)
        except FileNotFoundError:
            break
        except OSError:  # some network file systems have no locks
            return
    raise _busy(path, _owner(descriptor) or "that has ended")


def _is_exclusive(descriptor: int) -> bool:
    """Whether somebody writes: has the lock for himself, rather than looks at it beside others."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        except BlockingIOError:
            return True
        except OSError:  # some network file systems have no locks
            return False
    return False


def refuse_busy(path: Path) -> None:
    """Find out before anything is changed that another process has a file or folder locked.

    Raises:
        OutputBusy: saying which process.
    """
    if owner := holder(path):
        raise _busy(path, owner)


def _busy(path: Path, owner: str) -> OutputBusy:
    return OutputBusy(f"{path}: this dataset is {being_written(owner)}")


def being_written(owner: str) -> str:
    """What to say of a file that ``owner``, as ``holder`` returns it, has locked, and what to do."""
    return f"being written; wait until {owner}"


def holder(path: Path) -> str:
    """The process that has a file or folder locked, for ``being_written``; empty if none has.

    Its command line is shown to those who may see it. What is not there, or is a link, is not locked.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return _owner(descriptor)
    finally:
        os.close(descriptor)


_UNKNOWN = "another process, perhaps of another computer or container,"


def _owner(descriptor: int) -> str:
    """Who holds the lock of an open file, to be ended with "has ended"; empty if nobody does any more."""
    if not _is_exclusive(descriptor):
        return ""
    number = next(_owners(os.fstat(descriptor)), 0)
    if number <= 0:  # of another PID namespace
        return f"{_UNKNOWN} has ended"
    if number == os.getpid():
        return "this process has ended it"
    process = Path("/proc", str(number))
    command = state = ""
    with suppress(OSError):
        words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")[:-1]
        command = visible(readable(shlex.join(words)))
    with suppress(OSError, IndexError):
        state = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    if len(command) > _MOST_SHOWN:
        command = f"{command[:_MOST_SHOWN]}…"
    ended = f"process {number}{f' ({command})' if command else ''} has ended"
    if state in {"T", "t"}:
        return f"{ended}; it is stopped: kill -CONT {number} lets it go on, kill -KILL {number} ends it"
    return ended


def _owners(file: os.stat_result) -> Iterator[int]:
    """PIDs of the processes that hold a lock of a file, as the kernel lists them; none where it does not."""
    device = (os.major(file.st_dev), os.minor(file.st_dev))
    with suppress(OSError), Path("/proc/locks").open(encoding="ascii") as locks:
        for line in locks:
            _, kind, *words = line.split()
            if kind != "FLOCK":
                continue
            number, (major, minor, inode) = int(words[2]), words[3].split(":")
            if int(inode) != file.st_ino:
                continue
            # Btrfs and overlays show another device here than in a file's status.
            if (int(major, 16), int(minor, 16)) == device or _has_open(number, file):
                yield number


def _has_open(number: int, file: os.stat_result) -> bool:
    with suppress(OSError):
        for descriptor in Path("/proc", str(number), "fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(descriptor.stat(), file):
                    return True
    return False


_PREFIX = b"edgefirst_ros journal "
_HEAD_BYTES = 64
_BIRTH = 1 << 16
_FRAME = struct.Struct("<II")
_PLACE = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A committed record: its payload, and the offset behind it."""

    payload: bytes
    end: int


class Journal:
    """A journal that is open for appending, locked so that no one else writes or recovers its dataset.

    The file is a line that names the format, then records: length and CRC-32, little endian, and payload.
    The CRC is of the record's offset and length, too, so that neither zeros nor a stray block is a record.

    Args:
        path: the journal; made if it is not there.
        format_version: name and version of the format, as ``ncore 2``.
        exclusive: it must not be there yet.

    Attributes:
        path: where the journal is; to be set when its dataset is moved.

    Raises:
        WriteError: another process has it open.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path, format_version: str, *, exclusive: bool = False) -> None:
        self.path = path
        self._head = _head(format_version)
        self._file = AppendFile(path, exclusive=exclusive)
        try:
            lock_open_file(self._file.descriptor, path)
        except BaseException:
            self._file.close()
            raise

    @property
    def is_empty(self) -> bool:
        """Whether the file has no bytes: it was made by opening it."""
        return not self._file.size

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size

    @property
    def is_lost(self) -> bool:
        """Whether the file is open and no longer has its name.

        Raises:
            OSError: the disk does not answer.
        """
        descriptor = self._file.descriptor
        return descriptor >= 0 and not is_in_place(descriptor, self.path)

    def begin(self) -> None:
        """Begin anew, with nothing committed.

        Raises:
            OSError: the disk is full or gone.
        """
        self._file.truncate(0)
        self._file.append(self._head)

    def append(self, payload: bytes) -> int:
        """Commit a record; it survives the process when this returns. How many bytes it takes.

        Raises:
            OSError: the disk is full or gone; nothing of the record stays.
        """
        crc = _crc(self._file.size, payload)
        return self._file.append(_FRAME.pack(len(payload), crc), payload)

    def sync(self) -> None:
        """Wait until the disk holds the records so far; sync what they speak of before. Any thread.

        Raises:
            OSError: the disk refuses.
        """
        self._file.sync()

    def records(self) -> Iterator[JournalRecord]:
        """What is committed, see ``read_journal``."""
        return _read(self.path, self._head)

    def cut(self, end: int) -> None:
        """Drop the records behind the offset ``end``, and what a torn write left."""
        self._file.truncate(end)

    def close(self) -> None:
        """Release file and lock; the journal stays on disk. May be repeated."""
        self._file.close()


def read_journal(path: Path, format_version: str) -> Iterator[JournalRecord]:
    """The committed records in order, up to the first that is not whole.

    Raises:
        DatasetError: the file is not a journal of this format and version.
        OSError: it cannot be read.
    """
    return _read(path, _head(format_version))


def journal_format(path: Path) -> str | None:
    """Name of the format whose journal the file is; None for other files, and one killed at its birth."""
    try:
        file = open_regular(path)
    except OSError:
        return None
    with file:
        head, is_whole, _ = file.read(_HEAD_BYTES).partition(b"\n")
    name = head.removeprefix(_PREFIX).split(b" ")[0]
    return name.decode(errors="replace") if is_whole and head.startswith(_PREFIX) else None


def _head(format_version: str) -> bytes:
    return _PREFIX + format_version.encode() + b"\n"


def _crc(offset: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_PLACE.pack(offset, len(payload))))


def _read(path: Path, head: bytes) -> Iterator[JournalRecord]:
    with open_regular(path) as file:
        found = file.read(len(head))
        if found != head:
            if head.startswith((found + file.read(_BIRTH)).rstrip(b"\0")):
                return  # killed while it was begun; by a power cut, if it ends in zeros
            raise DatasetError(
                f"{path}: begins with {found[:40]!r}, expected {head!r}: if another version of "
                "this package wrote it, recover it with that version; nothing was changed"
            )
        size, offset = path.stat().st_size, len(head)
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            length, crc = _FRAME.unpack(frame)
            end = offset + _FRAME.size + length
            if end > size or _crc(offset, payload := file.read(length)) != crc:
                return
            offset = end
            yield JournalRecord(payload, end)
