"""The contact sheet: one picture of an EdgeFirst dataset, one row per sample, one column per sensor."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from PIL import Image, ImageDraw, ImageFilter

from edgefirst_ros.errors import RecordingError, RecordingNotFound
from edgefirst_ros.formats.crashsafe.reading import read_regular
from edgefirst_ros.formats.edgefirst.check.container import MOST_BYTES, ZIP_DAMAGE
from edgefirst_ros.formats.edgefirst.finish.table import read_table
from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.messages.radar import Axis

CELL = (400, 225)
GAP = 6
BACKGROUND, INK, FAINT = (24, 26, 30), (230, 230, 230), (70, 74, 80)
REACH_M = 50.0
NOISE_HEADROOM_DB = 2.0
LEAST_CONTRAST_DB = 20.0
COLUMNS = ("camera", "lidar from above", "radar from above", "radar cube")

Row = Mapping[str, Any]
_SAMPLE = re.compile(r"([^\x00-\x1f]+_[0-9]{1,9})\.[a-z.]+")
_DAMAGE = (
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


def contact_sheet(dataset: Path, rows: int = 6) -> Image.Image:
    """Draw ``rows`` samples, spread evenly over the dataset.

    Raises:
        RecordingNotFound: there is no dataset.
        RecordingError: the dataset holds no samples, or a file cannot be read.
        DatasetError: its table is damaged.
    """
    files = DatasetFiles(dataset)
    stems = files.stems()
    if not stems:
        raise RecordingError(f"{dataset}: the dataset holds no samples")
    chosen = [stems[i] for i in np.unique(np.linspace(0, len(stems) - 1, rows).round().astype(int))]
    table = read_table(files.table) if files.table.is_file() else pl.DataFrame()
    width = len(COLUMNS) * (CELL[0] + GAP) + GAP
    sheet = Image.new("RGB", (width, len(chosen) * (CELL[1] + 22 + GAP) + 28), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    for column, title in enumerate(COLUMNS):
        draw.text((GAP + column * (CELL[0] + GAP), 8), title, INK)
    for number, stem in enumerate(chosen):
        top = 28 + number * (CELL[1] + 22 + GAP)
        draw.text((GAP, top + 4), PurePosixPath(stem).name, INK)
        try:
            cells = list(_cells(files, stem, _rows_of(table, stem)))
        except _DAMAGE as error:
            raise RecordingError(f"{dataset}: {stem} cannot be read: {error}") from error
        for column, cell in enumerate(cells):
            sheet.paste(cell, (GAP + column * (CELL[0] + GAP), top + 22))
    return sheet


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of a ZIP.

    Raises:
        RecordingError: it is larger than any sensor file.
    """
    if (size := archive.getinfo(name).file_size) > MOST_BYTES:
        raise RecordingError(f"{name} has {size:,} bytes, more than any sensor file")
    return archive.read(name)


def _rows_of(table: pl.DataFrame, stem: str) -> list[dict[str, Any]]:
    if table.is_empty():
        return []
    name, _, frame = PurePosixPath(stem).name.rpartition("_")
    return table.filter((pl.col("name").cast(pl.String) == name) & (pl.col("frame") == int(frame))).to_dicts()


def _cells(files: DatasetFiles, stem: str, rows: Iterable[Row]) -> Iterable[Image.Image]:
    yield _camera(files.read(stem, "camera.jpeg", "camera.png"), rows)
    yield _cloud(files.read(stem, "lidar.pcd"), "z", radius=0)
    yield _cloud(files.read(stem, "radar.pcd"), "speed", radius=2)
    yield _cube(files.read(stem, "radar.png"))


def _empty() -> Image.Image:
    cell = Image.new("RGB", CELL, BACKGROUND)
    ImageDraw.Draw(cell).rectangle((0, 0, CELL[0] - 1, CELL[1] - 1), outline=FAINT)
    return cell


