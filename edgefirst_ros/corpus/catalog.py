"""A catalogue of datasets: one Parquet file with a row a sample, which grows with the datasets.

Row groups are as large as memory should bear. What is known of datasets that are as they were is copied from
the catalogue before, so that no file of theirs is read; the new one takes the name of the old one when it is
complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from edgefirst_ros.corpus.facts import COLUMNS, COUNT, DATASET, ROWS, VERSION, Dataset, rows_of, with_classes
from edgefirst_ros.corpus.places import Place, location, renewed, tables_of
from edgefirst_ros.corpus.places import find as find_places
from edgefirst_ros.corpus.remote import RemotePlace
from edgefirst_ros.formats.crashsafe.manifest import version_of
from edgefirst_ros.formats.crashsafe.names import part_path, remove, take_name
from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.datasets import find
from edgefirst_ros.formats.edgefirst.finish import MADE_BY
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, TABLE
from edgefirst_ros.formats.edgefirst.store.arrowfile import LABELLED
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, EdgeFirstError, WriteError
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.sources.location import Location, Url

FORMAT = b"edgefirst_ros catalogue, version 1"
_NOTE = b"edgefirst_ros"


@dataclass(slots=True)
class Catalogued:
    """What became of a catalogue.

    Attributes:
        path: of it.
        samples: rows.
        kept: datasets whose rows were there.
        added: datasets that were read.
        removed: datasets that are not there any more, or are replaced.
        faults: sentences on datasets that could not be read, and are not in it.
    """

    path: Location
    samples: int = 0
    kept: int = 0
    added: int = 0
    removed: int = 0
    faults: list[str] = field(default_factory=list)


def catalog(sets: Place | Iterable[Place], out: Place) -> Catalogued:
    """Make a catalogue of all EdgeFirst datasets in and below folders, or bring one up to date.

    Rows of datasets that are as they were, and of those that are elsewhere, are kept.

    Args:
        sets: a folder, or several, as paths or URLs (s3, gs, az).
        out: the Parquet file, as path or URL; docs/corpus.md has its columns.

    Raises:
        DatasetNotFound: there are no such folders, or no dataset in them.
        DatasetError: a store does not answer, or refuses the file.
        WriteError: ``out`` is there and is no catalogue; the disk is full, or refuses.
    """
    tops = list(map(location, [sets] if isinstance(sets, str | PathLike | Url) else sets))
    place = location(out)
    with renewed(place) as path:
        found = {each.shown: each for top in tops for each in _finished(top, path)}
        if not found:
            raise DatasetNotFound(f"{', '.join(map(str, tops))}: no finished EdgeFirst dataset is there")
        here = [top.absolute() for top in tops if isinstance(top, Path)]
        there = tuple(f"{top}/" for top in tops if isinstance(top, Url))

        def is_gone(shown: str) -> bool:
            if "://" in shown:
                return f"{shown}/".startswith(there)
            local = Path(resolved(shown, path))
            return any(top in (local, *local.parents) for top in here)

        done = update(path, found.values(), is_gone)
    return replace(done, path=place)


def update(path: Path, found: Iterable[Dataset], is_gone: Callable[[str], bool]) -> Catalogued:
    """Write a catalogue of datasets, with what the one before says of those that are as they were.

    Args:
        path: the Parquet file.
        found: datasets.
        is_gone: whether a dataset of the one before that is not among these is to be forgotten.

    Raises:
        WriteError: the file is there and is no catalogue; the disk is full, or refuses.
    """
    wanted = {each.shown: each for each in found}
    done = Catalogued(path)
    before = None if not path.exists() else _opened(path)
    groups = {} if before is None else places_of(before)
    kept = {
        shown: numbers
        for (shown, version), numbers in groups.items()
        if (wanted[shown].version == version if shown in wanted else not is_gone(shown))
    }
    done.kept, done.removed = len(kept), len(groups) - len(kept)
    fresh = [each for shown, each in wanted.items() if shown not in kept]
    with disk_errors(path):
        make_folder(path.absolute().parent)
        remove(part_path(path))
        _write(path, before, kept, fresh, done)
        sync_path(part_path(path))
        take_name(path)
    return done


def relative_to(place: str, file: Path) -> str:
    """How a file names a dataset: relative to its folder, if it is below that; else whole."""
    base = file.absolute().parent
    if "://" in place or not Path(place).is_relative_to(base):
        return place
    return Path(place).relative_to(base).as_posix()


def resolved(shown: str, file: Path) -> str:
    """The path or URL that a file names."""
    return shown if "://" in shown else os.path.normpath(file.absolute().parent / shown)


def places_of(file: pq.ParquetFile) -> dict[tuple[str, str], list[int]]:
    """By dataset and version, the row groups with its rows.

    Raises:
        DatasetError: it is damaged.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for number in range(file.num_row_groups):
        with refusing("the catalogue", DatasetError, "is damaged"):
            pairs = file.read_row_group(number, columns=[DATASET, VERSION]).group_by([DATASET, VERSION])
            rows = pairs.aggregate([]).to_pylist()
        for row in rows:
            found.setdefault((row[DATASET], row[VERSION]), []).append(number)
    return found


