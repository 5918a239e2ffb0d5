"""What there is to see in an EdgeFirst dataset: its samples' files, and their rows of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edgefirst_ros.formats.edgefirst.finish import read_table
from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.read.decoding import acquired_ns, positions, read_pcd
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.store.arrowfile import Quality
from edgefirst_ros.formats.scene import Box2d, Detail, Moment, Points, Scene, Scenes, opened
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

Row = Mapping[str, Any]


class Annotations:
    """The rows of an annotation table by sample; none if there is no table.

    Args:
        files: of the dataset.
        columns: those to read, by default all.

    Raises:
        DatasetError: the table is damaged, or has no names and frames.
    """

    def __init__(self, files: DatasetFiles, *columns: str) -> None:
        self._rows: dict[tuple[str, int], list[int]] = {}
        if not files.table.is_file():
            return
        self._table = read_table(files.table, *columns, files=len(files.names))
        if missing := {"name", "frame"} - set(self._table.column_names):
            raise DatasetError(f"{files.table} has no column {' and no '.join(sorted(missing))}")
        with refusing(files.table, DatasetError, "has other names and frames than the format"):
            found = (self._table[name].to_pylist() for name in ("name", "frame"))
            for number, (name, frame) in enumerate(zip(*found, strict=True)):
                if not isinstance(name, str | None) or not isinstance(frame, int | None):
                    raise TypeError(f"row {number} has another")
                self._rows.setdefault((name or "", -1 if frame is None else frame), []).append(number)

    def of(self, stem: str) -> list[dict[str, Any]]:
        """Annotations of a sample, by its path without sensor and extension."""
        name, _, frame = PurePosixPath(stem).name.rpartition("_")
        rows = self._rows.get((name, int(frame)), ())
        return [self._table.slice(number, 1).to_pylist()[0] for number in rows]


def boxes_of(rows: Iterable[Row]) -> list[Box2d]:
    """The 2-D boxes of a sample's annotations."""
    found = []
    for row in rows:
        if (box := row.get("box2d")) is not None:
            x, y, width, height = map(float, box)
            found.append(Box2d(x, y, width, height, str(row.get("label") or "")))
    return found


SHOWN = ("name", "frame", "label", "box2d")
"""Columns that are read: masks may be much larger than all others."""


class EdgeFirstScenes(Scenes):
    """The samples of an EdgeFirst dataset; see ``Scenes``.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: its ZIP or its table is damaged.
    """

    def __init__(self, dataset: Path) -> None:
        self._files = DatasetFiles(dataset)
        self._annotations = Annotations(self._files, *SHOWN)
        self._last: tuple[str, bytes | None, int | None] | None = None
        names = {stem: PurePosixPath(stem).name.rpartition("_") for stem in self._files.stems()}
        self._stems = {(name, int(frame)): stem for stem, (name, _, frame) in names.items()}

    def moments(self) -> list[Moment]:
        """All samples by sequence and frame."""
        return [Moment(name, frame) for name, frame in sorted(self._stems)]

    def labelled(self) -> list[Moment]:
        """Those in which somebody looked for boxes."""
        return [m for m in self.moments() if "boxes2d" not in self._quality.unlabelled(m.sequence, m.frame)]

    def timed(self, moment: Moment) -> Moment:
        """The sample with the time that its picture says."""
        stem = self._stem(moment)
        with refusing(stem, DatasetError):
            return replace(moment, time_ns=self._picture(stem)[1])

    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:
        """What the sample's files and rows hold."""
        stem, read = self._stem(moment), self._files.read
        with refusing(stem, DatasetError):
            rows = self._annotations.of(stem)
            picture, time_ns = self._picture(stem)
            seen = moment if picture is None else replace(moment, time_ns=time_ns)
            scene = Scene(seen, picture, boxes_of(rows), name=PurePosixPath(stem).name)
            scene.points = None if (cloud := read(stem, "lidar.pcd")) is None else _cloud(cloud)[0]
            if detail >= Detail.SENSORS:
                unlabelled = self._quality.unlabelled(moment.sequence, moment.frame)
                scene.is_unlabelled = "boxes2d" in unlabelled and not scene.boxes
                scene.radar = None if (cloud := read(stem, "radar.pcd")) is None else _cloud(cloud)
                scene.cube = None if (cube := read(stem, "radar.png")) is None else read_cube(cube)
        return scene

    def _stem(self, moment: Moment) -> str:
        return self._stems[moment.sequence, moment.frame or 0]

    def _picture(self, stem: str) -> tuple[bytes | None, int | None]:
        """A sample's picture, and the time that it says; kept, as ``scene`` follows ``timed``."""
        found = self._last
        if found is None or found[0] != stem:
            data = self._files.read(stem, "camera.jpeg", "camera.png")
            image = None if data is None else opened(data)[0]
            self._last = found = stem, data, None if image is None else acquired_ns(image)
        return found[1:]

    @cached_property
    def _quality(self) -> Quality:
        return self._files.quality()


def _cloud(data: bytes) -> tuple[Points, Points | None]:
    """Points, and their speeds if they have any."""
    found = read_pcd(data)
    if "speed" not in (found.dtype.names or ()):
        return positions(found), None
    with np.errstate(invalid="ignore"):  # not every NaN is a quiet one
        return positions(found), found["speed"].astype(float)
