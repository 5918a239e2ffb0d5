"""A store in one tar file (POSIX ustar), and what makes it an ``.itar``: an index as xz of CBOR, a trailer.

One writev a batch, the index in memory, the MD5 computed beside the writing.
"""

from __future__ import annotations

import hashlib
import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import cbor2
import numpy as np

from edgefirst_ros.formats.crashsafe.sync import AppendFile, disk_errors
from edgefirst_ros.formats.ncore.store.base import ADVICE, Batch, Contents, take_mark
from edgefirst_ros.formats.ncore.store.journal import (
    BREAK,
    KEY,
    MAP,
    OPEN_ARRAY,
    TEXT,
    Consolidation,
    XzStream,
    cbor_head,
    cbor_uints,
    unxz,
)
from edgefirst_ros.formats.zarr2 import Record, is_metadata
from edgefirst_ros.model.zlib_backend import crc32_of

BLOCK = 512
RECORD = 20 * BLOCK
"""A tar file ends in two zero blocks and is padded to a multiple of this."""

_NAME = 100
_PREFIX = 155
_OWNER = b"0000644\0" + 2 * b"0000000\0"
_MTIME = b"00000000000\0"
_MIDDLE = b"0" + bytes(100) + b"ustar\x0000" + bytes(80)
_TAIL = bytes(12)
_CONSTANT_SUM = sum(_OWNER) + sum(_MTIME) + sum(_MIDDLE) + 8 * 0x20
_MAX_SIZE = 8**11


