"""One-dimensional zarr arrays that grow on disk row by row, so that a crash loses no row that was added.

Records of a growing dataset's journal: which rows are committed, and what the arrays lack of scenes.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgefirst_ros.formats.crashsafe.names import forget, hold, replace_file
from edgefirst_ros.formats.crashsafe.sync import AppendFile, Unsynced
from edgefirst_ros.formats.l5kit.store.chunks import OwnFiles
from edgefirst_ros.formats.l5kit.store.schema import SPECS, Records, SceneNote
from edgefirst_ros.formats.zarr2 import json_bytes
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.sample import GeoPoint
from edgefirst_ros.model.untrusted import open_regular
from edgefirst_ros.model.zlib_backend import crc32

JOURNAL_FORMAT = "l5kit 2"


class Growth(NamedTuple):
    """How far an array has grown: its rows so far, and the CRC-32 of those that are new."""

    length: int
    crc: int


NO_ROWS = Growth(0, 0)


@dataclass(frozen=True, slots=True)
class Commit:
    """One record: what was added since the record before it.

    Attributes:
        rows: by array that has grown.
        notes: of the scenes that are new.
        scene: host and start time, in nanoseconds, of the scene that begins with the next frame.
        complete: the disk holds the whole dataset, which lacks its name only; rows of agents may be others
            than those that were committed.
    """

    rows: Mapping[str, Growth] = field(default_factory=dict)
    notes: tuple[SceneNote, ...] = ()
    scene: tuple[str, int] | None = None
    complete: bool = False

    def to_json(self) -> bytes:
        """The record's payload."""
        record: dict[str, object] = {"rows": self.rows}
        if self.notes:
            record["notes"] = [[note.name, _coordinates(note.origin)] for note in self.notes]
        if self.scene:
            record["scene"] = self.scene
        if self.complete:
            record["complete"] = True
        return json_bytes(record)

    @classmethod
    def from_json(cls, payload: bytes) -> Commit | None:
        """The inverse; None of what no writer has written."""
        try:
            record = json.loads(payload)
            rows = {name: Growth(*map(index, growth)) for name, growth in record["rows"].items()}
            notes = tuple(SceneNote.of(*note) for note in record.get("notes", ()))
            scene = record.get("scene")
            if scene is not None:
                host, start_ns = scene
                scene = (str(host), int(np.int64(index(start_ns))))
            complete = bool(record.get("complete"))
            return cls(rows, notes, scene, complete) if rows.keys() <= SPECS.keys() else None
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
            return None


def _coordinates(origin: GeoPoint | None) -> list[float] | None:
    return None if origin is None else [origin.latitude_deg, origin.longitude_deg, origin.altitude_m]


_MOST_WAYS = 16
"""Rows committed together lie in a chunk or two, each there twice at most; a stranger's may lie in more."""


Change = Callable[[int, Records], Records]
"""What rows become, of the number of the first one and the rows."""


