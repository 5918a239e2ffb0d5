"""Files that are read: local ones as they are, objects of a store by ranges with read-ahead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from edgefirst_ros.errors import RecordingError, RecordingNotFound
from edgefirst_ros.model.untrusted import open_regular, refusing
from edgefirst_ros.sources.location import Location, Url

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
    from edgefirst_ros.sources.ranges import RemoteFile  # noqa: PLC0415 - only where a URL is given

    return RemoteFile(location)
