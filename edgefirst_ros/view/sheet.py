"""The contact sheet: one picture of an EdgeFirst dataset, one row per sample, one column per sensor."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter
from PIL.ExifTags import Base

from edgefirst_ros.errors import ConfigError, OutputExists, RecordingError
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.read.pcd import read_pcd
from edgefirst_ros.formats.edgefirst.store.paths import QUALITY
from edgefirst_ros.formats.edgefirst.store.quality import Quality
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.naming import displayed
from edgefirst_ros.view.cubepower import power_db
from edgefirst_ros.view.edgefirstscenes import SHOWN, Annotations, Row, boxes_of
from edgefirst_ros.view.scene import draw_boxes, opened

CELL = (400, 225)
GAP = 6
BACKGROUND, INK, FAINT = (24, 26, 30), (230, 230, 230), (70, 74, 80)
REACH_M = 50.0
NOISE_HEADROOM_DB = 2.0
LEAST_CONTRAST_DB = 20.0
COLUMNS = ("camera", "lidar from above", "radar from above", "radar cube")
KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
SOFTWARE = "edgefirst-ros sheet"
"""EXIF Software of a contact sheet, by which it is known again."""
JPEG_QUALITY = 90


def refuse_output(output: Path, *, overwrite: bool = False) -> None:
    """Refuse to write a sheet in place of anything but an earlier sheet, unless ``overwrite``.

    Raises:
        ConfigError: the name is that of no picture.
        OutputExists: something else is there.
    """
    if output.suffix.lower() not in KINDS:
        raise ConfigError([f"--output {output}: a sheet is a picture; end its name in {', '.join(KINDS)}"])
    if not output.exists():
        return
    if not output.is_file():
        raise OutputExists(f"{output}: is no file; nothing was written")
    if not (overwrite or _is_sheet(output)):
        raise OutputExists(f"{output}: exists and is no contact sheet; --overwrite replaces it")


def _is_sheet(path: Path) -> bool:
    try:
        with Image.open(path, formats=sorted(set(KINDS.values()))) as picture:
            return bool(picture.getexif().get(Base.Software) == SOFTWARE)
    except Exception:  # noqa: BLE001 - whatever it is, it is no sheet
        return False


def write_sheet(sheet: Image.Image, output: Path, *, overwrite: bool = False) -> None:
    """Write a sheet as PNG or JPEG, as the name of the file says.

    Raises:
        ConfigError: the name is that of no picture.
        OutputExists: something else is there.
        WriteError: it cannot be written.
    """
    refuse_output(output, overwrite=overwrite)
    exif = Image.Exif()
    exif[Base.Software] = SOFTWARE
    data = BytesIO()
    sheet.save(data, KINDS[output.suffix.lower()], exif=exif, quality=JPEG_QUALITY)
    with disk_errors(output):
        replace_file(output, data.getvalue(), sync=False)


def contact_sheet(dataset: Path, rows: int = 6) -> Image.Image:
    """Draw ``rows`` samples, spread evenly over the dataset.

    Raises:
        DatasetNotFound: there is no dataset.
        RecordingError: the dataset holds no samples, or a file cannot be read.
        DatasetError: its ZIP or its table is damaged.
    """
    files = DatasetFiles(dataset)
    stems = files.stems()
    if not stems:
        raise RecordingError(f"{dataset}: the dataset holds no samples")
    chosen = [stems[i] for i in np.unique(np.linspace(0, len(stems) - 1, rows).round().astype(int))]
    annotations = Annotations(files, *SHOWN)
    quality = Quality(dataset / QUALITY, len(files.names))
    width = len(COLUMNS) * (CELL[0] + GAP) + GAP
    sheet = Image.new("RGB", (width, len(chosen) * (CELL[1] + 22 + GAP) + 28), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    for column, title in enumerate(COLUMNS):
        draw.text((GAP + column * (CELL[0] + GAP), 8), title, INK)
    for number, stem in enumerate(chosen):
        top = 28 + number * (CELL[1] + 22 + GAP)
        found = annotations.of(stem)
        name = PurePosixPath(stem).name
        sequence, _, frame = name.rpartition("_")
        is_unlabelled = "boxes2d" in quality.unlabelled(sequence, int(frame)) and not boxes_of(found)
        told = "   no labels: no model looked at it" if is_unlabelled else ""
        draw.text((GAP, top + 4), displayed(name) + told, INK)
        with refusing(f"{dataset}: {stem}", RecordingError):
            cells = list(_cells(files, stem, found))
        for column, cell in enumerate(cells):
            sheet.paste(cell, (GAP + column * (CELL[0] + GAP), top + 22))
    return sheet


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
    picture = opened(data)[0].convert("RGB")
    picture.thumbnail(CELL)
    draw_boxes(picture, boxes_of(rows), width=1)
    cell.paste(picture, ((CELL[0] - picture.width) // 2, (CELL[1] - picture.height) // 2))
    return cell


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
    shade = _above_noise(power_db(read_cube(data))[::-1])
    # A target may be a single bin, which would be smaller than a pixel.
    bins_drawn = Image.fromarray((shade * 255).astype(np.uint8)).filter(ImageFilter.MaxFilter(3))
    picture = bins_drawn.resize(CELL, Image.Resampling.BILINEAR)
    cell.paste(Image.merge("RGB", (picture, picture, picture.point(lambda p: 40 + p * 0.8))), (0, 0))
    return cell


def _above_noise(power: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale decibels to 0..1 so that noise is dark and the strongest target is bright.

    Targets fill too few bins for percentiles, so the scale begins just above the median, which is noise, and
    ends at the strongest bin; a cube without targets stays dark.
    """
    floor = float(np.median(power)) + NOISE_HEADROOM_DB
    top = max(float(power.max()), floor + LEAST_CONTRAST_DB)
    shade: npt.NDArray[np.float64] = np.clip((power - floor) / (top - floor), 0, 1)
    return shade


def _spread(values: npt.NDArray[np.float64], low: float = 1.0, high: float = 99.0) -> npt.NDArray[np.float64]:
    """Scale values to 0..1 between two percentiles, clipped."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.zeros_like(values)
    bottom, top = np.percentile(finite, (low, high))
    shade: npt.NDArray[np.float64] = np.clip(np.nan_to_num((values - bottom) / max(top - bottom, 1e-9)), 0, 1)
    return shade
