"""A store in one tar file: one writev a batch, the index in memory, recovered by walking the members."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from edgefirst_ros.errors import WriteError
from edgefirst_ros.formats.ncore.store.consolidated import KEY, Consolidation
from edgefirst_ros.formats.ncore.store.itar import RecordIndex, tail
from edgefirst_ros.formats.ncore.store.marks import (
    Contents,
    commit,
    entry_of,
    is_attachment_mark,
    is_mark,
    take_cube,
)
from edgefirst_ros.formats.ncore.store.tar import BLOCK, header, members, padded
from edgefirst_ros.formats.zarr2.metadata import Record, is_metadata

_BUFFERS = 1024
"""Most buffers one writev takes (IOV_MAX)."""

_SMALL = 2 * BLOCK
"""Buffers of no more than this on average are copied into one, which takes less time than one by one."""

_SHALLOW = 3
"""Slashes in the key of a collection's group, the deepest that several entries share."""

_ZEROS = bytes(BLOCK)
_CHUNK = 1 << 20


class TarStore:
    """Implements Store on one file.

    The file only grows at its end, so its MD5, the consolidated metadata and the index's keys are made while
    it is written: what is left to do at the end hardly depends on its size.
    """

    def __init__(self, part: Path, *, sync: bool = False) -> None:
        self.part = part
        self.contents = Contents()
        self._sync = sync
        self._index = RecordIndex()
        self._digest = hashlib.md5(usedforsecurity=False)
        self._consolidation = Consolidation()
        self._shared: set[str] = set()
        self._position = 0
        self._descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o644)

    @classmethod
    def create(cls, part: Path, *, sync: bool = False) -> Self:
        """An empty store, whatever was there."""
        # Not truncated: ext4 waits at the close of a file that was, until all its blocks are on their way.
        part.unlink(missing_ok=True)
        return cls(part, sync=sync)

    @classmethod
    def recover(cls, part: Path) -> tuple[Self, int]:
        """The store cut back to its last commit mark, and how many bytes were behind it."""
        store = cls(part)
        end = store._walk()
        size = os.fstat(store._descriptor).st_size
        os.ftruncate(store._descriptor, end)
        store._position = end
        store._catch_up()
        return store, size - end

    def _catch_up(self) -> None:
        """What appending would have done on the way, for what is in the file."""
        for start in range(0, self._position, _CHUNK):
            length = min(_CHUNK, self._position - start)
            self._digest.update(os.pread(self._descriptor, length, start))
        for key, payload in self.metadata():
            self._consolidation.add(key, payload)
        self._index.pack()

    def _walk(self) -> int:
        committed, mark, shared, pending = 0, self._index.mark(), set[str](), set[str]()
        entries: set[str | None] = set()
        for member in members(self._descriptor):
            self._index.add(member.name.encode(), member.offset, member.size)
            if member.name.count("/") <= _SHALLOW:
                pending.add(member.name)
            if not (is_mark(member.name) or is_attachment_mark(member.name)):
                continue
            payload = os.pread(self._descriptor, member.size, member.offset)
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
        position, buffers, places, pending = (
            self._position,
            list[bytes](),
            list[tuple[bytes, int, int]](),
            b"",
        )
        for key, payload in records:
            name, size = key.encode(), len(payload)
            buffers.append(pending + header(name, size))
            buffers.append(payload)
            pending = _ZEROS[: padded(size) - size]
            places.append((name, position + BLOCK, size))
            position += BLOCK + size + len(pending)
        buffers.append(pending)
        digest = self._digest.copy()
        try:
            self._write(buffers)
        except BaseException as error:
            self._digest = digest
            os.ftruncate(self._descriptor, self._position)
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise WriteError(
                    f"{self.part}: {reason}; edgefirst-ros recover keeps what was written"
                ) from error
            raise
        for place in places:
            self._index.add(*place)
        self._index.pack()
        for key, payload in records:
            if is_metadata(key):
                self._consolidation.add(key, payload)
        written, self._position = position - self._position, position
        self._shared.update(key for key, _ in records if key.count("/") <= _SHALLOW)
        return written

    def _write(self, buffers: list[bytes]) -> None:
        position = self._position
        for start in range(0, len(buffers), _BUFFERS):
            batch = buffers[start : start + _BUFFERS]
            expected = sum(map(len, batch))
            if expected <= len(batch) * _SMALL:
                batch = [b"".join(batch)]
            written = os.pwritev(self._descriptor, batch, position)
            if written < expected:
                self._write_rest(b"".join(batch)[written:], position + written)
            position += expected
            for buffer in batch:
                self._digest.update(buffer)
        if self._sync:
            os.fdatasync(self._descriptor)

    def _write_rest(self, rest: bytes, position: int) -> None:
        """What a short write left over: a signal came in between, or the next write says why not."""
        while rest:
            written = os.pwrite(self._descriptor, rest, position)
            rest, position = rest[written:], position + written

    def has(self, key: str) -> bool:
        """True if a record of at most four levels was appended."""
        return key in self._shared

    def payloads(self, prefix: str, part: str) -> Callable[[str], bytes]:
        """Payload by key, of the records so far whose keys begin with ``prefix`` and contain ``part``."""
        places = {n: (at, size) for n, at, size in self._index if n.startswith(prefix) and part in n}

        def payload(key: str) -> bytes:
            offset, size = places[key]
            return os.pread(self._descriptor, size, offset)

        return payload

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Key and payload of every metadata record, in the order of the file."""
        for name, offset, size in self._index:
            if is_metadata(name):
                yield name, os.pread(self._descriptor, size, offset)

    def seal(self) -> None:
        """Append consolidated metadata, end of archive, index and trailer."""
        self.append([(KEY, self._consolidation.finish())])
        try:
            self._write(tail(self._position, self._index))
        except OSError as error:
            raise WriteError(
                f"{self.part}: {error.strerror or error}; run recover when there is room"
            ) from error
        self.release()

    def md5(self) -> str:
        """Of the sealed file."""
        return self._digest.hexdigest()

    def release(self) -> None:
        """Close the file as it is."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
