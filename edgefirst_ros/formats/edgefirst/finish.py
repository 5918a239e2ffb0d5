"""Completes a dataset: container, tables and final names.

The annotation table and that of what each sample's sensors showed are written from the journal, in batches
that limit memory.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from edgefirst_ros.formats.crashsafe.manifest import Entry, write_manifest
from edgefirst_ros.formats.crashsafe.names import old_path, part_path, remove, replace_file, take_name
from edgefirst_ros.formats.crashsafe.sync import sync_file, sync_path
from edgefirst_ros.formats.edgefirst.options import (
    GROUPS,
    BlockSplit,
    Degradation,
    EdgeFirstOptions,
    SchemaVersion,
    drive_group,
    drive_of,
    place_group,
)
from edgefirst_ros.formats.edgefirst.store.archive import QUALITY, TABLE, Archive, DatasetPaths
from edgefirst_ros.formats.edgefirst.store.arrowfile import FINGERPRINT, LABELLED, SCHEMA, ArrowTable
from edgefirst_ros.formats.edgefirst.store.journal import Annotation, Looked, SampleJournal, SampleRecord
from edgefirst_ros.model.errors import DatasetError, WriteError
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.model.zlib_backend import crc32

_PARTS = ("train", "validation")
"""What the vendor's validator calls the groups; which rows are of which the table says."""
STATUSES = ("valid", "edit")
ENUM_NOTE = b"_PL_ENUM_VALUES2"
"""A field's note by which polars takes an ordered dictionary for an Enum: each category after its length."""
_TEXT, _BOX_2D, _BOX_3D = pa.large_string(), pa.list_(pa.float32(), 4), pa.list_(pa.float32(), 6)
_OUTLINE, _PLACE = pa.large_list(pa.float32()), pa.list_(pa.float64(), 2)


@dataclass(frozen=True, slots=True)
class TableRow:
    """The sample, annotation and group from which the values of a row are taken.

    Attributes:
        masked: classes of which the sample has a mask without a box.
        boxed: classes of which each object in the sample has a 2-D and a 3-D box.
    """

    record: SampleRecord
    annotation: Annotation
    group: str
    masked: Collection[str | None] = ()
    boxed: Collection[str | None] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """Arrow type of a column and its value in a row; if it is a dictionary, its categories and their note."""

    type: Any
    value: Callable[[TableRow], Any]
    categories: tuple[str, ...] = ()
    note: bytes | None = None

    def field(self, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The column in a schema."""
        return pa.field(name, self.type, metadata=None if self.note is None else {ENUM_NOTE: self.note})

    def array(self, rows: Sequence[TableRow]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The values of rows; a dictionary has all categories, as all batches of a file must share it."""
        values = [self.value(row) for row in rows]
        if not pa.types.is_dictionary(self.type):
            return pa.array(values, self.type)
        codes = {category: code for code, category in enumerate(self.categories)}
        indices = pa.array(
            [None if value is None else codes[value] for value in values], self.type.index_type
        )
        dictionary = pa.array(self.categories, self.type.value_type)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=self.type.ordered)


def columns(
    version: SchemaVersion, labels: tuple[str, ...], degradation: Degradation | None = None
) -> Mapping[str, Column]:
    """The columns of a schema version, in order, for a dataset with these labels and degradation.

    Source: for 2025.01 the vendor's published article, except that ``name`` is a String, which the vendor's
    client needs; for 2026.10 the vendor's client. ``label_index`` is the class index of the model.
    The extents in ``box3d`` (w, h, l in 2026.10; depth, width, height in 2025.01) are along x, y and z.
    """
    return _published(labels, degradation) if version == "2025.01" else _current(labels)


def _published(labels: tuple[str, ...], degradation: Degradation | None) -> dict[str, Column]:
    return {
        "name": Column(_TEXT, lambda row: row.record.sequence),
        "frame": Column(pa.uint64(), lambda row: row.record.frame),
        "group": _enum(GROUPS, lambda row: row.group),
        "label": _enum(labels, lambda row: row.annotation.label),
        "mask": Column(_OUTLINE, lambda row: _flat(_rings(row.annotation))),
        "box2d": Column(_BOX_2D, lambda row: row.annotation.box2d),
        "box3d": Column(_BOX_3D, lambda row: row.annotation.box3d),
        "location": Column(_PLACE, lambda row: row.record.location and row.record.location[::-1]),
        "pose": Column(pa.list_(pa.float64(), 3), lambda row: row.record.pose),
        "degradation": _enum(get_args(Degradation), lambda _: degradation),
        "status": _enum(STATUSES, _status),
    }


