"""Writes the annotation table: journal to Arrow file, in batches that limit memory."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from edgefirst_ros.codecs.zlib_backend import crc32
from edgefirst_ros.errors import DatasetError, WriteError
from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.crashsafe.sync import sync_file
from edgefirst_ros.formats.edgefirst.finish.columns import Column, TableRow, columns
from edgefirst_ros.formats.edgefirst.finish.split import BlockSplit
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable
from edgefirst_ros.formats.edgefirst.store.journal import Annotation, SampleJournal, SampleRecord
from edgefirst_ros.model.untrusted import refusing

BATCH_BYTES = 8 << 20
"""A record batch ends with the sample that reaches this many bytes of the journal."""
ALWAYS = frozenset({"name", "frame", "group"})
_CATEGORICAL = re.compile(rb"\d{1,9};\d{1,9};u(?:8|16|32);\w*")


@dataclass(slots=True)
class _Summary:
    """What must be known before the first batch: labels, columns in use, time span of each sequence."""

    labels: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    span_ns: dict[str, tuple[int, int]] = field(default_factory=dict)


class TableFile(NamedTuple):
    """What was written: number of rows, bytes, the CRC-32 of these, and ``Looked`` of all samples."""

    rows: int
    size: int
    crc: int
    looked: frozenset[str] = frozenset()


def write_table(journal: SampleJournal, path: Path, options: EdgeFirstOptions) -> TableFile:
    """Write the journal's samples as an Arrow IPC file.

    Its metadata have the ``schema_version``. Version 2025.01 always has all columns, 2026.10 omits those that
    are null in all rows.

    Raises:
        OSError: the file system reports an error.
    """
    summary = _summarise(journal)
    schema_columns = columns(options.schema_version, tuple(sorted(summary.labels)))
    if options.schema_version != "2025.01":
        used = summary.used | ALWAYS
        schema_columns = {name: column for name, column in schema_columns.items() if name in used}
    splits = {
        sequence: BlockSplit(sequence, first, last, options.val_ratio, options.block_s)
        for sequence, (first, last) in summary.span_ns.items()
    }
    fields = [column.field(name) for name, column in schema_columns.items()]
    schema = pa.schema(fields, {"schema_version": options.schema_version})
    batches = (_to_arrow(batch, schema_columns, schema) for batch in _batches(journal, splits))
    return write_arrow(path, schema, batches)._replace(looked=frozenset(summary.looked))


def write_arrow(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> TableFile:
    """Write tables of one schema as an Arrow IPC file, synced.

    Raises:
        OSError: the file system reports an error.
    """
    rows = 0
    remove(path)  # a link to elsewhere is not written through
    with path.open("xb") as file:
        summed = _Summed(file)
        with pa.ipc.new_file(summed, schema) as writer:
            for table in tables:
                writer.write_table(table)
                rows += len(table)
        file.flush()
        sync_file(file.fileno())
    return TableFile(rows, summed.size, summed.crc)


class _Summed(io.RawIOBase):
    """Passes on what is written, and knows the size and CRC-32 of all of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = self.crc = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        self.crc = crc32(data, self.crc)
        written = self._file.write(data)
        self.size += written
        return written


def refuse_unsound(schema: pa.Schema) -> None:
    """Refuse a schema with notes that are no text, or damaged ones for polars, on which it panics.

    Raises:
        pa.ArrowInvalid: naming the column.
    """
    fields = list(schema)
    while fields:
        field = fields.pop()
        fields += [field.type.field(number) for number in range(field.type.num_fields)]
        name = field.name  # of a part of a column it is decoded here first
        for key, value in (field.metadata or {}).items():
            try:
                key.decode(), value.decode()
            except UnicodeDecodeError as error:
                raise pa.ArrowInvalid(f"column {name}: a note that is no text") from error
            if key.startswith(b"_PL_") and not (
                _CATEGORICAL.fullmatch(value) if key == b"_PL_CATEGORICAL2" else _are_categories(value)
            ):
                raise pa.ArrowInvalid(f"column {name}: damaged {key.decode(errors='replace')}")


def _are_categories(value: bytes) -> bool:
    """Whether they are distinct categories, each after its length in bytes and a semicolon."""
    seen = set()
    while value:
        length, found, rest = value.partition(b";")
        if not found or not re.fullmatch(rb"\d{1,9}", length) or len(rest) < int(length):
            return False
        category, value = rest[: int(length)], rest[int(length) :]
        if category in seen:
            return False
        seen.add(category)
    return True


def read_table(path: Path, *wanted: str, files: int | None = None) -> pa.Table:
    """The rows of a table, which polars takes, too; only those columns that are ``wanted``, if any are named.

    Args:
        path: the file.
        wanted: names of columns.
        files: how many sensor files are beside it, which bound its rows; None if they are not known.

    Raises:
        DatasetError: it is not an Arrow file, or damaged.
    """
    table = ArrowTable(path, files=files, columns=wanted or None)
    with table.readable():
        names = [name for name in table.schema.names if not wanted or name in wanted]
        schema = pa.schema([table.schema.field(name) for name in names])
        refuse_unsound(schema)
        return pa.Table.from_batches([b.select(names) for b in table.batches()], schema)


def count_samples(path: Path) -> tuple[int, int]:
    """Number of samples and rows in a table of ``write_table``, where the rows of a sample are adjacent.

    Raises:
        WriteError: it is not an Arrow file with the columns name and frame.
    """
    samples = 0
    last = None
    what = "not an annotation table of this package"
    try:
        table = ArrowTable(path, columns=("name", "frame"))
    except DatasetError as error:
        raise WriteError(f"{what}: {error}") from error
    with refusing(path, WriteError, what):
        for batch in table.batches():
            for key in zip(batch["name"].to_pylist(), batch["frame"].to_pylist(), strict=True):
                samples += key != last
                last = key
    return samples, sum(table.rows)


def _summarise(journal: SampleJournal) -> _Summary:
    summary = _Summary()
    for committed in journal:
        record = committed.record
        first, last = summary.span_ns.get(record.sequence, (record.time_ns, record.time_ns))
        summary.span_ns[record.sequence] = (min(first, record.time_ns), max(last, record.time_ns))
        summary.used |= _fields_in_use(record)
        summary.looked.update(record.looked)
        for annotation in record.annotations:
            summary.used |= _fields_in_use(annotation)
            if annotation.label is not None:
                summary.labels.add(annotation.label)
    if "polygons" in summary.used:
        summary.used.add("polygon")
    return summary


def _fields_in_use(record: SampleRecord | Annotation) -> set[str]:
    return {f.name for f in fields(record) if getattr(record, f.name) is not None}


def _batches(journal: SampleJournal, splits: Mapping[str, BlockSplit]) -> Iterator[list[TableRow]]:
    """Rows in order: one per annotation, and one without annotation for a sample that has none."""
    batch: list[TableRow] = []
    begin = 0
    for committed in journal:
        record = committed.record
        group = splits[record.sequence].group(record.time_ns)
        batch += [TableRow(record, annotation, group) for annotation in record.annotations or (Annotation(),)]
        if committed.end - begin >= BATCH_BYTES:
            yield batch
            batch, begin = [], committed.end
    if batch:
        yield batch


def _to_arrow(rows: Sequence[TableRow], schema_columns: Mapping[str, Column], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([column.array(rows) for column in schema_columns.values()], schema=schema)
