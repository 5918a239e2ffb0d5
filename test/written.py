"""Reads written EdgeFirst datasets with other people's libraries, as a user would."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from places import contents

if TYPE_CHECKING:
    import polars as pl

CELL_PX, CELLS = 16, 24


@dataclass(frozen=True)
class Written:
    """One dataset on disk."""

    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "capture_report.json").read_text())
        return loaded

    @property
    def table(self) -> pl.DataFrame:
        import polars as pl  # noqa: PLC0415 - no distribution has it, and launch tests do without

        return pl.read_ipc(self.folder / f"{self.folder.name}.arrow")

    def files(self) -> dict[str, bytes]:
        archive = self.folder / f"{self.folder.name}.zip"
        if archive.is_file():
            with zipfile.ZipFile(archive) as opened:
                return {name: opened.read(name) for name in opened.namelist()}
        inside = self.folder / self.folder.name
        return contents(inside)

    def of_kind(self, kind: str) -> dict[int, bytes]:
        """Files of one kind by frame number; for datasets of one sequence."""
        return {
            int(name[: -len(kind) - 1].rpartition("_")[2]): data
            for name, data in self.files().items()
            if name.endswith("." + kind)
        }


def exif_time_ns(picture: bytes) -> int:
    tags = Image.open(io.BytesIO(picture)).getexif().get_ifd(0x8769)
    whole = datetime.strptime(tags[0x9003] + tags[0x9011], "%Y:%m:%d %H:%M:%S%z")
    return int(whole.timestamp()) * 10**9 + int(tags[0x9291].ljust(9, "0"))


def burnt_in_number(picture: bytes) -> int:
    """24 cells of 16 px, top left, first cell the highest bit, white = 1."""
    gray = np.asarray(Image.open(io.BytesIO(picture)).convert("L"), dtype=float)
    number = 0
    for cell in range(CELLS):
        left = cell * CELL_PX
        number = number << 1 | int(gray[4 : CELL_PX - 4, left + 4 : left + CELL_PX - 4].mean() > 127)
    return number


def cloud(data: bytes) -> npt.NDArray[np.void]:
    from pypcd4 import PointCloud  # noqa: PLC0415 - no distribution has it, and launch tests do without

    points: npt.NDArray[np.void] = PointCloud.from_fileobj(io.BytesIO(data)).pc_data
    return points


def xyz(data: bytes) -> npt.NDArray[np.float32]:
    points = cloud(data)
    return np.stack([points[axis].ravel() for axis in "xyz"], axis=1).astype(np.float32)


def cube_int16(data: bytes) -> npt.NDArray[np.int16]:
    """The wire's int16 values of a cube in the wire's own layout [sequence, range, rx, re/im doppler]."""
    pixels = np.asarray(Image.open(io.BytesIO(data)), dtype=np.int32)
    return (pixels - 32768).astype(np.int16)
