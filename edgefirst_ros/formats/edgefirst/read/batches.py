"""Batches of a table's file: only columns that are asked for, and only the last batches in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.crashsafe.reading import open_regular
from edgefirst_ros.formats.edgefirst.read.files import Version, refuse_other
from edgefirst_ros.formats.edgefirst.read.forklock import ForkLock
from edgefirst_ros.formats.edgefirst.read.notes import Notes

MOST_BATCHES = 8
"""Batches in memory; those of a packed file are unpacked, and may be its whole masks."""
DAMAGE = (pa.ArrowException, MemoryError, OSError, UnicodeDecodeError, LookupError, TypeError, ValueError)
"""What reading a damaged table raises; Arrow has no checksums."""


class TableFile:
    """An Arrow file, mapped into memory, for any number of threads and processes.

    Attributes:
        count: number of its batches.
        types: type of each column.
        notes: what its metadata say.

    Raises:
        DatasetNotFound: there is none.
        DatasetError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            part = path.with_name(f"{path.stem}.journal.part")
            advice = (
                f"it is unfinished: edgefirst-ros recover {path.parent} finishes it"
                if part.exists()
                else "is this the folder of a dataset?"
            )
            raise DatasetNotFound(f"{path}: no annotation table; {advice}")
        self._lock = ForkLock()
        self._files: dict[tuple[str, ...], Any] = {}
        self._batches: dict[tuple[int, tuple[str, ...]], Any] = {}
        with self.readable():
            self._opened = Version.of(path)
            with pa.memory_map(str(self._regular())) as mapped:
                file = pa.ipc.open_file(mapped)
                self.count, schema = file.num_record_batches, file.schema
            self.types = {field.name: field.type for field in schema}
            self._columns = tuple(schema.names)
            try:
                self.notes = Notes.of(schema.metadata or {})
            except (RecursionError, ValueError) as error:
                raise DatasetError(f"{path}: its metadata cannot be read: {error}") from error

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Name the file in errors of Arrow.

        Raises:
            DatasetError: instead of these errors.
        """
        try:
            yield
        except DatasetError:
            raise
        except DAMAGE as error:
            raise DatasetError(f"{self._path} is not a complete Arrow file: {error}") from error

    def _regular(self) -> Path:
        open_regular(self._path).close()
        return self._path

    def batch(self, number: int, columns: tuple[str, ...]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """A batch with those of the columns that are there; its offsets were checked, as Arrow does not."""
        key = number, columns
        with self._lock:
            batch = self._batches.pop(key, None)
            if batch is None:
                batch = self._file(columns).get_batch(number)
                batch.validate(full=True)
            self._batches[key] = batch  # the last one that was used is the last
            while len(self._batches) > MOST_BATCHES:
                del self._batches[next(iter(self._batches))]
        return batch

    def _file(self, columns: tuple[str, ...]) -> Any:  # noqa: ANN401 - pyarrow has no types
        if columns not in self._files:
            refuse_other(self._path, self._opened)
            wanted = [place for place, name in enumerate(self._columns) if name in columns]
            # An empty list would be all columns. Threads of Arrow would not survive a fork, either.
            options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=wanted or [0])
            mapped = pa.memory_map(str(self._regular()))
            self._files[columns] = pa.ipc.open_file(mapped, options=options)
        return self._files[columns]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}, "_batches": {}}
