"""Structured damage of ZIP and tar archives."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from fuzzing import NUMBERS, mutate_bytes
from hostile_files import BOMB_BYTES, deflate_bomb

MANY_ENTRIES = 200_000
_LOCAL, _ENTRY, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")
_LOCATOR, _END64 = struct.Struct("<4sIQI"), struct.Struct("<4sQ2H2I4Q")
_NAMES = (
    b"", b"/", b"../../x", b"/etc/x", b"a\\b", b"\0", b"\xff\xfe.camera.jpeg", b"\x1b[2J", b"x" * 65_000,
    b"__MACOSX/x", b"seq/", b"seq/seq_000.camera.jpeg", b"con", b"a/" * 900 + b"b",
)  # fmt: skip
_EXTRAS = (struct.pack("<HHQQQ", 1, 24, 1 << 60, 1 << 60, 1 << 62), b"\1\0\xff\xff", b"x")


@dataclass
class Entry:
    """A file of a ZIP as the directory and, unless ``local`` says otherwise, its own header have it."""

    name: bytes
    content: bytes
    crc: int
    size: int
    method: int = 0
    flags: int = 0
    extra: bytes = b""
    at: int | None = None
    local: tuple[int, int, int] | None = None
    """Method, CRC and size."""

    def header(self) -> bytes:
        method, crc, size = self.local or (self.method, self.crc, self.size)
        sizes = len(self.content), size % (1 << 32), len(self.name), 0
        return _LOCAL.pack(b"PK\3\4", 20, self.flags, method, 0, 33, crc, *sizes) + self.name + self.content

    def listed(self, at: int) -> bytes:
        sizes = len(self.content), self.size % (1 << 32), len(self.name), len(self.extra), 0, 0, 0, 0
        place = at if self.at is None else self.at
        head = _ENTRY.pack(b"PK\1\2", 20, 20, self.flags, self.method, 0, 33, self.crc, *sizes, place)
        return head + self.name + self.extra


def _renamed(rng: random.Random, entry: Entry) -> None:
    entry.name = rng.choice(_NAMES)


def _compressed(rng: random.Random, entry: Entry) -> None:
    entry.content, entry.method = _deflated(rng.choice((entry.content, entry.content * 9))), 8


def _bombed(rng: random.Random, entry: Entry) -> None:
    entry.content, entry.method = deflate_bomb(), 8
    entry.size = rng.choice((BOMB_BYTES, entry.size, 0, 1 << 27))


def _encoded(rng: random.Random, entry: Entry) -> None:
    entry.method = rng.choice((0, 1, 8, 9, 12, 14, 93, 99))
    entry.flags = rng.choice((0, 1, 8, 1 << 11, 0xFFFF))


def _sized(rng: random.Random, entry: Entry) -> None:
    entry.size = rng.choice((*NUMBERS, entry.size + 1))


def _extended(rng: random.Random, entry: Entry) -> None:
    entry.extra, entry.size = rng.choice(_EXTRAS), 0xFFFFFFFF


def _placed(rng: random.Random, entry: Entry) -> None:
    entry.at = rng.choice((0, 0, 40, *NUMBERS))  # lies in another one, or nowhere


def _contradicted(rng: random.Random, entry: Entry) -> None:
    entry.local = rng.choice((0, 8, 99)), entry.crc ^ 1, entry.size + 1


def _corrupted(_: random.Random, entry: Entry) -> None:
    entry.crc ^= 1


_WAYS: tuple[Callable[[random.Random, Entry], None], ...] = (
    _renamed, _compressed, _bombed, _encoded, _sized, _extended, _placed, _contradicted, _corrupted,
)  # fmt: skip


def hostile_zip(rng: random.Random, data: bytes) -> bytes:
    """A ZIP written anew with entries, headers or ends that contradict each other, bombs, or very many."""
    way = rng.random()
    if way < 0.2:
        return mutate_bytes(rng, data)
    if way < 0.22:
        return _many_entries()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            content = [(each.filename.encode(), archive.read(each)) for each in archive.infolist()]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError, zlib.error, struct.error):
        return mutate_bytes(rng, data)
    entries = [Entry(name, data, zlib.crc32(data), len(data)) for name, data in content]
    for _ in range(rng.choice((1, 1, 3)) if entries else 0):
        rng.choice(_WAYS)(rng, rng.choice(entries))
    if entries and rng.random() < 0.1:
        entries.append(rng.choice(entries))
    return _zipped(rng, entries)


def _zipped(rng: random.Random, entries: list[Entry]) -> bytes:
    body, directory = bytearray(), bytearray()
    for entry in entries:
        directory += entry.listed(len(body))
        body += entry.header()
    return bytes(body) + bytes(directory) + _zip_end(rng, len(entries), len(directory), len(body))


def _zip_end(rng: random.Random, count: int, size: int, start: int) -> bytes:
    """What ends a ZIP, also with the records of large ones, mostly true."""
    way = rng.random()
    if way < 0.5:
        return _END.pack(b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, size, start, 0)
    wrong = [count, size, start]
    at = rng.randrange(3)
    wrong[at] = rng.choice((*NUMBERS, wrong[at] + 1, 1 << 62))
    count, size, start = wrong
    end = _END.pack(b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, size & 0xFFFFFFFF, start & 0xFFFFFFFF, 0)
    if way < 0.7:
        return end + rng.choice((b"", b"junk", b"PK\5\6"))
    head = _END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    return head + _LOCATOR.pack(b"PK\6\7", 0, rng.choice((start, start + size, 0, 1 << 62)), 1) + end


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@cache
def _many_entries() -> bytes:
    """Many small pictures of one sequence, without content."""
    body, directory = bytearray(), bytearray()
    for number in range(MANY_ENTRIES):
        entry = Entry(b"seq/seq_%06d.camera.jpeg" % number, b"", 0, 0)
        directory += entry.listed(len(body))
        body += entry.header()
    end = _END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, *(MANY_ENTRIES,) * 2, len(directory), len(body))
    end += _LOCATOR.pack(b"PK\6\7", 0, len(body) + len(directory), 1)
    end += _END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(directory), len(body), 0)
    return bytes(body + directory) + end


_TAR_TYPES = b"0\x00123456789LKxgSVNDMX\xff"
_PAX = (
    b"30 size=99999999999999999999\n", b"11 path=..\n", b"99999999999 x=y\n", b"x", b"20 mtime=1e308\n",
    b"22 GNU.sparse.major=1\n", b"18 hdrcharset=\xff\xff\n", b"",
)  # fmt: skip


def hostile_tar(rng: random.Random, data: bytes) -> bytes:
    """Headers with other fields under a right checksum, or members of other kinds between them."""
    found = bytearray(data)
    heads = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    if not heads:
        return mutate_bytes(rng, data)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.choice(heads)
        head = bytearray(found[at : at + 512])
        what = rng.randrange(6)
        if what == 0:
            head[156] = rng.choice(_TAR_TYPES)
        elif what == 1:
            field = rng.choice(
                (b"77777777777\0", b"-0000000001\0", b"00000000000\0", b"9999999999x\0", bytes(12))
            )
            head[124:136] = rng.choice((field, b"\x80" + (1 << 60).to_bytes(11, "big"), b"\xff" * 12))
        elif what == 2:
            head[:100] = rng.choice(_NAMES)[:100].ljust(100, b"\0")
        elif what == 3:
            head[257:265] = rng.choice((b"ustar  \0", b"ustar\00000", b"USTAR\0xx"))
        elif what == 4:
            start = rng.randrange(500)
            head[start : start + 12] = rng.randbytes(12)
        else:
            pax = bytearray(head)
            content = rng.choice(_PAX)
            pax[156], pax[124:136] = rng.choice(b"xgLK"), b"%011o\0" % len(content)
            found[at:at] = _summed(pax) + content.ljust(512, b"\0")
            return bytes(found)
        found[at : at + 512] = _summed(head) if rng.random() < 0.8 else head
    return bytes(found)


def _summed(head: bytearray) -> bytes:
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % (sum(head) % (1 << 18))
    return bytes(head)
