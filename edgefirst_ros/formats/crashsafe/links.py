"""Symbolic links inside of an output or a dataset are not followed, neither for writing nor for reading.

What the user names may itself be one, or lie below one.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgefirst_ros.errors import DatasetError, EdgeFirstError, WriteError

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


def refuse_links_in(top: Path, *inside: Path, kind: type[EdgeFirstError] = DatasetError) -> None:
    """Refuse what holds a symbolic link: a dataset, or a folder that is to be changed.

    Args:
        top: may be a link itself, nothing below it.
        inside: files and folders that are of it but not below it, and may not be links either.
        kind: of the error.

    Raises:
        EdgeFirstError: of ``kind``, naming the link.
    """
    found = next((path for path in inside if path.is_symlink()), None)
    if found := found or next(filter(None, map(link_in, dict.fromkeys((top, *inside)))), None):
        raise kind(f"{found} {NOT_FOLLOWED}: put there what it leads to, or remove it")
