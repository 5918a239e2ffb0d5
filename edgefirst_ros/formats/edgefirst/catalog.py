"""A catalogue of datasets: one Parquet file with a row a sample, which grows with the datasets.

What is known of datasets that are as they were is copied from the catalogue before, so that no file of theirs
is read; the new one takes the name of the old one when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial, reduce
from os import PathLike
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from edgefirst_ros.formats.crashsafe.manifest import version_of
from edgefirst_ros.formats.crashsafe.names import part_path, remove, take_name
from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.edgefirst.catalogrows import (
    COLUMNS,
    COUNT,
    DATASET,
    VERSION,
    Dataset,
    rows_of,
    with_classes,
)
from edgefirst_ros.formats.edgefirst.many import find
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, TABLE
from edgefirst_ros.formats.edgefirst.store.arrowfile import LABELLED
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, EdgeFirstError, WriteError
from edgefirst_ros.model.untrusted import refuse_rows, refusing

FORMAT = b"edgefirst_ros catalogue, version 2"
_NOTE = b"edgefirst_ros"
_ROWS = 50_000
"""Of a row group, at most: many small ones would take more memory than rows, here and in readers."""
Place: TypeAlias = str | PathLike[str]


@dataclass(slots=True)
class Catalogued:
    """What became of a catalogue.

    Attributes:
        samples: rows.
        kept: datasets whose rows were there.
        added: datasets that were read.
        removed: datasets that are not there any more, or are replaced.
        faults: sentences on datasets that could not be read, and are not in it.
    """

    samples: int = 0
    kept: int = 0
    added: int = 0
    removed: int = 0
    faults: list[str] = field(default_factory=list)


def catalog(sets: Place | Iterable[Place], out: Place) -> Catalogued:
    """Make a catalogue of all EdgeFirst datasets in and below folders, or bring one up to date.

    Rows of datasets that are as they were, and of those that are elsewhere, are kept.

    Args:
        sets: a folder, or several.
        out: the Parquet file; docs/corpus.md has its columns.

    Raises:
        DatasetNotFound: there are no such folders, or no dataset in them.
        WriteError: ``out`` is there and is no catalogue; the disk is full, or refuses.
    """
    tops = list(map(Path, [sets] if isinstance(sets, str | PathLike) else sets))
    path = Path(out)
    found = [each for top in tops for each in finished(top, path)]
    return update(path, found, lambda shown: is_below(shown, map(str, tops), path))


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
    done = Catalogued()
    before = None if not path.exists() else _replaceable(path)
    groups = {} if before is None else _row_groups(before)
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


def resolved(shown: str, file: Path) -> str:
    """The path or URL that a catalogue names."""
    return shown if "://" in shown else os.path.normpath(file.absolute().parent / shown)


def is_below(shown: str, tops: Iterable[str], file: Path) -> bool:
    """Whether a catalogue names what is at or below one of these paths or URLs."""
    place = resolved(shown, file)
    return any(f"{place}/".startswith(f"{top if '://' in top else Path(top).absolute()}/") for top in tops)


def opened(path: Path) -> pq.ParquetFile:
    """A catalogue.

    Raises:
        DatasetError: it is no catalogue, or damaged.
    """
    if not path.is_file():
        raise DatasetNotFound(f"{path}: no such catalogue")
    with refusing(path, DatasetError, "is no catalogue of this version, nor a folder of datasets"):
        file = pq.ParquetFile(pa.OSFile(os.fsencode(path)))  # whose name may be no text
        if (file.schema_arrow.metadata or {}).get(_NOTE) != FORMAT:
            raise ValueError("its metadata do not say so")
        refuse_rows(file.metadata, path.stat().st_size)
        return file


def _replaceable(path: Path) -> pq.ParquetFile:
    try:
        return opened(path)
    except DatasetError as error:
        raise WriteError(f"{error}; it is not replaced: give another name, or remove it") from error


def _row_groups(file: pq.ParquetFile) -> dict[tuple[str, str], list[int]]:
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


def _write(
    path: Path,
    before: pq.ParquetFile | None,
    kept: Mapping[str, list[int]],
    fresh: Iterable[Dataset],
    done: Catalogued,
) -> None:
    """All rows in the order of their datasets' names, the fresh ones made into a file of their own first.

    Only once these are known is it known which classes there are.
    """
    spool = part_path(part_path(path))
    names = set[str]() if before is None else {*before.schema_arrow.names} - {*COLUMNS.names}
    try:
        with pa.OSFile(os.fsencode(spool), "wb") as file:
            places = [*_spooled(file, fresh, done)]
        names |= {name for _, _, found in places for name in found}
        schema = with_classes(names).with_metadata({_NOTE: FORMAT})
        parts = [(shown, False, number) for shown, numbers in kept.items() for number in numbers]
        parts += [(shown, True, offset) for shown, offset, _ in places]
        with (
            pa.OSFile(os.fsencode(spool), "rb") as made,
            pa.OSFile(os.fsencode(part_path(path)), "wb") as target,
            pq.ParquetWriter(target, schema, compression="zstd") as writer,
        ):
            waiting, last, group = list[pa.Table](), -1, pa.table({})
            for shown, is_new, at in sorted(parts):
                if is_new or before is None:
                    made.seek(at)
                    with pa.ipc.open_stream(made) as stream:
                        table = stream.read_all()
                else:
                    if at != last:  # datasets share some
                        last, group = at, before.read_row_group(at)
                    table = group.filter(pc.equal(group[DATASET], shown))
                if sum(map(len, waiting)) + len(table) > _ROWS:
                    _flush(writer, waiting)
                waiting.append(_conformed(table, schema))
                done.samples += len(table)
            _flush(writer, waiting)
    finally:
        remove(spool)


def _flush(writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
    """Write tables as a row group."""
    if waiting:
        writer.write_table(pa.concat_tables(waiting), row_group_size=_ROWS)
        waiting.clear()


def _spooled(
    file: pa.NativeFile, fresh: Iterable[Dataset], done: Catalogued
) -> Iterator[tuple[str, int, list[str]]]:
    """Write the rows of each dataset as a stream of its own; dataset, offset and columns of classes."""
    for each in fresh:
        try:
            table = rows_of(each)
        except EdgeFirstError as error:
            done.faults.append(str(error))
            continue
        offset = file.tell()
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        done.added += 1
        yield each.shown, offset, table.schema.names[len(COLUMNS.names) :]


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with all columns: of a class that never occurs there are none where somebody looked."""
    looked = reduce(pc.or_, [table[name].fill_null(False) for name in LABELLED.values()])
    none = pc.if_else(looked, pa.scalar(0, COUNT), pa.scalar(None, COUNT))
    columns = [table[name] if name in table.schema.names else none for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


class Tables(NamedTuple):
    """A dataset among files: its folder, its name, and what its rows are made of."""

    folder: str
    name: str
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
            yield Tables(folder, name, wanted)


def finished(top: Path, out: Path) -> Iterator[Dataset]:
    """The finished EdgeFirst datasets at or below a path, as a file calls them."""
    base = out.absolute().parent
    for each in find(top):
        if not each.table.is_file():  # it is not finished
            continue
        manifest = each.folder / f"{each.name}{MANIFEST}"
        if manifest.is_file():
            version = version_of(manifest)
        else:
            state = each.table.stat()
            version = f"{state.st_size} {state.st_mtime_ns}"
        path = each.path.relative_to(base) if each.path.is_relative_to(base) else each.path
        yield Dataset(path.as_posix(), each.name, version, partial(_here, each.folder))


def _here(folder: Path) -> AbstractContextManager[Path]:
    return nullcontext(folder)