def _current(labels: tuple[str, ...]) -> dict[str, Column]:
    return {
        "name": Column(_TEXT, lambda row: row.record.sequence),
        "frame": Column(pa.uint32(), lambda row: row.record.frame),
        "object_id": Column(_TEXT, lambda row: row.annotation.object_id),
        "label": _categorical(labels, lambda row: row.annotation.label),
        "label_index": Column(pa.uint64(), lambda row: row.annotation.label_index),
        "group": _categorical(GROUPS, lambda row: row.group),
        "polygon": Column(pa.large_list(_OUTLINE), lambda row: _rings(row.annotation)),
        "mask": Column(pa.large_binary(), lambda row: _png(row.annotation)),
        "box2d": Column(_BOX_2D, lambda row: row.annotation.box2d),
        "box2d_score": Column(pa.float32(), lambda row: row.annotation.box2d_score),
        "box3d": Column(_BOX_3D, lambda row: row.annotation.box3d),
        "box3d_score": Column(pa.float32(), lambda row: row.annotation.box3d_score),
        "size": Column(pa.list_(pa.uint32(), 2), lambda row: row.record.size),
        "location": Column(pa.list_(pa.float32(), 2), lambda row: row.record.location),
        "pose": Column(pa.list_(pa.float32(), 3), lambda row: row.record.pose),
    }


def _enum(categories: tuple[str, ...], value: Callable[[TableRow], Any]) -> Column:
    """A polars Enum, whose codes are as narrow as polars makes them: it reads others as plain texts."""
    code = next((t for most, t in ((255, pa.uint8()), (65535, pa.uint16())) if len(categories) <= most), None)
    lengths = ((len(text), text) for text in (each.encode() for each in categories))
    note = b"".join(b"%d;%s" % each for each in lengths)
    return Column(pa.dictionary(code or pa.uint32(), _TEXT, ordered=True), value, categories, note)


def _categorical(categories: tuple[str, ...], value: Callable[[TableRow], Any]) -> Column:
    """A polars Categorical."""
    return Column(pa.dictionary(pa.uint32(), _TEXT), value, categories)


