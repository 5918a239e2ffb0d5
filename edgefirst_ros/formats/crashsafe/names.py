"""Names of a dataset's files: growing, being replaced, and recovered beside a complete dataset.

Symbolic links inside of an output or a dataset are not followed, neither for writing nor for reading.

What the user names may itself be one, or lie below one.

Files and folders that take a name as a whole, in place of what has it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

from edgefirst_ros.formats.crashsafe.sync import make_folder, sync_file, sync_path, sync_paths
from edgefirst_ros.model.errors import DatasetError, WriteError
from edgefirst_ros.model.untrusted import read_regular

NOT_FOLLOWED = "is a symbolic link, and none inside a dataset is followed"


def refuse_links(top: Path, *paths: Path) -> None:
    """Refuse to write where a symbolic link leads elsewhere.

    Args:
        top: a folder, which may be a link itself.
        paths: files or folders below it, there or not; the folders on the way to them are looked at, too.

    Raises:
        WriteError: naming the link.
    """
    for path in paths:
        way = [path, *path.parents]
        for each in reversed(way[: way.index(top)]):
            if each.is_symlink():
                raise WriteError(
                    f"{each} is a symbolic link, and nothing is written through links: remove it, or choose "
                    "another output folder (which may itself be a link)"
                )


def link_in(path: Path) -> Path | None:
    """A symbolic link below a folder, wherever; None if there is none, or if it is no folder."""
    folders: list[str | Path] = [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        return Path(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:  # what cannot be listed cannot be read either, which its reader says
            continue
    return None


def refuse_links_in(top: Path, *inside: Path) -> None:
    """Refuse what holds a symbolic link: a dataset, or a folder that is to be changed.

    Args:
        top: may be a link itself, nothing below it.
        inside: files and folders that are of it but not below it, and may not be links either.

    Raises:
        DatasetError: naming the link.
    """
    found = next((path for path in inside if path.is_symlink()), None)
    if found := found or next(filter(None, map(link_in, dict.fromkeys((top, *inside)))), None):
        raise DatasetError(f"{found} {NOT_FOLLOWED}: put there what it leads to, or remove it")


PART = ".part"
OLD = ".old.part"
RECOVERED = "_recovered"
_MOST_NOTE_BYTES = 1024


def part_path(path: Path) -> Path:
    """The name under which ``path`` grows."""
    return path.with_name(path.name + PART)


def old_path(path: Path) -> Path:
    """Where a folder waits while its successor takes its name."""
    return path.with_name(path.name + OLD)


def finished_path(path: Path) -> Path:
    """The name of the finished file or folder; ``path`` may be finished, growing or being replaced."""
    return path.with_name(path.name.removesuffix(OLD).removesuffix(PART))


def free_name(path: Path) -> Path:
    """``NAME_recovered``, else ``NAME_recovered_2`` and so on, ``.zarr`` behind it if ``path`` has that."""
    suffix = ".zarr" if path.suffix == ".zarr" else ""
    stem = path.name.removesuffix(suffix)
    names = (f"{stem}{RECOVERED}{f'_{number}' if number > 1 else ''}{suffix}" for number in count(1))
    taken = (n for n in names if not any(path.with_name(n + end).exists() for end in ("", PART, OLD)))
    return path.with_name(next(taken))


def move_part(path: Path) -> Path:
    """Move the unfinished folder of ``path`` beside the complete one, under a free name; that dataset's path.

    Raises:
        OSError: it cannot be moved.
    """
    free = free_name(path)
    part_path(path).replace(part_path(free))
    return free


def move_aside(note: Path, moves: Callable[[Path], Iterable[tuple[Path, Path]]]) -> Path:
    """Move an unfinished dataset out of the folder of the complete one; safe to repeat when killed.

    Args:
        note: file in the complete dataset's folder that names the new folder until everything is moved.
        moves: source and target of each file for the new folder, the journal last: without it nothing is
            recovered there.

    Returns:
        The new folder.

    Raises:
        OSError: a file cannot be moved.
    """
    name = read_regular(note, _MOST_NOTE_BYTES).decode(errors="replace") if note.exists() else ""
    own = re.escape(note.parent.name + RECOVERED) + r"(_\d+)?\n"
    if not re.fullmatch(own, name):  # killed before anything was moved
        name = f"{free_name(note.parent).name}\n"
        note.unlink(missing_ok=True)  # a link to elsewhere is not written through
        with note.open("x", encoding="utf-8") as file:
            file.write(name)
            file.flush()
            sync_file(file.fileno())
        sync_path(note.parent)
    folder = note.parent.with_name(name.removesuffix("\n"))
    refuse_links(folder.parent, folder)
    make_folder(folder)
    pairs = [*moves(folder)]
    for some in (pairs[:-1], pairs[-1:]):
        for source, target in some:
            if source.exists():
                source.replace(target)
        sync_paths((folder, note.parent))
    note.unlink(missing_ok=True)
    return folder


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