class Groups:
    """Rows of datasets, one after another; the last row group stays in memory, as datasets share some.

    Args:
        file: a catalogue.
        columns: those that are wanted, by default all.
    """

    def __init__(self, file: pq.ParquetFile, columns: list[str] | None = None) -> None:
        self._file, self._columns = file, columns
        self._last: tuple[int, pa.Table] | None = None

    def of(self, shown: str, number: int) -> pa.Table:
        """The rows of a dataset in a row group."""
        if self._last is None or self._last[0] != number:
            self._last = number, self._file.read_row_group(number, columns=self._columns)
        table = self._last[1]
        return table.filter(pc.equal(table[DATASET], shown))


def opened(path: Path) -> pq.ParquetFile:
    """A catalogue.

    Raises:
        DatasetError: it is no catalogue, or damaged.
    """
    if not path.is_file():
        raise DatasetNotFound(f"{path}: no such catalogue")
    with refusing(path, DatasetError, "is no catalogue: edgefirst-ros select FOLDER makes one"):
        file = pq.ParquetFile(path)
        if (file.schema_arrow.metadata or {}).get(_NOTE) != FORMAT:
            raise ValueError("its metadata do not say so")
        return file


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return opened(path)
    except DatasetError as error:
        raise WriteError(f"{error}; it is not replaced: give another name, or remove it") from error


def _write(
    path: Path,
    before: pq.ParquetFile | None,
    kept: Mapping[str, list[int]],
    fresh: Iterable[Dataset],
    done: Catalogued,
) -> None:
    """All row groups in the order of their datasets' names, the fresh ones made into a file beside it first.

    Only once these are known is it known which classes there are.
    """
    beside = part_path(part_path(path))
    labels = set[str]() if before is None else {*before.schema_arrow.names} - {*COLUMNS.names}
    try:
        with pa.OSFile(str(beside), "wb") as file:
            places = [*_scratch(file, fresh, done)]
        labels |= {name for _, _, names in places for name in names}
        schema = with_classes(labels).with_metadata({_NOTE: FORMAT})
        parts = [(shown, 0, number) for shown, numbers in kept.items() for number in numbers]
        parts += [(shown, 1, offset) for shown, offset, _ in places]
        with (
            pa.OSFile(str(beside), "rb") as made,
            pq.ParquetWriter(part_path(path), schema, compression="zstd") as writer,
        ):
            earlier, waiting = None if before is None else Groups(before), list[pa.Table]()
            for shown, is_new, at in sorted(parts):
                if is_new or earlier is None:
                    made.seek(at)
                    with pa.ipc.open_stream(made) as stream:
                        table = stream.read_all()
                else:
                    table = earlier.of(shown, at)
                if sum(map(len, waiting)) + len(table) > ROWS:
                    _flush(writer, waiting)
                waiting.append(_conformed(table, schema))
                done.samples += len(table)
            _flush(writer, waiting)
    finally:
        remove(beside)


