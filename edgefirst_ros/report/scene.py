"""How a sample of any format, or of a recording, is drawn; the power of radar cubes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from edgefirst_ros.formats.format import Written
from edgefirst_ros.formats.scene import Agent, Box2d, Moment, Points, Scene, in_colour, opened
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import Axis, RadarCube
from edgefirst_ros.model.sample import Role, Sample, SequenceInfo

BOX = (255, 214, 0)
LABEL_INK, LABEL_PAPER = (20, 20, 20), (255, 214, 0)
PLAIN_SIZE = (640, 480)
REACH_M = 40.0
GROUND, RING, RIG, AGENT = (24, 26, 30), (70, 74, 80), (80, 160, 255), (255, 214, 0)
NEAR_M, FAR_M = 3.0, 60.0
_RANGE_COLOURS = np.array(
    [[255, 70, 50], [255, 170, 40], [150, 230, 70], [40, 200, 200], [60, 110, 255], [120, 70, 220]], float
)
"""From near to far, evenly over the logarithm of the range."""
_MOST_BOXES = 500
MOST_POINTS = 60_000


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
            draw.rectangle((x0 - 2, y0 - 2, x1 + 2, y1 + 2), fill=LABEL_PAPER)
            draw.text(corner, label, LABEL_INK, font)


def range_colours(distance_m: Points) -> npt.NDArray[np.uint8]:
    """Colours (N, 3) of distances (N,): red is near, violet is far."""
    share = np.log(np.clip(distance_m, NEAR_M, FAR_M) / NEAR_M) / math.log(FAR_M / NEAR_M)
    at = share * (len(_RANGE_COLOURS) - 1)
    columns = [np.interp(at, np.arange(len(_RANGE_COLOURS)), _RANGE_COLOURS[:, n]) for n in range(3)]
    return np.stack(columns, axis=-1).astype(np.uint8)


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
    return np.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2),
            y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y,
        ],
        axis=-1,
    )


def draw_points(picture: Image.Image, points: Points, projection: Projection) -> int:
    """Draw a cloud onto a picture, the far points first; returns how many lie on it."""
    pixels, distance_m = projected(points[:MOST_POINTS], picture.size, projection)
    order = np.argsort(-distance_m)
    colours = range_colours(distance_m[order]).tolist()
    radius = max(1.0, picture.width / 500)
    draw = ImageDraw.Draw(picture)
    for (x, y), colour in zip(pixels[order].tolist(), colours, strict=True):
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=tuple(colour))
    return len(pixels)


def drawn(scene: Scene, width: int, projection: Projection | None) -> Image.Image | None:
    """A picture of a scene, at most that wide: the camera's, else from above; None if there is nothing.

    Raises:
        ValueError: its picture has more pixels than any camera.
        OSError: its picture is damaged.
    """
    if scene.picture is not None:
        picture = in_colour(opened(scene.picture)[0])
        picture.thumbnail((width, 4 * width), Image.Resampling.BILINEAR)
        if scene.points is not None and projection is not None:
            draw_points(picture, scene.points, projection)
        draw_boxes(picture, scene.boxes)
        return picture
    if scene.points is None and not scene.agents:
        return None
    return _from_above(scene)


def _from_above(scene: Scene) -> Image.Image:
    """The rig in the middle, forward is up, a ring every 10 m."""
    picture = Image.new("RGB", PLAIN_SIZE, GROUND)
    draw = ImageDraw.Draw(picture)
    middle = PLAIN_SIZE[0] / 2, PLAIN_SIZE[1] * 0.66
    scale = PLAIN_SIZE[1] / (1.5 * REACH_M)

    def pixel(x_m: float, y_m: float) -> tuple[float, float]:
        return middle[0] - y_m * scale, middle[1] - x_m * scale

    for ring in range(10, int(2 * REACH_M), 10):
        r = ring * scale
        draw.ellipse((middle[0] - r, middle[1] - r, middle[0] + r, middle[1] + r), outline=RING)
    if scene.points is not None:
        points = scene.points[:MOST_POINTS]
        points = points[np.isfinite(points).all(axis=1)]
        points = points[np.abs(points[:, :2]).max(axis=1, initial=0.0) < 2 * REACH_M]
        colours = range_colours(np.hypot(points[:, 0], points[:, 1])).tolist()
        for (x, y), colour in zip(points[:, :2].tolist(), colours, strict=True):
            draw.point(pixel(x, y), fill=tuple(colour))
    for agent in (Agent(0.0, 0.0, 4.5, 1.9, 0.0), *scene.agents[:_MOST_BOXES]):
        if all(map(math.isfinite, agent)) and math.hypot(agent.x_m, agent.y_m) < 2 * REACH_M:
            cos, sin = math.cos(agent.yaw_rad), math.sin(agent.yaw_rad)
            half = min(agent.length_m, 30.0) / 2, min(agent.width_m, 10.0) / 2
            corners = [(a * half[0], b * half[1]) for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
            outline = [
                pixel(agent.x_m + cos * x - sin * y, agent.y_m + sin * x + cos * y) for x, y in corners
            ]
            draw.polygon(outline, outline=RIG if agent.x_m == agent.y_m == 0.0 else AGENT, width=2)
    return picture


Mounts = Mapping[str, tuple[str, Points, Points]]
"""By frame: its parent, rotation (3, 3) and translation (3,) in it."""


def mount_in(frame: str, other: str, mounts: Mounts) -> tuple[Points, Points] | None:
    """Rotation and translation from one frame to another; None if they are not connected."""
    source, target = _chain(frame, mounts), _chain(other, mounts)
    if source[0] != target[0]:
        return None
    (rotation, translation), (back, origin) = source[1], target[1]
    return back.T @ rotation, back.T @ (translation - origin)


def _chain(frame: str, mounts: Mounts) -> tuple[str, tuple[Points, Points]]:
    """The root of a frame's tree, and the frame's pose in it."""
    rotation, translation = np.eye(3), np.zeros(3)
    for _ in range(len(mounts) + 1):
        if frame not in mounts:
            break
        frame, turned, moved = mounts[frame]
        rotation, translation = turned @ rotation, turned @ translation + moved
    return frame, (rotation, translation)


SHOWN_AXES = (Axis.RANGE, Axis.DOPPLER)
"""Rows and columns of the picture; all other axes are summed over."""


def power_db(radar: RadarCube) -> npt.NDArray[np.float64]:
    """Power in decibels (range, Doppler), near first, summed over sequences and receivers.

    A cube that lacks one of the two axes has a single row or column of it.
    """
    bins = radar.cube.astype(np.float64)
    if radar.is_complex:
        bins = np.hypot(bins[..., 0::2], bins[..., 1::2])
    wanted = [radar.layout.index(axis) for axis in SHOWN_AXES if axis in radar.layout]
    others = tuple(n for n in range(bins.ndim) if n not in wanted)
    power = np.atleast_2d((bins**2).sum(axis=others))
    if wanted != sorted(wanted) or Axis.DOPPLER not in radar.layout:
        power = power.T
    shown: npt.NDArray[np.float64] = 10 * np.log10(power + 1.0)
    return shown


class SceneWriter:
    """Takes samples of every camera as a format does, and keeps what there is to see; a ``SampleWriter``.

    Attributes:
        scenes: of all samples, of each camera in order.
    """

    name = "page"
    unit = "samples"

    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts."""

    def begin_camera(self, sequence: SequenceInfo) -> None:
        """One of a camera beside the reference starts."""

    def prepare(self, sample: Sample) -> Scene:
        """The sample as a scene."""
        scene = Scene(Moment(sample.sequence.name, sample.frame, sample.time_ns))
        if sample.image is not None:
            scene.picture = sample.image.data
            try:
                opened(scene.picture)[0].load()
            except (ValueError, OSError) as error:
                raise DecodeError(f"picture cannot be shown: {error}") from error
        model, cloud = sample.companions.get(Role.MODEL), sample.companions.get(Role.LIDAR_POINTS)
        if model is not None and isinstance(model.datum, Detections):
            names = sample.calibration.model_info.labels if sample.calibration.model_info else ()
            scene.boxes = [
                Box2d(box.center_x, box.center_y, box.width, box.height, label_of(box.label, names))
                for box in model.datum.boxes
            ]
        if cloud is not None and isinstance(cloud.datum, PointCloud):
            scene.points = cloud.datum.xyz().astype(float)
        return scene

    def write(self, prepared: Scene) -> Written:
        """Keep the scene."""
        self.scenes.append(prepared)
        return Written()

    def close(self) -> list[Path]:
        """Nothing was written."""
        return []

    def abort(self) -> None:
        """Nothing is open."""


def label_of(label: str, names: tuple[str, ...]) -> str:
    """The name of a class: a label that is a number is an index into the model's names."""
    if label.isascii() and label.isdigit() and len(label) < 9 and int(label) < len(names):
        return names[int(label)]
    return label
