"""Every file of a sensor container, one after another: a ZIP's against its CRC-32, or a folder's."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from edgefirst_ros.codecs.zlib_backend import crc32
from edgefirst_ros.formats.edgefirst.ziprecords import (
    CENTRAL,
    END,
    END64,
    LIMIT_COUNT,
    LIMIT_SIZE,
    LOCAL,
    LOCAL_SIGNATURE,
    LOCATOR,
    UTF8_NAME,
    ZIP64_EXTRA,
)
from edgefirst_ros.formats.findings import Findings

MOST_BYTES = 1 << 28
"""More than any sensor file has; a larger one is not taken into memory."""

_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _SIZES_FOLLOW = 1, 1 << 3
_LONGEST_COMMENT = 0xFFFF
_JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")

File = tuple[str, bytes | None]
"""A file's path inside the container and its bytes, None where they cannot be had (which has been said)."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the central directory says of one file."""

    path: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int


def zip_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a ZIP in the order of its directory, read one at a time; what is wrong with them is said.

    Source: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.
    """
    with path.open("rb") as directory, path.open("rb", 0) as file:
        try:
            count, size, offset = _end(directory)
        except ValueError as error:
            findings.error(path.name, "no ZIP directory; was it copied to its end?", str(error))
            return
        directory.seek(offset)
        seen = 0
        while directory.tell() < offset + size:
            try:
                entry = _central(directory)
            except (ValueError, struct.error, UnicodeDecodeError) as error:
                findings.error(path.name, "ZIP directory is damaged", str(error))
                return
            seen += 1
            if not entry.path.endswith("/"):
                yield entry.path, _read(file, entry, path.name, findings)
        if seen != count:
            findings.error(
                path.name, "number of entries", f"{seen} in the directory, {count} by its end record"
            )


def folder_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a plain folder, by name; those of one folder of it at a time are listed in memory."""
    for folder, below, names in os.walk(path):
        below.sort()
        for name in sorted(names):
            file = Path(folder, name)
            inside = file.relative_to(path).as_posix()
            yield inside, _content(file, f"{path.name}@{inside}", findings)


def _content(file: Path, where: str, findings: Findings) -> bytes | None:
    try:
        size = file.stat().st_size
        if size <= MOST_BYTES:
            return file.read_bytes()
        findings.error(where, "is larger than any sensor file", f"{size:,} bytes")
    except OSError as error:
        findings.error(where, "cannot be read", error.strerror or str(error))
    return None


def is_junk(path: str) -> bool:
    """What file managers leave behind."""
    parts = path.split("/")
    return any(part in _JUNK or part.startswith("._") for part in parts)


def _end(file: BufferedReader) -> tuple[int, int, int]:
    """Entries, size and offset of the central directory."""
    length = file.seek(0, os.SEEK_END)
    start = max(0, length - END.size - _LONGEST_COMMENT)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < END.size:
        raise ValueError(f"no end record in {length:,} bytes")
    _, _, _, _, count, size, offset, _ = END.unpack_from(tail, at)
    if count == LIMIT_COUNT or LIMIT_SIZE in {size, offset}:
        locator = tail[max(0, at - LOCATOR.size) : at]
        if not locator.startswith(b"PK\x06\x07"):
            raise ValueError("no ZIP64 locator")
        file.seek(LOCATOR.unpack(locator)[2])
        record = file.read(END64.size)
        if len(record) < END64.size or not record.startswith(b"PK\x06\x06"):
            raise ValueError("no ZIP64 end record")
        *_, count, size, offset = END64.unpack(record)
    if offset + size > start + at:
        raise ValueError("the directory reaches beyond the end record")
    return count, size, offset


def _central(file: BufferedReader) -> _Entry:
    fixed = CENTRAL.unpack(file.read(CENTRAL.size))
    if fixed[0] != b"PK\x01\x02":
        raise ValueError("no entry where one is expected")
    flags, method, crc, packed, size = fixed[3], fixed[4], *fixed[7:10]
    name_length, extra_length, comment_length, offset = *fixed[10:13], fixed[16]
    name = file.read(name_length).decode("utf-8" if flags & UTF8_NAME else "cp437")
    extra = file.read(extra_length)
    file.seek(comment_length, os.SEEK_CUR)
    wide = iter(_wide(extra))
    size, packed, offset = (next(wide, v) if v == LIMIT_SIZE else v for v in (size, packed, offset))
    return _Entry(name, flags, method, crc, packed, size, offset)


def _wide(extra: bytes) -> tuple[int, ...]:
    """The 64-bit values of the ZIP64 extra field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == ZIP64_EXTRA:
            return struct.unpack_from(f"<{length // 8}Q", extra, at + 4)
        at += 4 + length
    return ()


def _read(file: BinaryIO, entry: _Entry, archive: str, findings: Findings) -> bytes | None:
    """The bytes of an entry, whole and as its CRC-32 says."""
    where = f"{archive}@{entry.path}"
    if entry.flags & _ENCRYPTED or entry.method not in {_STORED, _DEFLATED}:
        findings.error(where, "is encrypted, or compressed in a way that is not read here", str(entry.method))
        return None
    if entry.method == _DEFLATED:
        findings.warning(archive, "entries are compressed; the format stores its sensor files", entry.path)
    if max(entry.size, entry.packed) > MOST_BYTES:
        findings.error(where, "is larger than any sensor file", f"{entry.size:,} bytes")
        return None
    file.seek(entry.offset)
    head = file.read(LOCAL.size)
    if len(head) < LOCAL.size or not head.startswith(LOCAL_SIGNATURE):
        findings.error(where, "no entry at the place that the directory says", f"{entry.offset:,}")
        return None
    _, _, flags, method, _, _, crc, _, _, name_length, extra_length = LOCAL.unpack(head)
    name = file.read(name_length).decode("utf-8" if flags & UTF8_NAME else "cp437", "replace")
    agrees = name == entry.path and method == entry.method
    if not agrees or not (flags & _SIZES_FOLLOW or crc == entry.crc):
        findings.error(where, "the directory and the entry's own header differ", name)
    file.seek(extra_length, os.SEEK_CUR)
    data = file.read(entry.packed)
    if entry.method == _DEFLATED:
        try:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, entry.size + 1)
        except zlib.error as error:
            findings.error(where, "does not decompress", str(error))
            return None
    if len(data) != entry.size or crc32(data) != entry.crc:
        findings.error(where, "is damaged", "length or CRC-32 is not that of the directory")
        return None
    return data
