"""What can be seen of the samples of an EdgeFirst dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.edgefirst.finish.table import read_table
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.read.pcd import positions, read_pcd
from edgefirst_ros.formats.edgefirst.read.pictures import acquired_ns
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.view.scene import MOST_POINTS, Box2d, Moment, Scene, opened, shown

Row = Mapping[str, Any]


def annotation_rows(files: DatasetFiles, *columns: str) -> pl.DataFrame:
    """The table with ``name`` as text and ``frame`` as a number; empty if there is none.

    Raises:
        DatasetError: it is damaged, or has no such columns.
    """
    if not files.table.is_file():
        return pl.DataFrame()
    table = read_table(files.table, *columns, files=len(files.names))
    if missing := {"name", "frame"} - set(table.columns):
        raise DatasetError(f"{files.table} has no column {' and no '.join(sorted(missing))}")
    with refusing(files.table, DatasetError, "has other names and frames than the format"):
        if table.schema["frame"].is_nested():
            raise ValueError(f"frame is {table.schema['frame']}")
        return table.with_columns(pl.col("name").cast(pl.String), pl.col("frame").cast(pl.Int64))


def rows_of(table: pl.DataFrame, stem: str) -> list[dict[str, Any]]:
    """Annotations of a sample, by its path without sensor and extension."""
    if table.is_empty():
        return []
    name, _, frame = PurePosixPath(stem).name.rpartition("_")
    return table.filter((pl.col("name") == name) & (pl.col("frame") == int(frame))).to_dicts()


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
        self._table = annotation_rows(self._files, *SHOWN)
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
                boxes_of(rows_of(self._table, stem)),
                None if points is None else positions(points),
            )
