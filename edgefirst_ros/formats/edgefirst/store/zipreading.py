"""ZIPs of others: what their directory declares is added up, then entries are read one by one."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
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
from edgefirst_ros.model.untrusted import refusing, stored_bytes
from edgefirst_ros.model.zlib_backend import crc32

MOST_BYTES = 1 << 28
"""Larger files are not read into memory; no sensor file is as large."""
_LONGEST_COMMENT = 0xFFFF
_ENTRIES, _ENTRY_BYTES = 1 << 18, 1 << 10
"""An archive of more entries than the first holds so many bytes for each: it takes as much memory."""
_SMALL_BYTES, _MOST_GROWTH = 64 << 20, 16
"""An archive of more bytes than the first unpacks to no more than so many times what is stored: deflate packs
points in text to a fourth, pictures hardly."""
_ENCRYPTED, _CRC_FOLLOWS = 1, 1 << 3


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


def read_directory(file: BinaryIO, path: Path) -> tuple[ZipFile, End]:
    """The directory of an archive, and its end record.

    Raises:
        DatasetError: it is damaged, or declares more than such a file holds.
    """
    with refusing(path, DatasetError, "is not a complete ZIP file"):
        end, stored = _end_record(file), stored_bytes(file)
        most = end.size // CENTRAL.size  # what it says of their number is not kept to
        if most > _ENTRIES and most * _ENTRY_BYTES > stored:
            raise ValueError(f"up to {most:,} entries are in {stored:,} bytes")
        archive = ZipFile(file)
        packed = unpacked = 0
        for info in archive.filelist:
            packed, unpacked = packed + info.compress_size, unpacked + info.file_size
        if packed > os.fstat(file.fileno()).st_size:
            raise ValueError(f"its entries overlap: they are {packed:,} bytes")
        if unpacked > max(_SMALL_BYTES, _MOST_GROWTH * stored):
            raise ValueError(f"{unpacked:,} bytes would come of {stored:,}")
        return archive, end


def read_entry(descriptor: int, entry: ZipEntry, path: Path) -> bytes:
    """The file of an entry, whose length and CRC-32 are verified; its position in the archive is not moved.

    Raises:
        DatasetError: it is damaged, encrypted, packed by an unusual method, or larger than any sensor file.
    """
    where = f"{path}@{entry.name}"
    if max(entry.size, entry.packed) > MOST_BYTES:
        raise DatasetError(f"{where}: is larger than any sensor file: {entry.size:,} bytes")
    if entry.flags & _ENCRYPTED or entry.method not in {ZIP_STORED, ZIP_DEFLATED}:
        raise DatasetError(f"{where}: is encrypted, or compressed by an unsupported method: {entry.method}")
    with refusing(where, DatasetError):
        local = LOCAL.unpack(os.pread(descriptor, LOCAL.size, entry.header))
        data = os.pread(descriptor, entry.packed, entry.header + LOCAL.size + local[-2] + local[-1])
        if local[0] == LOCAL_SIGNATURE and entry.method == ZIP_DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, entry.size + 1)
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


def _end_record(file: BinaryIO) -> End:
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - END.size - _LONGEST_COMMENT)
    tail = os.pread(file.fileno(), size - begin, begin)
    at = tail.rfind(b"PK\x05\x06", 0, len(tail) - END.size + 4)
    if at < 0:
        raise ValueError(f"no directory is at the end of its {size:,} bytes; was it copied completely?")
    *_, count, length, offset, _ = END.unpack_from(tail, at)
    before = begin + at - LOCATOR.size
    locator = os.pread(file.fileno(), LOCATOR.size, max(0, before))
    if before >= END64.size and locator.startswith(b"PK\x06\x07"):
        wide = os.pread(file.fileno(), END64.size, before - END64.size)
        *_, count, length, offset = END64.unpack(wide)
    return End(count, length, offset)
