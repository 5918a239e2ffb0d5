"""Where the files of a one-dimensional zarr array lie, and how they are read and replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.crashsafe.reading import open_regular, read_regular
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.l5kit.store.schema import SIDE, SPECS, Records
from edgefirst_ros.formats.zarr2.array import ArraySpec
from edgefirst_ros.formats.zarr2.compression import decode
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY, dtype_of

_MOST_CHUNK_BYTES = 1 << 28
_MOST_HEADER_BYTES = 1 << 20
_MOST_MISSING = 16
"""Chunks that may be missing, further to as many as are there."""
_OVERHEAD = 1024
"""More bytes than Blosc ever adds to a chunk."""


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """What ``.zarray`` says of an array of one dimension.

    Attributes:
        length: rows.
        chunk: rows a chunk.
        compressor: as in ``.zarray``; None stores rows as they are.
    """

    dtype: np.dtype[Any]
    length: int
    chunk: int
    compressor: Mapping[str, object] | None

    @property
    def most_bytes(self) -> int:
        """More than any chunk of it takes."""
        return self.chunk * self.dtype.itemsize + _OVERHEAD

    def decode(self, data: bytes, where: Path) -> Records:
        """All rows of a chunk, those beyond the array's end included.

        Raises:
            DatasetError: the bytes are not a chunk of this array.
        """
        compressor = None if self.compressor is None else dict(self.compressor)
        expected = self.chunk * self.dtype.itemsize
        if compressor and compressor.get("id") == "blosc" and int.from_bytes(data[4:8], "little") != expected:
            raise DatasetError(f"{where}: damaged chunk: its header does not declare {expected} bytes")
        try:
            raw = decode(compressor, data)
        except ValueError as error:
            raise DatasetError(f"{where}: damaged chunk: {error}") from error
        if raw.nbytes != expected:
            raise DatasetError(f"{where}: chunk of {raw.nbytes} bytes, expected {expected}")
        rows: Records = raw.view(self.dtype)
        return rows


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
        try:
            meta = json.loads(read_regular(self.metadata, _MOST_HEADER_BYTES))
            if meta["zarr_format"] != 2 or meta["order"] != "C" or meta["filters"] or len(meta["shape"]) != 1:
                raise DatasetError(
                    f"{self.metadata}: expected zarr format 2 with one dimension, order C and no filters"
                )
            header = ArrayHeader(
                dtype_of(meta["dtype"]), int(meta["shape"][0]), int(meta["chunks"][0]), meta["compressor"]
            )
        except FileNotFoundError as error:
            raise DatasetNotFound(f"{self.metadata}: no such array; is {self.root} a dataset?") from error
        except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            if isinstance(error, DatasetError):
                raise
            raise DatasetError(f"{self.metadata}: not the metadata of a zarr array: {error!r}") from error
        self._check_sizes(header)
        return header

    def _check_sizes(self, header: ArrayHeader) -> None:
        """Refuse rows that no files are there for, as all of them would be read as zeros.

        Raises:
            DatasetError: the sizes are none, or many times what the array's files hold.
        """
        if header.length < 0 or not 0 < header.chunk * header.dtype.itemsize <= _MOST_CHUNK_BYTES:
            sizes = f"{header.length} rows in chunks of {header.chunk}"
            raise DatasetError(f"{self.metadata}: invalid array sizes: {sizes}")
        there, chunks = sum(1 for _ in self.chunks()), -(-header.length // header.chunk)
        if chunks > 2 * there + _MOST_MISSING:
            raise DatasetError(f"{self.metadata}: {chunks} chunks, of which only {there} are there")

    def _numbered(self, pattern: str) -> Iterator[tuple[int, Path]]:
        if not self.folder.is_dir():
            return iter(())
        found = ((re.fullmatch(pattern, path.name), path) for path in self.folder.iterdir())
        return iter(sorted((int(match[1]), path) for match, path in found if match))


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The files of an array as this package writes it."""

    files: Files

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
        """The metadata except for the length."""
        compressor = self.spec.compressor
        return ArrayHeader(self.spec.dtype, 0, self.chunk, compressor.config if compressor else None)

    def write_metadata(self, length: int) -> None:
        """Replace ``.zarray``; the caller syncs it."""
        replace_file(self.files.metadata, self.spec.metadata((length,)), sync=False)

    def write_chunk(self, number: int, rows: Records, *, sync: bool = True) -> None:
        """Replace a chunk file; rows that are missing are zero."""
        replace_file(self.files.chunk(number), self.spec.encode(rows), sync=sync)

    def read_chunk(self, number: int) -> Records:
        """All rows of a chunk.

        Raises:
            DatasetError: it is not there, or damaged.
        """
        path = self.files.chunk(number)
        try:
            with open_regular(path) as file:
                data = file.read(self.header.most_bytes)
        except FileNotFoundError as error:
            raise DatasetError(f"{path}: the chunk is missing") from error
        return self.header.decode(data, path)