def padded(size: int) -> int:
    """Bytes that a payload of ``size`` takes, in whole blocks."""
    return -(-size // BLOCK) * BLOCK


def header(name: bytes, size: int) -> bytes:
    """The 512-byte header of a regular file, mtime 0, owner 0.

    Raises:
        ValueError: a name or size that ustar cannot hold.
    """
    prefix = b""
    if len(name) > _NAME:
        cut = name.rfind(b"/", 0, _PREFIX + 1)
        prefix, name = name[: max(cut, 0)], name[cut + 1 :]
        if not prefix or len(name) > _NAME:
            raise ValueError(
                f"{(prefix + b'/' + name).decode()} is too long for a tar header; shorten the ids"
            )
    if size >= _MAX_SIZE:
        raise ValueError(f"{name.decode()} has {size} bytes, a tar member fewer than 8 GiB")
    length = b"%011o\0" % size
    checksum = _CONSTANT_SUM + sum(name) + sum(length) + sum(prefix)
    return b"".join((
        name.ljust(_NAME, b"\0"), _OWNER, length, _MTIME, b"%06o\0 " % checksum, _MIDDLE,
        prefix.ljust(_PREFIX, b"\0"), _TAIL,
    ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A tar member: key, where its payload is, and where the next header is."""

    name: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        """First byte after the padded payload."""
        return self.offset + padded(self.size)


def parse_header(block: bytes) -> tuple[str, int] | None:
    """Name and size of a regular ustar member, or None for anything else."""
    if len(block) < BLOCK or block[257:263] != b"ustar\0" or block[156:157] != b"0":
        return None
    try:
        checksum = int(block[148:155].rstrip(b"\0 "), 8)
        size = int(block[124:135].rstrip(b"\0 "), 8)
        name = block[:_NAME].rstrip(b"\0").decode()
        prefix = block[345 : 345 + _PREFIX].rstrip(b"\0").decode()
    except ValueError:
        return None
    if size < 0 or checksum != sum(block) - sum(block[148:156]) + 8 * 0x20:
        return None
    return (f"{prefix}/{name}" if prefix else name), size


def members(descriptor: int) -> Iterator[Member]:
    """Whole members from the start of a file, up to the first data that are not."""
    size = os.fstat(descriptor).st_size
    position = 0
    while (found := parse_header(os.pread(descriptor, BLOCK, position))) is not None:
        member = Member(found[0], position + BLOCK, found[1])
        if member.end > size:
            return
        yield member
        position = member.end


_TRAILER = struct.Struct("<4sIQI")
_MAGIC = b"itar"
_CBOR_XZ = 1
_LONGEST_ROW = 300
"""A key of at most 256 bytes, two integers, and their heads in CBOR."""
_HEADS = 16
"""More than there are around the rows."""


class RecordIndex:
    """Key, offset and size of every record, in 16 bytes a record more than the keys."""

    def __init__(self) -> None:
        self._names = bytearray()
        self._offsets = array("Q")
        self._sizes = array("Q")
        self._stream = XzStream(cbor_head(MAP, 3), cbor2.dumps("items"), OPEN_ARRAY)
        self._streamed = 0
        """How much of the names is in the stream."""

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, name: bytes, offset: int, size: int) -> None:
        """Append one record."""
        self._names += name
        self._names += b"\n"
        self._offsets.append(offset)
        self._sizes.append(size)

    def pack(self) -> None:
        """Pack the keys so far."""
        names = bytes(self._names[self._streamed :]).split(b"\n")[:-1]
        self._stream.add(b"".join([cbor_head(TEXT, len(name)) + name for name in names]))
        self._streamed = len(self._names)

    def names(self) -> Iterator[str]:
        """Keys in the order of the file."""
        start = 0
        while (end := self._names.find(b"\n", start)) >= 0:
            yield self._names[start:end].decode()
            start = end + 1

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        return zip(self.names(), self._offsets, self._sizes, strict=True)

    def packed(self) -> bytes:
        """The index as the reader wants it: xz of CBOR, one list a column; nothing may be added later."""
        self.pack()
        self._stream.add(BREAK)
        for name, column in (("offset_datas", self._offsets), ("sizes", self._sizes)):
            self._stream.add(cbor2.dumps(name))
            for piece in cbor_uints(np.array(column, np.uint64)):
                self._stream.add(piece)
        return self._stream.finish()


def tail(position: int, index: RecordIndex) -> list[bytes]:
    """Everything behind the last member at ``position``: end of archive, index, trailer."""
    archive_end = -(-(position + 2 * BLOCK) // RECORD) * RECORD
    packed = index.packed()
    return [
        bytes(archive_end - position),
        packed,
        bytes(padded(len(packed)) - len(packed)),
        _TRAILER.pack(_MAGIC, _CBOR_XZ, archive_end, len(packed)).ljust(BLOCK, b"\0"),
    ]


def read_index(descriptor: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Offset and size by key, and where the index is, of a finished ``.itar``.

    Raises:
        ValueError: no trailer, or an index that cannot be read.
    """
    size = os.fstat(descriptor).st_size
    trailer = os.pread(descriptor, _TRAILER.size, max(0, size - BLOCK))
    if size % BLOCK or len(trailer) < _TRAILER.size or not trailer.startswith(_MAGIC):
        raise ValueError(f"no itar trailer in the last {BLOCK} of {size} bytes; the store was not finished")
    _, kind, offset, length = _TRAILER.unpack(trailer)
    if kind != _CBOR_XZ or offset % BLOCK or offset + length > size - BLOCK:
        raise ValueError(
            f"itar trailer names index type {kind} at {offset}, {length} bytes, in a file of {size}"
        )
    most_rows = offset // BLOCK + 1
    packed = os.pread(descriptor, length, offset)
    table = unxz(packed, most_rows * _LONGEST_ROW, 3 * most_rows + _HEADS)
    if not isinstance(table, dict) or not {"items", "offset_datas", "sizes"} <= table.keys():
        raise ValueError("the itar index lacks items, offset_datas or sizes")
    columns = (table["items"], table["offset_datas"], table["sizes"])
    if not all(isinstance(column, list) for column in columns):
        raise ValueError("the itar index has columns that are not lists")
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"the itar index has columns of {[len(column) for column in columns]} entries")
    rows = {key: (at, length) for key, at, length in zip(*columns, strict=True) if isinstance(key, str)}
    if len(rows) != len(table["items"]) or not all(isinstance(n, int) for row in rows.values() for n in row):
        raise ValueError("the itar index has rows that are not key, offset and size, or repeat a key")
    if any(at < 0 or length < 0 or at + length > offset for at, length in rows.values()):
        raise ValueError("the itar index has rows outside of the archive")
    if sum(BLOCK + padded(length) for _, length in rows.values()) > offset:
        raise ValueError("the itar index has rows that overlap")
    return rows, offset


_BATCH = 1 << 20
_LARGE = 1 << 16
"""Pieces of so many bytes are not copied to be hashed."""


class StreamDigest:
    """MD5 of bytes that come piece by piece; it costs as much time as compressing what is hashed.

    Pieces are hashed in a thread of the digest's own, a megabyte at a time. At most two megabytes wait, or
    two pieces if these are larger.
    """

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ncore-md5")
        self._hashed: Future[None] | None = None
        self._pending: list[bytes] = []
        self._size = 0

    def update(self, *pieces: bytes) -> None:
        """Take the next pieces."""
        self._pending += pieces
        self._size += sum(map(len, pieces))
        if self._size >= _BATCH:
            self._wait()
            self._hashed = self._pool.submit(self._hash, self._pending)
            self._pending, self._size = [], 0

    def hexdigest(self) -> str:
        """Of everything so far."""
        self._wait()
        self._hash(self._pending)
        self._pending, self._size = [], 0
        return self._md5.hexdigest()

    def close(self) -> None:
        """End the thread once it has hashed what it was given; only ``hexdigest`` may be called then."""
        self._pool.shutdown(wait=False)

    def _wait(self) -> None:
        if self._hashed is not None:
            self._hashed.result()

    def _hash(self, pieces: list[bytes]) -> None:
        small: list[bytes] = []  # hashed at once: for every one it would wait for the interpreter
        for piece in pieces:
            if len(piece) < _LARGE:
                small.append(piece)
                continue
            self._md5.update(b"".join(small))
            self._md5.update(piece)
            small.clear()
        self._md5.update(b"".join(small))


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
