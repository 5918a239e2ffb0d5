"""The files of an EdgeFirst dataset, one at a time, and what can be seen of its samples."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from PIL import Image
from PIL.ExifTags import IFD, Base

from edgefirst_ros.errors import DatasetError, EdgeFirstError, RecordingError, RecordingNotFound
from edgefirst_ros.formats.crashsafe.reading import read_regular
from edgefirst_ros.formats.edgefirst.check.container import MOST_BYTES, ZIP_DAMAGE
from edgefirst_ros.formats.edgefirst.finish.table import read_table
from edgefirst_ros.view.scene import MOST_POINTS, Box2d, Moment, Scene, opened

Row = Mapping[str, Any]
_SAMPLE = re.compile(r"([^\x00-\x1f]+_[0-9]{1,9})\.[a-z.]+")
DAMAGE = (
    *ZIP_DAMAGE, ArithmeticError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError,
    Image.DecompressionBombError, pl.exceptions.PolarsError, pl.exceptions.PanicException,
)  # fmt: skip
"""What libraries raise for damaged files."""


class DatasetFiles:
    """Reads the files of a dataset from its ZIP or its folder.

    Raises:
        RecordingNotFound: there is no dataset.
        RecordingError: its ZIP is damaged.
    """

    def __init__(self, dataset: Path) -> None:
        name = dataset.name
        self.table = dataset / f"{name}.arrow"
        archive, folder = dataset / f"{name}.zip", dataset / name
        self._read: Callable[[str], bytes]
        if archive.is_file():
            try:
                opened = zipfile.ZipFile(archive)
            except ZIP_DAMAGE as error:
                raise RecordingError(
                    f"{archive} is not a complete ZIP file; was it copied completely?"
                ) from error
            self.names, self._read = frozenset(opened.namelist()), partial(_entry, opened)
        elif folder.is_dir():
            files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
            self.names, self._read = frozenset(files), lambda n: read_regular(files[n], MOST_BYTES)
        else:
            below = sorted(p.parent for p in dataset.glob("**/*.arrow"))[:3] if dataset.is_dir() else []
            hint = f"; there is {', '.join(map(str, below))}" if below else ""
            raise RecordingNotFound(
                f"{dataset} holds neither {name}.zip nor {name}/; is it the folder of a dataset?{hint}"
            )

    def read(self, stem: str, *kinds: str) -> bytes | None:
        """The sample's file of the first kind that exists."""
        for kind in kinds:
            if f"{stem}.{kind}" in self.names:
                return self._read(f"{stem}.{kind}")
        return None

    def stems(self) -> list[str]:
        """The paths of all samples, without sensor and extension."""
        return sorted({found[1] for name in self.names if (found := _SAMPLE.fullmatch(name))})


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of a ZIP.

    Raises:
        RecordingError: it is larger than any sensor file.
    """
    if (size := archive.getinfo(name).file_size) > MOST_BYTES:
        raise RecordingError(f"{name} has {size:,} bytes, more than any sensor file")
    return archive.read(name)


def rows_of(table: pl.DataFrame, stem: str) -> list[dict[str, Any]]:
    """Annotations of a sample, by its path without sensor and extension."""
    if table.is_empty():
        return []
    name, _, frame = PurePosixPath(stem).name.rpartition("_")
    return table.filter((pl.col("name").cast(pl.String) == name) & (pl.col("frame") == int(frame))).to_dicts()


def read_pcd(data: bytes) -> npt.NDArray[np.void]:
    """Read the points of a binary PCD file into a structured array.

    Raises:
        ValueError: it is not a binary PCD file.
    """
    head, found, body = data.partition(b"DATA binary\n")
    if not found:
        raise ValueError("it is not a binary PCD file")
    fields = dict(line.split(" ", 1) for line in head.decode("ascii").splitlines() if " " in line)
    kinds = {"F": "f", "U": "u", "I": "i"}
    columns = zip(*(fields[key].split() for key in ("FIELDS", "TYPE", "SIZE", "COUNT")), strict=True)
    dtype = np.dtype(
        [
            (name, f"<{kinds[kind]}{size}", (int(count),) if int(count) > 1 else ())
            for name, kind, size, count in columns
        ]
    )
    return np.frombuffer(body, dtype, int(fields["POINTS"]))


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
        RecordingNotFound: there is no dataset.
        RecordingError: its ZIP is damaged.
        DatasetError: its table is damaged.
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
                None if points is None else np.stack([points[axis].astype(float) for axis in "xyz"], -1),
            )
        except EdgeFirstError:
            raise
        except DAMAGE as error:
            raise DatasetError(f"{stem} cannot be read: {error}") from error


def acquired_ns(picture: Image.Image) -> int | None:
    """When a picture was taken, by its EXIF; None if that does not say."""
    found = picture.getexif().get_ifd(IFD.Exif)
    try:
        taken = datetime.strptime(str(found[Base.DateTimeOriginal]), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
        return int(taken.timestamp()) * 10**9 + int(str(found[Base.SubsecTimeOriginal]).ljust(9, "0")[:9])
    except (KeyError, ValueError, OverflowError):
        return None
