"""Which datasets a path, a URL or a list of samples names, and where each of them lies.

For what looks at paths there are folders of this machine that stand for a URL, and copies.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from edgefirst_ros.corpus.fetching import REQUESTS, Wanted, of_datasets, requests, tag
from edgefirst_ros.corpus.remote import RemotePlace, whole
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.read.places import ELSEWHERE, LocalPlace
from edgefirst_ros.formats.edgefirst.store.archive import QUALITY
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import REPORT, read_regular, refusing
from edgefirst_ros.sources.location import Location, Url, location_of
from edgefirst_ros.sources.remote import (
    ObjectVersion,
    StoredObject,
    list_objects,
    read_version,
    write_object,
)
from edgefirst_ros.sources.scratch import scratch_folder

Place: TypeAlias = str | PathLike[str] | Url
LIST = ".parquet"
"""Lists of samples are named so."""
_TABLE = ".arrow"
_OWN = (_TABLE, ".zip", ".journal.part")
"""How names of files end of which one, named as its folder, makes that a dataset."""
_DEEPEST = 4
"""How far below a folder datasets are looked for: a fleet has sets/DRIVE/edgefirst/NAME."""
_MOST_LIST_BYTES = 1 << 30
_COLUMNS = ("dataset", "sequence", "frame")
_GROUP = "group"


class Found(NamedTuple):
    """A dataset: where it lies, and its name."""

    place: LocalPlace | RemotePlace
    name: str

    @property
    def shown(self) -> str:
        """Path or URL of its folder; of its table where several are in one."""
        path = self.place.path
        return str(path if path.name == self.name else path / f"{self.name}{_TABLE}")


def location(place: Place) -> Location:
    """The path or URL that a user means.

    Raises:
        ConfigError: a URL that cannot be read.
    """
    return location_of(place if isinstance(place, str | Url) else Path(place))


def find(place: Location) -> list[Found]:
    """The datasets at or below a place, at least one.

    Raises:
        DatasetNotFound: there is none that is finished.
        DatasetError: it cannot be listed.
    """
    found = _remote(place) if isinstance(place, Url) else _local(place)
    if not found:
        raise DatasetNotFound(f"{place}: holds no finished EdgeFirst dataset; is it the folder of one?")
    return found


def _local(path: Path) -> list[Found]:
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    if path.is_file():
        if path.suffix not in {_TABLE, ".zip"}:
            raise DatasetNotFound(f"{path}: is no EdgeFirst dataset; give its folder, its .arrow or its .zip")
        path = path.resolve() if path.is_symlink() else path
        return [Found(LocalPlace(path.parent.absolute()), path.stem)]
    name = path.absolute().name
    if any((path / f"{name}{ending}").exists() for ending in _OWN):
        return [Found(LocalPlace(path.absolute()), name)]
    tables = sorted(_tables(path, _DEEPEST))
    return [Found(LocalPlace(table.parent.absolute()), table.stem) for table in tables]


def _tables(folder: Path, depth: int) -> Iterator[Path]:
    """Tables in and below a folder, but not below one that has some: its sensor files may be many."""
    try:
        with os.scandir(folder) as entries:
            here = list(entries)
    except OSError:  # what may not be read holds nothing that could be opened
        return
    ending = [Path(entry.path) for entry in here if entry.name.endswith(_TABLE) and entry.name != QUALITY]
    tables = [
        path for path in ending if path.is_file()
    ]  # unlike entry.is_file() no error for a loop of links
    own = [table for table in tables if table.stem == folder.absolute().name]
    yield from own or tables
    if not tables and depth:
        for entry in here:
            if entry.is_dir(follow_symlinks=False):
                yield from _tables(Path(entry.path), depth - 1)


def _remote(url: Url) -> list[Found]:
    is_file = url.suffix in {_TABLE, ".zip"}
    folder, name = (url.parent, url.stem) if is_file else (url, url.name)
    if url.root.startswith("http"):
        return [Found(RemotePlace(folder, _asked(folder, name)), name)]
    objects = listed(folder)
    if is_file:
        return (
            [Found(RemotePlace(folder, _of(objects, "", name)), name)] if f"{name}{_TABLE}" in objects else []
        )
    return [
        Found(RemotePlace(folder / top if top else folder, _of(objects, top, stem)), stem)
        for top, stem in sorted(_remote_tables(objects, name))
    ]


def listed(url: Url) -> dict[str, ObjectVersion]:
    """The objects below a URL, by their paths from there.

    Raises:
        DatasetNotFound: there is no such bucket.
        DatasetError: it cannot be listed.
    """
    start = len(url.key) + 1 if url.key else 0
    with of_datasets():
        return {each.url.key[start:]: each.version for each in requests().call(_listed, url)}


def _listed(url: Url) -> list[StoredObject]:
    return list(list_objects(url))


def _asked(folder: Url, name: str) -> dict[str, ObjectVersion]:
    """The files of a dataset on a server that lists none."""
    found = {}
    for file in (f"{name}{_TABLE}", f"{name}.zip", QUALITY, REPORT):
        try:
            with of_datasets():
                found[file] = requests().call(read_version, folder / file)
        except DatasetNotFound:
            if file not in {QUALITY, REPORT}:
                raise
    return found


def _of(objects: dict[str, ObjectVersion], top: str, name: str) -> dict[str, ObjectVersion]:
    """The objects of a dataset by their paths in its folder."""
    start = f"{top}/" if top else ""
    own = (f"{start}{name}.", f"{start}{name}/", start + QUALITY, start + REPORT)
    return {key[len(start) :]: version for key, version in objects.items() if key.startswith(own)}


def _remote_tables(objects: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Folder and name of each dataset, as ``_tables`` has them."""
    tables: dict[str, list[str]] = defaultdict(list)
    for key in objects:
        folder, _, file = key.rpartition("/")
        if file.endswith(_TABLE) and file != QUALITY:
            tables[folder].append(file.removesuffix(_TABLE))
    for folder, stems in tables.items():
        above = PurePosixPath(folder)
        if any(
            str(each) in tables or (str(each) == "." and "" in tables) for each in above.parents if folder
        ):
            continue
        own = folder.rpartition("/")[2] or name
        yield from ((folder, stem) for stem in ([own] if own in stems else stems))


