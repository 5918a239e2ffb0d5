"""Arrow files of others: what their headers declare is added up before a library takes memory for it.

Source: Apache Arrow's columnar format, "IPC File Format" and "Encapsulated message format", with the layouts
of File.fbs, Schema.fbs and Message.fbs; and flatbuffers' internals, by which such headers are stored.

The table of what each sample's sensors showed, in Parquet: its columns, and its rows in memory.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgefirst_ros.formats.edgefirst.store.journal import MEASURES
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import open_regular, refusing, stored_bytes

_MAGIC = b"ARROW1"
_MOST_HEADER_BYTES = 16 << 20
"""Of the footer, which has the names of all classes, and of all headers of batches."""
_MOST_NAMES, _MOST_NAMED_BYTES = 8192, 256 << 20
"""Fields and notes; and the same times the bytes of the footer, as each may name all of it again."""
_MOST_BATCHES = 10_000
_SMALL_BYTES, _MOST_GROWTH = 64 << 20, 16
"""A table of more bytes than the first unpacks to no more than so many times what is stored of it: names,
groups and columns of nulls pack well, boxes and outlines hardly."""
_LENGTH_BYTES = 4
"""What a row of each column takes at least, as one of nulls has no bytes of its own."""
_ROWS, _ROWS_OF_A_FILE = 100_000, 1000
"""A table has no more rows than the first, and so many for each file beside it: crowded pictures of public
datasets have a few hundred boxes, and of the means no hundred."""
_CONTINUED = 0xFFFFFFFF
_AS_IT_IS = -1
"""Stands where a packed buffer's size would, of one that is not packed."""


def most_rows(files: int) -> int:
    """How many rows the table of a dataset with so many sensor files may have."""
    return _ROWS + _ROWS_OF_A_FILE * files


