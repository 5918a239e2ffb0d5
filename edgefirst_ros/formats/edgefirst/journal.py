"""The journal: one line a committed sample, from which the Arrow file is made at the end or by recovery."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import WriteError
from edgefirst_ros.formats.edgefirst.archive import FileRecord
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions

try:
    import fcntl
except ImportError:  # not a POSIX system: two writers at once go unnoticed there
    fcntl = None  # type: ignore[assignment]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Annotation:
    """One row of the table, without what all rows of the sample share; None is null.

    Attributes:
        polygons: rings, each base64 of little-endian float32 x, y, x, y, ... normalised to the image.
        mask: base64 of a 1-bit grayscale PNG that covers the image.
        box2d: x and y of the centre, width, height, normalised to the image.
        box3d: centre x, y, z, then the extents along x, y, z; metres, x forward, y left, z up.
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
        """Bytes that it takes in the journal."""
        return len(_compact(_without_none(asdict(self))))


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A committed sample: what identifies it, what all its rows share, its annotations.

    Attributes:
        size: width and height of the camera image in pixels.
        location: latitude, longitude in degrees.
        pose: roll, pitch, yaw in signed degrees.
    """

    sequence: str
    frame: int
    time_ns: int
    size: tuple[int, int] | None
    location: tuple[float, float] | None
    pose: tuple[float, float, float] | None
    annotations: tuple[Annotation, ...]

    def to_json(self) -> str:
        """One line; fields that are None are left out."""
        record = asdict(self) | {"annotations": [_without_none(asdict(a)) for a in self.annotations]}
        return _compact(_without_none(record))

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> SampleRecord:
        """The inverse; sequences come back as lists."""
        empty = {"size": None, "location": None, "pose": None}
        annotations = tuple(Annotation(**a) for a in record["annotations"])
        return cls(**{**empty, **record, "annotations": annotations})


@dataclass(frozen=True, slots=True)
class Committed:
    """A journal line read back; ``end`` is the offset behind it."""

    files: tuple[FileRecord, ...]
    record: SampleRecord
    end: int


class Journal:
    """An append-only file of JSON lines: a header with dataset name and options, then one line a sample.

    A line is written with one call once the sample's files are in the container, so a line that ends in a
    newline is a committed sample. The open journal is locked, so that nobody recovers a running capture.

    Raises:
        WriteError: another process has it open.
        OSError: as the file system has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if fcntl:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise WriteError(f"{path}: this dataset is being written; wait until that has ended") from error

    def start(self, dataset: str, options: EdgeFirstOptions) -> None:
        """Begin anew, with nothing committed."""
        os.ftruncate(self._fd, 0)
        header = {"version": VERSION, "dataset": dataset, "options": options.model_dump()}
        self._append(json.dumps(header, separators=(",", ":")))

    def commit(self, files: list[FileRecord], record_json: str) -> None:
        """Append a sample whose files are in the container."""
        rows = ",".join(json.dumps([f.path, f.size, f.crc]) for f in files)
        self._append(f"[[{rows}],{record_json}]")

    def options(self) -> EdgeFirstOptions | None:
        """The options of the header; None if not even that was written whole.

        Raises:
            WriteError: a journal of another version.
        """
        with self.path.open("rb") as file:
            line = file.readline()
        if not line.endswith(b"\n"):
            return None
        try:
            header = json.loads(line)
            version, options = header["version"], EdgeFirstOptions(**header["options"])
        except (ValueError, TypeError, KeyError) as error:
            raise WriteError(f"{self.path}: the journal's first line is damaged: {error}") from error
        if version != VERSION:
            raise WriteError(f"{self.path}: journal of version {version}, this package reads {VERSION}")
        return options

    def __iter__(self) -> Iterator[Committed]:
        """The committed samples in order, up to the first line that is not whole."""
        with self.path.open("rb") as file:
            end = len(file.readline())
            for line in file:
                end += len(line)
                try:
                    if not line.endswith(b"\n"):
                        return
                    files, record = json.loads(line)
                    committed = Committed(
                        tuple(FileRecord(*f) for f in files), SampleRecord.from_json(record), end
                    )
                except (ValueError, TypeError, KeyError):
                    return
                yield committed

    def cut(self, end: int) -> None:
        """Drop what is behind ``end``, as torn lines and samples whose files are lost."""
        os.ftruncate(self._fd, end)

    def close(self) -> None:
        """Release lock and file; the journal stays on disk."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, line: str) -> None:
        os.lseek(self._fd, 0, os.SEEK_END)
        rest = memoryview(line.encode() + b"\n")
        while rest:
            rest = rest[os.write(self._fd, rest) :]


def _compact(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def _without_none(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}
