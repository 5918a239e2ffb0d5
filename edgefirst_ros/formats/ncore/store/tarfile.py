"""A store in one tar file: one writev a batch, the index in memory, recovered by walking the members."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from edgefirst_ros.formats.crashsafe.appending import AppendFile, disk_errors
from edgefirst_ros.formats.ncore.store.base import ADVICE
from edgefirst_ros.formats.ncore.store.itar import BLOCK, RecordIndex, header, members, padded, tail
from edgefirst_ros.formats.ncore.store.marks import (
    Contents,
    commit,
    entry_of,
    is_attachment_mark,
    is_mark,
    take_cube,
)
from edgefirst_ros.formats.ncore.store.packed import KEY, Consolidation
from edgefirst_ros.formats.zarr2.metadata import Record, is_metadata

_SHALLOW = 3
"""Slashes in the key of a collection's group, the deepest that several entries share."""

_ZEROS = bytes(BLOCK)
_CHUNK = 1 << 20


class TarStore:
    """Implements Store on one file.

    The file only grows at its end, so its MD5, the consolidated metadata and the index's keys are made while
    it is written: what is left to do at the end hardly depends on its size.
    """

    def __init__(self, part: Path) -> None:
        self.part = part
        self.contents = Contents()
        self._file = AppendFile(part)
        self._index = RecordIndex()
        self._digest = hashlib.md5(usedforsecurity=False)
        self._consolidation = Consolidation()
        self._shared: set[str] = set()

    @classmethod
    def create(cls, part: Path) -> Self:
        """An empty store, whatever was there."""
        # Not truncated: ext4 waits at the close of a file that was, until all its blocks are on their way.
        part.unlink(missing_ok=True)
        return cls(part)

    @classmethod
    def recover(cls, part: Path) -> tuple[Self, int]:
        """The store cut back to its last commit mark, and how many bytes were behind it."""
        store = cls(part)
        dropped = store._file.truncate(store._walk())
        store._catch_up()
        return store, dropped

    def _catch_up(self) -> None:
        """What appending would have done on the way, for what is in the file."""
        for start in range(0, self._file.size, _CHUNK):
            self._digest.update(self._file.read(_CHUNK, start))
        for key, payload in self.metadata():
            self._consolidation.add(key, payload)
        self._index.pack()

    def _walk(self) -> int:
        committed, mark, shared, pending = 0, self._index.mark(), set[str](), set[str]()
        entries: set[str | None] = set()
        for member in members(self._file.descriptor):
            self._index.add(member.name.encode(), member.offset, member.size)
            if member.name.count("/") <= _SHALLOW:
                pending.add(member.name)
            if not (is_mark(member.name) or is_attachment_mark(member.name)):
                continue
            payload = self._file.read(member.size, member.offset)
            if is_attachment_mark(member.name):
                take_cube(self.contents, member.name, payload)
                if entry_of(member.name) not in entries:
                    continue
            elif commit(self.contents, member.name, payload):
                entries.add(entry_of(member.name))
            else:
                break
            committed, mark = member.end, self._index.mark()
            shared |= pending
            pending.clear()
        self._index.rewind(mark)
        self._shared = shared
        return committed

    def append(self, records: Sequence[Record]) -> int:
        """Append a batch in one system call."""
        position, pending = self._file.size, b""
        buffers, places = list[bytes](), list[tuple[bytes, int, int]]()
        for key, payload in records:
            name, size = key.encode(), len(payload)
            buffers.append(pending + header(name, size))
            buffers.append(payload)
            pending = _ZEROS[: padded(size) - size]
            places.append((name, position + BLOCK, size))
            position += BLOCK + size + len(pending)
        buffers.append(pending)
        written = self._write(buffers)
        for place in places:
            self._index.add(*place)
        self._index.pack()
        for key, payload in records:
            if is_metadata(key):
                self._consolidation.add(key, payload)
        self._shared.update(key for key, _ in records if key.count("/") <= _SHALLOW)
        return written

    def _write(self, buffers: list[bytes]) -> int:
        with disk_errors(self.part, advice=ADVICE):
            written = self._file.append(*buffers)
        for buffer in buffers:
            self._digest.update(buffer)
        return written

    def has(self, key: str) -> bool:
        """True if a record of at most four levels was appended."""
        return key in self._shared

    def payloads(self, prefix: str, part: str) -> Callable[[str], bytes]:
        """Payload by key, of the records so far whose keys begin with ``prefix`` and contain ``part``."""
        places = {n: (at, size) for n, at, size in self._index if n.startswith(prefix) and part in n}

        def payload(key: str) -> bytes:
            offset, size = places[key]
            return self._file.read(size, offset)

        return payload

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Key and payload of every metadata record, in the order of the file."""
        for name, offset, size in self._index:
            if is_metadata(name):
                yield name, self._file.read(size, offset)

    def seal(self) -> None:
        """Append consolidated metadata, end of archive, index and trailer."""
        self.append([(KEY, self._consolidation.finish())])
        self._write(tail(self._file.size, self._index))
        self.release()

    def md5(self) -> str:
        """Of the sealed file."""
        return self._digest.hexdigest()

    def release(self) -> None:
        """Close the file as it is."""
        self._file.close()