class ArrowTable:
    """The record batches of an Arrow file, which is mapped into memory.

    Args:
        path: the file.
        files: sensor files of the dataset, which bound its rows; None if they are not known.
        columns: names of those to read, by default all; if there is none of them, the first one.

    Attributes:
        schema: of all columns.
        rows: number of rows of each batch.

    Raises:
        DatasetError: it is damaged, or declares more than such a file holds.
    """

    def __init__(
        self, path: Path, *, files: int | None = None, columns: Collection[str] | None = None
    ) -> None:
        self._path = path
        with self.readable(), open_regular(path) as file:
            self._layout = _Layout.of(file, None if files is None else most_rows(files))
            # An empty list would be all columns. Threads of Arrow would not survive a fork.
            mapped = pa.memory_map(os.fsencode(path))  # a name may be no text
            self.schema = pa.ipc.open_file(mapped).schema
            names = self.schema.names
            chosen = [place for place, name in enumerate(names) if columns is None or name in columns]
            options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=chosen or [0])
            self._file = pa.ipc.open_file(mapped, options=options)
            for column in (self.schema.field(place) for place in chosen):
                if not is_plain(column.type):
                    raise ValueError(f"column {column.name} is of type {column.type}, as in no such table")
        self.rows = self._layout.rows

    def batch(self, number: int) -> Any:  # noqa: ANN401 - pyarrow has no types
        """A batch with the chosen columns; offsets are checked, which Arrow and polars do not by themselves.

        Raises:
            DatasetError: it is damaged, or holds more than the file.
        """
        with self.readable():
            batch = self._file.get_batch(number)
            batch.validate()
            # Before texts are looked at one by one.
            self._layout.refuse_growth(sum(_written_out(column) for column in batch.columns))
            batch.validate(full=True)
            return batch

    def batches(self) -> Iterator[Any]:
        """Those that have rows."""
        return (self.batch(number) for number, rows in enumerate(self.rows) if rows)

    def readable(self) -> Any:  # noqa: ANN401 - a context
        """A block in which errors of Arrow name the file, as ``DatasetError``."""
        return refusing(self._path, DatasetError, "is not a complete Arrow file")


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the headers say: rows of each batch, and bytes that are really in the file."""

    rows: tuple[int, ...]
    stored: int

    @classmethod
    def of(cls, file: BinaryIO, most_rows: int | None) -> _Layout:
        size = file.seek(0, os.SEEK_END)
        (length,) = struct.unpack_from("<i", _read(file, size - 4 - len(_MAGIC), 4 + len(_MAGIC)))
        end = size - 4 - len(_MAGIC) - length
        if _read(file, 0, len(_MAGIC)) != _MAGIC or _read(file, size - len(_MAGIC), len(_MAGIC)) != _MAGIC:
            raise ValueError(f"it does not begin and end with {_MAGIC.decode()}")
        if not 0 <= length <= _MOST_HEADER_BYTES:
            raise ValueError(f"its footer has {length:,} bytes")
        footer = _Flat.root(_read(file, end, length))
        named = _count_names(footer, min(_MOST_NAMES, _MOST_NAMED_BYTES // max(length, 1)))
        found = cls((), stored_bytes(file))
        rows: list[int] = []
        headers = unpacked = 0
        for slot in (2, 3):  # dictionaries, then record batches
            place, count = footer.vector(slot, 24)
            if count > _MOST_BATCHES:
                raise ValueError(f"it has {count:,} batches, more than {_MOST_BATCHES:,}")
            for at in range(place, place + 24 * count, 24):
                offset, header, body = struct.unpack_from("<qi4xq", footer.data, at)
                headers += header
                if min(offset, header, body) < 0 or offset + header + body > end:
                    raise ValueError("a batch lies outside of it")
                if headers > _MOST_HEADER_BYTES:
                    raise ValueError(
                        f"the headers of its batches have more than {_MOST_HEADER_BYTES:,} bytes"
                    )
                length, taken = _batch(file, offset, header, body, is_dictionary=slot == 2)
                rows += [length] * (slot == 3)
                unpacked += taken
                found.refuse_growth(unpacked)
        if most_rows is not None and sum(rows) > most_rows:
            raise ValueError(
                f"it has {sum(rows):,} rows in {named} columns; beside the files that the dataset has there "
                f"are no more than {most_rows:,}"
            )
        return cls(tuple(rows), found.stored)

    def refuse_growth(self, unpacked: int) -> None:
        """Refuse to unpack more than a table of this size holds."""
        if unpacked > max(_SMALL_BYTES, _MOST_GROWTH * self.stored):
            raise ValueError(f"it holds {self.stored:,} bytes, and would take {unpacked:,} in memory")


@dataclass(frozen=True, slots=True)
class _Flat:
    """A table of a flatbuffer: its data, and where it begins."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> _Flat:
        return cls(data, struct.unpack_from("<I", data)[0])

    def field(self, slot: int) -> int:
        """Where a field is; 0 if it is absent."""
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        if vtable < 0:
            raise ValueError("a header is damaged")
        (size,) = struct.unpack_from("<H", self.data, vtable)
        if 6 + 2 * slot > size:
            return 0
        offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * slot)[0]
        return self.at + int(offset) if offset else 0

    def number(self, slot: int, code: str) -> int:
        """An integer, 0 by default."""
        at = self.field(slot)
        return int(struct.unpack_from(f"<{code}", self.data, at)[0]) if at else 0

    def table(self, slot: int) -> _Flat | None:
        """Another table."""
        at = self.field(slot)
        return _Flat(self.data, at + struct.unpack_from("<I", self.data, at)[0]) if at else None

    def vector(self, slot: int, each: int) -> tuple[int, int]:
        """Where the items of a vector begin, and how many there are, of so many bytes each."""
        at = self.field(slot)
        if not at:
            return 0, 0
        at += struct.unpack_from("<I", self.data, at)[0]
        (count,) = struct.unpack_from("<I", self.data, at)
        if at + 4 + each * count > len(self.data):
            raise ValueError("a header is damaged")
        return at + 4, count

    def tables(self, slot: int) -> Iterator[_Flat]:
        """The tables of a vector."""
        start, count = self.vector(slot, 4)
        for at in range(start, start + 4 * count, 4):
            yield _Flat(self.data, at + struct.unpack_from("<I", self.data, at)[0])


