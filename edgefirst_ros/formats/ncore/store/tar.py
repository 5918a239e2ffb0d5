"""Members of a plain tar file (POSIX ustar): headers made and walked, without their payload."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

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
    if checksum != sum(block) - sum(block[148:156]) + 8 * 0x20:
        return None
    return (f"{prefix}/{name}" if prefix else name), size


def members(descriptor: int) -> Iterator[Member]:
    """Whole members from the start of a file, up to the first thing that is none."""
    size = os.fstat(descriptor).st_size
    position = 0
    while (found := parse_header(os.pread(descriptor, BLOCK, position))) is not None:
        member = Member(found[0], position + BLOCK, found[1])
        if member.end > size:
            return
        yield member
        position = member.end