class Chosen(NamedTuple):
    """A sample in a list: the place of its dataset, its sequence, its frame and its group."""

    dataset: Location
    sequence: str
    frame: int | None
    group: str | None = None


def read_list(place: Location) -> list[Chosen]:
    """The samples of a list: Parquet with dataset (path or URL, from the list's folder), sequence and frame.

    With a column ``group``, that is theirs, whatever it is in their dataset.

    Raises:
        DatasetNotFound: it is not there.
        DatasetError: it is damaged, or has no such columns.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - only for lists

    if isinstance(place, Url):
        data = _fetched(place)
    else:
        if not place.exists():
            raise DatasetNotFound(f"{place}: no such file or folder")
        with refusing(place, DatasetError):
            data = read_regular(place, _MOST_LIST_BYTES)
    with refusing(place, DatasetError, "is no list of samples"):
        file = pq.ParquetFile(BytesIO(data))
        if missing := [name for name in _COLUMNS if name not in file.schema_arrow.names]:
            raise DatasetError(f"{place}: has no column {' and no '.join(missing)}; is it a list of samples?")
        has_groups = _GROUP in file.schema_arrow.names
        table = file.read(columns=[*_COLUMNS, *([_GROUP] if has_groups else [])], use_threads=False)
        datasets, sequences, frames = (table[name].to_pylist() for name in _COLUMNS)
        groups = table[_GROUP].to_pylist() if has_groups else [None] * len(table)
        places = {text: _from(place, text) for text in dict.fromkeys(datasets)}
        return [
            Chosen(
                places[dataset],
                str(sequence),
                None if frame is None else int(frame),
                None if group is None else str(group),
            )
            for dataset, sequence, frame, group in zip(datasets, sequences, frames, groups, strict=True)
        ]


def _version_of(url: Url) -> ObjectVersion:
    with of_datasets():
        return requests().call(read_version, url)


def _fetched(url: Url) -> bytes:
    return bytes(requests().read(whole(url, _version_of(url))))


@contextmanager
def nearby(place: Location) -> Iterator[Path]:
    """A file on this machine, for as long as it is used: itself, or what a URL holds.

    Raises:
        DatasetNotFound: there is no such object.
        DatasetError: it cannot be read.
    """
    if isinstance(place, Path):
        yield place
        return
    with scratch_folder() as folder:
        _fetch(place.parent, {place.name: _version_of(place)}, folder)
        yield folder / place.name


@contextmanager
def renewed(place: Location) -> Iterator[Path]:
    """A file on this machine that is there or not, and is written within the block; then a URL gets it.

    Raises:
        DatasetError: the store does not answer, or refuses it.
    """
    if isinstance(place, Path):
        yield place
        return
    with scratch_folder() as folder:
        with suppress(DatasetNotFound):
            _fetch(place.parent, {place.name: _version_of(place)}, folder)
        yield folder / place.name
        with of_datasets():
            requests().call(write_object, place, folder / place.name)


@contextmanager
def standing_in(url: Url, *, complete: bool = False) -> Iterator[Path]:
    """A folder that stands for a URL until the block ends.

    Args:
        url: of a dataset, or of a folder above some.
        complete: has all files of any format, which are fetched at once; else those beside sensor files, and
            these are fetched as they are read.

    Raises:
        DatasetNotFound: there is none.
        DatasetError: it cannot be read.
        WriteError: there is no room for it.
    """
    with scratch_folder() as scratch, ExitStack() as stack:
        top = scratch / url.name
        if complete:
            objects = listed(url)
            if not objects:
                raise DatasetNotFound(f"{url}: there is nothing; is it the folder of a dataset?")
            _fetch(url, objects, top)
        else:
            for each in find(url):
                folder = top / str(each.place.path)[len(str(url)) :].strip("/")
                stack.enter_context(_standing(each, folder))
        yield top


@contextmanager
def tables_of(found: Found) -> Iterator[Path]:
    """The folder of a dataset, or one on this machine with its tables until the block ends."""
    if isinstance(found.place, LocalPlace):
        yield found.place.path
        return
    with scratch_folder() as scratch, _standing(found, scratch / found.name):
        yield scratch / found.name


@contextmanager
def _standing(found: Found, folder: Path) -> Iterator[None]:
    """A folder with what is beside sensor files of a dataset in a store, which are read from there."""
    if isinstance(found.place, RemotePlace):
        _fetch(found.place.path, dict(found.place.beside(found.name)), folder)
        ELSEWHERE[folder] = found.place
    try:
        yield
    finally:
        ELSEWHERE.pop(folder, None)


def copied(url: Url, chosen: Callable[[Path], Path | None]) -> Path | None:
    """A copy of a dataset at or below a URL, which the cache keeps.

    Args:
        url: of it, or of a folder above it.
        chosen: is given a folder with files of the objects' names and sizes, without what is in them, and
            returns which folder is the dataset; None if none is.

    Raises:
        DatasetError: it cannot be read.
        WriteError: there is no room for it.
    """
    objects = listed(url)
    with scratch_folder() as scratch:
        top = scratch / url.name
        top.mkdir()
        for key, version in objects.items():
            path = _below(top, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(version.size)
        found = chosen(top)
    if found is None:
        return None
    inside = "" if found == top else f"{found.relative_to(top).as_posix()}/"
    own = {key.removeprefix(inside): v for key, v in objects.items() if key.startswith(inside)}
    place = url / inside.rstrip("/") if inside else url
    told = "\n".join([str(place), *(f"{key}\0{v.size}\0{tag(v)}" for key, v in sorted(own.items()))])
    key = sha256(told.encode("utf-8", "surrogateescape")).hexdigest()
    size = sum(version.size for version in own.values())
    return requests().cache.folder(key, place.name, size, lambda folder: _fetch(place, own, folder))


def _fetch(url: Url, objects: Mapping[str, ObjectVersion], folder: Path) -> None:
    """Copy objects below a URL to their places below a folder, several at a time, each piece by piece."""

    def fetch(key: str) -> None:
        path = _below(folder, key)
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for piece in Wanted(url / key, objects[key], 0, objects[key].size).pieces():
                    file.write(requests().together([piece]))

    with ThreadPoolExecutor(REQUESTS) as pool:
        for done in [pool.submit(fetch, key) for key in objects]:
            done.result()


def _below(folder: Path, key: str) -> Path:
    if ".." in PurePosixPath(key).parts:
        raise DatasetError(f"{key}: leads out of its folder")
    return folder / key


def _from(place: Location, text: str) -> Location:
    """What a list names, from the folder that it is in."""
    if not isinstance(text, str):
        raise ConfigError([f"{place}: a row names no dataset"])
    if "://" in text or text.startswith("/"):
        return location_of(text)
    if isinstance(place, Url):
        parts: list[str] = place.parent.key.split("/") if place.parent.key else []
        for part in PurePosixPath(text).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return Url(place.root, "/".join(parts))
    return place.absolute().parent / text
