"""Finished stores read back as keys and payloads, for checks and counts; no reader of NCore."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

from edgefirst_ros.formats.crashsafe.reading import open_regular
from edgefirst_ros.formats.ncore.store.itar import read_index
from edgefirst_ros.formats.ncore.store.marks import instance_of_mark


class FinishedStore(Protocol):
    """Records of a finished store."""

    def __iter__(self) -> Iterator[str]:
        """Every key, in the order of the store."""

    def get(self, key: str) -> bytes:
        """The payload of a key.

        Raises:
            KeyError: no such record.
        """

    def close(self) -> None:
        """Release the store."""


class FinishedTar:
    """An ``.itar`` through its index.

    Raises:
        ValueError: it was not finished, or its index is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        self.descriptor = self._file.fileno()
        try:
            self.index, self.index_offset = read_index(self.descriptor)
        except ValueError:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[str]:
        """Every key, in the order of the index."""
        return iter(self.index)

    def get(self, key: str) -> bytes:
        """The payload of a key."""
        offset, size = self.index[key]
        return os.pread(self.descriptor, size, offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FinishedDirectory:
    """A directory store."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[str]:
        """Every key, sorted by folder."""
        for folder, folders, files in os.walk(self._path):
            folders.sort()
            prefix = Path(folder).relative_to(self._path).as_posix()
            for name in sorted(files):
                yield name if prefix == "." else f"{prefix}/{name}"

    def get(self, key: str) -> bytes:
        """The payload of a key."""
        try:
            with open_regular(self._path / key) as file:
                return file.read()
        except OSError as error:
            raise KeyError(key) from error

    def close(self) -> None:
        """Nothing is held open."""


class Reading:
    """A finished store of either kind, as a context manager.

    Raises:
        ValueError: an ``.itar`` without a readable index.
    """

    def __init__(self, path: Path) -> None:
        self.store: FinishedStore = FinishedDirectory(path) if path.is_dir() else FinishedTar(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


def entry_counts(path: Path) -> Counter[str]:
    """Entries of a finished store by component and instance."""
    with Reading(path) as reading:
        return Counter(
            "/".join(found) for key in reading.store if (found := instance_of_mark(key)) is not None
        )
