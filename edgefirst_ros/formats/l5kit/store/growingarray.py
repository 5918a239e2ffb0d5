"""One-dimensional zarr arrays that grow on disk row by row, so that a crash loses no row that was added."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.appending import AppendFile
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.l5kit.store.chunkfiles import OwnFiles
from edgefirst_ros.formats.l5kit.store.schema import Records


class GrowingArray:
    """Appends rows; whole chunks go to their files, the rows of the chunk under way to a tail file.

    The tail is raw rows, unbuffered, named after the chunk that it becomes; it stays until its chunk and
    the tail of the next one are there. So at every moment the chunk files before the tail, and the tail,
    hold every row that was added. Memory is one chunk.

    Args:
        files: where the array is.
        length: keep so many of the rows that are stored; 0 begins anew. What else is stored goes.

    Raises:
        DatasetError: fewer rows are stored, or the chunk that holds the last of them is damaged.
        OSError: as the file system has it.
    """

    def __init__(self, files: OwnFiles, length: int = 0) -> None:
        self.files = files
        self.length = length
        self._rows = np.zeros(files.chunk, files.spec.dtype)
        number, self._filled = divmod(length, files.chunk)
        if self._filled:
            self._rows[: self._filled] = stored_rows(files, number, self._filled)
        files.files.folder.mkdir(parents=True, exist_ok=True)
        _complete_chunks(files, number)
        replace_file(files.files.tail(number), self._rows[: self._filled].tobytes())
        _remove(files, number)
        files.write_metadata(0)
        self._tail = AppendFile(files.files.tail(number))

    def append(self, rows: Records) -> int:
        """Add rows; returns how many bytes they are."""
        rows = np.ascontiguousarray(rows, self._rows.dtype)
        start = 0
        while start < len(rows):
            part = rows[start : start + self.files.chunk - self._filled]
            self._tail.append(part.tobytes())
            self._rows[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            self.length += len(part)
            start += len(part)
            if self._filled == self.files.chunk:
                self._complete()
        return rows.nbytes

    def finish(self) -> None:
        """Write the last chunk, then the length, then let go of the tail."""
        if self._filled:
            self.files.write_chunk(self.length // self.files.chunk, self._rows[: self._filled])
        self.files.write_metadata(self.length)
        self.close()
        for _, path in self.files.files.tails():
            path.unlink()

    def close(self) -> None:
        """Let go of the tail, which stays as it is; may be repeated."""
        self._tail.close()

    def _complete(self) -> None:
        number = self.length // self.files.chunk
        self.files.write_chunk(number - 1, self._rows)
        self.close()
        self._tail = AppendFile(self.files.files.tail(number))
        self.files.files.tail(number - 1).unlink()
        self._filled = 0


def stored_length(files: OwnFiles) -> int:
    """Rows that an array holds, growing or finished, in unbroken order from the first.

    A chunk that does not decode, and all after it, count for nothing; nor does half a row. An array that is
    not there has none.
    """
    tails = dict(files.files.tails())
    if not tails:
        length = files.files.header().length if files.files.metadata.exists() else 0
        # A length of 0 is what growing arrays say, whose last tail is gone.
        chunks = -(-length // files.chunk) or len([*files.files.chunks()])
        whole = _whole_chunks(files, chunks) * files.chunk
        return min(length, whole) if length else whole
    number = max(tails)
    whole = _whole_chunks(files, number)
    if whole < number:
        return whole * files.chunk
    return number * files.chunk + min(tails[number].stat().st_size // files.spec.dtype.itemsize, files.chunk)


def stored_blocks(files: OwnFiles, length: int) -> Iterator[Records]:
    """The first ``length`` rows, chunk by chunk, of an array that holds at least so many.

    Raises:
        DatasetError: it holds fewer.
    """
    for start in range(0, length, files.chunk):
        yield stored_rows(files, start // files.chunk, min(files.chunk, length - start))


def stored_rows(files: OwnFiles, number: int, count: int) -> Records:
    """The first rows of a chunk; from its tail if that has them, which a finished chunk cannot contradict.

    Raises:
        DatasetError: it holds fewer.
    """
    tail, rows = files.files.tail(number), np.zeros(0, files.spec.dtype)
    if tail.exists():
        data = tail.read_bytes()
        rows = np.frombuffer(data, files.spec.dtype, len(data) // files.spec.dtype.itemsize)
    if len(rows) < count and files.files.chunk(number).exists():
        rows = files.read_chunk(number)
    if len(rows) < count:
        raise DatasetError(f"{tail}: holds {len(rows)} rows, expected {count}")
    return rows[:count]


def _complete_chunks(files: OwnFiles, number: int) -> None:
    """Write the chunks before ``number`` of which only the tail is there: a crash came in between."""
    for index, _ in files.files.tails():
        if index < number:
            files.write_chunk(index, stored_rows(files, index, files.chunk))


def _whole_chunks(files: OwnFiles, most: int) -> int:
    for number in range(most):
        try:
            files.read_chunk(number)
        except DatasetError:
            return number
    return most


def _remove(files: OwnFiles, number: int) -> None:
    """Everything beyond the tail ``number``; later tails first, because the last one counts."""
    for index, path in reversed([*files.files.tails()]):
        if index != number:
            path.unlink()
    for index, path in files.files.chunks():
        if index >= number:
            path.unlink()
