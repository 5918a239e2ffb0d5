"""Writes samples of several datasets as one: files byte for byte, rows as they are, classes by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from edgefirst_ros.formats.crashsafe.manifest import Entry, write_manifest
from edgefirst_ros.formats.crashsafe.names import part_path, remove, take_name
from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.edgefirst.finish import MADE_BY, categories, write_arrow
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles, Key, find_stems, split
from edgefirst_ros.formats.edgefirst.read.rows import is_longitude_first, is_yaw_first
from edgefirst_ros.formats.edgefirst.store.archive import (
    QUALITY,
    TABLE,
    DatasetPaths,
    FileRecord,
    ZipArchive,
    file_path,
)
from edgefirst_ros.formats.edgefirst.store.arrowfile import SCHEMA, ArrowTable
from edgefirst_ros.model.errors import ConfigError, DatasetError
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.model.zlib_backend import crc32

SOURCE = "source"
"""Column of the dataset that a row is from; its sequence and frame are as they were there."""
_VERSION, _INDEX = b"schema_version", "label_index"


class Picked(NamedTuple):
    """A sample that was chosen, its group, and its time for the files' directory."""

    sequence: str
    frame: int | None
    group: str | None
    time_ns: int


@dataclass(frozen=True, slots=True)
class _Source:
    """A dataset and what is taken of it."""

    shown: str
    folder: Path
    name: str
    groups: Mapping[Key, str | None]
    times_ns: Mapping[Key, int]
    files: DatasetFiles

    @classmethod
    def of(cls, shown: str, place: str, picked: Sequence[Picked]) -> _Source:
        if "://" in place:
            raise ConfigError(
                [f"{place}: files are copied of datasets in folders only; a list (-o NAME.parquet) names any"]
            )
        folder, name = Path(place), Path(place).name
        if folder.suffix == TABLE:
            folder, name = folder.parent, folder.stem
        keys = {(each.sequence, each.frame): each for each in picked}
        groups = {key: each.group for key, each in keys.items()}
        times_ns = {key: each.time_ns for key, each in keys.items()}
        return cls(shown, folder, name, groups, times_ns, DatasetFiles(folder, name))

    def table(self, columns: Iterable[str] | None = None) -> ArrowTable:
        """Its annotation table, with these columns, by default all."""
        wanted = None if columns is None else frozenset(columns)
        return ArrowTable(self.folder / f"{self.name}{TABLE}", files=len(self.files.names), columns=wanted)

    def chosen(self, table: ArrowTable) -> Iterator[pa.Table]:
        """The rows of samples that are taken, batch by batch."""
        with table.readable():
            for batch in table.batches():
                names = [str(name) for name in batch.column("name").to_pylist()]
                keys = zip(names, batch.column("frame").to_pylist(), strict=True)
                mask = pa.array([key in self.groups for key in keys], pa.bool_())
                plain = pa.schema([each.with_type(_plain(each.type)) for each in batch.schema])
                yield pa.Table.from_batches([batch]).cast(plain).filter(mask)


def write_subset(path: Path, chosen: Mapping[str, tuple[str, Sequence[Picked]]]) -> None:
    """Write a dataset.

    It grows in a folder beside it, which takes its name when all is there.

    Args:
        path: its folder.
        chosen: by what rows are to say of it, the path of each dataset, and samples of it.

    Raises:
        ConfigError: datasets that cannot be one: of several schema versions, or with a sequence in common.
        DatasetError: a dataset is damaged, or lacks a sample.
        WriteError: the disk is full, or refuses.
    """
    sources = [_Source.of(shown, place, picked) for shown, (place, picked) in chosen.items()]
    _refuse_shared(sources)
    _refuse_orders(sources)
    schema, labels = _unified(sources)
    growing = part_path(path)
    with disk_errors(path):
        remove(growing)
        make_folder(growing)
        whole = DatasetPaths(path)
        paths = [growing / each.name for each in (whole.container("zip"), whole.arrow, whole.quality)]
        files = [*_copy(paths[0], sources)]
        table = write_arrow(paths[1], schema, _rows(sources, schema, labels))
        quality = write_arrow(paths[2], SCHEMA, _quality(sources))
        entries = [*files, Entry(TABLE, table.size, table.crc), Entry(QUALITY, quality.size, quality.crc)]
        write_manifest(growing / whole.manifest.name, MADE_BY, entries)
        sync_path(growing)
        take_name(path)


