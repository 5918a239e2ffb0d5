"""Names of a sequence's files, while it is written and afterwards.

Finished stores read back as keys and payloads, for checks and counts; no reader of NCore.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from edgefirst_ros.formats.crashsafe.names import NEW, PART, part_path
from edgefirst_ros.formats.ncore.options import StoreType
from edgefirst_ros.formats.ncore.store.base import Store, instance_of_mark, suffix
from edgefirst_ros.formats.ncore.store.directory import DirectoryStore
from edgefirst_ros.formats.ncore.store.itar import TarStore, read_index
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, open_regular, read_regular, reason_of, refusing

_STORE = "ncore4"


@dataclass(frozen=True, slots=True)
class SequenceFiles:
    """Where a sequence is: ``folder`` is named after its ``id``."""

    folder: Path
    id: str

    @property
    def meta(self) -> Path:
        """The sequence meta file, there once the sequence is complete."""
        return self.folder / f"{self.id}.json"

    @property
    def meta_part(self) -> Path:
        """The sequence meta file until all stores have their names; it is there when all are complete."""
        return self.folder / f"{self.id}.json{PART}"

    @property
    def journal(self) -> Path:
        """The journal, there until the sequence is complete."""
        return self.folder / f"{self.id}.journal{PART}"

    def held(self, number: int) -> Path:
        """Where a radar cube waits for its scan."""
        return self.folder / f"{self.id}.cube-{number}{PART}"

    def all_held(self) -> list[Path]:
        """Radar cubes that wait, and those that a sync has not let go of yet."""
        return [path for path in self.mine() if path.name.startswith(f"{self.id}.cube-")]

    def would_replace(self) -> bool:
        """Whether an earlier, complete sequence has the name of this one, whose meta file is written, too.

        The first that giving this one the name does is to remove the earlier one's meta file.
        """
        return self.meta.exists() and read_regular(self.meta, MOST_REPORT_BYTES) != read_regular(
            self.meta_part, MOST_REPORT_BYTES
        )

    @property
    def note(self) -> Path:
        """Says where the unfinished sequence goes while it is moved from beside a complete one."""
        return self.folder / f"{self.id}.aside{PART}"

    def leftovers(self) -> list[Path]:
        """What a finished sequence does not need.

        Last the journal, since without it nothing is recovered; behind it only the meta file of a sequence
        that is complete.
        """
        last = [self.journal, self.meta_part]
        mine = [path for path in self.mine() if path.suffix in {PART, NEW} and path not in last]
        return [*mine, *last]

    def finished_stores(self) -> list[Path]:
        """Stores that have their final names, of whatever group and kind."""
        return [path for path in self.mine() if self.is_store(path.name)]

    def is_store(self, name: str) -> bool:
        """Whether a store of this sequence can have this name once it is finished."""
        is_mine = name.startswith(f"{self.id}.{_STORE}") and Path(name).name == name
        return is_mine and name.endswith((suffix("itar"), suffix("directory")))

    def store(self, group: str, kind: StoreType) -> Path:
        """The finished store of a component group; the group of poses and calibration has no name."""
        stem = f"{self.id}.{_STORE}" + (f"-{group}" if group else "")
        return self.folder / f"{stem}{suffix(kind)}"

    def parts(self) -> dict[str, Path]:
        """Unfinished stores by component group."""
        start = f"{self.id}.{_STORE}"
        found = {}
        for kind in ("itar", "directory"):
            end = f"{suffix(kind)}{PART}"
            for path in sorted(self.folder.glob(f"*{end}")):
                if path.name.startswith(start):
                    found[path.name[len(start) : -len(end)].removeprefix("-")] = path
        return found

    def exists(self) -> bool:
        """True if anything of the sequence is on disk."""
        return self.folder.is_dir() and any(self.mine())

    def mine(self) -> list[Path]:
        """Everything of the sequence that is on disk."""
        return sorted(path for path in self.folder.glob("*") if path.name.startswith(f"{self.id}."))


def create_store(path: Path, kind: StoreType) -> Store:
    """An empty store that will be ``path`` when it is finished."""
    if kind == "itar":
        return TarStore.create(part_path(path))
    return DirectoryStore.create(part_path(path))


def open_store(part: Path) -> Store:
    """A store as a crash left it, for ``keep`` and ``cut``.

    Raises:
        DatasetError: a directory with a symbolic link.
        OSError: it cannot be opened, or is a symbolic link to a file.
    """
    return DirectoryStore(part) if part.is_dir() else TarStore(part)


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
