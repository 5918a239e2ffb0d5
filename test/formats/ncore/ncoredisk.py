"""A disk that holds what was synced, so that a test can cut the power."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from edgefirst_ros.formats.crashsafe import sync

_BLOCK = 4096


class Disk:
    """Watches what is synced below a folder, by any thread.

    Args:
        root: the folder, whose own name is on the disk.
        patch: of the functions that sync.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._files: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._open: list[int] = []  # so that no inode is used again
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._sync)
        patch.setattr(sync, "flushes_disk", lambda _: False)  # what is not named is not synced

    def _sync(self, descriptor: int) -> None:
        if not Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(self._root):
            return
        status = os.fstat(descriptor)
        if status.st_ino not in self._names.keys() | self._files.keys():
            self._open.append(os.dup(descriptor))
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(descriptor)}
        else:
            self._files[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def cut(self, target: Path, *, late: bool) -> None:
        """Copy to ``target`` what the folder is after a power cut.

        Args:
            target: a new folder.
            late: the disk has every name already, and of what was not synced the last block of each file,
                zeros before it; else it has nothing more than what was synced.
        """
        there = {path.stat().st_ino: path for path in self._root.rglob("*")}
        self._restore(self._root, target, there, late=late)

    def _restore(self, source: Path, target: Path, there: dict[int, Path], *, late: bool) -> None:
        target.mkdir()
        now = {path.name: path.stat().st_ino for path in source.iterdir()}
        for name, inode in (now if late else self._names.get(source.stat().st_ino, {})).items():
            path = there.get(inode)
            if path is not None and path.is_dir():
                self._restore(path, target / name, there, late=late)
                continue
            held = self._files.get(inode, b"")
            if late and path is not None:
                data = path.read_bytes()
                last = max(len(held), (len(data) - 1) // _BLOCK * _BLOCK)
                held = held + bytes(last - len(held)) + data[last:] if len(data) > len(held) else held
            (target / name).write_bytes(held)

    def close(self) -> None:
        """Release what is held open."""
        for descriptor in self._open:
            os.close(descriptor)
