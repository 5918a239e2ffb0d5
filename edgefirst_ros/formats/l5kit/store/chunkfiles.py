"""Where the files of a one-dimensional zarr array lie, and how they are read and replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgefirst_ros.codecs.zlib_backend import crc32
from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.crashsafe.manifest import measured
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.l5kit.store.schema import SIDE, SPECS, Records
from edgefirst_ros.formats.zarr2.array import ArrayHeader, ArraySpec
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY
from edgefirst_ros.model.untrusted import open_regular, read_at_most, read_regular, refusing

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
    """The file names of array ``name`` in the dataset folder ``root``.

    The four arrays of the format have a folder each; this package's own are plain files beside them.
    """

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """What the array's files are in."""
        return self.root if self.name in SIDE else self.root / self.name

    @property
    def metadata(self) -> Path:
        """The ``.zarray`` file."""
        return self.folder / (f"{self.name}.zarray" if self.name in SIDE else ARRAY_KEY)

    def chunk(self, number: int) -> Path:
        """A chunk file."""
        return self.folder / (f"{self.name}.{number}" if self.name in SIDE else str(number))

    def tail(self, number: int) -> Path:
        """The rows of a chunk that is not complete; hidden, and gone once the array is finished."""
        return self.folder / f".{self.name}.{number}.rows"

    def chunks(self) -> Iterator[tuple[int, Path]]:
        """Every chunk file with its number, ascending."""
        return self._numbered(rf"{re.escape(self.name)}\.(\d+)" if self.name in SIDE else r"(\d+)")

    def tails(self) -> Iterator[tuple[int, Path]]:
        """Every tail with its number, ascending; more than one where a crash hit the change to the next."""
        return self._numbered(rf"\.{re.escape(self.name)}\.(\d+)\.rows")

    def all(self) -> Iterator[Path]:
        """Every file of the array that there is."""
        if self.metadata.exists():
            yield self.metadata
        for _, path in (*self.chunks(), *self.tails()):
            yield path

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
