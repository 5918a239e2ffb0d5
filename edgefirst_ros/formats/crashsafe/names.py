"""Names of a dataset's files: growing, being replaced, and recovered beside a complete dataset."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from edgefirst_ros.formats.crashsafe.links import refuse_links
from edgefirst_ros.formats.crashsafe.sync import make_folder, sync_file, sync_path, sync_paths
from edgefirst_ros.model.untrusted import read_regular

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
