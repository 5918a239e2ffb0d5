"""One writer at a time: a lock on a file or folder that lasts until its owner ends, and who that is."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from edgefirst_ros.errors import OutputBusy
from edgefirst_ros.naming import readable, visible

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
