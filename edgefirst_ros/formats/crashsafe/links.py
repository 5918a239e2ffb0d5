"""Symbolic links are not followed out of the output folder."""

from __future__ import annotations

from pathlib import Path

from edgefirst_ros.errors import WriteError


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
