"""ZIPs of others: what their directory declares is added up, then entries are read one by one."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from edgefirst_ros.formats.edgefirst.store.archive import (
    CENTRAL,
    END,
    END64,
    LOCAL,
    LOCAL_SIGNATURE,
    LOCATOR,
    UTF8_NAME,
)
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.model.zlib_backend import crc32

MOST_BYTES = 1 << 28
"""Larger files are not read into memory; no sensor file is as large."""
_END = b"PK\x05\x06"
_LONGEST_COMMENT = 0xFFFF
_ENTRIES, _ENTRY_BYTES = 1 << 18, 1 << 10
"""An archive of more entries than the first holds so many bytes for each: it takes as much memory."""
_SMALL_BYTES, _MOST_GROWTH = 64 << 20, 16
"""An archive of more bytes than the first unpacks to no more than so many times what is stored: deflate packs
points in text to a fourth, pictures hardly."""
_ENCRYPTED, _CRC_FOLLOWS = 1, 1 << 3
_EXTRA_BYTES = 64
"""Read with an entry for its extra field: times, owner and 64-bit sizes, as archivers write them, take 60."""

Read = Callable[[int, int], bytes]
"""Gives the bytes of an archive from an offset on, so many at most."""


class End(NamedTuple):
    """What the end record says of the directory: its entries, bytes and offset."""

    entries: int
    size: int
    offset: int


class ZipEntry(NamedTuple):
    """Where a file is in an archive; ``header`` is the offset of its local header."""

    name: str
    header: int
    packed: int
    size: int
    crc: int
    method: int
    flags: int

    @classmethod
    def of(cls, info: ZipInfo) -> ZipEntry:
        """The entry of zipfile's."""
        sizes = info.compress_size, info.file_size
        return cls(info.filename, info.header_offset, *sizes, info.CRC, info.compress_type, info.flag_bits)


def read_directory(file: BinaryIO, path: object, stored: int) -> tuple[ZipFile, End]:
    """The directory of an archive, and its end record.

    Args:
        file: the archive.
        path: what it is called.
        stored: bytes of it that are no holes.

    Raises:
        DatasetError: it is damaged, or declares more than such a file holds.
    """
    with refusing(path, DatasetError, "is not a complete ZIP file"):
        end, size = _end_record(file)
        most = end.size // CENTRAL.size  # what it says of their number is not kept to
        if most > _ENTRIES and most * _ENTRY_BYTES > stored:
            raise ValueError(f"up to {most:,} entries are in {stored:,} bytes")
        archive = ZipFile(file)
        packed = unpacked = 0
        for info in archive.filelist:
            packed, unpacked = packed + info.compress_size, unpacked + info.file_size
        if packed > size:
            raise ValueError(f"its entries overlap: they are {packed:,} bytes")
        if unpacked > max(_SMALL_BYTES, _MOST_GROWTH * stored):
            raise ValueError(f"{unpacked:,} bytes would come of {stored:,}")
        return archive, end


def read_entry(read: Read, entry: ZipEntry, path: object) -> bytes:
    """The file of an entry, whose length and CRC-32 are verified.

    Raises:
        DatasetError: it is damaged, encrypted, packed by an unusual method, or larger than any sensor file.
    """
    where = f"{path}@{entry.name}"
    if max(entry.size, entry.packed) > MOST_BYTES:
        raise DatasetError(f"{where}: is larger than any sensor file: {entry.size:,} bytes")
    if entry.flags & _ENCRYPTED or entry.method not in {ZIP_STORED, ZIP_DEFLATED}:
        raise DatasetError(f"{where}: is encrypted, or compressed by an unsupported method: {entry.method}")
    with refusing(where, DatasetError):
        length = LOCAL.size + len(entry.name.encode()) + _EXTRA_BYTES + entry.packed
        stored = read(entry.header, length)
        local = LOCAL.unpack_from(stored)
        begin = LOCAL.size + local[-2] + local[-1]
        stored = stored[begin : begin + entry.packed]
        if len(stored) < entry.packed:
            stored = read(entry.header + begin, entry.packed)
        if local[0] == LOCAL_SIGNATURE and entry.method == ZIP_DEFLATED:
            stored = zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored, entry.size + 1)
        data = bytes(stored)
    if local[0] != LOCAL_SIGNATURE or len(data) != entry.size or crc32(data) != entry.crc:
        raise DatasetError(f"{where}: is damaged: its length or CRC-32 is wrong")
    return data


def differs_locally(descriptor: int, entry: ZipEntry) -> bool:
    """Whether an entry's local header has another name, method or CRC-32, by which some tools go."""
    local = LOCAL.unpack(os.pread(descriptor, LOCAL.size, entry.header))
    _, _, flags, method, _, _, crc, *_, length, _ = local
    name = os.pread(descriptor, length, entry.header + LOCAL.size)
    named = name.decode("utf-8" if flags & UTF8_NAME else "cp437", "replace")
    return named != entry.name or method != entry.method or not (flags & _CRC_FOLLOWS or crc == entry.crc)


def _end_record(file: BinaryIO) -> tuple[End, int]:
    """The end record, and the size of the archive."""
    size = file.seek(0, os.SEEK_END)
    begin = file.seek(max(0, size - END.size))
    tail = file.read(END.size)
    if not (tail.startswith(_END) and tail.endswith(b"\0\0")):
        begin = file.seek(max(0, size - END.size - _LONGEST_COMMENT))
        tail = file.read(size - begin)
    at = tail.rfind(_END, 0, len(tail) - END.size + 4)
    if at < 0:
        raise ValueError(f"no directory is at the end of its {size:,} bytes; was it copied completely?")
    *_, count, length, offset, _ = END.unpack_from(tail, at)
    before = begin + at - LOCATOR.size
    if before >= END64.size:
        file.seek(before - END64.size)
        wide = file.read(END64.size + LOCATOR.size)
        if wide.startswith(b"PK\x06\x07", END64.size):
            *_, count, length, offset = END64.unpack_from(wide)
    return End(count, length, offset), size
