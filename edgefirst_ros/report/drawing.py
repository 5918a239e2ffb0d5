"""Draws samples: one as a picture of its boxes, points and cube, several as rows of a contact sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from PIL.ExifTags import Base

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.datasets import find, refuse_linked
from edgefirst_ros.formats.scene import Agent, Box2d, Detail, Moment, Points, Scene, in_colour, opened
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, OutputExists, RecordingError
from edgefirst_ros.model.radar import Axis, RadarCube
from edgefirst_ros.model.untrusted import displayed, refusing

Colours = npt.NDArray[np.uint8]
BOX, LABEL_INK = (255, 214, 0), (20, 20, 20)
PLAIN_SIZE = (640, 480)
REACH_M = 40.0
"""How far ahead a view from above shows at the least."""
GROUND, RING, RIG = (24, 26, 30), (70, 74, 80), (80, 160, 255)
NEAR_M, FAR_M = 3.0, 60.0
_RANGE_COLOURS = np.array(
    [[255, 70, 50], [255, 170, 40], [150, 230, 70], [40, 200, 200], [60, 110, 255], [120, 70, 220]], float
)
"""From near to far, evenly over the logarithm of the range."""
FAST_M_S = 15.0
"""Speed towards or from the radar that has the full colour."""
_AWAY, _STILL, _TOWARDS = np.array([255, 80, 60]), np.array([190, 190, 190]), np.array([70, 140, 255])
_MOST_BOXES, _MOST_POINTS = 500, 60_000
NOISE_HEADROOM_DB, LEAST_CONTRAST_DB = 2.0, 20.0


class Projection(NamedTuple):
    """From the lidar's frame to a picture.

    Attributes:
        rotation: (3, 3) from the lidar's frame to the camera's (x right, y down, z forward).
        translation_m: (3,) of the lidar in the camera's frame.
        focal: along x and y, as fractions of the picture's width and height.
        principal: x and y, likewise.
        distortion: k1, k2, p1, p2, k3 of the plumb-bob model, then k4, k5, k6 of the rational one.
    """

    rotation: Points
    translation_m: Points
    focal: tuple[float, float]
    principal: tuple[float, float]
    distortion: tuple[float, ...] = ()


def draw_boxes(picture: Image.Image, boxes: Iterable[Box2d], *, width: int = 2) -> None:
    """Draw boxes and their labels onto a picture."""
    draw = ImageDraw.Draw(picture)
    across, down = picture.size
    size = max(10, across // 60)
    font = ImageFont.load_default(size)
    for box in list(boxes)[:_MOST_BOXES]:
        if not all(map(math.isfinite, box[:4])):
            continue
        left, right = sorted(((box.x - box.width / 2) * across, (box.x + box.width / 2) * across))
        top, bottom = sorted(((box.y - box.height / 2) * down, (box.y + box.height / 2) * down))
        if right < -across or left > 2 * across or bottom < -down or top > 2 * down:
            continue
        draw.rectangle((left, top, right, bottom), outline=BOX, width=width)
        if box.label:
            label = box.label[:40].encode("ascii", "replace").decode()
            corner = max(2, min(left, across - 4 * size)), max(1, top - size - 5)
            x0, y0, x1, y1 = draw.textbbox(corner, label, font)
            draw.rectangle((x0 - 2, y0 - 2, x1 + 2, y1 + 2), fill=BOX)
            draw.text(corner, label, LABEL_INK, font)


def range_colours(distance_m: Points) -> Colours:
    """Colours (N, 3) of distances (N,): red is near, violet is far."""
    share = np.log(np.clip(distance_m, NEAR_M, FAR_M) / NEAR_M) / math.log(FAR_M / NEAR_M)
    at = share * (len(_RANGE_COLOURS) - 1)
    columns = [np.interp(at, np.arange(len(_RANGE_COLOURS)), _RANGE_COLOURS[:, n]) for n in range(3)]
    return np.stack(columns, axis=-1).astype(np.uint8)


def speed_colours(speed_m_s: Points) -> Colours:
    """Colours (N, 3) of a radar's speeds (N,): blue comes nearer, gray stands, red goes away."""
    share = np.clip(np.nan_to_num(speed_m_s) / FAST_M_S, -1, 1)[:, None]
    ends = np.where(share > 0, _AWAY, _TOWARDS)
    colours: Colours = (_STILL + np.sqrt(np.abs(share)) * (ends - _STILL)).astype(np.uint8)
    return colours


