"""The journal of committed samples, from which the annotation table is made at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.journal import Journal
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import FileRecord


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one row of the table adds to its sample; None is null.

    Attributes:
        label: name of the class.
        label_index: number of the class in the model.
        object_id: track of the object.
        polygons: rings, each base64 of little-endian float32 x, y, x, y, ... normalised to the image.
        mask: base64 of a 1-bit gray PNG that covers the image.
        box2d: x and y of the centre, width, height, normalised to the image.
        box2d_score: 0 to 1.
        box3d: x, y, z of the centre and extents along x, y, z, in metres; x forward, y left, z up.
        box3d_score: 0 to 1.
    """

    label: str | None = None
    label_index: int | None = None
    object_id: str | None = None
    polygons: tuple[str, ...] | None = None
    mask: str | None = None
    box2d: tuple[float, float, float, float] | None = None
    box2d_score: float | None = None
    box3d: tuple[float, float, float, float, float, float] | None = None
    box3d_score: float | None = None

    @property
    def size(self) -> int:
        """Bytes of its record in the journal."""
        return len(_compact(_without_none(asdict(self))))


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A committed sample: its name, the values that all its rows share, and its annotations.

    Attributes:
        sequence: name of the sequence.
        frame: frame number.
        time_ns: acquisition, in nanoseconds since 1970.
        size: width and height of the camera picture.
        location: latitude and longitude in degrees.
        pose: roll, pitch and yaw in signed degrees.
        annotations: one per row.
    """

    sequence: str
    frame: int
    time_ns: int
    size: tuple[int, int] | None
    location: tuple[float, float] | None
    pose: tuple[float, float, float] | None
    annotations: tuple[Annotation, ...]

    def to_json(self) -> str:
        """JSON; fields that are None are left out."""
        record = asdict(self) | {"annotations": [_without_none(asdict(a)) for a in self.annotations]}
        return _compact(_without_none(record))

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> SampleRecord:
        """The inverse of ``to_json``; tuples are returned as lists, except for ``annotations``."""
        empty = {"size": None, "location": None, "pose": None}
        annotations = tuple(Annotation(**a) for a in record["annotations"])
        return cls(**{**empty, **record, "annotations": annotations})


@dataclass(frozen=True, slots=True)
class Committed:
    """A sample read from the journal, with its files; ``end`` is the journal's offset behind it."""

    files: tuple[FileRecord, ...]
    record: SampleRecord
    end: int


class SampleJournal(Journal):
    """The journal of one dataset: its options, then a record for each sample in the container.

    Raises:
        WriteError: another process is writing it.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "edgefirst 2")

    def start(self, options: EdgeFirstOptions) -> None:
        """Begin with nothing committed."""
        self.begin()
        self.append(options.model_dump_json().encode())

    def commit(self, files: list[FileRecord], record_json: str) -> None:
        """Append a sample whose files are in the container."""
        rows = ",".join(json.dumps([f.path, f.size, f.crc]) for f in files)
        self.append(f"[[{rows}],{record_json}]".encode())

    def options(self) -> EdgeFirstOptions | None:
        """The dataset's options; None if the writer was killed before it had written these.

        Raises:
            DatasetError: it is not a journal of this version.
        """
        first = next(self.records(), None)
        try:
            return None if first is None else EdgeFirstOptions.model_validate_json(first.payload)
        except ValueError as error:
            raise DatasetError(f"{self.path}: options of another version of this package: {error}") from error

    def __iter__(self) -> Iterator[Committed]:
        """The committed samples in order."""
        for committed in islice(self.records(), 1, None):
            files, record = json.loads(committed.payload)
            found = tuple(FileRecord(*f) for f in files)
            yield Committed(found, SampleRecord.from_json(record), committed.end)


def _compact(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def _without_none(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}
