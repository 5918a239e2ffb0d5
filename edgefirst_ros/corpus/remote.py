"""A dataset's folder in an object store, as it was when it was listed; see ``Place``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from edgefirst_ros.corpus.fetching import Wanted, requests, tag
from edgefirst_ros.formats.edgefirst.store.zipreading import MOST_BYTES
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.sources.location import Url
from edgefirst_ros.sources.remote import ObjectVersion

_TAIL_BYTES = 16 << 10, 256 << 10
_TAIL_SHARE = 64
"""The end of a ZIP is fetched first, between the former of these, and a 64th part of it: directories of large
files have less. What it lacks is one more request."""


class RemotePlace:
    """Objects below a URL.

    Args:
        url: of the folder.
        objects: versions of the objects, by their paths from there.

    Attributes:
        path: the URL.
    """

    def __init__(self, url: Url, objects: Mapping[str, ObjectVersion]) -> None:
        self.path, self._objects = url, dict(objects)

    def is_file(self, name: str) -> bool:
        """Whether there is such an object."""
        return name in self._objects

    def is_folder(self, name: str) -> bool:
        """Whether there are objects below it."""
        return any(each.startswith(f"{name}/") for each in self._objects)

    def beside(self, name: str) -> Iterator[tuple[str, ObjectVersion]]:
        """The objects of a dataset but its sensor files, and what these are in."""
        for key, version in self._objects.items():
            if key != f"{name}.zip" and not key.startswith(f"{name}/"):
                yield key, version

    def version(self, name: str) -> str:
        """What tells a file from any other of its name."""
        return tag(self._objects[name])

    def refuse_links(self, folder: str, *files: str) -> None:
        """Do nothing: there are none."""

    def mapped(self, name: str) -> RemoteTable:
        """A file of which the cache has a copy."""
        if name not in self._objects:
            raise DatasetNotFound(
                f"{self.path / name}: no annotation table; is this the folder of a dataset?"
            )
        return RemoteTable(self.path / name, self._objects[name])

    def ranges(self, name: str) -> RemoteRanges:
        """A file to read by ranges."""
        return RemoteRanges(self.path / name, self._objects[name])

    def below(self, folder: str) -> Iterator[str]:
        """Paths of all files below a folder."""
        start = f"{folder}/"
        return (name.removeprefix(start) for name in self._objects if name.startswith(start))

    def read(self, name: str) -> bytes:
        """All of a file."""
        return bytes(requests().read(self._whole(name)))

    def ahead(self, names: Sequence[str]) -> None:
        """Begin to fetch files."""
        requests().ahead(map(self._whole, names))

    def _whole(self, name: str) -> Wanted:
        return whole(self.path / name, self._objects[name])


def whole(url: Url, version: ObjectVersion) -> Wanted:
    """All of an object.

    Raises:
        DatasetError: it has more bytes than any that is read at once.
    """
    if version.size > MOST_BYTES:
        raise DatasetError(f"{url}: is larger than any sensor file: {version.size:,} bytes")
    return Wanted(url, version, 0, version.size)


class RemoteTable:
    """A table in an object store, and its copy in the cache; see ``Mapped``."""

    def __init__(self, url: Url, version: ObjectVersion) -> None:
        self._wanted = Wanted(url, version, 0, version.size)

    def __str__(self) -> str:
        return str(self._wanted.url)

    def here(self) -> Path:
        """The copy, fetched if it is not there."""
        cache, wanted = requests().cache, self._wanted
        found = cache.table(wanted.key, wanted.end)
        if found is not None:
            return found
        data = requests().together(wanted.pieces())
        try:
            return cache.put_table(wanted.key, data)
        except OSError as error:
            raise DatasetError(
                f"{wanted.url}: there is no room for a copy of it: {error.strerror}"
            ) from error


class RemoteRanges:
    """An object that is read by ranges; see ``Ranges``. Until it is released its end is in memory."""

    def __init__(self, url: Url, version: ObjectVersion) -> None:
        self._url, self._version = url, version
        self.size = self.stored = version.size
        least, most = _TAIL_BYTES
        end = min(self.size, most, max(least, self.size // _TAIL_SHARE))
        self._tail = bytes(requests().read(self._wanted(self.size - end, end))) if end else b""

    def read(self, begin: int, length: int) -> bytes | memoryview:
        """Bytes from an offset on."""
        wanted, tail = self._wanted(begin, length), self._tail
        if wanted.begin >= wanted.end:
            return b""
        if not tail or wanted.end <= self.size - len(tail):
            return requests().read(wanted)
        kept = self.size - len(tail)
        before = requests().read(wanted._replace(end=kept)) if begin < kept else b""
        return bytes(before) + tail[max(0, begin - kept) : wanted.end - kept]

    def ahead(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges."""
        requests().ahead(self._wanted(*each) for each in ranges)

    def release(self) -> None:
        """Forget its end."""
        self._tail = b""

    def _wanted(self, begin: int, length: int) -> Wanted:
        return Wanted(self._url, self._version, begin, min(begin + length, self.size))