def projected(points: Points, size: tuple[int, int], projection: Projection) -> tuple[Points, Points]:
    """Pixels (M, 2) and distances (M,) of the points (N, 3) that lie on a picture of that size."""
    points = points[np.isfinite(points).all(axis=1)]
    inside = points @ projection.rotation.T + projection.translation_m
    inside = inside[inside[:, 2] > 0.1]
    normal = inside[:, :2] / inside[:, 2:]
    reach = 1.2 * max(
        (max(centre, 1 - centre) / focal)
        for centre, focal in zip(projection.principal, projection.focal, strict=True)
    )
    seen = np.abs(normal).max(axis=1, initial=0.0) < reach
    inside, normal = inside[seen], normal[seen]
    bent = _distorted(normal, projection.distortion)
    pixels = (bent * projection.focal + projection.principal) * size
    on = ((pixels >= 0) & (pixels < size)).all(axis=1)
    return pixels[on], np.linalg.norm(inside[on], axis=1)


def _distorted(normal: Points, coefficients: tuple[float, ...]) -> Points:
    if not any(coefficients):
        return normal
    k1, k2, p1, p2, k3, k4, k5, k6 = (*coefficients, *(0.0,) * 8)[:8]
    x, y = normal[:, 0], normal[:, 1]
    r2 = x**2 + y**2
    radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    bent_x = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2)
    return np.stack([bent_x, y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y], axis=-1)


def draw_points(picture: Image.Image, points: Points, projection: Projection) -> int:
    """Draw a cloud onto a picture, the far points first; returns how many lie on it."""
    pixels, distance_m = projected(points[:_MOST_POINTS], picture.size, projection)
    order = np.argsort(-distance_m)
    _dots(picture, pixels[order], range_colours(distance_m[order]), max(1, round(picture.width / 500)))
    return len(pixels)


def _dots(picture: Image.Image, pixels: Points, colours: Colours, radius: int) -> None:
    """Dots at pixels (N, 2), the last ones above the others; a radius of 0 is one pixel."""
    around = np.indices((2 * radius + 1,) * 2).reshape(2, -1).T - radius
    around = around[(around**2).sum(axis=1) <= (radius + 0.5) ** 2]
    at = (np.floor(pixels).astype(int)[:, None] + around).reshape(-1, 2)
    inside = ((at >= 0) & (at < picture.size)).all(axis=1)
    drawn = np.array(picture)
    drawn[at[inside, 1], at[inside, 0]] = np.repeat(colours, len(around), axis=0)[inside]
    picture.paste(Image.fromarray(drawn))


def drawn(scene: Scene, width: int, projection: Projection | None) -> Image.Image | None:
    """A picture of a scene, at most that wide: the camera's, else from above; None if there is nothing.

    Raises:
        ValueError: its picture has more pixels than any camera.
        OSError: its picture is damaged.
    """
    if scene.picture is None:
        if scene.points is None and not scene.agents:
            return None
        return from_above(scene.points, PLAIN_SIZE, agents=scene.agents)
    picture = in_colour(opened(scene.picture)[0])
    picture.thumbnail((width, 4 * width), Image.Resampling.BILINEAR)
    if scene.points is not None and projection is not None:
        draw_points(picture, scene.points, projection)
    draw_boxes(picture, scene.boxes)
    return picture


def from_above(
    points: Points | None,
    size: tuple[int, int],
    *,
    agents: Iterable[Agent] = (),
    colours: Colours | None = None,
    radius: int = 0,
) -> Image.Image:
    """The rig in the middle, forward is up, a ring every 10 m.

    Args:
        points: (N, 3) in metres.
        size: of the picture.
        agents: around the rig.
        colours: (N, 3) of the points, by default by their distances.
        radius: of the points, in pixels.
    """
    picture = Image.new("RGB", size, GROUND)
    draw = ImageDraw.Draw(picture)
    middle, scale = np.array([size[0] / 2, size[1] * 0.66]), size[1] / (1.5 * REACH_M)
    for ring in range(10, int(2 * REACH_M), 10):
        r = ring * scale
        draw.ellipse((middle[0] - r, middle[1] - r, middle[0] + r, middle[1] + r), outline=RING)
    if points is not None:
        near = np.abs(points[:_MOST_POINTS, :2]).max(axis=1, initial=0.0) < 2 * REACH_M  # and finite
        shown = points[:_MOST_POINTS][near]
        if colours is None:
            shades = range_colours(np.hypot(shown[:, 0], shown[:, 1]))
        else:
            shades = colours[:_MOST_POINTS][near]
        _dots(picture, middle - shown[:, 1::-1] * scale, shades, radius)
    draw = ImageDraw.Draw(picture)
    for agent in (Agent(0.0, 0.0, 4.5, 1.9, 0.0), *list(agents)[:_MOST_BOXES]):
        if all(map(math.isfinite, agent)) and math.hypot(agent.x_m, agent.y_m) < 2 * REACH_M:
            cos, sin = math.cos(agent.yaw_rad), math.sin(agent.yaw_rad)
            half = min(agent.length_m, 30.0) / 2, min(agent.width_m, 10.0) / 2
            turn = np.array([[cos, sin], [-sin, cos]])
            corners = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)]) * half @ turn
            places = middle - np.add(corners, (agent.x_m, agent.y_m))[:, ::-1] * scale
            outline = RIG if agent.x_m == agent.y_m == 0.0 else BOX
            draw.polygon([tuple(place) for place in places.tolist()], outline=outline, width=2)
    return picture


