"""The files of a one-dimensional zarr array, how they are replaced, and rows that slice like numpy."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe.manifest import Comparison, measured
from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.l5kit.store.schema import JOURNAL, MANIFEST, SPECS, Records
from edgefirst_ros.formats.zarr2 import ARRAY_KEY, ArrayHeader, ArraySpec
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import open_regular, read_at_most, read_regular, refusing
from edgefirst_ros.model.zlib_backend import crc32

_MOST_HEADER_BYTES = 1 << 20
_MOST_MISSING = 16
"""Chunks that may be missing, further to as many as are there."""
_SMALL_BYTES, _MOST_GROWTH = 64 << 20, 16
"""An array of more bytes than the first, half a day of frames, holds no more than so many times what is
stored of it."""
_OVERHEAD = 1024
"""More bytes than Blosc ever adds to a chunk."""


def read_chunk(path: Path, header: ArrayHeader) -> Records:
    """All rows of a chunk file, those beyond the array's end included.

    Raises:
        FileNotFoundError: it is not there.
        DatasetError: it is not a chunk of the array.
    """
    with refusing(path, DatasetError, "damaged chunk"):
        try:
            with open_regular(path) as file:
                data = read_at_most(file, header.chunk_bytes + _OVERHEAD)
        except FileNotFoundError as error:
            missing = error
        else:
            rows: Records = header.decode(data)
            return rows
    raise missing


@dataclass(frozen=True, slots=True)
class Files:
    """The file names of array ``name`` in the dataset folder ``root``."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """What the array's files are in."""
        return self.root / self.name

    @property
    def metadata(self) -> Path:
        """The ``.zarray`` file."""
        return self.folder / ARRAY_KEY

    def chunk(self, number: int) -> Path:
        """A chunk file."""
        return self.folder / str(number)

    def tail(self, number: int) -> Path:
        """The rows of a chunk that is not complete; hidden, and gone once the array is finished."""
        return self.folder / f".{self.name}.{number}.rows"

    def chunks(self) -> Iterator[tuple[int, Path]]:
        """Every chunk file with its number, ascending."""
        return self._numbered(r"(\d+)")

    def tails(self) -> Iterator[tuple[int, Path]]:
        """Every tail with its number, ascending; more than one where a crash hit the change to the next."""
        return self._numbered(rf"\.{re.escape(self.name)}\.(\d+)\.rows")

    def header(self) -> ArrayHeader:
        """The array's metadata.

        Raises:
            DatasetNotFound: there is no such array.
            DatasetError: it is not an array that can be read here.
        """
        with refusing(self.metadata, DatasetError):
            try:
                header = ArrayHeader.parse(read_regular(self.metadata, _MOST_HEADER_BYTES))
            except FileNotFoundError as error:
                raise DatasetNotFound(f"{self.metadata}: no such array; is {self.root} a dataset?") from error
            if len(header.shape) != 1:
                raise ValueError(f"expected one dimension, found the shape {header.shape}")
            # All rows that no files are there for would be read as zeros.
            sizes = [path.lstat().st_size for _, path in self.chunks()]
            chunks = -(-header.shape[0] // header.chunks[0])
            if chunks > 2 * len(sizes) + _MOST_MISSING:
                raise ValueError(f"{chunks} chunks, of which only {len(sizes)} are there")
            rows_bytes = header.shape[0] * header.dtype.itemsize
            if rows_bytes > max(_SMALL_BYTES, _MOST_GROWTH * sum(sizes)):
                raise ValueError(f"{rows_bytes:,} bytes of rows are in chunks of {sum(sizes):,}")
            return header

    def _numbered(self, pattern: str) -> Iterator[tuple[int, Path]]:
        if not self.folder.is_dir():
            return iter(())
        found = ((re.fullmatch(pattern, path.name), path) for path in self.folder.iterdir())
        return iter(sorted((int(match[1]), path) for match, path in found if match))


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The files of an array as this package writes it.

    Attributes:
        files: where they are.
        written: size and CRC-32 of the chunks that were written here, by number.
    """

    files: Files
    written: dict[int, tuple[int, int]] = field(default_factory=dict, compare=False)

    @property
    def spec(self) -> ArraySpec:
        """Type, chunks and compressor."""
        return SPECS[self.files.name]

    @property
    def chunk(self) -> int:
        """Rows a chunk."""
        return self.spec.chunks[0]

    @property
    def header(self) -> ArrayHeader:
        """The metadata of an array without rows."""
        return ArrayHeader.parse(self.spec.metadata((0,)))

    def write_metadata(self, length: int) -> None:
        """Replace ``.zarray``; the caller syncs it."""
        replace_file(self.files.metadata, self.spec.metadata((length,)), sync=False)

    def write_chunk(self, number: int, rows: Records, *, sync: bool = True) -> None:
        """Replace a chunk file; rows that are missing are zero."""
        data = self.spec.encode(rows)
        self.written[number] = len(data), crc32(data)
        replace_file(self.files.chunk(number), data, sync=sync)

    def measured(self) -> Iterator[tuple[Path, int, int]]:
        """Path, size and CRC-32 of ``.zarray`` and of every chunk; those that were written before are read.

        Raises:
            OSError: one cannot be read.
        """
        if self.files.metadata.exists():
            yield self.files.metadata, *measured(self.files.metadata)
        for number, path in self.files.chunks():
            yield path, *(self.written.get(number) or measured(path))

    def read_chunk(self, number: int) -> Records:
        """All rows of a chunk.

        Raises:
            DatasetError: it is not there, or damaged.
        """
        path = self.files.chunk(number)
        try:
            return read_chunk(path, self.header)
        except FileNotFoundError as error:
            raise DatasetError(f"{path}: the chunk is missing") from error


MADE_BY = "l5kit"
"""What the manifests of the format say."""
MASKS = "agents_mask"
"""What L5Kit's reader keeps beside the arrays of what it found of the agents."""


def has_manifest(path: Path) -> bool:
    """Whether there is anything of that name in a dataset's folder."""
    return os.path.lexists(path / MANIFEST)


def differences(path: Path, *, besides: Collection[str] = ()) -> Iterator[str]:
    """What differs between a dataset and its manifest, a sentence for each kind.

    Masks are left out, and the files that are named in ``besides``.
    """
    comparison = Comparison(path / MANIFEST, MADE_BY)
    for name in sorted(_names(path)):
        if name not in {MANIFEST, JOURNAL, *besides} and not name.startswith(f"{MASKS}/"):
            file = path / name
            comparison.add(name, file.lstat().st_size, file)
    yield from comparison.faults()


def _names(path: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        linked = (name for name in folders if Path(folder, name).is_symlink())
        for name in (*names, *linked):
            yield Path(folder, name).relative_to(path).as_posix()


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
    def chunk_length(self) -> int:
        """Rows a chunk."""
        return self._header.chunks[0]

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
        if isinstance(key, slice):
            return self._rows(np.arange(*key.indices(len(self))))
        if isinstance(key, SupportsIndex) and not isinstance(key, (bool, np.bool_, np.ndarray)):
            return self._rows(np.array([range(len(self))[key]]))[0]
        index = np.arange(len(self))[key]
        return self._rows(index.reshape(-1)).reshape(index.shape)

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

    def _columns(self, names: str | list[str]) -> npt.NDArray[Any]:
        # Copied: a column of a chunk would keep all of it.
        parts = [np.array(self._chunk(n)[names]) for n in range(-(-len(self) // self.chunk_length))]
        whole = np.concatenate(parts) if parts else np.zeros(0, self.dtype)[names]
        return whole[: len(self)]

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