def _read(file: BinaryIO, offset: int, length: int) -> bytes:
    data = os.pread(file.fileno(), length, max(0, offset))
    if offset < 0 or len(data) < length:
        raise ValueError("it is cut short")
    return data


def _count_names(footer: _Flat, most: int) -> int:
    """How many columns there are; with all fields and notes, which may be shared, at most ``most``."""
    schema = footer.table(1)
    if schema is None:
        raise ValueError("it has no schema")
    columns, notes = schema.vector(1, 4)[1], schema.vector(2, 4)[1]
    seen, waiting = columns + notes, [schema]
    while waiting and seen <= most:
        field = waiting.pop()
        for each in field.tables(1 if field is schema else 5):
            seen += 1 + each.vector(5, 4)[1] + each.vector(6, 4)[1]
            if seen > most:
                break
            waiting.append(each)
    if seen > most:
        raise ValueError(f"it declares more than {most:,} fields and notes")
    return columns


def _batch(file: BinaryIO, offset: int, header: int, body: int, *, is_dictionary: bool) -> tuple[int, int]:
    """Rows of a batch, and the bytes that it takes unpacked."""
    data = _read(file, offset, header)
    begin = 8 if data[:4] == _CONTINUED.to_bytes(4, "little") else 4
    batch = _Flat.root(data[begin:]).table(2)
    if batch is not None and is_dictionary:
        batch = batch.table(1)
    if batch is None:
        raise ValueError("a batch has no header")
    taken, data = 0, batch.data
    place, count = batch.vector(1, 16)
    for length, nulls in struct.iter_unpack("<qq", data[place : place + 16 * count]):
        if min(length, nulls) < 0:
            raise ValueError("a column has a negative length")
        taken += _LENGTH_BYTES * length
    is_packed = batch.table(3) is not None
    place, count = batch.vector(2, 16)
    for begin, length in struct.iter_unpack("<qq", data[place : place + 16 * count]):
        if min(begin, length) < 0 or begin + length > body:
            raise ValueError("a buffer lies outside of its batch")
        if is_packed and length >= 8:
            (unpacked,) = struct.unpack("<q", _read(file, offset + header + begin, 8))
            length = length if unpacked == _AS_IT_IS else unpacked  # noqa: PLW2901
            if length < 0:
                raise ValueError("a buffer unpacks to a negative length")
        taken += length
    rows = batch.number(0, "q")
    if rows < 0:
        raise ValueError("a batch has a negative length")
    return rows, taken


def is_plain(found: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    """Whether a type is one that is read here: numbers, times, texts; lists, arrays and structures of these.

    In others few bytes stand for any number of rows (runs, lists that overlap), or polars panics on them.
    """
    kinds = pa.types
    if isinstance(found, pa.BaseExtensionType) or kinds.is_interval(found) or getattr(found, "tz", None):
        return False
    if kinds.is_dictionary(found):
        return is_plain(found.value_type) and not found.value_type.num_fields
    is_list = kinds.is_list(found) or kinds.is_large_list(found) or kinds.is_fixed_size_list(found)
    if is_list or kinds.is_struct(found):
        return all(is_plain(found.field(number).type) for number in range(found.num_fields))
    return not kinds.is_nested(found) and not kinds.is_run_end_encoded(found)


def _written_out(column: Any) -> int:  # noqa: ANN401 - pyarrow has no types
    """Bytes of a column if each row has its own copy of a text that several rows refer to."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths, used = _lengths(column.dictionary), column.indices.to_numpy(zero_copy_only=False)
        used = used[~np.isnan(used)].astype(np.int64)  # a null is not a number
        if len(used) and not 0 <= used.min() <= used.max() < len(lengths):
            raise ValueError("a row is of a class that is not there")
        return int(lengths[used].sum())
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return int(_lengths(column).sum())
    if pa.types.is_struct(kind):
        return sum(map(_written_out, column.flatten()))
    return _written_out(column.values) if pa.types.is_nested(kind) else 0


def _lengths(texts: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Bytes of each text, (N,)."""
    kind = texts.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(texts.buffers()[1] or b"", "<i4").reshape(-1, 4)
        return np.maximum(views[texts.offset : texts.offset + len(texts), 0], 0).astype(np.int64)
    for wide, found in (("<i4", (pa.string(), pa.binary())), ("<i8", (pa.large_string(), pa.large_binary()))):
        if kind in found:
            offsets = np.frombuffer(texts.buffers()[1] or bytes(8), wide)
            return np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])
    return np.full(len(texts), 8)


