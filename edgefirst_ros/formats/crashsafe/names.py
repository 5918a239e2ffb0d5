"""Names of a dataset's files while they grow and are replaced, and how a complete file takes its name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from edgefirst_ros.formats.crashsafe.sync import sync_file

PART = ".part"
OLD = ".old.part"
RECOVERED = "_recovered"


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
    name = note.read_text(encoding="utf-8") if note.exists() else ""
    if not name.endswith("\n"):  # killed before anything was moved
        name = f"{free_name(note.parent).name}\n"
        note.write_text(name, encoding="utf-8")
    folder = note.parent.with_name(name.removesuffix("\n"))
    folder.mkdir(exist_ok=True)
    for source, target in moves(folder):
        if source.exists():
            source.replace(target)
    note.unlink(missing_ok=True)
    return folder


NEW = ".new"
"""How the name of a file ends that ``replace_file`` has not put in place yet."""


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> int:
    """Write a file so that its name has either all of ``data`` or what it had before; how many bytes.

    Args:
        path: the file.
        data: what it is to hold.
        sync: have the disk hold the bytes before they get the name; else a power cut can leave it empty.

    Raises:
        OSError: the disk is full or gone.
    """
    new = path.with_name(path.name + NEW)
    with new.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            sync_file(file.fileno())
    new.replace(path)
    return len(data)


def take_name(path: Path) -> None:
    """Give a complete ``.part`` its name; a folder that has the name waits as ``old_path`` to be removed.

    Raises:
        OSError: the file system refuses; ``restore_old`` puts the folder back.
    """
    if path.is_dir():
        remove(old_path(path))
        path.replace(old_path(path))
    part_path(path).replace(path)


def restore_old(path: Path) -> None:
    """Put back the folder that waits, if its successor did not get the name.

    Raises:
        OSError: the file system refuses.
    """
    if old_path(path).exists() and not path.exists():
        old_path(path).replace(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there.

    Raises:
        OSError: the file system refuses.
    """
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
