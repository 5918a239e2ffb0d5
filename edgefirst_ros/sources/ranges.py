"""Reads an object of a store as a file: by ranges, ahead of its reader, within bounded memory."""

from __future__ import annotations

import os
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from io import SEEK_CUR, SEEK_END, SEEK_SET, BufferedReader, RawIOBase
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, BinaryIO, TypeVar

from edgefirst_ros.errors import RecordingError
from edgefirst_ros.sources.location import Url
from edgefirst_ros.sources.remote import ObjectVersion, read_range, read_tail
from edgefirst_ros.sources.storage import ByteRange

if TYPE_CHECKING:
    from typing_extensions import Buffer

TAIL_BYTES = 256 << 10
"""Fetched first; holds the summary of most recordings."""
BLOCK_BYTES = 4 << 20
"""Fetched by one request where reading is planned."""
AHEAD = 2
"""Blocks under way or read ahead.

With the one that is read, the one before it, and what obstore holds of those under way they take some 32 MiB.
"""
CONNECTIONS = 2
SINGLE_BYTES = 64 << 10
"""Fetched at least by a request outside of what is planned."""
JOIN_GAP_BYTES = 128 << 10
"""Planned ranges that are nearer than this are fetched together, with what is between them."""
_BUFFER_BYTES = 64 << 10
_JOIN_S = 1.0

Result = TypeVar("Result")


class RemoteFile:
    """An object that is read as a file; its end is fetched at once, and kept.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read.
        ExtraNotInstalled: obstore is missing.
    """

    def __init__(self, url: Url) -> None:
        self._url = url
        tail, self._version = wait_for(lambda: read_tail(url, TAIL_BYTES))
        self.size = self._version.size
        self._pinned: list[tuple[int, memoryview]] = [(self.size - len(tail), tail)]
        self._copy: _LocalCopy | None = None

    def open(self, ranges: Sequence[ByteRange] | None = None) -> BinaryIO:
        """Open it for reading; see ``StoredFile``."""
        planned = [(0, self.size)] if ranges is None else ranges
        return BufferedReader(_RangeReader(self, _blocks(planned, self.size)), _BUFFER_BYTES)

    def pin(self, begin: int, end: int) -> None:
        """Fetch a range by one request, as far as it is not kept already, and keep it."""
        for start, data in self._pinned:
            if start <= begin < start + len(data):
                begin = start + len(data)
            if start < end <= start + len(data):
                end = start
        if begin < end:
            self._pinned.append((begin, wait_for(lambda: self.fetch((begin, end)))))

    def keep(self) -> None:
        """Keep a local copy of what is read from now on."""
        self._copy = self._copy or _LocalCopy()

    def pinned(self, position: int) -> memoryview | None:
        """What is kept in memory from a position on, None if nothing is."""
        for start, data in self._pinned:
            if start <= position < start + len(data):
                return data[position - start :]
        return None

    def fetch(self, wanted: ByteRange) -> memoryview:
        """The bytes of a range; any thread.

        Raises:
            RecordingError: it cannot be read, or has changed since it was opened.
        """
        copy = self._copy
        if copy is not None and (found := copy.read(wanted)) is not None:
            return found
        data, version = read_range(self._url, *wanted)
        self._check(version, wanted, len(data))
        if copy is not None:
            copy.write(wanted, data)
        return data

    def _check(self, version: ObjectVersion, wanted: ByteRange, received: int) -> None:
        if version != self._version:
            raise RecordingError(
                f"{self._url}: changed while it was read (ETag {self._version.tag}, now {version.tag}): "
                "start again once its upload is complete"
            )
        if received != wanted[1] - wanted[0]:
            raise RecordingError(
                f"{self._url}: the server sent {received:,} bytes of the {wanted[1] - wanted[0]:,} at "
                f"{wanted[0]:,}; try again"
            )