def _camera(data: bytes | None, rows: Iterable[Row]) -> Image.Image:
    cell = _empty()
    if data is None:
        return cell
    picture = Image.open(BytesIO(data)).convert("RGB")
    picture.thumbnail(CELL)
    draw = ImageDraw.Draw(picture)
    for row in rows:
        if (box := row.get("box2d")) is None:
            continue
        x, y, w, h = (v * picture.size[k % 2] for k, v in enumerate(box))
        draw.rectangle((x - w / 2, y - h / 2, x + w / 2, y + h / 2), outline=(255, 220, 0))
        draw.text((x - w / 2 + 2, y - h / 2), str(row.get("label") or ""), (255, 220, 0))
    cell.paste(picture, ((CELL[0] - picture.width) // 2, (CELL[1] - picture.height) // 2))
    return cell


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


def _cloud(data: bytes | None, colour_by: str, radius: int) -> Image.Image:
    """The cloud from above: the sensor at the bottom centre, forward is up, a ring every 10 m."""
    cell = _empty()
    if data is None:
        return cell
    draw = ImageDraw.Draw(cell)
    scale = CELL[1] / (REACH_M * 1.1)
    origin = (CELL[0] / 2, CELL[1] - 12)
    for ring in range(10, int(REACH_M) + 1, 10):
        r = ring * scale
        draw.arc((origin[0] - r, origin[1] - r, origin[0] + r, origin[1] + r), 180, 360, FAINT)
    points = read_pcd(data)
    u = origin[0] - points["y"].astype(float) * scale
    v = origin[1] - points["x"].astype(float) * scale
    shade = _spread(points[colour_by].astype(float)) if colour_by in (points.dtype.names or ()) else 0 * u
    inside = (u >= 0) & (u < CELL[0]) & (v >= 0) & (v < CELL[1])
    colours = np.stack([60 + 195 * shade, 200 - 60 * abs(shade - 0.5), 255 - 195 * shade], axis=-1)
    for x, y, rgb in zip(u[inside], v[inside], colours[inside].astype(int).tolist(), strict=True):
        if radius:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=tuple(rgb))
        else:
            draw.point((x, y), fill=tuple(rgb))
    return cell


def _cube(data: bytes | None) -> Image.Image:
    """Power in decibels by range (up) and Doppler (across), summed over sequences and receivers."""
    cell = _empty()
    if data is None:
        return cell
    cube = read_cube(data)
    bins = cube.cube.astype(np.float64)
    if cube.is_complex:
        bins = np.hypot(bins[..., 0::2], bins[..., 1::2])
    wanted = [cube.layout.index(axis) for axis in (Axis.RANGE, Axis.DOPPLER) if axis in cube.layout]
    others = tuple(n for n in range(bins.ndim) if n not in wanted)
    power = np.atleast_2d((bins**2).sum(axis=others))
    if wanted != sorted(wanted):
        power = power.T
    shade = _above_noise(10 * np.log10(power[::-1] + 1.0))
    # A target may be a single bin, which would be smaller than a pixel.
    bins_drawn = Image.fromarray((shade * 255).astype(np.uint8)).filter(ImageFilter.MaxFilter(3))
    picture = bins_drawn.resize(CELL, Image.Resampling.BILINEAR)
    cell.paste(Image.merge("RGB", (picture, picture, picture.point(lambda p: 40 + p * 0.8))), (0, 0))
    return cell


def _above_noise(power_db: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale decibels to 0..1 so that noise is dark and the strongest target is bright.

    Targets fill too few bins for percentiles, so the scale begins just above the median, which is noise, and
    ends at the strongest bin; a cube without targets stays dark.
    """
    floor = float(np.median(power_db)) + NOISE_HEADROOM_DB
    top = max(float(power_db.max()), floor + LEAST_CONTRAST_DB)
    shade: npt.NDArray[np.float64] = np.clip((power_db - floor) / (top - floor), 0, 1)
    return shade


def _spread(values: npt.NDArray[np.float64], low: float = 1.0, high: float = 99.0) -> npt.NDArray[np.float64]:
    """Scale values to 0..1 between two percentiles, clipped."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.zeros_like(values)
    bottom, top = np.percentile(finite, (low, high))
    shade: npt.NDArray[np.float64] = np.clip(np.nan_to_num((values - bottom) / max(top - bottom, 1e-9)), 0, 1)
    return shade
