"""A store in one tar file: one writev a batch, the index in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from edgefirst_ros.codecs.zlib_backend import crc32_of
from edgefirst_ros.formats.crashsafe.appending import AppendFile, disk_errors
from edgefirst_ros.formats.ncore.store.base import ADVICE, Batch
from edgefirst_ros.formats.ncore.store.digest import StreamDigest
from edgefirst_ros.formats.ncore.store.itar import BLOCK, RecordIndex, header, members, padded, tail
from edgefirst_ros.formats.ncore.store.marks import Contents, take_mark
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
        self._digest = StreamDigest()
        self._consolidation = Consolidation()
        self._shared: set[str] = set()
        self._kept = 0

    @classmethod
    def create(cls, part: Path) -> Self:
        """Create an empty store in place of any existing one."""
        # Not truncated: ext4 waits at the close of a file that was, until all its blocks are on their way.
        part.unlink(missing_ok=True)
        return cls(part)

    def keep(self, batch: Batch) -> bool:
        """Whether the next bytes are the batch's; see Store."""
        end = self._kept + batch.size
        if batch.place != self._kept or not self._kept < end <= self._file.size:
            return False
        starts = range(self._kept, end, _CHUNK)
        crc = crc32_of(self._file.read(min(_CHUNK, end - start), start) for start in starts)
        if crc == batch.crc:
            self._kept = end
        return crc == batch.crc

    def cut(self) -> int:
        """Drop what follows the last batch kept, and index the rest as if it had been appended now."""
        dropped = self._file.truncate(self._kept)
        for member in members(self._file.descriptor):
            self._index.add(member.name.encode(), member.offset, member.size)
            if member.name.count("/") <= _SHALLOW:
                self._shared.add(member.name)
        for start in range(0, self._file.size, _CHUNK):
            self._digest.update(self._file.read(_CHUNK, start))
        for key, payload in self.metadata():
            self._consolidation.add(key, payload)
            take_mark(self.contents, key, payload)
        self._index.pack()
        return dropped

    def append(self, records: Sequence[Record]) -> Batch:
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
        start = self._file.size
        size = self._write(buffers)
        for place in places:
            self._index.add(*place)
        self._index.pack()
        for key, payload in records:
            if is_metadata(key):
                self._consolidation.add(key, payload)
        self._shared.update(key for key, _ in records if key.count("/") <= _SHALLOW)
        return Batch(start, size, crc32_of(buffers))

    def unsynced(self) -> list[Path]:
        """The file; see Store."""
        return [self.part]

    def _write(self, buffers: list[bytes]) -> int:
        with disk_errors(self.part, advice=ADVICE):
            written = self._file.append(*buffers)
        self._digest.update(*buffers)
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
        """Append consolidated metadata, end of archive, index and trailer; see Store."""
        self.append([(KEY, self._consolidation.finish())])
        self._write(tail(self._file.size, self._index))
        with disk_errors(self.part, advice=ADVICE):
            self._file.sync()
        self.release()

    def md5(self) -> str:
        """Of the sealed file."""
        return self._digest.hexdigest()

    def release(self) -> None:
        """Close the file as it is."""
        self._digest.close()
        self._file.close()