def power_db(radar: RadarCube) -> npt.NDArray[np.float64]:
    """Power in decibels (range, Doppler), near first, summed over sequences and receivers.

    A cube that lacks one of the two axes has a single row or column of it.
    """
    bins = radar.cube.astype(np.float64)
    if radar.is_complex:
        bins = np.hypot(bins[..., 0::2], bins[..., 1::2])
    wanted = [radar.layout.index(axis) for axis in (Axis.RANGE, Axis.DOPPLER) if axis in radar.layout]
    others = tuple(n for n in range(bins.ndim) if n not in wanted)
    power = np.atleast_2d((bins**2).sum(axis=others))
    if wanted != sorted(wanted) or Axis.DOPPLER not in radar.layout:
        power = power.T
    shown: npt.NDArray[np.float64] = 10 * np.log10(power + 1.0)
    return shown


def cube_picture(cube: RadarCube, size: tuple[int, int]) -> Image.Image:
    """Power by range (up) and Doppler (across): noise is dark, the strongest target is bright.

    Targets fill too few bins for percentiles, so the scale begins just above the median, which is noise, and
    ends at the strongest bin; a cube without targets stays dark.
    """
    power = power_db(cube)[::-1]
    floor = float(np.median(power)) + NOISE_HEADROOM_DB
    top = max(float(power.max()), floor + LEAST_CONTRAST_DB)
    shade = np.clip((power - floor) / (top - floor), 0, 1) * 255
    # A target may be a single bin, which would be smaller than a pixel.
    bins_drawn = Image.fromarray(shade.astype(np.uint8)).filter(ImageFilter.MaxFilter(3))
    picture = bins_drawn.resize(size, Image.Resampling.BILINEAR)
    return Image.merge("RGB", (picture, picture, picture.point(lambda p: 40 + p * 0.8)))


CELL = (400, 225)
GAP = 6
COLUMNS = ("camera", "lidar from above", "radar from above", "radar cube")
KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
SOFTWARE = "edgefirst-ros report"
"""EXIF Software of a contact sheet, by which it is known again."""


def refuse_picture(output: Path) -> None:
    """Refuse to write a sheet in place of anything but an earlier sheet.

    Raises:
        ConfigError: the name is that of no picture.
        OutputExists: something else is there.
    """
    if output.suffix.lower() not in KINDS:
        raise ConfigError(
            [f"--picture {output}: a sheet is a picture, so end its name in {', '.join(KINDS)}"]
        )
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
    sheet.save(data, KINDS[output.suffix.lower()], exif=exif, quality=90)
    with disk_errors(output):
        replace_file(output, data.getvalue(), sync=False)


def contact_sheet(
    dataset: Path, rows: int = 6, on_progress: Callable[[int, int], None] = lambda *_: None
) -> Image.Image:
    """Draw ``rows`` samples, spread evenly over those of the dataset that have labels, else over all.

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
    moments = [] if scenes is None else scenes.labelled() or scenes.moments()
    if scenes is None or not moments:
        raise RecordingError(f"{dataset}: the dataset holds no samples")
    chosen = [moments[i] for i in np.unique(np.linspace(0, len(moments) - 1, rows).round().astype(int))]
    drawn: list[tuple[str, list[Image.Image | None]]] = []
    for number, moment in enumerate(chosen):
        on_progress(number, len(chosen))
        with refusing(f"{dataset}: {moment.sequence}, sample {number}", RecordingError):
            scene = scenes.scene(moment, Detail.SENSORS)
            drawn.append((_heading(scene, scenes.moments()[0]), _cells(scene)))
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
        draw.text((GAP, top - 18), heading, "#e6e6e6")
        for place, column in enumerate(there):
            left = GAP + place * (CELL[0] + GAP)
            draw.text((left, 8), COLUMNS[column], "#e6e6e6")
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
