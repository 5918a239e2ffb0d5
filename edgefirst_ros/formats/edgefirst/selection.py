"""Chooses samples of a catalogue by SQL, and writes them as a dataset, files byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from edgefirst_ros.formats.crashsafe.manifest import Entry, write_manifest
from edgefirst_ros.formats.crashsafe.names import part_path, remove, take_name
from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.edgefirst.catalog import catalog, opened, resolved
from edgefirst_ros.formats.edgefirst.catalogrows import COLUMNS, DATASET
from edgefirst_ros.formats.edgefirst.finish import MADE_BY, PARQUET, categories, write_arrow
from edgefirst_ros.formats.edgefirst.many import find
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles, Key, find_stems, split
from edgefirst_ros.formats.edgefirst.store.archive import (
    QUALITY,
    SOURCE,
    TABLE,
    DatasetPaths,
    FileRecord,
    ZipArchive,
)
from edgefirst_ros.formats.edgefirst.store.arrowfile import SCHEMA, ArrowTable, read_quality
from edgefirst_ros.model.errors import ConfigError, DatasetError, OutputExists, extra
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.model.zlib_backend import crc32

CATALOG = "catalog.parquet"
_VERSION, _INDEX = b"schema_version", "label_index"


class Selected(NamedTuple):
    """What was chosen: the new dataset's path, how many samples, of how many, and of how many datasets."""

    path: Path
    samples: int
    of: int
    datasets: int


