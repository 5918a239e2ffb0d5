"""The records of a ZIP file with stored entries, packed and parsed.

Source: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime

LOCAL = struct.Struct("<4sHHHHHIIIHH")
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")
END64 = struct.Struct("<4sQHHIIQQQQ")
EXTRA64 = struct.Struct("<HHQQ")
LOCATOR = struct.Struct("<4sIQI")
LOCAL_SIGNATURE = b"PK\x03\x04"

LIMIT_SIZE = 0xFFFFFFFF
"""Sizes and offsets from here on go into ZIP64 fields."""
LIMIT_COUNT = 0xFFFF
"""Entry counts from here on go into the ZIP64 end record."""

UNIX = 3 << 8
VERSION, VERSION_ZIP64 = 20, 45
UTF8_NAME = 1 << 11
ZIP64_EXTRA = 0x0001
REGULAR_0644 = 0o100644 << 16


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A stored entry: ``offset`` is that of its local header, ``dos`` its (date, time)."""

    path: str
    size: int
    crc: int
    offset: int
    dos: tuple[int, int]


def dos_time(time_ns: int) -> tuple[int, int]:
    """(date, time) in UTC, two-second steps; times outside 1980 to 2107 become the nearest end."""
    seconds = max(315_532_800, min(time_ns // 10**9, 4_354_819_198))
    t = datetime.fromtimestamp(seconds, UTC)
    return (t.year - 1980) << 9 | t.month << 5 | t.day, t.hour << 11 | t.minute << 5 | t.second // 2


def local_header(entry: ZipEntry) -> bytes:
    """The complete header that stands before the entry's data; sizes are known, so no data descriptor."""
    name = entry.path.encode()
    large = entry.size >= LIMIT_SIZE
    extra = EXTRA64.pack(ZIP64_EXTRA, 16, entry.size, entry.size) if large else b""
    size = 0xFFFFFFFF if large else entry.size
    date, time = entry.dos
    version = VERSION_ZIP64 if large else VERSION
    fields = (_flags(name), 0, time, date, entry.crc, size, size, len(name), len(extra))
    return LOCAL.pack(LOCAL_SIGNATURE, version, *fields) + name + extra


def parse_local_header(fixed: bytes, variable: bytes, offset: int) -> ZipEntry:
    """The entry described by a header that ``local_header`` packed.

    Args:
        fixed: the first ``LOCAL.size`` bytes.
        variable: name and extra field, whose lengths ``variable_length`` tells.
        offset: where the header begins.

    Raises:
        ValueError: anything that ``local_header`` would not have written.
    """
    _, _, _, _, time, date, crc, size, _, name_length, _ = LOCAL.unpack(fixed)
    name, extra = variable[:name_length], variable[name_length:]
    if extra:
        if len(extra) != EXTRA64.size:
            raise ValueError("no ZIP64 extra field")
        size = EXTRA64.unpack(extra)[2]
    entry = ZipEntry(name.decode(), size, crc, offset, (date, time))
    if local_header(entry) != fixed + variable:
        raise ValueError("no local header of a stored entry")
    return entry


def variable_length(fixed: bytes) -> int:
    """How many bytes of name and extra field follow the fixed part; -1 if it is no local header."""
    signature, *_, name_length, extra_length = LOCAL.unpack(fixed)
    return int(name_length + extra_length) if signature == LOCAL_SIGNATURE else -1


def central_header(entry: ZipEntry) -> bytes:
    """The entry's record in the central directory; mode 0644."""
    name = entry.path.encode()
    large_size, large_offset = entry.size >= LIMIT_SIZE, entry.offset >= LIMIT_SIZE
    wide = [entry.size, entry.size] * large_size + [entry.offset] * large_offset
    extra = struct.pack(f"<HH{len(wide)}Q", ZIP64_EXTRA, 8 * len(wide), *wide) if wide else b""
    size = 0xFFFFFFFF if large_size else entry.size
    offset = 0xFFFFFFFF if large_offset else entry.offset
    version = VERSION_ZIP64 if wide else VERSION
    date, time = entry.dos
    fields = (_flags(name), 0, time, date, entry.crc, size, size, len(name), len(extra), 0, 0, 0)
    fixed = CENTRAL.pack(b"PK\x01\x02", UNIX | version, version, *fields, REGULAR_0644, offset)
    return fixed + name + extra


def end_records(count: int, size: int, offset: int) -> bytes:
    """What ends the archive: the end record, preceded by ZIP64 end record and locator where needed.

    Args:
        count: entries in the central directory.
        size: bytes of the central directory.
        offset: where it begins.
    """
    zip64 = b""
    if count >= LIMIT_COUNT or size >= LIMIT_SIZE or offset >= LIMIT_SIZE:
        made = UNIX | VERSION_ZIP64
        zip64 = END64.pack(b"PK\x06\x06", 44, made, VERSION_ZIP64, 0, 0, count, count, size, offset)
        zip64 += LOCATOR.pack(b"PK\x06\x07", 0, offset + size, 1)
    count = 0xFFFF if count >= LIMIT_COUNT else count
    size = 0xFFFFFFFF if size >= LIMIT_SIZE else size
    offset = 0xFFFFFFFF if offset >= LIMIT_SIZE else offset
    return zip64 + END.pack(b"PK\x05\x06", 0, 0, count, count, size, offset, 0)


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else UTF8_NAME
