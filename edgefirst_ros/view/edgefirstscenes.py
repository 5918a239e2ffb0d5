"""What can be seen of the samples of an EdgeFirst dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
from PIL import Image

from edgefirst_ros.errors import DatasetError, EdgeFirstError
from edgefirst_ros.formats.edgefirst.check.container import ZIP_DAMAGE
from edgefirst_ros.formats.edgefirst.finish.table import read_table
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.read.pcd import positions, read_pcd
from edgefirst_ros.formats.edgefirst.read.pictures import acquired_ns
from edgefirst_ros.view.scene import MOST_POINTS, Box2d, Moment, Scene, opened

Row = Mapping[str, Any]
DAMAGE = (
    *ZIP_DAMAGE, ArithmeticError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError,
    Image.DecompressionBombError, pl.exceptions.PolarsError, pl.exceptions.PanicException,
)  # fmt: skip
"""What libraries raise for damaged files."""


def rows_of(table: pl.DataFrame, stem: str) -> list[dict[str, Any]]:
    """Annotations of a sample, by its path without sensor and extension."""
    if table.is_empty():
        return []
    name, _, frame = PurePosixPath(stem).name.rpartition("_")
    return table.filter((pl.col("name").cast(pl.String) == name) & (pl.col("frame") == int(frame))).to_dicts()


def boxes_of(rows: Iterable[Row]) -> list[Box2d]:
    """The 2-D boxes of a sample's annotations."""
    found = []
    for row in rows:
        if (box := row.get("box2d")) is not None:
            x, y, width, height = map(float, box)
            found.append(Box2d(x, y, width, height, str(row.get("label") or "")))
    return found


_SHOWN = ("name", "frame", "label", "box2d")
"""Columns that are read: masks may be much larger than all others."""


class EdgeFirstScenes:
    """The samples of an EdgeFirst dataset; see ``Scenes``.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: its ZIP or its table is damaged.
    """

    def __init__(self, dataset: Path) -> None:
        self._files = DatasetFiles(dataset)
        table = self._files.table
        self._table = read_table(table, *_SHOWN) if table.is_file() else pl.DataFrame()
        names = {stem: PurePosixPath(stem).name.rpartition("_") for stem in self._files.stems()}
        self._stems = {Moment(name, int(frame)): stem for stem, (name, _, frame) in names.items()}

    def moments(self) -> list[Moment]:
        """All samples by sequence and frame."""
        return sorted(self._stems, key=lambda moment: (moment.sequence, moment.frame or 0))

    def scene(self, moment: Moment) -> Scene:
        """The sample's picture with its 2-D boxes, and the points of the lidar."""
        stem = self._stems[moment]
        try:
            data = self._files.read(stem, "camera.jpeg", "camera.png")
            picture = None if data is None else opened(data)[0]
            if picture is not None:
                moment = Moment(moment.sequence, moment.frame, acquired_ns(picture))
                picture.load()
            cloud = self._files.read(stem, "lidar.pcd")
            points = None if cloud is None else read_pcd(cloud)[:MOST_POINTS]
            return Scene(
                moment,
                picture,
                boxes_of(rows_of(self._table, stem)),
                None if points is None else positions(points),
            )
        except EdgeFirstError:
            raise
        except DAMAGE as error:
            raise DatasetError(f"{stem} cannot be read: {error}") from error
