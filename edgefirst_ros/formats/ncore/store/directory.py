"""A store in a directory: one file a record."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from edgefirst_ros.formats.crashsafe.names import remove
from edgefirst_ros.formats.crashsafe.sync import Unsynced, disk_errors, sync_paths, tree
from edgefirst_ros.formats.ncore.store.base import ADVICE, Batch, Contents, md5_of, take_mark
from edgefirst_ros.formats.ncore.store.journal import KEY, consolidate
from edgefirst_ros.formats.zarr2 import Record, is_metadata
from edgefirst_ros.model.errors import DatasetError, WriteError
from edgefirst_ros.model.untrusted import read_regular
from edgefirst_ros.model.zlib_backend import crc32_of

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW

MOST_RECORD_BYTES = 1 << 30
"""A larger record is of no writer of this package."""


class DirectoryStore:
    """Implements Store on a directory tree.

    Raises:
        DatasetError: it is a symbolic link, or one is in it, through which files elsewhere would be changed.
    """

    def __init__(self, part: Path) -> None:
        self.part = part
        self.contents = Contents()
        self._unsynced = Unsynced(part)
        self._kept: set[str] = set()
        link = next((path for path in (part, *part.rglob("*")) if path.is_symlink()), None)
        if link is not None:
            raise DatasetError(f"{link}: is a symbolic link, which no store has; nothing in it was changed")

    @classmethod
    def create(cls, part: Path) -> Self:
        """Create an empty store in place of any existing one."""
        remove(part)
        part.mkdir(parents=True)
        return cls(part)

    def keep(self, batch: Batch) -> bool:
        """Whether the files of the batch are there and whole; see Store."""
        if not isinstance(batch.place, list):
            return False
        paths = [self.part / key for key in batch.place]
        try:
            if not all(map(Path.is_file, paths)) or sum(p.stat().st_size for p in paths) != batch.size:
                return False
            payloads = [read_regular(path, MOST_RECORD_BYTES) for path in paths]
        except OSError:
            return False
        if crc32_of(payloads) != batch.crc:
            return False
        self._kept.update(batch.place)
        for key, payload in zip(batch.place, payloads, strict=True):
            take_mark(self.contents, key, payload)
        return True

    def cut(self) -> int:
        """Remove the files that were not kept; see Store."""
        dropped = 0
        for folder, folders, files in os.walk(self.part, topdown=False):
            for path in (Path(folder, name) for name in files):
                if path.relative_to(self.part).as_posix() not in self._kept:
                    dropped += path.stat().st_size
                    path.unlink()
            for path in (Path(folder, name) for name in folders):
                if not any(path.iterdir()):
                    path.rmdir()
        return dropped

    def append(self, records: Sequence[Record]) -> Batch:
        """Write the files of a batch in order."""
        folders: dict[str, Path] = {}
        written: list[Path] = []
        try:
            with disk_errors(self.part, advice=ADVICE):
                for key, payload in records:
                    parent, _, name = key.rpartition("/")
                    if parent not in folders:
                        folders[parent] = self.part / parent
                        folders[parent].mkdir(parents=True, exist_ok=True)
                    written.append(folders[parent] / name)
                    _write(written[-1], payload)
        except WriteError:
            for path in written:
                remove(path)
            raise
        above = (each for path in folders.values() for each in (path, *path.parents))
        self._unsynced.add(self.part, *written, *(path for path in above if self.part in path.parents))
        payloads = [payload for _, payload in records]
        return Batch([key for key, _ in records], sum(map(len, payloads)), crc32_of(payloads))

    def unsynced(self) -> list[Path]:
        """Files and folders; see Store."""
        return self._unsynced.take()

    def has(self, key: str) -> bool:
        """True if a record was appended."""
        return (self.part / key).is_file()

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Key and payload of every metadata record, sorted by folder."""
        for folder, folders, files in os.walk(self.part):
            folders.sort()
            prefix = Path(folder).relative_to(self.part).as_posix().removeprefix(".")
            for name in sorted(files):
                if is_metadata(name):
                    yield f"{prefix}/{name}".lstrip("/"), read_regular(Path(folder) / name, MOST_RECORD_BYTES)

    def seal(self) -> None:
        """Write consolidated metadata, and wait for the disk; see Store."""
        self.append([(KEY, consolidate(self.metadata()))])
        with disk_errors(self.part, advice=ADVICE):
            sync_paths(tree(self.part))

    def md5(self) -> str:
        """Of the sealed store, which takes reading all of it.

        nvidia-ncore takes the files in the order of their names. The first is the root's ``.zattrs``, which
        says when the sequence ended: so no part of it can be computed before that.
        """
        return md5_of(self.part)

    def release(self) -> None:
        """Nothing is held open."""


def _write(path: Path, payload: bytes) -> None:
    descriptor = os.open(path, _NEW_FILE, 0o644)
    try:
        rest = memoryview(payload)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
