"""The journal of committed samples, from which the annotation table is made at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from edgefirst_ros.formats.crashsafe.journal import Journal
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import FileRecord
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import RadarCube
from edgefirst_ros.model.sample import Role

Unsigned32 = Annotated[int, Field(ge=0, lt=1 << 32)]
Time = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]


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
    label_index: Annotated[int, Field(ge=0, lt=1 << 64)] | None = None
    object_id: str | None = None
    polygons: tuple[str, ...] | None = None
    mask: str | None = None
    box2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = None
    box2d_score: FiniteFloat | None = None
    box3d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = None
    box3d_score: FiniteFloat | None = None

    @property
    def size(self) -> int:
        """Bytes of its record in the journal."""
        return len(_compact(_known(self)))


class Looked(StrEnum):
    """A message that says what is in a sample, be it nothing."""

    MODEL = "model"
    MODEL_BOXES = "model_boxes"
    """With boxes in it."""
    MODEL_MASKS = "model_masks"
    """With masks in it."""
    MASK = "mask"
    BOXES_3D = "boxes3d"


class SensorFile(NamedTuple):
    """How the measurements of a role are stored.

    Attributes:
        key: of samples that are read.
        kind: of its files, ``SENSOR.EXT``.
        datum: what it is made of, which decides how it is written and read.
    """

    key: str
    kind: str
    datum: type


FILES: Mapping[Role, SensorFile] = {
    Role.RADAR_TARGETS: SensorFile("radar", "radar.pcd", PointCloud),
    Role.RADAR_CUBE: SensorFile("cube", "radar.png", RadarCube),
    Role.LIDAR_POINTS: SensorFile("lidar", "lidar.pcd", PointCloud),
    Role.LIDAR_DEPTH: SensorFile("lidar_depth", "lidar.png", RawImage),
    Role.LIDAR_REFLECT: SensorFile("lidar_reflect", "lidar.jpeg", RawImage),
    Role.DEPTH: SensorFile("depth", "depth.png", RawImage),
}
"""Every kind of file beside the camera's: writer, reader and check have this table."""
COMPANIONS = (*FILES, Role.MODEL, Role.MASK, Role.BOXES_3D)
"""Roles that EdgeFirst datasets have files or rows for, beside the camera's."""
MEASURES = (
    *("camera_luminance", "camera_contrast", "camera_sharpness", "camera_clipped", "camera_fingerprint"),
    *("camera_repeated", "lidar_points", "lidar_zeros", "lidar_sectors", "lidar_repeated"),
    *("speed_mps", "position_basis", "position_sigma_m", "rotation_basis", "rotation_sigma_deg"),
    *(f"{role}_offset_ms" for role in COMPANIONS),
)
"""Names that a sample's measures have; a basis is its place in ``PoseBasis``."""


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
        looked: what was looked for in it, ``Looked``.
        quality: measures of what its sensors showed, of ``MEASURES``.
        rig: name of the rig's sequence, where this one is of a camera beside the reference.
        drive: name of the first sequence of its drive, where it is another one.
    """

    sequence: str
    frame: Unsigned32
    time_ns: Time
    size: tuple[Unsigned32, Unsigned32] | None = None
    location: tuple[FiniteFloat, FiniteFloat] | None = None
    pose: tuple[FiniteFloat, FiniteFloat, FiniteFloat] | None = None
    annotations: tuple[Annotation, ...] = ()
    looked: tuple[str, ...] = ()
    quality: dict[str, FiniteFloat] | None = None
    rig: str | None = None
    drive: str | None = None

    @property
    def moments(self) -> str:
        """The sequence whose moments it shares: the rig's, or its own."""
        return self.rig or self.sequence

    def to_json(self) -> str:
        """JSON; fields that are None are left out. Read back, sequences are tuples."""
        return _compact(_known(self) | {"annotations": [_known(each) for each in self.annotations]})


@dataclass(frozen=True, slots=True)
class Committed:
    """A sample read from the journal, with its files; ``end`` is the journal's offset behind it."""

    files: tuple[FileRecord, ...]
    record: SampleRecord
    end: int


_FilePath = Annotated[str, Field(pattern=r"^[^./\x00][^/\x00]*/[^./\x00][^/\x00]*$")]
_FileFields = tuple[_FilePath, Annotated[int, Field(ge=0, lt=1 << 63)], Unsigned32]
_RECORD = TypeAdapter(tuple[tuple[_FileFields, ...], SampleRecord])


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
        """The committed samples in order.

        Raises:
            DatasetError: a record is none that ``commit`` writes.
        """
        for committed in islice(self.records(), 1, None):
            try:
                files, record = _RECORD.validate_json(committed.payload)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                place = f"{self.path}: the record that ends at byte {committed.end:,}"
                raise DatasetError(f"{place} is not a record of this version: {first['msg']}") from error
            yield Committed(tuple(FileRecord(*file) for file in files), record, committed.end)


_compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _known(record: Annotation | SampleRecord) -> dict[str, Any]:
    """The fields that are not None, in their order."""
    values = ((name, getattr(record, name)) for name in record.__slots__)
    return {name: value for name, value in values if value is not None}
