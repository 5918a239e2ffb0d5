"""Rows of an array on disk that slice like numpy, each chunk touched being decompressed once."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.store.chunkfiles import Files, read_chunk
from edgefirst_ros.formats.l5kit.store.schema import Records


class ChunkCache:
    """Decompressed chunks, least recently used first to go; ``reads`` counts decompressions.

    Chunks may be taken from several threads: the worst that can happen is that two decompress the same one.
    Processes that share a dataset by fork or pickle have a cache each.

    Args:
        max_bytes: of decompressed chunks kept; the chunk in use is held whatever its size.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.reads = 0
        self._chunks: dict[Path, Records] = {}

    def get(self, path: Path) -> Records | None:
        """A chunk that is kept."""
        rows = self._chunks.pop(path, None)
        if rows is not None:
            self._chunks[path] = rows
        return rows

    def keep(self, path: Path, rows: Records) -> None:
        """Keep a chunk that was decompressed, and let go of others that there is no room for."""
        self.reads += 1
        self._chunks[path] = rows
        room = self.max_bytes - sum(chunk.nbytes for chunk in [*self._chunks.values()])
        for oldest in [*self._chunks]:
            if room >= 0:
                return
            gone = self._chunks.pop(oldest, None)
            room += gone.nbytes if gone is not None else 0

    def __getstate__(self) -> dict[str, Any]:
        return {"max_bytes": self.max_bytes, "reads": 0, "_chunks": {}}


class ChunkedArray:
    """An array of one dimension in chunk files, read as L5Kit's arrays are read.

    ``array[key]`` is what numpy gives for the same key on the same rows, always a copy: an index, a slice
    with any step, booleans, integers in any order and shape; ``array["field"]`` and ``array[["a", "b"]]`` are
    whole columns. Chunks are visited one after the other, so that a chunk is decompressed once however many
    rows of it are wanted, and only one is held beyond the cache.

    Args:
        files: of any zarr format 2 array of one dimension.
        cache: shared by the arrays of a dataset.

    Raises:
        DatasetNotFound: there is no such array.
        DatasetError: it cannot be read here.
    """

    def __init__(self, files: Files, cache: ChunkCache) -> None:
        self._files = files
        self._cache = cache
        self._header = files.header()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a row."""
        return self._header.dtype

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as numpy has it."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """1."""
        return 1

    @property
    def chunk_length(self) -> int:
        """Rows a chunk."""
        return self._header.chunks[0]

    @property
    def nbytes(self) -> int:
        """Size of all rows."""
        return len(self) * self.dtype.itemsize

    def missing(self) -> list[Path]:
        """Chunks that are not there and read as zero, which is how a lost file looks, too."""
        count = -(-len(self) // self.chunk_length)
        return [path for path in map(self._files.chunk, range(count)) if not path.exists()]

    def __len__(self) -> int:
        return self._header.shape[0]

    @overload
    def __getitem__(self, key: SupportsIndex) -> np.void: ...

    @overload
    def __getitem__(self, key: slice | EllipsisType) -> Records: ...

    @overload
    def __getitem__(self, key: str | Sequence[str] | npt.ArrayLike) -> npt.NDArray[Any]: ...

    def __getitem__(self, key: Any) -> Any:
        """Rows or columns as numpy would give them.

        Raises:
            IndexError: an index out of range, booleans of another length, or what numpy takes for no index.
            DatasetError: a chunk is damaged.
        """
        if isinstance(key, str) or (isinstance(key, list) and key and all(isinstance(k, str) for k in key)):
            return self._columns(key)
        if isinstance(key, tuple):
            if len(key) != 1:
                raise IndexError(f"the array has one dimension, found {len(key)} indices")
            return self[key[0]]
        if key is Ellipsis:
            key = slice(None)
        if isinstance(key, slice):
            return self._slice(*key.indices(len(self)))
        if isinstance(key, SupportsIndex) and not isinstance(key, (bool, np.bool_, np.ndarray)):
            return self._rows(np.array([self._index(operator.index(key))]))[0]
        return self._fancy(np.asarray(key))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("rows on disk cannot be returned without a copy")
        return self[:].astype(dtype or self.dtype, copy=False)

    def __iter__(self) -> Iterator[np.void]:
        for start in range(0, len(self), self.chunk_length):
            yield from self[start : start + self.chunk_length]

    def __repr__(self) -> str:
        return (
            f"<{self._files.name}: {len(self)} rows in chunks of {self.chunk_length} at {self._files.folder}>"
        )

    def _chunk(self, number: int) -> Records:
        """All rows of a chunk; one that is not there is zero, as zarr has it."""
        path = self._files.chunk(number)
        rows = self._cache.get(path)
        if rows is None:
            try:
                rows = read_chunk(path, self._header)
            except FileNotFoundError:
                return np.zeros(self.chunk_length, self.dtype)
            self._cache.keep(path, rows)
        return rows

    def _slice(self, start: int, stop: int, step: int) -> Records:
        indices = range(start, stop, step)
        result = np.empty(len(indices), self.dtype)
        size = self.chunk_length
        done = 0
        while done < len(indices):
            first = indices[done]
            number = first // size
            beyond = (number + 1) * size if step > 0 else number * size - 1
            count = min(len(indices) - done, len(range(first, beyond, step)))
            within = np.arange(count) * step + (first - number * size)
            result[done : done + count] = self._chunk(number)[within]
            done += count
        return result

    def _columns(self, names: str | list[str]) -> npt.NDArray[Any]:
        # Copied: a column of a chunk would keep all of it.
        parts = [np.array(self._chunk(n)[names]) for n in range(-(-len(self) // self.chunk_length))]
        whole = np.concatenate(parts) if parts else np.zeros(0, self.dtype)[names]
        return whole[: len(self)]

    def _fancy(self, key: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if key.dtype == np.bool_:
            if key.shape != self.shape:
                raise IndexError(f"boolean index of shape {key.shape}, the array has shape {self.shape}")
            return self._rows(np.flatnonzero(key))
        if not key.size and key.dtype == np.float64:
            key = key.astype(np.intp)
        if not np.issubdtype(key.dtype, np.integer):
            raise IndexError(f"rows are selected by integers, slices or booleans, found {key.dtype}")
        index = key.astype(np.intp)
        bad = (index < -len(self)) | (index >= len(self))
        if bad.any():
            raise IndexError(f"index {index[bad][0]} is out of range, the array has {len(self)} rows")
        return self._rows(np.where(index < 0, index + len(self), index).reshape(-1)).reshape(index.shape)

    def _rows(self, index: npt.NDArray[np.intp]) -> Records:
        """Rows by number, in any order."""
        result = np.empty(len(index), self.dtype)
        if not len(index):
            return result
        number = index // self.chunk_length
        order = np.argsort(number, kind="stable")
        numbers, starts = np.unique(number[order], return_index=True)
        for chunk, where in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            result[where] = self._chunk(chunk)[index[where] - chunk * self.chunk_length]
        return result

    def _index(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range, the array has {len(self)} rows")
        return index + len(self) if index < 0 else index
