"""The journal of an unfinished dataset: what was committed, as records that are each whole or not there."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.appending import AppendFile, is_in_place
from edgefirst_ros.formats.crashsafe.lock import lock_open_file
from edgefirst_ros.model.untrusted import open_regular

_PREFIX = b"edgefirst_ros journal "
_HEAD_BYTES = 64
_BIRTH = 1 << 16
_FRAME = struct.Struct("<II")
_PLACE = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A committed record: its payload, and the offset behind it."""

    payload: bytes
    end: int


class Journal:
    """A journal that is open for appending, locked so that no one else writes or recovers its dataset.

    The file is a line that names the format, then records: length and CRC-32, little endian, and payload.
    The CRC is of the record's offset and length, too, so that neither zeros nor a stray block is a record.

    Args:
        path: the journal; made if it is not there.
        format_version: name and version of the format, as ``ncore 2``.
        exclusive: it must not be there yet.

    Attributes:
        path: where the journal is; to be set when its dataset is moved.

    Raises:
        WriteError: another process has it open.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path, format_version: str, *, exclusive: bool = False) -> None:
        self.path = path
        self._head = _head(format_version)
        self._file = AppendFile(path, exclusive=exclusive)
        try:
            lock_open_file(self._file.descriptor, path)
        except BaseException:
            self._file.close()
            raise

    @property
    def is_empty(self) -> bool:
        """Whether the file has no bytes: it was made by opening it."""
        return not self._file.size

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size

    @property
    def is_lost(self) -> bool:
        """Whether the file is open and no longer has its name.

        Raises:
            OSError: the disk does not answer.
        """
        descriptor = self._file.descriptor
        return descriptor >= 0 and not is_in_place(descriptor, self.path)

    def begin(self) -> None:
        """Begin anew, with nothing committed.

        Raises:
            OSError: the disk is full or gone.
        """
        self._file.truncate(0)
        self._file.append(self._head)

    def append(self, payload: bytes) -> int:
        """Commit a record; it survives the process when this returns. How many bytes it takes.

        Raises:
            OSError: the disk is full or gone; nothing of the record stays.
        """
        crc = _crc(self._file.size, payload)
        return self._file.append(_FRAME.pack(len(payload), crc), payload)

    def sync(self) -> None:
        """Wait until the disk holds the records so far; sync what they speak of before. Any thread.

        Raises:
            OSError: the disk refuses.
        """
        self._file.sync()

    def records(self) -> Iterator[JournalRecord]:
        """What is committed, see ``read_journal``."""
        return _read(self.path, self._head)

    def cut(self, end: int) -> None:
        """Drop the records behind the offset ``end``, and what a torn write left."""
        self._file.truncate(end)

    def close(self) -> None:
        """Release file and lock; the journal stays on disk. May be repeated."""
        self._file.close()


def read_journal(path: Path, format_version: str) -> Iterator[JournalRecord]:
    """The committed records in order, up to the first that is not whole.

    Raises:
        DatasetError: the file is not a journal of this format and version.
        OSError: it cannot be read.
    """
    return _read(path, _head(format_version))


def journal_format(path: Path) -> str | None:
    """Name of the format whose journal the file is; None for other files, and one killed at its birth."""
    try:
        file = open_regular(path)
    except OSError:
        return None
    with file:
        head, is_whole, _ = file.read(_HEAD_BYTES).partition(b"\n")
    name = head.removeprefix(_PREFIX).split(b" ")[0]
    return name.decode(errors="replace") if is_whole and head.startswith(_PREFIX) else None


def _head(format_version: str) -> bytes:
    return _PREFIX + format_version.encode() + b"\n"


def _crc(offset: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_PLACE.pack(offset, len(payload))))


def _read(path: Path, head: bytes) -> Iterator[JournalRecord]:
    with open_regular(path) as file:
        found = file.read(len(head))
        if found != head:
            if head.startswith((found + file.read(_BIRTH)).rstrip(b"\0")):
                return  # killed while it was begun; by a power cut, if it ends in zeros
            raise DatasetError(
                f"{path}: begins with {found[:40]!r}, expected {head!r}: if another version of "
                "this package wrote it, recover it with that version; nothing was changed"
            )
        size, offset = path.stat().st_size, len(head)
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            length, crc = _FRAME.unpack(frame)
            end = offset + _FRAME.size + length
            if end > size or _crc(offset, payload := file.read(length)) != crc:
                return
            offset = end
            yield JournalRecord(payload, end)
