"""Rows of numbers, as many as a day of driving has: what exceeds a few megabytes lies in a temporary file."""

from __future__ import annotations

import os
import sys
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_BYTES = 4 << 20
"""What is kept in memory."""
BLOCK = 1024
"""Rows that ``row`` and ``blocks`` read at a time."""
FLOAT_BYTES = 8


class Rows:
    """Rows of equal width that are appended and then read in any order; reading is fastest in order.

    The file has no name and vanishes with the object. If it cannot be written, rows stay in memory.

    Args:
        width: numbers in a row.
        most_bytes: what is kept in memory.
    """

    def __init__(self, width: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._width = width
        self._most: float = most_bytes // FLOAT_BYTES
        self._newest: array[float] = array("d")
        self._file: int | None = None
        self._in_file = 0
        self._read: tuple[int, Floats] | None = None

    def __len__(self) -> int:
        return self._in_file + len(self._newest) // self._width

    def extend(self, numbers: Iterable[float]) -> None:
        """Append whole rows."""
        self._newest.extend(numbers)
        self._read = None
        if len(self._newest) > self._most:
            self._spill()

    def part(self, start: int, stop: int) -> Floats:
        """A copy of the rows of a range (n, width).

        Raises:
            OSError: the temporary file cannot be read.
        """
        stop = max(start, min(stop, len(self)))
        size = FLOAT_BYTES * self._width
        parts = []
        if self._file is not None and start < self._in_file:
            count = min(stop, self._in_file) - start
            parts.append(np.frombuffer(os.pread(self._file, count * size, start * size)))
        if stop > self._in_file:
            first = max(0, start - self._in_file)
            parts.append(np.array(self._newest[first * self._width : (stop - self._in_file) * self._width]))
        return np.concatenate(parts or [np.empty(0)]).reshape(-1, self._width)

    def row(self, index: int) -> Floats:
        """One row (width,); it must not be changed."""
        number, offset = divmod(index, BLOCK)
        read = self._read
        if read is None or read[0] != number:
            read = self._read = number, self.part(number * BLOCK, (number + 1) * BLOCK)
        values: Floats = read[1][offset]
        return values

    def rows(self, indices: Iterable[int]) -> Floats:
        """A copy of some rows (n, width)."""
        return np.array([self.row(index) for index in indices]).reshape(-1, self._width)

    def blocks(self) -> Iterator[Floats]:
        """Copies of all rows in order, some at a time."""
        for start in range(0, len(self), BLOCK):
            yield self.part(start, start + BLOCK)

    def _spill(self) -> None:
        try:
            if self._file is None:
                with tempfile.TemporaryFile() as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            data = memoryview(self._newest).cast("B")
            at = self._in_file * self._width * FLOAT_BYTES
            while data:
                written = os.pwrite(self._file, data, at)
                data, at = data[written:], at + written
        except OSError:
            # A full disk: memory is what is left.
            self._most = sys.maxsize
            return
        self._in_file += len(self._newest) // self._width
        self._newest = array("d")