class GrowingArray:
    """Appends rows; whole chunks go to their files, the rows of the chunk under way to a tail file.

    The tail is raw rows, unbuffered, named after the chunk that it becomes; it stays until its chunk and
    the tail of the next one are there, and once ``sync`` was called until the disk holds these. So at every
    moment the tails, and the chunks that have none, hold every row that was added. Memory is one chunk.

    Args:
        files: where the array is.
        kept: keep so many of the rows that are stored, with this CRC-32; what else is stored goes.

    Raises:
        DatasetError: fewer rows are stored, or the chunk that holds the last of them is damaged.
        OSError: as the file system has it.
    """

    def __init__(self, files: OwnFiles, kept: Growth = NO_ROWS) -> None:
        self.files = files
        self.length, self._crc = kept
        self._taken = 0
        self._rows = np.zeros(files.chunk, files.spec.dtype)
        number, self._filled = divmod(self.length, files.chunk)
        self._rows[: self._filled] = _stored(files, number, self._filled)
        files.files.folder.mkdir(exist_ok=True)
        for chunk, _ in files.files.tails():
            if chunk < number:  # a crash came before its chunk was there
                files.write_chunk(chunk, _stored(files, chunk, files.chunk))
        tail = files.files.tail(number)
        replace_file(tail, self._rows[: self._filled].tobytes(), sync=self.length > 0)
        beyond = [path for chunk, path in files.files.chunks() if chunk >= number]
        forget(*(path for chunk, path in files.files.tails() if chunk != number), *beyond)
        self._tail = AppendFile(tail)
        self._synced_length = -1
        self._keeps_tails = False
        self._replaced: deque[int] = deque()
        self._unsynced = Unsynced(files.files.folder)
        self._sync = _Sync(0, 0, 0)
        self._removed: list[int] = []

    @property
    def tail_bytes(self) -> int:
        """Bytes of the chunk under way."""
        return self._filled * self.files.spec.dtype.itemsize

    def append(self, rows: Records) -> int:
        """Add rows; returns how many bytes they are."""
        rows = np.ascontiguousarray(rows, self._rows.dtype)
        start = 0
        while start < len(rows):
            part = rows[start : start + self.files.chunk - self._filled]
            data = part.tobytes()
            self._tail.append(data)
            self._crc = crc32(data, self._crc)
            self._rows[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            self.length += len(part)
            start += len(part)
            if self._filled == self.files.chunk:
                self._begin_chunk()
        return rows.nbytes

    def take_growth(self) -> Growth | None:
        """How far the array has grown since the last call; None if it has not."""
        growth = Growth(self.length, self._crc) if self.length > self._taken else None
        self._taken, self._crc = self.length, 0
        return growth

    def begin_sync(self) -> list[Path]:
        """The files that hold the rows added before; any one thread, also while another appends.

        Of the first call the caller syncs the whole folder.
        """
        length = self.length
        if length == self._synced_length:
            self._sync = _Sync(length, 0, 0)
            return []
        self._keeps_tails = True  # first: a chunk whose tail is gone by now is in the folder
        self._sync = _Sync(length, len(self._replaced), len(self._removed))
        return [self._tail.path, *self._unsynced.take()]

    def end_sync(self) -> None:
        """The disk holds those files: tails whose chunks it holds go.

        They stay open until the disk holds the folder without their names, too, see ``forget``.

        Raises:
            OSError: the disk refuses.
        """
        for _ in range(self._sync.removed):
            os.close(self._removed.pop(0))
        for _ in range(self._sync.replaced):
            tail = self.files.files.tail(self._replaced.popleft())
            with suppress(FileNotFoundError):
                self._removed.append(hold(tail))
                tail.unlink()
                self._unsynced.add(tail.parent)
        self._synced_length = self._sync.length

    def rewrite(self, change: Change) -> None:
        """Write the chunks as ``change`` makes them, which are not synced yet.

        What was added stays in their tails, synced, until all of it is complete.

        Raises:
            OSError: the disk is full or gone.
        """
        for number, rows in self._chunks():
            tail = self.files.files.tail(number)
            if not tail.exists():  # else it is there since the chunk was committed, or since a try before
                replace_file(tail, rows.tobytes(), sync=True)
        for number, rows in self._chunks():
            made = change(number * self.files.chunk, rows)
            if number < self.length // self.files.chunk:
                self.files.write_chunk(number, made, sync=False)
            else:
                self._rows[: self._filled] = made  # ``complete`` writes it

    def _chunks(self) -> Iterator[tuple[int, Records]]:
        last = self.length // self.files.chunk
        for number in range(last):
            yield number, self.files.read_chunk(number)
        if self._filled:
            yield last, self._rows[: self._filled]

    def complete(self) -> None:
        """Write the last chunk and the length, which are not synced yet; tails stay until that is done."""
        if self._filled:
            self.files.write_chunk(self.length // self.files.chunk, self._rows[: self._filled], sync=False)
        self.files.write_metadata(self.length)
        self._tail.close()

    def close(self) -> None:
        """Let go of the tail, which stays as it is; may be repeated."""
        self._tail.close()
        while self._removed:
            os.close(self._removed.pop())

    def _begin_chunk(self) -> None:
        number = self.length // self.files.chunk
        last, chunk = self.files.files.tail(number - 1), self.files.files.chunk(number - 1)
        tail = AppendFile(self.files.files.tail(number))
        self.files.write_chunk(number - 1, self._rows, sync=False)
        if self._keeps_tails:
            self._unsynced.add(self.files.files.folder, last, chunk)
            self._replaced.append(number - 1)
        else:
            last.unlink()
        self._tail, old = tail, self._tail
        old.close()
        self._filled = 0


@dataclass(frozen=True, slots=True)
class _Sync:
    """What a sync under way is about: so many rows, tails of chunks written before, tails removed before."""

    length: int
    replaced: int
    removed: int


class StoredRows:
    """The rows of an array as they lie in its tails and chunks, to be read forwards, by their checksums.

    The rows of a chunk can be there twice, in its tail and in its file, and after a power cut either may hold
    something else. Those count that have the right checksum.

    Attributes:
        refuted: tails that do not have it, whose chunks do.
    """

    def __init__(self, files: OwnFiles) -> None:
        self.refuted: set[Path] = set()
        self._files = files
        self._copies: dict[int, list[_Copy]] = {}

    def holds(self, start: int, stop: int, crc: int) -> bool:
        """Whether rows of this CRC-32 are there; of what is there twice, what has it counts from now on."""
        ways: list[tuple[int, tuple[_Copy, ...]]] = [(0, ())]
        first = start // self._files.chunk
        self._copies = {n: copies for n, copies in self._copies.items() if n >= first}
        while start < stop and ways:
            number, begin = divmod(start, self._files.chunk)
            end = min(self._files.chunk, begin + stop - start)
            if number not in self._copies:
                self._copies[number] = [*_copies(self._files, number)]
            longer = [
                (crc32(copy.rows[begin:end].tobytes(), value), (*way, copy))
                for value, way in ways
                for copy in self._copies[number]
                if len(copy.rows) >= end
            ]
            ways = longer[:_MOST_WAYS]
            start += end - begin
        right = {copy for value, way in ways if value == crc for copy in way}
        for number in {copy.number for copy in right}:
            others = [copy for copy in self._copies[number] if copy not in right]
            self.refuted.update(copy.path for copy in others if copy.is_tail)
            self._copies[number] = [copy for copy in self._copies[number] if copy in right]
        return bool(right) or (crc == 0 and ways == [(0, ())])


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """Rows of a chunk, from its tail or from its file."""

    number: int
    path: Path
    rows: Records
    is_tail: bool


def _copies(files: OwnFiles, number: int) -> Iterator[_Copy]:
    tail = files.files.tail(number)
    with suppress(FileNotFoundError):
        yield _Copy(number, tail, _tail_rows(files, tail), is_tail=True)
    with suppress(DatasetError):
        yield _Copy(number, files.files.chunk(number), files.read_chunk(number), is_tail=False)


def _tail_rows(files: OwnFiles, tail: Path) -> Records:
    dtype = files.spec.dtype
    with open_regular(tail) as file:
        data = file.read(files.chunk * dtype.itemsize)
    return np.frombuffer(data, dtype, len(data) // dtype.itemsize)


def stored_rows(files: OwnFiles, number: int) -> Records:
    """Rows of a chunk: those of its tail, else of its file; none of what is damaged or not there.

    A tail goes before its chunk, because it stays until the disk holds the chunk. Tails whose rows are not
    what the journal says are removed by recovery before.
    """
    rows = next((copy.rows for copy in _copies(files, number)), None)
    return np.zeros(0, files.spec.dtype) if rows is None else rows


def _stored(files: OwnFiles, number: int, count: int) -> Records:
    if not count:
        return np.zeros(0, files.spec.dtype)
    rows = stored_rows(files, number)
    if len(rows) < count:
        raise DatasetError(f"{files.files.chunk(number)}: holds {len(rows)} rows, expected {count}")
    return rows[:count]
