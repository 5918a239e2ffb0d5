"""What can be seen of the samples of an EdgeFirst dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.edgefirst.finish.table import read_table
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.read.pcd import positions, read_pcd
from edgefirst_ros.formats.edgefirst.read.pictures import acquired_ns
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.view.scene import MOST_POINTS, Box2d, Moment, Scene, opened, shown

Row = Mapping[str, Any]


class Annotations:
    """The rows of an annotation table by sample; none if there is no table.

    Args:
        files: of the dataset.
        columns: those to read, by default all.

    Attributes:
        types: Arrow types of the columns.

    Raises:
        DatasetError: the table is damaged, or has no names and frames.
    """

    def __init__(self, files: DatasetFiles, *columns: str) -> None:
        self.types: Mapping[str, Any] = {}
        self._rows: dict[tuple[str, int], list[int]] = {}
        if not files.table.is_file():
            return
        self._table = read_table(files.table, *columns, files=len(files.names))
        self.types = {field.name: field.type for field in self._table.schema}
        if missing := {"name", "frame"} - self.types.keys():
            raise DatasetError(f"{files.table} has no column {' and no '.join(sorted(missing))}")
        with refusing(files.table, DatasetError, "has other names and frames than the format"):
            names, frames = self._table["name"].cast(pa.large_string()), self._table["frame"].cast(pa.int64())
            for number, key in enumerate(zip(names.to_pylist(), frames.to_pylist(), strict=True)):
                self._rows.setdefault(key, []).append(number)

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


class EdgeFirstScenes:
    """The samples of an EdgeFirst dataset; see ``Scenes``.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: its ZIP or its table is damaged.
    """

    def __init__(self, dataset: Path) -> None:
        self._files = DatasetFiles(dataset)
        self._annotations = Annotations(self._files, *SHOWN)
        names = {stem: PurePosixPath(stem).name.rpartition("_") for stem in self._files.stems()}
        self._stems = {Moment(name, int(frame)): stem for stem, (name, _, frame) in names.items()}

    def moments(self) -> list[Moment]:
        """All samples by sequence and frame."""
        return sorted(self._stems, key=lambda moment: (moment.sequence, moment.frame or 0))

    def scene(self, moment: Moment) -> Scene:
        """The sample's picture with its 2-D boxes, and the points of the lidar."""
        stem = self._stems[moment]
        with refusing(stem, DatasetError):
            data = self._files.read(stem, "camera.jpeg", "camera.png")
            picture = None if data is None else opened(data)[0]
            if picture is not None:
                moment = Moment(moment.sequence, moment.frame, acquired_ns(picture))
                picture = shown(picture)
            cloud = self._files.read(stem, "lidar.pcd")
            points = None if cloud is None else read_pcd(cloud)[:MOST_POINTS]
            return Scene(
                moment,
                picture,
                boxes_of(self._annotations.of(stem)),
                None if points is None else positions(points),
            )
