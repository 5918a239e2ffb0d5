"""Batches of a table's file: only columns that are asked for, and only the last batches in memory.

What the metadata of a table's file say: its version, its classes, and what values in masks are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.formats.edgefirst.read.local import ForkLock, TablePath
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

_MEANINGS = ("binary", "confidence", "sigmoid", "logits", "class_index")


@dataclass(frozen=True, slots=True)
class Notes:
    """Metadata of the file; what it does not state is None.

    Attributes:
        version: ``schema_version``.
        labels: names of the classes; a value in a mask of classes counts in it.
        ignore_index: the value in masks of classes that is of no class.
        masks: ``mask_interpretation``: binary, confidence, sigmoid, logits or class_index.
    """

    version: str | None
    labels: tuple[str, ...] | None
    ignore_index: int | None
    masks: str | None

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes]) -> Notes:
        """The notes in the metadata of an Arrow schema.

        Raises:
            ValueError: they are not what the vendor's format says.
        """
        texts = {
            key: metadata[key.encode()].decode()
            for key in ("schema_version", "labels", "ignore_index", "mask_interpretation")
            if key.encode() in metadata
        }
        masks, ignored = texts.get("mask_interpretation"), texts.get("ignore_index")
        if masks is not None and masks not in _MEANINGS:
            raise ValueError(f"mask_interpretation is {masks}, not one of {', '.join(_MEANINGS)}")
        labels = None
        if "labels" in texts:
            labels = json.loads(texts["labels"])
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise ValueError("labels is not a list of names in JSON")
        if ignored is not None and not ignored.isdecimal():
            raise ValueError(f"ignore_index is {ignored}, not a number")
        return cls(
            texts.get("schema_version") or None,
            None if labels is None else tuple(labels),
            None if ignored is None else int(ignored),
            masks,
        )

    def class_of(self, value: int) -> tuple[bool, str | None]:
        """Whether a value in a mask is of a class, and that one's name; 0 without a name is background."""
        labels = self.labels or ()
        name = labels[value] if value < len(labels) else None
        is_background = value == 0 and (name is None or name.lower() == "background")
        return not is_background and value != self.ignore_index, name


MOST_BATCHES = 8
"""Batches in memory; those of a packed file are unpacked, and may be its whole masks."""


class TableFile:
    """An Arrow file, mapped into memory, for any number of threads and processes.

    Args:
        path: of the file.
        files: how many sensor files the dataset has, which bound its rows.

    Attributes:
        count: number of its batches.
        types: type of each column.
        notes: what its metadata say.

    Raises:
        DatasetError: it is damaged.
    """

    def __init__(self, path: TablePath, files: int) -> None:
        self._path, self._sensor_files = path, files
        self._lock = ForkLock()
        self._files: dict[tuple[str, ...], ArrowTable] = {}
        self._batches: dict[tuple[int, tuple[str, ...]], Any] = {}
        with self.readable():
            file = ArrowTable(path.checked(), files=files, columns=())
            self.count = len(file.rows)
            self.types = {field.name: field.type for field in file.schema}
        with refusing(path, DatasetError, "its metadata cannot be read"):
            self.notes = Notes.of(file.schema.metadata or {})

    def readable(self) -> Any:  # noqa: ANN401 - a context
        """A block in which errors of Arrow name the file, as ``DatasetError``."""
        return refusing(self._path, DatasetError, "is not a complete Arrow file")

    def batch(self, number: int, columns: tuple[str, ...]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """A batch with those of the columns that are there; its offsets were checked, as Arrow does not."""
        key = number, columns
        with self._lock:
            batch = self._batches.pop(key, None)
            if batch is None:
                batch = self._file(columns).batch(number)
            self._batches[key] = batch  # the last one that was used is the last
            while len(self._batches) > MOST_BATCHES:
                del self._batches[next(iter(self._batches))]
        return batch

    def _file(self, columns: tuple[str, ...]) -> ArrowTable:
        if columns not in self._files:
            path, files = self._path.checked(), self._sensor_files
            self._files[columns] = ArrowTable(path, files=files, columns=columns)
        return self._files[columns]

    def release(self) -> None:
        """Close the file until it is read again."""
        with self._lock:
            self._files.clear()
            self._batches.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}, "_batches": {}}
