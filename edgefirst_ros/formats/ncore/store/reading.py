"""Finished stores read back as keys and payloads, for checks and counts; no reader of NCore."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.ncore.store.itar import read_index
from edgefirst_ros.formats.ncore.store.marks import instance_of_mark
from edgefirst_ros.model.untrusted import open_regular, read_regular, reason_of, refusing

MOST_RECORD_BYTES = 1 << 28
"""Of a record that is read at once; larger ones are of no writer."""
MOST_RAY_BYTES = 1 << 26
"""Of an array of a ray bundle: five million directions, twenty times those of the largest lidars."""


class FinishedStore(Protocol):
    """Records of a finished store."""

    def __iter__(self) -> Iterator[str]:
        """Every key, in the order of the store."""

    def get(self, key: str) -> bytes:
        """The payload of a key.

        Raises:
            KeyError: no such record.
            ValueError: it is larger than any, or no ordinary file.
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
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[str]:
        """Every key, in the order of the index."""
        return iter(self.index)

    def get(self, key: str) -> bytes:
        """The payload of a key."""
        offset, size = self.index[key]
        if size > MOST_RECORD_BYTES:
            raise ValueError(f"{key} has {size:,} bytes, more than any record")
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
        path = self._path / key
        # Keys are made of names in the metadata, and folders may be links.
        if not path.parent.resolve().is_relative_to(self._path.resolve()):
            raise KeyError(key)
        try:
            return read_regular(path, MOST_RECORD_BYTES, follow=False)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise KeyError(key) from error
        except OSError as error:
            raise ValueError(f"{key}: {reason_of(error)}") from error

    def close(self) -> None:
        """Nothing is held open."""


class Reading:
    """A finished store of either kind, as a context manager.

    Raises:
        DatasetError: an ``.itar`` without a readable index.
    """

    def __init__(self, path: Path) -> None:
        with refusing(path, DatasetError, "store cannot be opened"):
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
