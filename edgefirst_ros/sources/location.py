"""Where a recording is (a path, or the URL of an object in a store), and opening it as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from edgefirst_ros.model.errors import ConfigError, RecordingError, RecordingNotFound
from edgefirst_ros.model.untrusted import open_regular, refusing

STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https")
"""Schemes of URLs that are read through an object store's interface."""
SHOWN_SCHEMES = "s3://, gs://, az://, https://, http:// or file://"


@dataclass(frozen=True, slots=True, order=True)
class Url:
    """The URL of an object, or of all objects below a prefix; it has those members of a Path that are used.

    Attributes:
        root: scheme and bucket, container or server, such as ``s3://bucket``.
        key: the name in there, without slashes at its ends; empty for the whole bucket.
    """

    root: str
    key: str

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __truediv__(self, name: str) -> Url:
        return replace(self, key=f"{self.key}/{name}" if self.key else name)

    @property
    def name(self) -> str:
        """The last part of the key; of a whole bucket its own name."""
        return self.key.rpartition("/")[2] or self.root.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on; empty without one."""
        return Path(self.name).suffix if self.key else ""

    @property
    def stem(self) -> str:
        """The name without suffix."""
        return self.name.removesuffix(self.suffix)

    @property
    def parent(self) -> Url:
        """The folder that it is in."""
        return replace(self, key=self.key.rpartition("/")[0])

    def with_name(self, name: str) -> Url:
        """Another one in the same folder."""
        return self.parent / name


Location: TypeAlias = Path | Url


def location_of(text: str | Location) -> Location:
    """The path or URL that a text means; ``file://`` URLs become paths.

    Raises:
        ConfigError: a URL of an unknown scheme, without bucket or server, or with a query.
    """
    if not isinstance(text, str) or "://" not in text:
        return Path(text) if isinstance(text, str) else text
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme not in STORES:
        raise ConfigError([f"{text}: unknown kind of URL; expected {SHOWN_SCHEMES}, or a path"])
    if not parts.netloc:
        raise ConfigError([f"{text}: names no bucket or server, as in s3://bucket/folder"])
    if not parts.scheme.startswith("http"):
        # Keys of objects may hold any character, so nothing in them is special.
        head = f"{parts.scheme}://{parts.netloc}"
        return Url(head, text[len(head) :].strip("/"))
    if parts.query:
        raise ConfigError([f"{parts.scheme}://{parts.netloc}{parts.path}: URLs with a query cannot be read"])
    return Url(f"{parts.scheme}://{parts.netloc}", unquote(parts.path).strip("/"))


ByteRange = tuple[int, int]
"""Offsets of the first byte and of the one after the last."""


class StoredFile(Protocol):
    """A file to read; ``size`` is in bytes."""

    size: int

    def open(self, ranges: Sequence[ByteRange] | None = None) -> BinaryIO:
        """Open it for reading.

        Args:
            ranges: what will be read, in this order; None for the whole file from its beginning on. A remote
                file is read ahead accordingly; what is read outside of them costs a request each time.
        """
        ...

    def pin(self, begin: int, end: int) -> None:
        """Fetch what will be read repeatedly, and keep it in memory."""
        ...

    def keep(self) -> None:
        """What is read from now on is read again: keep a copy on the local disk."""
        ...


class LocalFile:
    """An ordinary file on this machine.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with refusing(path, RecordingError), self.open() as file:
                self.size = os.fstat(file.fileno()).st_size
        except RecordingError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise RecordingNotFound(f"{path}: no such recording") from error
            raise

    def open(self, ranges: Sequence[ByteRange] | None = None) -> BinaryIO:  # noqa: ARG002 - the disk needs no plan
        """Open it for reading."""
        return open_regular(self._path, holes=True)

    def pin(self, begin: int, end: int) -> None:
        """Do nothing: the file is near."""

    def keep(self) -> None:
        """Do nothing: the file is near."""


def stored_file(location: Location) -> StoredFile:
    """The file at a path or URL.

    Raises:
        RecordingNotFound: it does not exist.
        RecordingError: it cannot be read.
        ExtraNotInstalled: it is a URL, and obstore is missing.
    """
    if not isinstance(location, Url):
        return LocalFile(location)
    from edgefirst_ros.sources.remote import RemoteFile  # noqa: PLC0415 - only where a URL is given

    return RemoteFile(location)
