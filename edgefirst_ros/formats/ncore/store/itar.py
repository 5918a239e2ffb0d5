"""The index that makes a tar file an ``.itar``: xz of CBOR behind the archive, a trailer behind that."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator

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
from edgefirst_ros.formats.ncore.store.tar import BLOCK, RECORD, padded

_TRAILER = struct.Struct("<4sIQI")
_MAGIC = b"itar"
_CBOR_XZ = 1


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

    def mark(self) -> tuple[int, int]:
        """A point to come back to with ``rewind``."""
        return len(self._names), len(self._offsets)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget what was added after ``mark``."""
        del self._names[mark[0] :]
        del self._offsets[mark[1] :]
        del self._sizes[mark[1] :]

    def pack(self) -> None:
        """Pack the keys so far, which are not rewound any more."""
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
    table = unxz(os.pread(descriptor, length, offset))
    if not isinstance(table, dict) or not {"items", "offset_datas", "sizes"} <= table.keys():
        raise ValueError("the itar index lacks items, offset_datas or sizes")
    columns = (table["items"], table["offset_datas"], table["sizes"])
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"the itar index has columns of {[len(column) for column in columns]} entries")
    return {key: (at, length) for key, at, length in zip(*columns, strict=True)}, offset