def _refuse_shared(sources: Sequence[_Source]) -> None:
    """Refuse two datasets with a sequence of one name, of which no sample could be told from the other's."""
    of: dict[str, str] = {}
    for source in sources:
        for sequence in {sequence for sequence, _ in source.groups}:
            if (other := of.setdefault(sequence, source.shown)) != source.shown:
                twice = f"{sequence} is in {other} and in {source.shown}, as if converted twice"
                raise ConfigError([f"{twice}: choose one, such as with where: dataset = '{other}'"])


def _refuse_orders(sources: Sequence[_Source]) -> None:
    """Refuse tables that state no version, and whose types say that places or poses are in several orders."""
    of = {"location": is_longitude_first, "pose": is_yaw_first}
    first: dict[str, tuple[bool, str]] = {}
    for source in sources:
        schema = source.table(()).schema
        for name in of.keys() & {*schema.names} if _VERSION not in (schema.metadata or {}) else ():
            value = getattr(schema.field(name).type, "value_type", None)
            told = of[name](None, is_double=value is not None and pa.types.is_float64(value))
            if told != (known := first.setdefault(name, (told, source.shown)))[0]:
                what = f"{name} is in another order in {source.shown} than in {known[1]}, by its type"
                raise ConfigError([f"{what}, as neither states a schema version: choose one kind"])


