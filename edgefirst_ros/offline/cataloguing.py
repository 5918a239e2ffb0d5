"""Catalogues of datasets wherever they lie, and wherever the catalogue is to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path

from edgefirst_ros.formats.edgefirst.catalog import Catalogued, finished, is_below, tables_in, update
from edgefirst_ros.formats.edgefirst.catalogrows import Dataset
from edgefirst_ros.model.errors import DatasetNotFound
from edgefirst_ros.offline.copies import dataset_errors, fetch_objects, objects_below
from edgefirst_ros.offline.opening import Place, located
from edgefirst_ros.sources.location import Location, Url
from edgefirst_ros.sources.remote import ObjectVersion, read_version, write_object
from edgefirst_ros.sources.scratch import scratch_folder


def catalog(sets: Place | Iterable[Place], out: Place) -> Catalogued:
    """Make a catalogue of all EdgeFirst datasets in and below folders, or bring one up to date.

    Rows of datasets that are as they were, and of those that are elsewhere, are kept. Of datasets in a store
    only the tables are fetched.

    Args:
        sets: a folder, or several, as paths or URLs (s3, gs, az).
        out: the Parquet file, as path or URL; docs/corpus.md has its columns.

    Raises:
        DatasetNotFound: there are no such folders, or no dataset in them.
        DatasetError: a store does not answer, or refuses the file.
        WriteError: ``out`` is there and is no catalogue; the disk is full, or refuses.
    """
    tops = [located(each) for each in ([sets] if isinstance(sets, str | PathLike | Url) else sets)]
    with _renewed(located(out)) as path:
        found = [each for top in tops for each in _finished(top, path)]
        if not found:
            raise DatasetNotFound(f"{', '.join(map(str, tops))}: no finished EdgeFirst dataset is there")
        return update(path, found, lambda shown: is_below(shown, map(str, tops), path))


@contextmanager
def _renewed(place: Location) -> Iterator[Path]:
    """A file on this machine that is there or not, and is written within the block; then a URL gets it."""
    if isinstance(place, Path):
        yield place
        return
    with scratch_folder() as folder:
        with suppress(DatasetNotFound), dataset_errors():
            fetch_objects(place.parent, {place.name: read_version(place)}, folder)
        yield folder / place.name
        with dataset_errors():
            write_object(place, folder / place.name)


def _finished(top: Location, out: Path) -> Iterator[Dataset]:
    """The finished EdgeFirst datasets at or below a place, as a file calls them."""
    if isinstance(top, Path):
        yield from finished(top, out)
        return
    with dataset_errors():
        objects = objects_below(top)
    for each in tables_in(f"{top.name}/{key}" for key in objects):
        inside = each.folder[len(top.name) + 1 :]
        wanted = {name: objects[f"{inside}/{name}" if inside else name] for name in each.files}
        place = top / inside if inside else top
        version = " ".join(found.tag for found in wanted.values())
        yield Dataset(str(place), each.name, version, partial(_fetched, place, wanted))


@contextmanager
def _fetched(place: Url, wanted: dict[str, ObjectVersion]) -> Iterator[Path]:
    """A folder on this machine with these files of a dataset."""
    with scratch_folder() as folder:
        fetch_objects(place, wanted, folder)
        yield folder
