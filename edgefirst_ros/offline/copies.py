"""Datasets in object stores: what is opened by URL is fetched once, whole, and kept; catalogues of them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from os import PathLike
from pathlib import Path, PurePosixPath

from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.catalog import Catalogued, finished, is_below, tables_in, update
from edgefirst_ros.formats.edgefirst.catalogrows import Dataset
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, RecordingError, RecordingNotFound
from edgefirst_ros.offline.naming import AT_ONCE
from edgefirst_ros.offline.opening import Place, located
from edgefirst_ros.sources.location import Location, Url, stored_file
from edgefirst_ros.sources.remote import ObjectVersion, list_objects, read_version, write_object
from edgefirst_ros.sources.scratch import scratch_folder

_OF_SERVERS = (".arrow", ".zip", ".manifest")
"""Ends of the names of a dataset's files, which are asked for on a server that lists none."""


def local_copy(url: Url) -> Path:
    """The path of a copy of a dataset, or of all below a folder, in ``~/.cache/edgefirst_ros``.

    It is kept, and taken as it is until an object changes. A copy that was interrupted is completed.

    Args:
        url: of the dataset's folder or table or ZIP, or of a folder above it.

    Raises:
        DatasetNotFound: there is none.
        DatasetError: it cannot be read.
        WriteError: there is no room for it.
        ExtraNotInstalled: obstore is missing.
    """
    is_file = url.suffix in _OF_SERVERS
    folder = url.parent if is_file else url
    with dataset_errors():
        objects = _asked(folder, url.stem) if url.root.startswith("http") else objects_below(folder)
    if is_file:
        own = (f"{url.stem}.", f"{url.stem}/", "quality.")
        objects = {key: version for key, version in objects.items() if key.startswith(own)}
    patterns = [pattern for each in FORMATS.values() for pattern in each.visible_by]
    if not any(fnmatch(PurePosixPath(key).name, pattern) for key in objects for pattern in patterns):
        raise DatasetNotFound(f"{url}: holds no finished dataset; is it the folder of one?")
    known = "\n".join([str(folder), *(f"{key}\0{v.size}\0{v.tag}" for key, v in sorted(objects.items()))])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(base) / "edgefirst_ros" / sha256(known.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    whole, part = kept / folder.name, kept / f"{folder.name}.part"
    with disk_errors(kept):
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (kept / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it
            if not whole.exists():
                fetch_objects(folder, objects, part)
                part.rename(whole)
    return whole / url.name if is_file else whole


def objects_below(url: Url) -> dict[str, ObjectVersion]:
    """The objects below a URL, by their paths from there."""
    start = len(url.key) + 1 if url.key else 0
    return {each.url.key[start:]: each.version for each in list_objects(url)}


def _asked(folder: Url, name: str) -> dict[str, ObjectVersion]:
    """The files of a dataset in a ZIP on a server that lists none."""
    found = {}
    for file in (*(f"{name}{ending}" for ending in _OF_SERVERS), "quality.parquet", "capture_report.json"):
        try:
            found[file] = read_version(folder / file)
        except RecordingNotFound:
            continue
    return found


def fetch_objects(url: Url, objects: Mapping[str, ObjectVersion], folder: Path) -> None:
    """Copy objects to their places below a folder, but for those that are there."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        tasks = [(url / key, each.size, folder / _inside(key)) for key, each in objects.items()]
        for done in [pool.submit(_copy, *task) for task in tasks]:
            with dataset_errors():
                done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _copy(url: Url, size: int, path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        with stored_file(url).open() as source, part.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        if part.stat().st_size != size:
            raise DatasetError(f"{url} has changed since it was listed; try again")
        part.rename(path)


def _inside(key: str) -> str:
    if ".." in PurePosixPath(key).parts:
        raise DatasetError(f"{key}: leads out of its folder")
    return key


@contextmanager
def dataset_errors() -> Iterator[None]:
    """A block in which errors of object stores are those of datasets."""
    try:
        yield
    except RecordingNotFound as error:
        raise DatasetNotFound(str(error)) from error
    except RecordingError as error:
        raise DatasetError(str(error)) from error


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
