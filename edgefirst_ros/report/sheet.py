"""The contact sheet: one picture of a dataset, one row per sample, one column per sensor that it has."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from PIL.ExifTags import Base

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.datasets import find, refuse_linked
from edgefirst_ros.formats.scene import Detail, Moment, Scene, in_colour, opened
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, OutputExists, RecordingError
from edgefirst_ros.model.untrusted import displayed, refusing
from edgefirst_ros.report.drawing import GROUND, RING, cube_picture, draw_boxes, from_above, speed_colours

CELL = (400, 225)
GAP = 6
INK = (230, 230, 230)
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
            drawn.append((_heading(scene, moments[0]), _cells(scene)))
    return _laid_out(drawn)


def _heading(scene: Scene, first: Moment) -> str:
    since_s = (scene.moment.time_ns or 0) / 1e9 - (first.time_ns or 0) / 1e9
    name = scene.name or f"{scene.moment.sequence} {since_s:.1f} s".strip()
    return displayed(name) + ("   no labels: no model looked at it" if scene.is_unlabelled else "")


def _laid_out(drawn: list[tuple[str, list[Image.Image | None]]]) -> Image.Image:
    """Headings and cells, without the columns in which no sample has anything."""
    there = [column for column in range(len(COLUMNS)) if any(cells[column] for _, cells in drawn)] or [0]
    width = len(there) * (CELL[0] + GAP) + GAP
    sheet = Image.new("RGB", (width, len(drawn) * (CELL[1] + 22 + GAP) + 28), GROUND)
    draw = ImageDraw.Draw(sheet)
    empty = Image.new("RGB", CELL, GROUND)
    ImageDraw.Draw(empty).rectangle((0, 0, CELL[0] - 1, CELL[1] - 1), outline=RING)
    for row, (heading, cells) in enumerate(drawn):
        top = 50 + row * (CELL[1] + 22 + GAP)
        draw.text((GAP, top - 18), heading, INK)
        for place, column in enumerate(there):
            left = GAP + place * (CELL[0] + GAP)
            draw.text((left, 8), COLUMNS[column], INK)
            sheet.paste(empty, (left, top))
            cell = cells[column]
            if cell is not None:
                sheet.paste(cell, (left + (CELL[0] - cell.width) // 2, top + (CELL[1] - cell.height) // 2))
    return sheet


def _cells(scene: Scene) -> list[Image.Image | None]:
    """A cell for each of ``COLUMNS``, None where there is nothing."""
    camera = None
    if scene.picture is not None:
        camera = in_colour(opened(scene.picture)[0])
        camera.thumbnail(CELL)
        draw_boxes(camera, scene.boxes, width=1)
    points, speed_m_s = scene.radar or (None, None)
    colours = None if speed_m_s is None else speed_colours(speed_m_s)
    return [
        camera,
        None if scene.points is None else from_above(scene.points, CELL),
        None if points is None else from_above(points, CELL, colours=colours, radius=2),
        None if scene.cube is None else cube_picture(scene.cube, CELL),
    ]
