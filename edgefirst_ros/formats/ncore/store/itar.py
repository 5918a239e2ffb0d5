"""A plain tar file (POSIX ustar) and what makes it an ``.itar``: an index as xz of CBOR, a trailer."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import cbor2
import numpy as np

from edgefirst_ros.formats.ncore.store.packed import (
    BREAK,
    MAP,
    OPEN_ARRAY,
    TEXT,
    XzStream,
    cbor_head,
    cbor_uints,
    unxz,
)

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
