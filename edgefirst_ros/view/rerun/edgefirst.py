"""An EdgeFirst dataset as it is drawn: the samples' files, their rows, and the report beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pymap3d

from edgefirst_ros.diagnosis.report import Report
from edgefirst_ros.diagnosis.report import Sequence as ReportSequence
from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.read.batches import TableFile
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.read.orders import is_longitude_first, is_yaw_first
from edgefirst_ros.formats.edgefirst.read.pcd import positions, read_pcd
from edgefirst_ros.formats.edgefirst.read.pictures import acquired_ns
from edgefirst_ros.messages.boxes3d import BoxAxes
from edgefirst_ros.messages.calibration import Intrinsics
from edgefirst_ros.model.rotations import quaternion_of_angles
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.view.edgefirstscenes import Annotations, boxes_of
from edgefirst_ros.view.rerun import marks
from edgefirst_ros.view.rerun.canvas import Canvas, Mount
from edgefirst_ros.view.rerun.instants import Instant
from edgefirst_ros.view.scene import opened

_FRAMES = {"lidar": "lidar_points", "radar": "radar_targets", "camera": "camera", "boxes3d": "boxes3d"}
"""Roles in the report by what is drawn."""
_CLOUDS = (("lidar", marks.LIDAR), ("radar", marks.RADAR))


def edgefirst_drawings(dataset: Path, report: Report) -> list[EdgeFirstDrawing]:
    """The sequences of a dataset, by name.

    Args:
        dataset: its folder.
        report: of its run; an empty one if there is none, and then nothing says where sensors are.

    Raises:
        RecordingNotFound: there is no dataset.
        RecordingError: its ZIP is damaged.
        DatasetError: its table is damaged.
    """
    files = DatasetFiles(dataset)
    annotations = Annotations(files)
    version = TableFile(files.table, len(files.names)).notes.version if files.table.is_file() else None
    doubles = {
        name: getattr(annotations.types.get(name), "value_type", None) == pa.float64()
        for name in ("location", "pose")
    }
    longitude_first = is_longitude_first(version, is_double=doubles["location"])
    yaw_first = is_yaw_first(version, is_double=doubles["pose"])
    sequences: dict[str, list[_Place]] = {}
    for stem in files.stems():
        name, _, frame = PurePosixPath(stem).name.rpartition("_")
        sequences.setdefault(name, []).append(_Place(int(frame), stem))
    return [
        EdgeFirstDrawing(
            files,
            annotations,
            sorted(places),
            _Sequence(name, report, longitude_first=longitude_first, yaw_first=yaw_first),
        )
        for name, places in sorted(sequences.items())
    ]


class _Place(NamedTuple):
    """Where a sample is: its frame, and its path without sensor and extension."""

    frame: int
    stem: str


class EdgeFirstDrawing:
    """One sequence of a dataset, see ``Drawable``; made by ``edgefirst_drawings``."""

    def __init__(
        self,
        files: DatasetFiles,
        annotations: Annotations,
        places: Sequence[_Place],
        sequence: _Sequence,
    ) -> None:
        self._files, self._annotations = files, annotations
        self._places, self._sequence = places, sequence

    def __len__(self) -> int:
        return len(self._places)

    def begin(self, canvas: Canvas) -> None:
        """Sensors are drawn with the first picture, which says what size pictures have."""

    def instants(self) -> Iterator[Instant]:
        """All samples by frame."""
        for _, stem in self._places:
            data = self._files.read(stem, "camera.jpeg", "camera.png")
            with refusing(stem, DatasetError):
                found = None if data is None else opened(data)
                time_ns = None if found is None else acquired_ns(found[0])
                size = None if found is None else found[1]
                rows = self._annotations.of(stem)
            yield Instant(time_ns, partial(self._draw, _Sample(stem, time_ns, data, size, rows)))

    def _draw(self, sample: _Sample, canvas: Canvas, number: int) -> None:
        sequence = self._sequence
        stem, data, size, rows, time_ns = sample.stem, sample.data, sample.size, sample.rows, sample.time_ns
        sequence.begin(canvas, size)
        with refusing(stem, DatasetError):
            sequence.move(canvas, rows, time_ns, number)
            canvas.at(time_ns, number)
            if data is not None and size is not None:
                media = "jpeg" if data.startswith(b"\xff\xd8") else "png"
                canvas.on_picture(marks.CAMERA, marks.PICTURE, marks.picture(data, media))
                canvas.on_picture(marks.CAMERA, marks.BOXES_2D, marks.boxes_2d(boxes_of(rows), size))
                outlines = [(str(row.get("label") or ""), rings) for row in rows if (rings := _rings(row))]
                if outlines or f"{marks.CAMERA}/{marks.MASKS}" in canvas.seen:
                    canvas.on_picture(marks.CAMERA, marks.MASKS, marks.masks(outlines, size))
            for kind, path in _CLOUDS:
                cloud = self._files.read(stem, f"{kind}.pcd")
                if cloud is not None or path in canvas.seen:
                    points = marks.by_range(np.zeros((0, 3))) if cloud is None else _cloud(cloud)
                    canvas.draw(path, points, frame=sequence.frames[kind])
            axes = sequence.box_axes
            solid = [_box3d(row, axes) for row in rows if row.get("box3d") is not None]
            if solid or marks.BOXES_3D in canvas.seen:
                canvas.draw(marks.BOXES_3D, marks.boxes_3d(solid), frame=axes.frame_id)
            cube = self._files.read(stem, "radar.png")
            if cube is not None:
                canvas.draw(marks.CUBE, marks.cube(read_cube(cube)))


@dataclass(frozen=True, slots=True)
class _Sample:
    """What had to be read of a sample to know its time."""

    stem: str
    time_ns: int | None
    data: bytes | None
    size: tuple[int, int] | None
    rows: list[dict[str, Any]]


class _Sequence:
    """Where the rig and its sensors are in one sequence."""

    def __init__(self, name: str, report: Report, *, longitude_first: bool, yaw_first: bool) -> None:
        self._longitude_first, self._yaw_first = longitude_first, yaw_first
        self._said: ReportSequence | None = next((s for s in report.sequences if s.name == name), None)
        streams = self._said.streams if self._said is not None else None
        by_role = {stream.role: stream.frame_id for stream in (streams or {}).values()}
        self.frames: Mapping[str, str] = {kind: by_role.get(role, "") for kind, role in _FRAMES.items()}
        calibration = self._said.calibration if self._said is not None else None
        known = [each.child for each in calibration.transforms] if calibration is not None else []
        self.box_axes = BoxAxes.of(self.frames["boxes3d"], known)
        self._origin: tuple[float, float, float] | None = None
        self._has_begun = False

    def begin(self, canvas: Canvas, size: tuple[int, int] | None) -> None:
        """Draw where sensors are, once."""
        if self._has_begun:
            return
        self._has_begun = True
        calibration = self._said.calibration if self._said is not None else None
        if calibration is None:
            return
        canvas.mount(
            Mount(each.parent, each.child, each.translation_m, each.rotation_xyzw)
            for each in calibration.transforms
        )
        camera = calibration.camera
        if camera is not None and size is not None and 0 not in camera.size and 0 not in camera.focal_px:
            across, down = size[0] / camera.size[0], size[1] / camera.size[1]
            focal = camera.focal_px[0] * across, camera.focal_px[1] * down
            principal = camera.principal_px[0] * across, camera.principal_px[1] * down
            canvas.camera(marks.CAMERA, Intrinsics(focal, principal, size), self.frames["camera"])

    def move(self, canvas: Canvas, rows: list[dict[str, Any]], time_ns: int | None, number: int) -> None:
        """Draw where the rig is, by the rows of a sample, which all say the same."""
        row = rows[0] if rows else {}
        place, pose = row.get("location"), row.get("pose")
        if pose is not None and self._yaw_first:
            pose = pose[::-1]
        if pose is not None and time_ns is not None and all(map(math.isfinite, pose)):
            canvas.scalars(marks.ATTITUDE, time_ns, tuple(pose))
        if place is None or not all(map(math.isfinite, place)):
            return
        latitude_deg, longitude_deg = (place[1], place[0]) if self._longitude_first else place
        canvas.place(time_ns, latitude_deg, longitude_deg, number)
        if self._origin is None:
            self._origin = latitude_deg, longitude_deg, 0.0
        if pose is not None and time_ns is not None:
            east_m, north_m, _ = map(
                float, pymap3d.geodetic2enu(latitude_deg, longitude_deg, 0.0, *self._origin)
            )
            turned = quaternion_of_angles(np.radians(pose))
            canvas.pose(time_ns, (east_m, north_m, 0.0), tuple(turned.tolist()), number)


def _cloud(data: bytes) -> object:
    found = read_pcd(data)
    if "speed" in (found.dtype.names or ()):
        with np.errstate(invalid="ignore"):  # not every NaN is a quiet one
            speed = found["speed"].astype(float)
        return marks.by_speed(positions(found), speed)
    return marks.by_range(positions(found))


def _box3d(row: Mapping[str, Any], axes: BoxAxes) -> marks.Box3d:
    """A row's box, which points forward, left and up whatever the axes of the message's frame were."""
    x, y, z, along_x, along_y, along_z = map(float, row["box3d"])
    extents = axes.turned_extents_m((along_x, along_y, along_z))
    return marks.Box3d(axes.turned_m((x, y, z)), extents, str(row.get("label") or ""))


def _rings(row: Mapping[str, Any]) -> list[marks.Ring]:
    """The rings of a row's mask: a list of lists, or in the published version one with NaN between rings."""
    if row.get("polygon") is not None:
        return list(row["polygon"])
    flat = row.get("mask")
    if not isinstance(flat, list) or not flat:
        return []
    values = np.array(flat, np.float32)
    return [ring[~np.isnan(ring)] for ring in np.split(values, np.flatnonzero(np.isnan(values)))]
