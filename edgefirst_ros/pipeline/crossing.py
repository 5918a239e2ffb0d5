"""Calls and results on their way between two processes: pickled, large ones through memory that both have."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

LARGE_BYTES = 16 << 10
"""What is smaller is copied into the pickle."""
GRAIN_BYTES = 1 << 20
ALIGNED = 64
_COUNT = struct.Struct("<I")
_Value = Any
"""Whatever can be pickled."""


class Area:
    """Memory that two processes share, in a file without a name: it ends with the last process that has it.

    One of them writes, and the other one reads before the next is written.

    Args:
        descriptor: of the file; None to make one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _nameless() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None
        self._size = 0

    def write(self, parts: Sequence[memoryview]) -> list[int]:
        """Write all parts; their sizes, for ``read``."""
        sizes = [part.nbytes for part in parts]
        self._reach(sum(map(_padded, sizes)), may_grow=True)
        at = 0
        for part, size in zip(parts, sizes, strict=True):
            if self._map is not None:
                self._map[at : at + size] = part
            at += _padded(size)
        return sizes

    def read(self, sizes: Sequence[int]) -> list[memoryview]:
        """The parts as views that are valid until the next ``write``; they are to be released before it."""
        self._reach(sum(map(_padded, sizes)), may_grow=False)
        parts, at = [], 0
        for size in sizes:
            parts.append(memoryview(b"" if self._map is None else self._map)[at : at + size].toreadonly())
            at += _padded(size)
        return parts

    def close(self) -> None:
        """Give the memory up."""
        os.close(self.descriptor)
        self._map, self._size = None, 0

    def _reach(self, size: int, *, may_grow: bool) -> None:
        if size <= self._size:
            return
        self._size = -(-size // GRAIN_BYTES) * GRAIN_BYTES
        if may_grow:
            os.ftruncate(self.descriptor, self._size)
        # Views of the old mapping may live on; it goes with the last of them.
        self._map = mmap.mmap(self.descriptor, self._size)


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("edgefirst-ros")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


class _Pickler(pickle.Pickler):
    """Keeps large bytes apart, which pickle itself does for arrays only."""

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer], large: list[bytes]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._large = large

    def persistent_id(self, value: _Value) -> int | None:
        if type(value) is not bytes or len(value) < LARGE_BYTES:
            return None
        self._large.append(value)
        return len(self._large) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: memoryview, buffers: Sequence[Any], large: Sequence[memoryview]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._large = large

    def persistent_load(self, number: int) -> bytes:
        return bytes(self._large[number])


class LinkClosed(Exception):
    """The other side has gone."""


class Line:
    """One end of the connection of two processes; each sends and receives in turn.

    Args:
        link: tells the other side what was written.
        mine: what this side writes to.
        theirs: what it reads.
    """

    def __init__(self, link: socket.socket, mine: Area, theirs: Area) -> None:
        self._link, self._mine, self._theirs = link, mine, theirs

    def send(self, value: _Value) -> None:
        """Send any value that can be pickled.

        Raises:
            LinkClosed: the other side has gone.
        """
        file, buffers, large = io.BytesIO(), list[pickle.PickleBuffer](), list[bytes]()
        _Pickler(file, buffers, large).dump(value)
        parts = [file.getbuffer(), *(memoryview(each) for each in large), *(each.raw() for each in buffers)]
        sizes = self._mine.write(parts)
        head = [len(large), *sizes]
        try:
            self._link.sendall(_COUNT.pack(len(head)) + struct.pack(f"<{len(head)}Q", *head))
        except OSError as error:
            raise LinkClosed from error

    def receive(self, *, copied: bool) -> _Value:
        """Wait for a value.

        Args:
            copied: whether its arrays are copies; else they are read-only, and valid until the next one.

        Raises:
            LinkClosed: the other side has gone.
        """
        (count,) = _COUNT.unpack(self._exactly(_COUNT.size))
        apart, *sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count))
        data, *rest = self._theirs.read(sizes)
        large, arrays = rest[:apart], rest[apart:]
        return _Unpickler(data, [bytearray(a) for a in arrays] if copied else arrays, large).load()

    def _exactly(self, size: int) -> bytes:
        try:
            data = self._link.recv(size, socket.MSG_WAITALL)
        except OSError as error:
            raise LinkClosed from error
        if len(data) < size:
            raise LinkClosed
        return data
