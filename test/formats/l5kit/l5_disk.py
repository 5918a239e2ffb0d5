"""A disk that loses power, and a process that is killed at any step."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path

import pytest

from edgefirst_ros.formats.crashsafe import sync


class Disk:
    """Takes note of every sync below a folder, and lays out what a power cut would leave of it.

    A file holds what it held when it was synced last, and of what came after nothing, zeros, or some of it.
    A folder holds the names that it had when it was synced last, or those that it has now.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._is_open = True
        self._names: dict[int, dict[str, int]] = {}
        self._contents: dict[int, bytes] = {}
        self._held: dict[int, int] = {}  # open, so that no file gets the number of another
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "fdatasync", self._sync)
        patch.setattr(sync, "flushes_disk", lambda _: False)  # what is not named is not synced

    def close(self) -> None:
        """Let go of the files, and take note of no more."""
        self._is_open = False
        while self._held:
            os.close(self._held.popitem()[1])

    def sync_all(self) -> None:
        """Sync every file and folder."""
        for path in (self._root, *self._root.rglob("*")):
            descriptor = os.open(path, os.O_RDONLY)
            self._sync(descriptor)
            os.close(descriptor)

    def cut(self, target: Path, chance: random.Random) -> None:
        """What is left, in a folder that is made."""
        names: dict[int, dict[str, int]] = {}
        contents: dict[int, bytes] = {}
        for path in (self._root, *self._root.rglob("*")):
            number = path.stat().st_ino
            if path.is_dir():
                names[number] = {each.name: each.stat().st_ino for each in path.iterdir()}
            else:
                contents[number] = path.read_bytes()

        def lay(number: int, place: Path) -> None:
            if number not in names and number not in self._names:
                place.write_bytes(self._left(number, contents.get(number), chance))
                return
            place.mkdir()
            for name, inside in chance.choice([self._names.get(number, {}), names.get(number, {})]).items():
                lay(inside, place / name)

        lay(self._root.stat().st_ino, target)

    def _left(self, number: int, now: bytes | None, chance: random.Random) -> bytes:
        synced = self._contents.get(number, b"")
        if now is None:  # removed, and that is undone
            return synced
        if len(now) < len(synced):
            return chance.choice([synced, now])
        new = now[len(synced) :]
        some = bytes(byte if chance.random() < 0.9 else 0 for byte in new)
        return now[: len(synced)] + chance.choice([b"", new, new[: len(new) // 2], bytes(len(new)), some])

    def _sync(self, descriptor: int) -> None:
        if not self._is_open:
            return
        state, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}")
        held = {path: state.st_ino}
        if stat.S_ISDIR(state.st_mode):
            inside = {each: each.stat().st_ino for each in path.iterdir()}
            self._names[state.st_ino] = {each.name: number for each, number in inside.items()}
            held |= inside
        else:
            self._contents[state.st_ino] = path.read_bytes()
        for each, number in held.items():
            if number not in self._held:
                self._held[number] = os.open(each, os.O_RDONLY)


class Killed(Exception):
    """Stands for the death of the process."""


def steps(patch: pytest.MonkeyPatch, limit: int) -> list[int]:
    """Let the file system be changed ``limit`` times, and then die; half of a write is done before."""
    done = [0]

    def count(real, half):  # noqa: ANN001, ANN202 - wraps anything
        def step(*args, **options):  # noqa: ANN002, ANN003, ANN202
            done[0] += 1
            if done[0] > limit:
                if half:
                    half(*args)
                raise Killed
            return real(*args, **options)

        return step

    whole = os.pwritev

    def half(descriptor: int, buffers: list[bytes], offset: int) -> None:
        data = b"".join(buffers)
        whole(descriptor, [data[: len(data) // 2]], offset)

    patch.setattr(os, "pwritev", count(whole, half))
    for name in ("ftruncate", "fsync", "fdatasync", "replace", "unlink", "rmdir", "mkdir", "link"):
        patch.setattr(os, name, count(getattr(os, name), None))
    patch.setattr(sync, "sync_file_system", count(sync.sync_file_system, None))
    return done
