"""One-dimensional zarr arrays that grow on disk row by row, so that a crash loses no row that was added."""

from __future__ import annotations

from collections import deque

import numpy as np

from edgefirst_ros.codecs.zlib_backend import crc32
from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.appending import AppendFile
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.crashsafe.sync import Unsynced
from edgefirst_ros.formats.l5kit.store.chunkfiles import OwnFiles
from edgefirst_ros.formats.l5kit.store.journal import NO_ROWS, Growth
from edgefirst_ros.formats.l5kit.store.schema import Records
from edgefirst_ros.model.untrusted import open_regular


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
        for index, _ in files.files.tails():
            if index < number:  # a crash came before its chunk was there
                files.write_chunk(index, _stored(files, index, files.chunk))
        tail = files.files.tail(number)
        replace_file(tail, self._rows[: self._filled].tobytes(), sync=self.length > 0)
        beyond = [path for index, path in files.files.chunks() if index >= number]
        for path in (*(path for index, path in files.files.tails() if index != number), *beyond):
            path.unlink()
        self._tail = AppendFile(tail)
        self._synced_length = -1
        self._keeps_tails = False
        self._replaced: deque[int] = deque()
        self._unsynced = Unsynced()

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

    def sync(self) -> None:
        """Wait until the disk holds the rows added before; any one thread, also while another appends.

        Of the first call the caller syncs the folder, too.

        Raises:
            OSError: the disk refuses.
        """
        length = self.length
        if length == self._synced_length:
            return
        self._keeps_tails = True  # first: a chunk whose tail is gone by now, the caller syncs
        self._tail.sync()
        replaced = len(self._replaced)
        self._unsynced.sync()
        for _ in range(replaced):
            self.files.files.tail(self._replaced.popleft()).unlink(missing_ok=True)
        self._synced_length = length

    def complete(self) -> None:
        """Write the last chunk and the length, which are not synced yet; tails stay until that is done."""
        if self._filled:
            self.files.write_chunk(self.length // self.files.chunk, self._rows[: self._filled], sync=False)
        self.files.write_metadata(self.length)
        self.close()

    def close(self) -> None:
        """Let go of the tail, which stays as it is; may be repeated."""
        self._tail.close()

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


class StoredRows:
    """The rows of an array as they lie in its tails and chunks, to be read forwards; one chunk is held."""

    def __init__(self, files: OwnFiles) -> None:
        self._files = files
        self._number = -1
        self._rows = np.zeros(0, files.spec.dtype)

    def crc(self, start: int, stop: int) -> int | None:
        """CRC-32 of rows; None if not all of them are there."""
        crc = 0
        while start < stop:
            number, first = divmod(start, self._files.chunk)
            if number != self._number:
                self._number, self._rows = number, stored_rows(self._files, number)
            part = self._rows[first : first + stop - start]
            if not len(part):
                return None
            crc = crc32(part.tobytes(), crc)
            start += len(part)
        return crc


def stored_rows(files: OwnFiles, number: int) -> Records:
    """Rows of a chunk: those of its tail, else of its file; none of what is damaged or not there.

    A tail goes before its chunk, because it stays until the disk holds the chunk.
    """
    dtype = files.spec.dtype
    try:
        with open_regular(files.files.tail(number)) as tail:
            data = tail.read(files.chunk * dtype.itemsize)
        return np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    except FileNotFoundError:
        pass
    try:
        return files.read_chunk(number)
    except DatasetError:
        return np.zeros(0, dtype)


def _stored(files: OwnFiles, number: int, count: int) -> Records:
    if not count:
        return np.zeros(0, files.spec.dtype)
    rows = stored_rows(files, number)
    if len(rows) < count:
        raise DatasetError(f"{files.files.chunk(number)}: holds {len(rows)} rows, expected {count}")
    return rows[:count]