def _plain(kind: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A type with the same values; of polars' texts rows cannot be chosen."""
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def _unified(sources: Sequence[_Source]) -> tuple[pa.Schema, dict[str, tuple[str, ...]]]:
    """The columns of all tables, and the categories of those that have some.

    A column's type is that of the first table which has it.
    """
    found: dict[str, Any] = {}
    texts: dict[str, dict[str, None]] = {}
    notes: tuple[str, Mapping[bytes, bytes]] | None = None
    indices: set[tuple[str, int]] = set()
    for source in sources:
        table = source.table(())
        mine = {k: v for k, v in (table.schema.metadata or {}).items() if not k.startswith(b"pandas")}
        notes = notes or (source.shown, mine)
        if mine != notes[1]:
            versions = (each.get(_VERSION, b"none").decode(errors="replace") for each in (notes[1], mine))
            differ = f"the tables of {notes[0]} and {source.shown} differ in what they say of themselves"
            raise ConfigError([f"{differ} (schema versions {', '.join(versions)}): choose one kind"])
        for each in table.schema:
            found.setdefault(each.name, each.with_type(_plain(each.type)))
        coded = [each.name for each in table.schema if pa.types.is_dictionary(each.type)]
        both = {"name", "frame", "label", _INDEX, *coded}
        for rows in source.chosen(source.table(both)):
            for name in coded:
                column = rows[name].combine_chunks()
                is_ordered = column.type.ordered and name != "label"
                values = column.dictionary if is_ordered else pc.unique(column.cast(pa.large_string()))
                texts.setdefault(name, {}).update(
                    dict.fromkeys(v for v in values.to_pylist() if v is not None)
                )
            if {"label", _INDEX} <= {*rows.schema.names}:
                labels = rows["label"].cast(pa.large_string()).to_pylist()
                indices |= {
                    pair for pair in zip(labels, rows[_INDEX].to_pylist(), strict=True) if None not in pair
                }
    if "label" in texts:
        texts["label"] = dict.fromkeys(sorted(texts["label"]))
    if len({label for label, _ in indices}) != len(indices) or len({n for _, n in indices}) != len(indices):
        texts[_INDEX] = texts.get("label", {})
    kinds = {name: tuple(values) for name, values in texts.items()}
    fields = [
        categories(each.name, kinds[each.name], ordered=each.type.ordered)
        if each.name in kinds and each.name != _INDEX
        else each
        for each in found.values()
    ]
    if SOURCE not in found:
        fields.append(pa.field(SOURCE, pa.large_string()))
    return pa.schema(fields, notes[1] if notes else None), kinds


def _rows(
    sources: Sequence[_Source], schema: pa.Schema, kinds: Mapping[str, tuple[str, ...]]
) -> Iterator[pa.Table]:
    for source in sources:
        for rows in source.chosen(source.table()):
            names = [str(name) for name in rows["name"].to_pylist()]
            keys = [*zip(names, rows["frame"].to_pylist(), strict=True)]
            columns = {name: rows[name].combine_chunks() for name in rows.schema.names}
            columns["group"] = pa.array([source.groups[key] for key in keys], pa.large_string())
            columns.setdefault(SOURCE, pa.array([source.shown] * len(rows), pa.large_string()))
            if _INDEX in kinds:  # models of several drives have other numbers for a class
                numbers = {label: number for number, label in enumerate(kinds[_INDEX])}
                labels = columns["label"].cast(pa.large_string()).to_pylist()
                columns[_INDEX] = pa.array([numbers.get(label) for label in labels], pa.uint64())
            with refusing(source.folder, DatasetError, "has columns of other types than the others"):
                arrays = [_conformed(columns.get(each.name), each, kinds, len(rows)) for each in schema]
            yield pa.Table.from_arrays(arrays, schema=schema)


def _conformed(column: Any, field: pa.Field, kinds: Mapping[str, tuple[str, ...]], rows: int) -> Any:  # noqa: ANN401
    if column is None:
        column = pa.nulls(rows, field.type.value_type if field.name in kinds else field.type)
    if not pa.types.is_dictionary(field.type):
        return column.cast(field.type)
    values = pa.array(kinds[field.name], field.type.value_type)
    codes = pc.index_in(column.cast(field.type.value_type), values).cast(field.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, values, ordered=field.type.ordered)


def _quality(sources: Sequence[_Source]) -> Iterator[pa.Table]:
    """The rows of quality.arrow, with all columns that there are today."""
    for source in sources:
        path = source.folder / QUALITY
        if not path.is_file():
            continue
        for rows in source.chosen(ArrowTable(path, files=len(source.files.names))):
            there = [
                rows[each.name].cast(each.type)
                if each.name in rows.schema.names
                else pa.nulls(len(rows), each.type)
                for each in SCHEMA
            ]
            yield pa.Table.from_arrays(there, schema=SCHEMA)


def _copy(path: Path, sources: Sequence[_Source]) -> Iterator[Entry]:
    """Copy all sensor files of the samples; names are those that this package gives."""
    archive = ZipArchive(path)
    try:
        for source in sources:
            for key, name, target in _targets(source):
                data = source.files.read_path(name)
                entry = Entry(target, len(data), crc32(data))
                archive.add(FileRecord(*entry), data, source.times_ns[key])
                yield entry
        archive.finish()
    except BaseException:
        archive.abort()
        raise


def _targets(source: _Source) -> Iterator[tuple[Key, str, str]]:
    """Each file of each sample, and what its copy is called; of two of a kind, the one that readers take."""
    stems = find_stems(source.files.names, source.groups)
    kinds: dict[str, list[str]] = {}
    for name in sorted(source.files.names):
        for stem, kind in split(name):
            kinds.setdefault(stem, []).append(kind)
    for key in sorted(source.groups, key=lambda key: (key[0], -1 if key[1] is None else key[1])):
        if not (mine := stems.get(key)):
            raise DatasetError(f"{source.folder}: has no files of {key[0]}, frame {key[1]}")
        files = {kind: stem for stem in reversed(mine) for kind in kinds[stem]}
        sequence, frame = key
        for kind, stem in files.items():
            is_plain = "." not in kind  # a picture of others
            name = stem.rpartition("/")[2] if frame is None else ""
            own = file_path(sequence, frame or 0, f"camera.{kind}" if is_plain else kind)
            yield key, f"{stem}.{kind}", f"{name}.{kind}" if name else own