LABELLED = {"boxes2d": "box2d_labelled", "masks": "mask_labelled", "boxes3d": "box3d_labelled"}
"""Columns that say whether a sample was searched for 2-D boxes, masks, 3-D boxes, by the key of these. One
that nobody looked at has no annotations either, and is no picture without objects."""
FINGERPRINT = "camera_fingerprint"
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("frame", pa.uint32(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        *(pa.field(name, pa.bool_(), nullable=False) for name in LABELLED.values()),
        *(pa.field(name, pa.float32()) for name in MEASURES if name != FINGERPRINT),
    ]
)
"""A row a sample: its sequence, frame and time, what it was searched for, and measures, null where nobody
measured."""

_NO_PARQUET = "is not a complete Parquet file"


def read_quality(path: Path, files: int) -> pa.Table:
    """The rows of a table of what sensors showed, in the columns of ``SCHEMA`` that it has.

    Args:
        path: of the table.
        files: how many sensor files the dataset has, which bound its rows.

    Raises:
        DatasetError: it is damaged, or declares more than such a table holds.
    """
    with refusing(path, DatasetError, _NO_PARQUET), open_regular(path) as opened:
        stored = _Layout((), stored_bytes(opened))
        file = pq.ParquetFile(opened, read_dictionary=["name"])
        there = [field for field in SCHEMA if field.name in file.schema_arrow.names]  # earlier ones had fewer
        if file.metadata.num_rows > most_rows(files):
            raise ValueError(f"it has {file.metadata.num_rows:,} rows, more than {most_rows(files):,}")
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        stored.refuse_growth(sum(group.total_byte_size for group in groups))
        rows = file.read([field.name for field in there], use_threads=False)
        stored.refuse_growth(sum(_written_out(chunk) for chunk in rows["name"].chunks))
        rows = rows.cast(pa.schema(there))
        rows.validate(full=True)
        return rows


class Quality:
    """The measures of a dataset's samples, in memory; none where no such table is beside it.

    Args:
        path: the table; None if there is none.
        files: how many sensor files the dataset has, which bound its rows.

    Raises:
        DatasetError: it is damaged.
    """

    def __init__(self, path: Path | None, files: int) -> None:
        self._rows: dict[tuple[str, int | None], int] = {}
        self._columns: dict[str, npt.NDArray[np.float32]] = {}
        self._labelled: dict[str, npt.NDArray[np.bool_]] = {}
        if path is None or not path.is_file():
            return
        with refusing(path, DatasetError, _NO_PARQUET):
            whole = read_quality(path, files)
            keys = zip(whole["name"].to_pylist(), whole["frame"].to_pylist(), strict=True)
            self._rows = {key: number for number, key in enumerate(keys)}
            measures = [name for name in MEASURES if name in whole.schema.names]
            self._columns = {name: whole[name].to_numpy() for name in measures}  # null is NaN
            flags = {key: whole[name] for key, name in LABELLED.items()}
            self._labelled = {key: each.to_numpy(zero_copy_only=False) for key, each in flags.items()}

    def unlabelled(self, sequence: str, frame: int | None) -> frozenset[str]:
        """Keys of annotations that nobody looked for in a sample; empty if nothing is known of it."""
        row = self._rows.get((sequence, frame))
        if row is None:
            return frozenset()
        return frozenset(key for key, column in self._labelled.items() if not column[row])

    def of(self, sequence: str, frame: int | None) -> dict[str, float] | None:
        """What was measured of a sample; None if nothing is known of it."""
        row = self._rows.get((sequence, frame))
        if row is None:
            return None
        values = ((name, float(column[row])) for name, column in self._columns.items())
        return {name: value for name, value in values if not math.isnan(value)}