def select(
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    where: str = "",
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Selected:
    """Choose samples of a catalogue, and write an EdgeFirst dataset that holds them.

    Sensor files are copied byte for byte; rows, with their groups, are as they were, and say where they are
    from. Of several datasets classes are numbered anew, by name.

    Args:
        source: a catalogue; or a folder of datasets, whose ``catalog.parquet`` is made or brought up to date.
        out: the folder of a new dataset.
        where: a condition in polars' SQL, such as ``person > 0 and speed_mps > 5``; docs/corpus.md has the
            columns. Those that are null do not meet it.
        overwrite: replace what is there.
        on_progress: gets how many samples were copied, and of how many.

    Raises:
        ConfigError: the condition is none, or names a column that is not there; or datasets cannot be one.
        DatasetError: the catalogue, or a dataset, is damaged, or has changed since; nothing is chosen.
        OutputExists: ``out`` is there.
        WriteError: the disk is full, or refuses.
        ExtraNotInstalled: polars is missing.
    """
    place, path = Path(source), Path(out)
    if path.exists() and not overwrite and (not path.is_dir() or any(path.iterdir())):
        raise OutputExists(f"{path}: is already there")
    if place.is_dir():
        folder, place = place, place / CATALOG
        catalog(folder, place)
    chosen, of = _chosen(place, where)
    samples = sum(map(len, chosen.values()))
    if not samples:
        raise DatasetError(f"{source}: no sample of {of:,} is as asked for, so nothing was written")
    sources = [_Source.of(shown, resolved(shown, place), times) for shown, times in chosen.items()]
    _write(path, sources, lambda done: on_progress(done, samples))
    return Selected(path, samples, of, len(chosen))


def _chosen(path: Path, where: str) -> tuple[dict[str, dict[Key, int]], int]:
    """The times of the samples that are chosen, by dataset and sample; and how many samples there are."""
    file = opened(path)
    names = file.schema_arrow.names
    known = f"there are {', '.join(COLUMNS.names)}; of classes {', '.join(names[len(COLUMNS.names) :])}"
    with extra("polars"):
        import polars as pl
    try:
        condition = pl.sql_expr(where) if where.strip() else pl.lit(value=True)
        _refuse_missing(path, {*condition.meta.root_names()} - {*names}, known)
        with path.open("rb") as content:  # its name may be no text
            rows = pl.scan_parquet(content).filter(condition)
            found = rows.select(DATASET, "sequence", "frame", pl.col("time").cast(pl.Int64)).collect()
    except (pl.exceptions.PolarsError, UnicodeError) as error:
        what = str(error).partition("\n")[0]
        raise ConfigError([f"where: {where!r} is no condition on columns: {what}; {known}"]) from error
    chosen: dict[str, dict[Key, int]] = {}
    for dataset, sequence, frame, time_ns in found.sort(DATASET, "sequence", "frame").iter_rows():
        chosen.setdefault(dataset, {})[sequence, frame] = time_ns or 0
    return chosen, file.metadata.num_rows


def _refuse_missing(path: Path, missing: Iterable[str], known: str) -> None:
    if missing:
        raise ConfigError([f"where: {path} has no column {', '.join(sorted(missing))}; {known}"])


class _Source(NamedTuple):
    """A dataset, and the times of the samples that are taken of it."""

    shown: str
    files: DatasetFiles
    times_ns: Mapping[Key, int]

    @classmethod
    def of(cls, shown: str, place: str, times_ns: Mapping[Key, int]) -> _Source:
        if "://" in place:
            raise ConfigError([f"{place}: files are copied of datasets in folders; copy it to this machine"])
        return cls(shown, DatasetFiles(*find(Path(place))[0]), times_ns)

    def table(self, columns: Iterable[str] | None = None) -> ArrowTable:
        """Its annotation table, with these columns, by default all."""
        wanted = None if columns is None else {*columns}
        return ArrowTable(self.files.table, files=len(self.files.names), columns=wanted)

    def rows(self, table: ArrowTable) -> Iterator[pa.Table]:
        """The rows of samples that are taken, batch by batch."""
        with table.readable():
            for batch in table.batches():
                plain = pa.schema([each.with_type(_plain(each.type)) for each in batch.schema])
                yield self.taken(pa.Table.from_batches([batch]).cast(plain))

    def taken(self, rows: pa.Table) -> pa.Table:
        """Those of samples that are taken."""
        keys = zip(map(str, rows["name"].to_pylist()), rows["frame"].to_pylist(), strict=True)
        return rows.filter(pa.array([key in self.times_ns for key in keys], pa.bool_()))


def _plain(kind: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A type with the same values; of polars' texts rows cannot be chosen."""
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def _write(path: Path, sources: Sequence[_Source], passed: Callable[[int], None]) -> None:
    """Write the dataset in a folder that takes its name when all is there; else nothing is left."""
    schema, texts = _unified(sources)
    growing, whole = part_path(path), DatasetPaths(path)
    with disk_errors(path):
        remove(growing)
        make_folder(growing)
        try:
            paths = [growing / each.name for each in (whole.container("zip"), whole.arrow, whole.quality)]
            entries = [*_copy(paths[0], sources, passed)]
            table = write_arrow(paths[1], schema, _rows(sources, schema, texts))
            quality = write_arrow(paths[2], SCHEMA, _quality(sources), PARQUET)
            entries += [Entry(TABLE, table.size, table.crc), Entry(QUALITY, quality.size, quality.crc)]
            write_manifest(growing / whole.manifest.name, MADE_BY, entries)
            sync_path(growing)
        except BaseException:
            remove(growing)
            raise
        take_name(path)


def _unified(sources: Sequence[_Source]) -> tuple[pa.Schema, dict[str, tuple[str, ...]]]:
    """The columns of all tables, of the type that the first has, and the categories of those that have some.

    Raises:
        ConfigError: datasets of several schema versions, or with a sequence in common.
    """
    fields: dict[str, pa.Field] = {}
    texts: dict[str, dict[str, None]] = {}
    versions: dict[str | None, str] = {}
    owners: dict[str, str] = {}
    for source in sources:
        for sequence in {sequence for sequence, _ in source.times_ns}:
            if (other := owners.setdefault(sequence, source.shown)) != source.shown:
                twice = f"{sequence} is in {other} and in {source.shown}, as if converted twice"
                raise ConfigError([f"{twice}: choose one, such as with where: dataset = '{other}'"])
        schema = source.table(()).schema
        stated = (schema.metadata or {}).get(_VERSION)
        versions.setdefault(None if stated is None else stated.decode(errors="replace"), source.shown)
        for each in schema:
            fields.setdefault(each.name, each.with_type(_plain(each.type)))
        coded = [each.name for each in schema if pa.types.is_dictionary(each.type)]
        table = source.table(coded or ())
        with table.readable():
            for batch in table.batches() if coded else ():
                for name in coded:
                    values = batch[name].dictionary.to_pylist()
                    texts.setdefault(name, {}).update(dict.fromkeys(values))
    if len(versions) > 1 or (None in versions and len(sources) > 1):
        which = ", ".join(f"{version or 'none'} of {shown}" for version, shown in versions.items())
        raise ConfigError([f"only tables of one stated schema version can be one; there are {which}"])
    if "label" in texts:
        texts["label"] = dict.fromkeys(sorted(texts["label"]))
    kinds = {name: tuple(values) for name, values in texts.items()}
    columns = [
        categories(name, kinds[name], ordered=each.type.ordered) if name in kinds else each
        for name, each in {**fields, SOURCE: pa.field(SOURCE, pa.large_string())}.items()
    ]
    version = next(iter(versions))
    return pa.schema(columns, None if version is None else {_VERSION: version.encode()}), kinds


def _rows(
    sources: Sequence[_Source], schema: pa.Schema, kinds: Mapping[str, tuple[str, ...]]
) -> Iterator[pa.Table]:
    for source in sources:
        for rows in source.rows(source.table()):
            columns = {name: rows[name].combine_chunks() for name in rows.schema.names}
            columns.setdefault(SOURCE, pa.array([source.shown] * len(rows), pa.large_string()))
            if _INDEX in columns and "label" in kinds and len(sources) > 1:
                # Models of several drives have other numbers for a class.
                labels = pa.array(kinds["label"], pa.large_string())
                columns[_INDEX] = pc.index_in(columns["label"].cast(pa.large_string()), labels)
            with refusing(source.files.table, DatasetError, "has columns of other types than the others"):
                arrays = [_conformed(columns.get(each.name), each, kinds, len(rows)) for each in schema]
            yield pa.Table.from_arrays(arrays, schema=schema)


def _conformed(column: Any, field: pa.Field, kinds: Mapping[str, tuple[str, ...]], rows: int) -> Any:  # noqa: ANN401
    if column is None:
        column = pa.nulls(rows, pa.large_string() if field.name in kinds else field.type)
    if not pa.types.is_dictionary(field.type):
        return column.cast(field.type)
    values = pa.array(kinds[field.name], field.type.value_type)
    codes = pc.index_in(column.cast(field.type.value_type), values).cast(field.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, values, ordered=field.type.ordered)


def _quality(sources: Sequence[_Source]) -> Iterator[pa.Table]:
    """The rows of quality.parquet, with all columns that there are today."""
    for source in sources:
        path = source.files.path / QUALITY
        if path.is_file():
            rows = source.taken(read_quality(path, len(source.files.names)))
            there = {*rows.schema.names}
            columns = [
                rows[each.name].cast(each.type) if each.name in there else pa.nulls(len(rows), each.type)
                for each in SCHEMA
            ]
            yield pa.Table.from_arrays(columns, schema=SCHEMA)


def _copy(path: Path, sources: Sequence[_Source], passed: Callable[[int], None]) -> Iterator[Entry]:
    """Copy all sensor files of the samples, under their names."""
    archive, samples = ZipArchive(path), ((each, *named) for each in sources for named in _names(each))
    try:
        for done, (source, names, time_ns) in enumerate(samples):
            passed(done)
            for name in names:
                data = source.files.read_path(name)
                entry = Entry(name, len(data), crc32(data))
                archive.add(FileRecord(*entry), data, time_ns)
                yield entry
        archive.finish()
    except BaseException:
        archive.abort()
        raise


def _names(source: _Source) -> Iterator[tuple[list[str], int]]:
    """The files of each sample that is taken of a dataset, and its time."""
    stems = find_stems(source.files.names, source.times_ns)
    named: dict[str, list[str]] = {}
    for name in sorted(source.files.names):
        for stem, _ in split(name):
            named.setdefault(stem, []).append(name)
    for key, time_ns in source.times_ns.items():
        if key not in stems:
            raise DatasetError(f"{source.files.path}: has no files of {key[0]}, frame {key[1]}")
        yield [name for stem in stems[key] for name in named[stem]], time_ns
