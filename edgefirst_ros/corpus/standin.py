"""Folders of this machine that stand for datasets in an object store, for commands that look at paths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from edgefirst_ros.corpus.fetching import Wanted, requests
from edgefirst_ros.corpus.places import find, listed
from edgefirst_ros.corpus.remote import RemotePlace
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.read.places import ELSEWHERE
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.sources.location import Url
from edgefirst_ros.sources.remote import ObjectVersion
from edgefirst_ros.sources.scratch import scratch_folder


@contextmanager
def standing_in(url: Url, *, whole: bool = False) -> Iterator[Path]:
    """A folder that stands for a URL until the block ends.

    Args:
        url: of a dataset, or of a folder above some.
        whole: has all files of any format, which are fetched at once; else those beside sensor files, and
            these are fetched as they are read.

    Raises:
        DatasetNotFound: there is none.
        DatasetError: it cannot be read.
        WriteError: there is no room for it.
    """
    with scratch_folder() as scratch:
        top = scratch / url.name
        if whole:
            objects = listed(url)
            if not objects:
                raise DatasetNotFound(f"{url}: there is nothing; is it the folder of a dataset?")
            for key, version in objects.items():
                _fetch(url / key, version, top, key)
            yield top
            return
        standing: list[Path] = []
        try:
            for place, name in find(url):
                if not isinstance(place, RemotePlace):
                    continue
                folder = top / place.path.key[len(url.key) :].strip("/")
                for key, version in place.beside(name):
                    _fetch(place.path / key, version, folder, key)
                ELSEWHERE[folder] = place
                standing.append(folder)
            yield top
        finally:
            for folder in standing:
                del ELSEWHERE[folder]


def _fetch(url: Url, version: ObjectVersion, folder: Path, key: str) -> None:
    """Copy an object to its place below a folder, a piece at a time."""
    if ".." in PurePosixPath(key).parts:
        raise DatasetError(f"{url}: leads out of its folder")
    path = folder / key
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for piece in Wanted(url, version, 0, version.size).pieces():
                file.write(requests().together([piece]))
