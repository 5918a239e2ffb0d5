"""The contact sheet: one picture of a dataset, one row per sample, one column per sensor that it has."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter
from PIL.ExifTags import Base

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.datasets import find, refuse_linked
from edgefirst_ros.formats.scene import Box2d, Detail, Points, Scene, in_colour, opened
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, OutputExists, RecordingError
from edgefirst_ros.model.radar import RadarCube
from edgefirst_ros.model.untrusted import displayed, refusing
from edgefirst_ros.report.scene import draw_boxes, power_db

CELL = (400, 225)
GAP = 6
BACKGROUND, INK, FAINT = (24, 26, 30), (230, 230, 230), (70, 74, 80)
REACH_M = 50.0
NOISE_HEADROOM_DB = 2.0
LEAST_CONTRAST_DB = 20.0
COLUMNS = ("camera", "lidar from above", "radar from above", "radar cube")
KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
SOFTWARE = "edgefirst-ros report"
"""EXIF Software of a contact sheet, by which it is known again."""
JPEG_QUALITY = 90


def refuse_picture(output: Path) -> None:
    """Refuse to write a sheet in place of anything but an earlier sheet.

    Raises:
        ConfigError: the name is that of no picture.
        OutputExists: something else is there.
    """
    if output.suffix.lower() not in KINDS:
        raise ConfigError([f"--picture {output}: a sheet is a picture; end its name in {', '.join(KINDS)}"])
    if not output.exists():
        return
    if not output.is_file():
        raise OutputExists(f"{output}: is no file; nothing was written")
    if not _is_sheet(output):
        raise OutputExists(f"{output}: exists and is no contact sheet; name another file")


def _is_sheet(path: Path) -> bool:
    try:
        with Image.open(path, formats=sorted(set(KINDS.values()))) as picture:
            return bool(picture.getexif().get(Base.Software) == SOFTWARE)
    except Exception:  # noqa: BLE001 - whatever it is, it is no sheet
        return False


def write_sheet(sheet: Image.Image, output: Path) -> None:
    """Write a sheet as PNG or JPEG, as the name of the file says.

    Raises:
        ConfigError: the name is that of no picture.
        OutputExists: something else is there.
        WriteError: it cannot be written.
    """
    refuse_picture(output)
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
    found = find(dataset)
    of, path = found[0]
    if several := [other for each, other in found[1:] if each is of]:
        raise DatasetNotFound(
            f"{dataset}: holds {1 + len(several)} datasets; name one of them, such as {path}"
        )
    refuse_linked(dataset, path)
    scenes = of.scenes(path)
    moments = [] if scenes is None else scenes.moments()
    if scenes is None or not moments:
        raise RecordingError(f"{dataset}: the dataset holds no samples")
    chosen = [moments[i] for i in np.unique(np.linspace(0, len(moments) - 1, rows).round().astype(int))]
    drawn: list[tuple[str, list[Image.Image | None]]] = []
    for number, moment in enumerate(chosen):
        with refusing(f"{dataset}: {moment.sequence}, sample {number}", RecordingError):
            scene = scenes.scene(moment, Detail.SENSORS)
            told = "   no labels: no model looked at it" if scene.is_unlabelled else ""
            since_s = (moment.time_ns or 0) / 1e9 - (moments[0].time_ns or 0) / 1e9
            name = scene.name or f"{moment.sequence} {since_s:.1f} s".strip()
            drawn.append((displayed(name) + told, [*_cells(scene)]))
    there = [column for column in range(len(COLUMNS)) if any(cells[column] for _, cells in drawn)] or [0]
    width = len(there) * (CELL[0] + GAP) + GAP
    sheet = Image.new("RGB", (width, len(drawn) * (CELL[1] + 22 + GAP) + 28), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    for place, column in enumerate(there):
        left = GAP + place * (CELL[0] + GAP)
        draw.text((left, 8), COLUMNS[column], INK)
        for row, (_, cells) in enumerate(drawn):
            sheet.paste(cells[column] or _empty(), (left, 50 + row * (CELL[1] + 22 + GAP)))
    for row, (name, _) in enumerate(drawn):
        draw.text((GAP, 32 + row * (CELL[1] + 22 + GAP)), name, INK)
    return sheet


def _cells(scene: Scene) -> Iterable[Image.Image | None]:
    """A cell for each of ``COLUMNS``, None where there is nothing."""
    yield _camera(scene.picture, scene.boxes)
    yield _cloud(scene.points, None if scene.points is None else scene.points[:, 2], radius=0)
    points, speed = scene.radar or (None, None)
    yield _cloud(points, speed, radius=2)
    yield _cube(scene.cube)


def _empty() -> Image.Image:
    cell = Image.new("RGB", CELL, BACKGROUND)
    ImageDraw.Draw(cell).rectangle((0, 0, CELL[0] - 1, CELL[1] - 1), outline=FAINT)
    return cell


def _camera(data: bytes | None, boxes: Iterable[Box2d]) -> Image.Image | None:
    if data is None:
        return None
    cell = _empty()
    picture = in_colour(opened(data)[0])
    picture.thumbnail(CELL)
    draw_boxes(picture, boxes, width=1)
    cell.paste(picture, ((CELL[0] - picture.width) // 2, (CELL[1] - picture.height) // 2))
    return cell


def _cloud(points: Points | None, values: Points | None, radius: int) -> Image.Image | None:
    """The cloud from above: the sensor at the bottom centre, forward is up, a ring every 10 m."""
    if points is None:
        return None
    cell = _empty()
    draw = ImageDraw.Draw(cell)
    scale = CELL[1] / (REACH_M * 1.1)
    origin = (CELL[0] / 2, CELL[1] - 12)
    for ring in range(10, int(REACH_M) + 1, 10):
        r = ring * scale
        draw.arc((origin[0] - r, origin[1] - r, origin[0] + r, origin[1] + r), 180, 360, FAINT)
    u = origin[0] - points[:, 1] * scale
    v = origin[1] - points[:, 0] * scale
    shade = 0 * u if values is None else _spread(values)
    inside = (u >= 0) & (u < CELL[0]) & (v >= 0) & (v < CELL[1])
    colours = np.stack([60 + 195 * shade, 200 - 60 * abs(shade - 0.5), 255 - 195 * shade], axis=-1)
    for x, y, rgb in zip(u[inside], v[inside], colours[inside].astype(int).tolist(), strict=True):
        if radius:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=tuple(rgb))
        else:
            draw.point((x, y), fill=tuple(rgb))
    return cell


def _cube(cube: RadarCube | None) -> Image.Image | None:
    """Power in decibels by range (up) and Doppler (across), summed over sequences and receivers."""
    if cube is None:
        return None
    cell = _empty()
    shade = _above_noise(power_db(cube)[::-1])
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
