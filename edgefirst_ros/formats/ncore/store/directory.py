"""A store in a directory: one file a record, the commit mark's file last."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from edgefirst_ros.errors import WriteError
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.ncore.store.base import ADVICE
from edgefirst_ros.formats.ncore.store.marks import (
    ATTACHED,
    COLLECTIONS,
    FINISHED,
    Contents,
    commit,
    entry_of,
    is_attachment_mark,
    is_mark,
    take_cube,
)
from edgefirst_ros.formats.ncore.store.meta import md5_of
from edgefirst_ros.formats.ncore.store.packed import KEY, consolidate
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, Record, is_metadata

_ATTACHED = Path("generic_data") / ATTRIBUTES_KEY


class DirectoryStore:
    """Implements Store on a directory tree."""

    def __init__(self, part: Path) -> None:
        self.part = part
        self.contents = Contents()
        part.mkdir(parents=True, exist_ok=True)

    @classmethod
    def create(cls, part: Path) -> Self:
        """An empty store, whatever was there."""
        remove(part)
        return cls(part)

    @classmethod
    def recover(cls, part: Path) -> tuple[Self, int]:
        """The store without entries that lack their commit mark, and how many bytes those had."""
        store = cls(part)
        (part / KEY).unlink(missing_ok=True)
        dropped = 0
        for collection in sorted(part.glob("*/*/*")):
            if collection.name in COLLECTIONS:
                dropped += store._recover_entries(collection)
        return store, dropped + store._remove_uncommitted()

    def _remove_uncommitted(self) -> int:
        """Components and instances without an entry: torn, or of a finish that was killed itself."""
        dropped = 0
        for component in sorted(path for path in self.part.iterdir() if path.is_dir()):
            kept = {name for kind, name in self.contents.instances if kind == component.name}
            doomed = [path for path in component.iterdir() if path.is_dir() and path.name not in kept]
            dropped += sum(_remove(path) for path in (doomed if kept else [component]))
        return dropped

    def _recover_entries(self, collection: Path) -> int:
        dropped = 0
        for entry in sorted((path for path in collection.iterdir() if path.name.isdigit()), key=_number):
            mark = entry / ATTRIBUTES_KEY
            key = mark.relative_to(self.part).as_posix()
            if not (mark.is_file() and commit(self.contents, key, mark.read_bytes())):
                dropped += _remove(entry)
                continue
            for name in FINISHED:
                for added in entry.glob(name):
                    _remove(added)
            attached = entry / _ATTACHED
            if is_attachment_mark(attached.relative_to(self.part).as_posix()) and _whole(attached):
                take_cube(self.contents, key, attached.read_bytes())
            else:
                attached.unlink(missing_ok=True)
                dropped += sum(_remove(entry / "generic_data" / name) for name in ATTACHED)
        return dropped

    def append(self, records: Sequence[Record]) -> int:
        """Write the files of a batch in order."""
        folders: dict[str, Path] = {}
        written = 0
        try:
            with disk_errors(self.part, advice=ADVICE):
                for key, payload in records:
                    parent, _, name = key.rpartition("/")
                    if parent not in folders:
                        folders[parent] = self.part / parent
                        folders[parent].mkdir(parents=True, exist_ok=True)
                    (folders[parent] / name).write_bytes(payload)
                    written += len(payload)
        except WriteError:
            self._take_back(records[-1][0])
            raise
        return written

    def _take_back(self, last: str) -> None:
        """Remove what there is of an entry, or of what was attached to one."""
        entry = entry_of(last)
        if entry is not None and is_mark(last):
            _remove(self.part / entry)
        elif entry is not None and is_attachment_mark(last):
            for name in ATTACHED:
                _remove(self.part / entry / "generic_data" / name)

    def has(self, key: str) -> bool:
        """True if a record was appended."""
        return (self.part / key).is_file()

    def payloads(self, prefix: str, part: str) -> Callable[[str], bytes]:
        """Payload by key, of the records whose keys begin with ``prefix`` and contain ``part``."""

        def payload(key: str) -> bytes:
            path = self.part / key
            if not (key.startswith(prefix) and part in key and path.is_file()):
                raise KeyError(key)
            return path.read_bytes()

        return payload

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Key and payload of every metadata record, sorted by folder."""
        for folder, folders, files in os.walk(self.part):
            folders.sort()
            prefix = Path(folder).relative_to(self.part).as_posix().removeprefix(".")
            for name in sorted(files):
                if is_metadata(name):
                    yield f"{prefix}/{name}".lstrip("/"), (Path(folder) / name).read_bytes()

    def seal(self) -> None:
        """Write consolidated metadata."""
        self.append([(KEY, consolidate(self.metadata()))])

    def md5(self) -> str:
        """Of the sealed store, which takes reading all of it.

        nvidia-ncore takes the files in the order of their names. The first is the root's ``.zattrs``, which
        says when the sequence ended: so no part of it can be computed before that.
        """
        return md5_of(self.part)

    def release(self) -> None:
        """Nothing is held open."""


def _remove(path: Path) -> int:
    """Delete a tree; how many bytes its files had."""
    if not path.is_dir():
        return 0
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    shutil.rmtree(path)
    return size


def _whole(path: Path) -> bool:
    """False for JSON that is not there, or was not written to its end."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _number(path: Path) -> int:
    return int(path.name)
