"""An append-only journal of what belongs to no frame: poses, calibration, cuboids, raw series.

A record is its length and CRC-32, little endian, and CBOR; a record is there if its checksum holds.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import cbor2

from edgefirst_ros.errors import WriteError
from edgefirst_ros.formats.ncore.store.packed import ARRAY, cbor_head

_MAGIC = b"EFNCORE1"
_HEAD = struct.Struct("<II")


class Journal:
    """The journal of one sequence, locked while it is open so that no one else finishes the sequence."""

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.path = path
        self._sync = sync
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:  # whoever found it before the lock was on is about to remove it
            os.close(self._descriptor)
            raise WriteError(f"{path}: another process took this sequence just now") from error
        except OSError:  # some network file systems have no locks
            pass
        self._size = 0
        self._write(_MAGIC)

    def append(self, kind: str, value: object) -> int:
        """Append one fact; it survives the process when this returns. The bytes written.

        Raises:
            WriteError: the disk is full or gone.
        """
        data = cbor2.dumps([kind, value])
        return self._write(_HEAD.pack(len(data), zlib.crc32(data)) + data)

    def _write(self, data: bytes) -> int:
        try:
            written = os.write(self._descriptor, data)
            if self._sync:
                os.fdatasync(self._descriptor)
        except OSError as error:
            raise WriteError(f"{self.path}: {error.strerror or error}") from error
        if written < len(data):
            os.ftruncate(self._descriptor, self._size)
            raise WriteError(
                f"{self.path}: only {written} of {len(data)} bytes were written; free some space"
            )
        self._size += written
        return written

    def close(self) -> None:
        """Release the file and its lock; the journal stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock(path: Path) -> int | None:
    """A descriptor that holds the journal's lock, None if the sequence is still being written."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        return descriptor  # no locks here, so no one else can be asked
    return descriptor


def is_journal(path: Path) -> bool:
    """Whether the file begins as a journal of this format does."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_journal(path: Path, kinds: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Kind and value of every record up to the first that is not whole; of some kinds, or of all.

    Raises:
        ValueError: the file is no journal.
    """
    heads = tuple(cbor_head(ARRAY, 2) + cbor2.dumps(kind) for kind in kinds) or (b"",)
    with path.open("rb") as file:
        if (magic := file.read(len(_MAGIC))) != _MAGIC:
            raise ValueError(f"{path}: starts with {magic!r}, a journal with {_MAGIC!r}")
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            data = file.read(length)
            if len(data) < length or zlib.crc32(data) != checksum:
                return
            if data.startswith(heads):
                kind, value = cbor2.loads(data)
                yield kind, value