def categories(name: str, texts: tuple[str, ...], *, ordered: bool) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A column of a schema whose values are some of these texts, as polars has an Enum, or a Categorical."""
    return (_enum if ordered else _categorical)(texts, lambda _: None).field(name)


def _rings(annotation: Annotation) -> list[list[float]] | None:
    if annotation.polygons is None:
        return None
    return [np.frombuffer(base64.b64decode(ring), "<f4").tolist() for ring in annotation.polygons]


def _flat(rings: list[list[float]] | None) -> list[float] | None:
    """All rings in one list, separated by NaN."""
    if rings is None:
        return None
    flat: list[float] = []
    for ring in rings:
        flat += [math.nan, *ring] if flat else ring
    return flat


def _png(annotation: Annotation) -> bytes | None:
    return None if annotation.mask is None else base64.b64decode(annotation.mask)


def _status(row: TableRow) -> str | None:
    """Valid with 2-D box, mask and 3-D box, edit if one is missing, null if all are (the article's rule).

    The mask of an object may be that of its class, whose boxes are those of the objects.
    """
    own = row.annotation
    if own.box2d is None and own.box3d is None:
        return None if own.polygons is None else "valid" if own.label in row.boxed else "edit"
    has_mask = own.polygons is not None or own.label in row.masked
    return "valid" if has_mask and own.box2d is not None and own.box3d is not None else "edit"


BATCH_BYTES = 8 << 20
"""A record batch ends with the sample that reaches this many bytes of the journal."""
ALWAYS = frozenset({"name", "frame", "group"})
_CATEGORICAL = re.compile(rb"\d{1,9};\d{1,9};u(?:8|16|32);\w*")


@dataclass(slots=True)
class _Summary:
    """What must be known before the first batch: labels, columns in use, time spans, each drive's sequences.

    What several cameras saw at one time is in one group.
    """

    labels: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    span_ns: dict[str, tuple[int, int]] = field(default_factory=dict)
    drives: dict[str, set[str]] = field(default_factory=dict)


class TableFile(NamedTuple):
    """What was written: rows, bytes, their CRC-32; of all samples ``Looked``, labels, groups, drives."""

    rows: int
    size: int
    crc: int
    looked: frozenset[str] = frozenset()
    labels: Sequence[str] = ()
    groups: frozenset[str] = frozenset()
    drives: int = 0


def write_table(journal: SampleJournal, path: Path, options: EdgeFirstOptions) -> TableFile:
    """Write the journal's samples as an Arrow IPC file.

    Its metadata have the ``schema_version``, and of 2026.10 the ``labels``. Version 2025.01
    always has all columns, 2026.10 omits those that are null in all rows.

    Raises:
        OSError: the file system reports an error.
    """
    summary = _summarise(journal)
    labels = tuple(sorted(summary.labels))
    schema_columns = columns(options.schema_version, labels, options.degradation)
    if options.schema_version != "2025.01":
        used = summary.used | ALWAYS
        schema_columns = {name: column for name, column in schema_columns.items() if name in used}
    of, groups = _split(summary, options), set[str]()

    def group(record: SampleRecord) -> str:
        groups.add(found := of(record))
        return found

    fields = [column.field(name) for name, column in schema_columns.items()]
    notes: dict[str, str] = {"schema_version": options.schema_version}
    if options.schema_version != "2025.01":
        notes["labels"] = json.dumps(labels, ensure_ascii=False)
    schema = pa.schema(fields, notes)
    batches = (_to_arrow(batch, schema_columns, schema) for batch in _batches(journal, group))
    written = write_arrow(path, schema, batches)
    return written._replace(
        looked=frozenset(summary.looked),
        labels=labels,
        groups=frozenset(groups),
        drives=len(summary.drives),
    )


PARQUET = partial(pq.ParquetWriter, compression="zstd")


def write_arrow(
    path: Path, schema: pa.Schema, tables: Iterable[pa.Table], writer: Callable[..., Any] = pa.ipc.new_file
) -> TableFile:
    """Write tables of one schema as an Arrow IPC file, or by another writer, synced.

    Raises:
        OSError: the file system reports an error.
    """
    rows = 0
    remove(path)  # a link to elsewhere is not written through
    with path.open("xb") as file:
        summed = _Summed(file)
        with writer(summed, schema) as growing:
            for table in tables:
                growing.write_table(table)
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
        first, last = summary.span_ns.get(record.moments, (record.time_ns, record.time_ns))
        summary.span_ns[record.moments] = (min(first, record.time_ns), max(last, record.time_ns))
        summary.drives.setdefault(_drive(record), set()).add(record.sequence)
        summary.used |= _fields_in_use(record)
        summary.looked.update(record.looked)
        for annotation in record.annotations:
            summary.used |= _fields_in_use(annotation)
            if annotation.label is not None:
                summary.labels.add(annotation.label)
    if "polygons" in summary.used:
        summary.used.add("polygon")
    return summary


def _drive(record: SampleRecord) -> str:
    return record.drive or record.moments


def _fields_in_use(record: SampleRecord | Annotation) -> set[str]:
    return {f.name for f in fields(record) if getattr(record, f.name) is not None}


def _split(summary: _Summary, options: EdgeFirstOptions) -> Callable[[SampleRecord], str]:
    """What group each sample is in."""
    ratio = options.val_ratio
    if options.split == "time":
        blocks = {
            name: BlockSplit(name, first, last, ratio) for name, (first, last) in summary.span_ns.items()
        }
        return lambda record: blocks[record.moments].group(record.time_ns)
    whole = {drive: drive_group(drive_of(names), ratio) for drive, names in summary.drives.items()}
    if options.split == "drive":
        return lambda record: whole[_drive(record)]
    return lambda record: (
        whole[_drive(record)] if record.location is None else place_group(*record.location, ratio)
    )


def _batches(journal: SampleJournal, of: Callable[[SampleRecord], str]) -> Iterator[list[TableRow]]:
    """Rows in order: one per annotation, and one without annotation for a sample that has none."""
    batch: list[TableRow] = []
    begin = 0
    for committed in journal:
        record = committed.record
        group = of(record)
        boxes = [(each.label, each.box2d is not None, each.box3d is not None) for each in record.annotations]
        masked = {label for label, *has in boxes if not any(has)}
        boxed = {label for label, *has in boxes if all(has)} - {
            n for n, *has in boxes if any(has) != all(has)
        }
        rows = record.annotations or (Annotation(),)
        batch += [TableRow(record, annotation, group, masked, boxed) for annotation in rows]
        if committed.end - begin >= BATCH_BYTES:
            yield batch
            batch, begin = [], committed.end
    if batch:
        yield batch


def _to_arrow(rows: Sequence[TableRow], schema_columns: Mapping[str, Column], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([column.array(rows) for column in schema_columns.values()], schema=schema)


ROWS = 4096
"""Of a record batch."""
REPEATED = "camera_repeated"


def write_quality(journal: SampleJournal, path: Path, looked: Collection[str]) -> TableFile:
    """Write the journal's measures as a Parquet file.

    Args:
        journal: of the dataset.
        path: of the file.
        looked: ``Looked`` of all samples.

    Raises:
        OSError: the file system reports an error.
    """
    rows = _rows(journal, looked)
    batches = ([first, *islice(rows, ROWS - 1)] for first in rows)
    return write_arrow(path, SCHEMA, (pa.Table.from_pylist(batch, SCHEMA) for batch in batches), PARQUET)


def _rows(journal: SampleJournal, looked: Collection[str]) -> Iterator[dict[str, Any]]:
    before: dict[str, float | None] = {}
    """Fingerprint of the last picture, by sequence."""
    for committed in journal:
        record = committed.record
        measures = dict(record.quality or {})
        fingerprint = measures.pop(FINGERPRINT, None)
        if fingerprint is not None:
            measures.setdefault(REPEATED, float(fingerprint == before.get(record.sequence)))
        before[record.sequence] = fingerprint
        holds = labelled(record.looked, looked)
        searched = {name: name in holds for name in LABELLED.values()}
        key = {"name": record.sequence, "frame": record.frame, "time_ns": record.time_ns}
        yield {**key, **searched, **measures}


def labelled(looked: Collection[str], found: Collection[str]) -> frozenset[str]:
    """The columns of ``LABELLED`` that hold for a sample.

    Args:
        looked: ``Looked`` of the sample.
        found: of all samples. A model that never has boxes and has masks is one for masks, and vice versa.
    """
    finds_masks = Looked.MODEL_MASKS in found
    finds_boxes = Looked.MODEL_BOXES in found or not finds_masks
    by_model = Looked.MODEL in looked
    holds = {
        "boxes2d": by_model and finds_boxes,
        "masks": Looked.MASK in looked or (by_model and finds_masks),
        "boxes3d": Looked.BOXES_3D in looked,
    }
    return frozenset(LABELLED[key] for key, does in holds.items() if does)


MADE_BY = "edgefirst"
"""What the manifests of the format say."""


def complete_dataset(
    paths: DatasetPaths, archive: Archive | None, journal: SampleJournal, options: EdgeFirstOptions
) -> TableFile:
    """Complete container, tables and manifest under ``.part`` names, synced; returns the table.

    The manifest has the sensor files as the journal has them, in the order in which they were written, which
    is that of a ZIP's directory, and then the tables.

    Args:
        paths: paths of the dataset.
        archive: the unfinished container; None if it has its final name already.
        journal: journal of the dataset.
        options: options of the dataset.

    Raises:
        OSError: the file system reports an error.
    """
    if archive is not None:
        archive.finish()
    table = write_table(journal, part_path(paths.arrow), options)
    quality = write_quality(journal, part_path(paths.quality), table.looked)
    write_manifest(part_path(paths.manifest), MADE_BY, _entries(journal, table, quality))
    if options.schema_version != "2025.01" and options.container == "folder":
        parts = {part: {"images": paths.name, "annotations": paths.arrow.name} for part in _PARTS}
        listing = {"type": "edgefirst", "classes": [*table.labels], **parts}
        replace_file(paths.listing, yaml.safe_dump(listing, sort_keys=False, allow_unicode=True).encode())
    journal.sync()
    sync_path(paths.folder)
    return table


def _entries(journal: SampleJournal, table: TableFile, quality: TableFile) -> Iterator[Entry]:
    for committed in journal:
        for file in committed.files:
            yield Entry(file.path, file.size, file.crc)
    yield Entry(TABLE, table.size, table.crc)
    yield Entry(QUALITY, quality.size, quality.crc)


def publish_dataset(paths: DatasetPaths, journal: SampleJournal, options: EdgeFirstOptions) -> None:
    """Give container, tables and manifest their names, and remove what they replace and the journal.

    Every step can be repeated: until the journal is gone, recovery takes up wherever this was interrupted.

    Raises:
        OSError: as the file system has it.
    """
    container = paths.container(options.container)
    if part_path(container).exists():
        take_name(container)
    take_name(paths.arrow)
    take_name(paths.quality)
    take_name(paths.manifest)
    remove(paths.container("folder" if options.container == "zip" else "zip"))
    remove(old_path(paths.container("folder")))
    if options.container == "zip" or options.schema_version == "2025.01":
        remove(paths.listing)
    paths.journal.unlink()
    sync_path(paths.folder)
    journal.close()