class _LocalCopy:
    """Ranges of an object in a temporary file without name; if the disk is full, they are fetched again."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="edgefirst-ros-")  # noqa: SIM115 - closed with this
        self._ranges: set[ByteRange] = set()

    def read(self, wanted: ByteRange) -> memoryview | None:
        """A range that was written, else None."""
        if wanted not in self._ranges:
            return None
        return memoryview(os.pread(self._file.fileno(), wanted[1] - wanted[0], wanted[0]))

    def write(self, wanted: ByteRange, data: memoryview) -> None:
        """Keep a range if there is room."""
        try:
            if os.pwrite(self._file.fileno(), data, wanted[0]) == len(data):
                self._ranges.add(wanted)
        except OSError:
            pass


class _RangeReader(RawIOBase):
    """Reads at a position from what is kept, from blocks read ahead, or by a request of its own."""

    def __init__(self, file: RemoteFile, blocks: Sequence[ByteRange]) -> None:
        self._file = file
        self._blocks = blocks
        self._begins = [begin for begin, _ in blocks]
        self._fetched: dict[int, Future[memoryview]] = {}
        self._single: tuple[int, memoryview] = (0, memoryview(b""))
        self._fetcher: _Fetcher | None = None
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._file.size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        into = memoryview(buffer).cast("B")
        found = self._at(self._position, len(into))
        length = min(len(found), len(into))
        into[:length] = found[:length]
        self._position += length
        return length

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None
        self._fetched.clear()
        super().close()

    def _at(self, position: int, length: int) -> memoryview:
        """Some bytes from a position on, empty at the end of the file."""
        if position >= self._file.size:
            return memoryview(b"")
        if (pinned := self._file.pinned(position)) is not None:
            return pinned
        number = bisect_right(self._begins, position) - 1
        if number >= 0 and position < self._blocks[number][1]:
            return self._block(number)[position - self._begins[number] :]
        start, data = self._single
        if not start <= position < start + len(data):
            end = min(self._file.size, position + max(length, SINGLE_BYTES))
            data = wait_for(lambda: self._file.fetch((position, end)))
            start, self._single = position, (position, data)
        return data[position - start :]

    def _block(self, number: int) -> memoryview:
        """A block that is planned; those behind it are fetched meanwhile."""
        if self._fetcher is None:
            self._fetcher = _Fetcher(min(CONNECTIONS, len(self._blocks)))
        for old in [n for n in self._fetched if not number - 1 <= n <= number + AHEAD]:
            self._fetched.pop(old).cancel()
        for following in range(number, min(number + AHEAD + 1, len(self._blocks))):
            if following not in self._fetched:
                block = self._blocks[following]
                self._fetched[following] = self._fetcher.submit(partial(self._file.fetch, block))
        return self._fetched[number].result()


class _Fetcher:
    """Threads that fetch blocks.

    They are daemons, because a request that hangs must not keep the process from ending.
    """

    def __init__(self, threads: int) -> None:
        self._tasks: SimpleQueue[tuple[Future[memoryview], Callable[[], memoryview]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        self._open: list[Future[memoryview]] = []
        for thread in self._threads:
            thread.start()

    def submit(self, fetch: Callable[[], memoryview]) -> Future[memoryview]:
        """Have a block fetched."""
        future: Future[memoryview] = Future()
        self._open = [each for each in self._open if not each.done()] + [future]
        self._tasks.put((future, fetch))
        return future

    def close(self) -> None:
        """Cancel what has not begun, and give what has a moment to end."""
        for future in self._open:
            future.cancel()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, fetch = task
            if future.set_running_or_notify_cancel():
                _settle(future, fetch)


def wait_for(fetch: Callable[[], Result]) -> Result:
    """Call a function in a thread, so that Ctrl-C ends the wait for it; returns what it returns."""
    future: Future[Result] = Future()
    threading.Thread(target=_settle, args=(future, fetch), daemon=True).start()
    return future.result()


def _settle(future: Future[Result], fetch: Callable[[], Result]) -> None:
    try:
        future.set_result(fetch())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)


def _blocks(ranges: Sequence[ByteRange], size: int) -> list[ByteRange]:
    """The requests for ranges: in order of the file, near ones together, none longer than a block."""
    joined: list[ByteRange] = []
    for begin, end in sorted(ranges):
        if joined and begin - joined[-1][1] <= JOIN_GAP_BYTES:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return [
        (at, min(at + BLOCK_BYTES, end, size))
        for begin, end in joined
        for at in range(begin, min(end, size), BLOCK_BYTES)
    ]
