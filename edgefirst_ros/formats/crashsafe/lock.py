"""One writer at a time: a lock on a file or folder that the system holds until its owner ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from edgefirst_ros.errors import WriteError

try:
    import fcntl
except ImportError:  # not a POSIX system: two writers at once go unnoticed there
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Keeps other processes from writing or recovering a file or folder; a context manager.

    File systems without locks let two writers pass.

    Raises:
        WriteError: another process holds it, or has just removed it.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
        WriteError: another process holds it, or has just removed it.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had the lock before may have finished and removed what was opened here.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # some network file systems have no locks
        return
    raise WriteError(f"{path}: this dataset is being written; wait until that has ended")
