"""Files and folders that take a name as a whole, in place of what has it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.sync import sync_file, sync_path, sync_paths

NEW = ".new"
"""How the name of a file ends that ``replace_file`` has not put in place yet."""


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> int:
    """Write a file so that its name has either all of ``data`` or what it had before; how many bytes.

    Args:
        path: the file.
        data: what it is to hold.
        sync: wait until the disk holds the bytes, and then the name. Without it a power cut can leave the
            file empty.

    Raises:
        OSError: the disk is full or gone.
    """
    new = path.with_name(path.name + NEW)
    new.unlink(missing_ok=True)  # a link to elsewhere is not written through
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, 0o644), "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                sync_file(file.fileno())
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    if sync:
        sync_path(path.parent)
    return len(data)


def take_name(path: Path) -> None:
    """Give a complete ``.part`` its name; a folder that has the name waits as ``old_path`` to be removed.

    The disk must hold the ``.part`` before; it holds the name afterwards.

    Raises:
        OSError: the file system refuses; ``restore_old`` puts the folder back.
    """
    if path.is_dir():
        remove(old_path(path))
        path.replace(old_path(path))
    part_path(path).replace(path)
    sync_path(path.parent)


def restore_old(path: Path) -> None:
    """Put back the folder that waits, if its successor did not get the name.

    Raises:
        OSError: the file system refuses.
    """
    if old_path(path).exists() and not path.exists():
        old_path(path).replace(path)


def forget(*paths: Path) -> None:
    """Remove what is there of files and folders so that a power cut does not bring their names back.

    A file system without a journal can give the blocks of a removed file, and its inode, to others before the
    disk holds the folder without its name, which then leads to what is theirs. So the files stay open until
    it does. Of a symbolic link, the link is removed.

    Raises:
        OSError: the file system refuses.
    """
    with ExitStack() as held:
        for path in paths:
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                    held.callback(os.close, hold(path))
            remove(path)
        sync_paths(sorted({path.parent for path in paths}))


def forget_unfinished(leftovers: Iterable[Path], journal: Path) -> None:
    """Remove what is unfinished, and its journal only once the disk holds none of the rest any more.

    Without it nobody could tell what of the rest was committed, and the disk may take removals in any order.

    Raises:
        OSError: the file system refuses.
    """
    forget(*leftovers)
    forget(journal)


def hold(path: Path) -> int:
    """Descriptor of a file or folder, which keeps its blocks when it is removed; to be closed.

    Raises:
        OSError: it is not there, or is a link.
    """
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there; of a symbolic link, the link.

    Raises:
        OSError: the file system refuses.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