def _flush(writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
    """Write tables as a row group: many small ones would take more memory than rows, here and in readers."""
    if waiting:
        table = pa.concat_tables(waiting)
        writer.write_table(table, row_group_size=max(1, len(table)))
        waiting.clear()


def _scratch(
    file: pa.NativeFile, fresh: Iterable[Dataset], done: Catalogued
) -> Iterator[tuple[str, int, list[str]]]:
    """Write each portion of datasets' rows as a stream of its own; dataset, offset and classes of each."""
    for each in fresh:
        parts = []
        try:
            for table in rows_of(each):
                parts.append((each.shown, file.tell(), table.schema.names[len(COLUMNS.names) :]))
                with pa.ipc.new_stream(file, table.schema) as stream:
                    stream.write_table(table)
        except EdgeFirstError as error:
            done.faults.append(str(error))
            continue
        done.added += 1
        yield from parts


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with all columns: of a class that never occurs there are none where somebody looked."""
    looked = None
    columns = []
    for each in schema:
        if each.name in table.schema.names:
            columns.append(table[each.name].cast(each.type))
            continue
        if each.type != COUNT:
            columns.append(pa.nulls(len(table), each.type))
            continue
        if looked is None:
            searched = [table[name].fill_null(False) for name in LABELLED.values()]
            looked = reduce(pc.or_, searched)
        columns.append(pc.if_else(looked, pa.scalar(0, COUNT), pa.scalar(None, COUNT)))
    return pa.Table.from_arrays(columns, schema=schema)


class Tables(NamedTuple):
    """A dataset among files: its folder, its name, whether it has a ZIP, and what its rows are made of."""

    folder: str
    name: str
    is_packed: bool
    files: list[str]


def tables_in(files: Iterable[str]) -> Iterator[Tables]:
    """The EdgeFirst datasets among files."""
    there = {file for file in files if not {"", ".", ".."} & {*file.split("/")}}
    for file in sorted(there):
        folder, _, table = file.rpartition("/")
        name = folder.rpartition("/")[2]
        manifest = f"{name}{MANIFEST}"
        if table == f"{name}{TABLE}" and f"{folder}/{manifest}" in there:
            wanted = [each for each in (table, manifest, QUALITY) if f"{folder}/{each}" in there]
            yield Tables(folder, name, f"{folder}/{name}.zip" in there, wanted)


def _finished(top: Location, out: Path) -> Iterator[Dataset]:
    """The finished EdgeFirst datasets at or below a place, as a file calls them."""
    if isinstance(top, Path):
        yield from finished(top, out)
        return
    for each in find_places(top):
        if isinstance(each.place, RemotePlace):
            told = [f"{each.name}{ending}" for ending in (TABLE, MANIFEST)]
            version = " ".join(each.place.version(name) for name in told if each.place.is_file(name))
            is_packed = each.place.is_file(f"{each.name}.zip")
            yield Dataset(each.shown, each.name, version, is_packed, partial(tables_of, each))


def finished(top: Path, out: Path) -> Iterator[Dataset]:
    """The finished EdgeFirst datasets at or below a path, as a file calls them."""
    for made_by, dataset in find(top):
        if made_by.name != MADE_BY:
            continue
        folder, name = (dataset, dataset.name) if dataset.is_dir() else (dataset.parent, dataset.stem)
        table = folder / f"{name}{TABLE}"
        if not table.is_file():  # it is not finished
            continue
        manifest, place = folder / f"{name}{MANIFEST}", folder.absolute()
        if manifest.is_file():
            version = version_of(manifest)
        else:
            state = table.stat()
            version = f"{state.st_size} {state.st_mtime_ns}"
        shown = relative_to(str(place if dataset.is_dir() else place / table.name), out)
        yield Dataset(shown, name, version, not (folder / name).is_dir(), partial(_here, folder))


def _here(folder: Path) -> AbstractContextManager[Path]:
    return nullcontext(folder)
