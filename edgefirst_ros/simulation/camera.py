"""What a camera sees of the world."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from edgefirst_ros.simulation.sensors import GROUND, cast
from edgefirst_ros.simulation.world import Fisheye, FloatArray, SceneBox, World, inverse, transform

Pixels = npt.NDArray[np.uint8]
Rectangle = tuple[float, float, float, float]

NEAR_M = 0.2
FACES = (
    # corners, counted with x in bit 2, y in bit 1, z in bit 0; outward normal; brightness
    ((4, 5, 7, 6), (1, 0, 0), 0.80),
    ((0, 1, 3, 2), (-1, 0, 0), 0.90),
    ((2, 3, 7, 6), (0, 1, 0), 0.65),
    ((0, 1, 5, 4), (0, -1, 0), 0.72),
    ((1, 3, 7, 5), (0, 0, 1), 1.00),
)
BRIGHTNESS = np.array([[0.90, 0.80], [0.72, 0.65], [1.0, 1.0]])
"""That of FACES, by axis and side."""
UNIT = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)]) - [0.5, 0.5, 0.0]
"""Corners of a box of 1 m, whose origin is the centre of its floor."""
EDGES = np.array([[i, i | bit] for i in range(8) for bit in (1, 2, 4) if not i & bit])
"""Corners at both ends of each edge."""
TILE_M, HALF_TILES = 6.0, 26
GROUND_SHADES = ((122, 124, 122), (96, 98, 96))
HAZE = (175, 178, 175)


@lru_cache(maxsize=64)  # of all boxes at a few times
def corners(box: SceneBox, time_s: float) -> FloatArray:
    """The eight corners (8, 3) in the world, x slowest, z fastest, low before high; read-only."""
    points = transform(box.motion.state(time_s).matrix(), UNIT * box.size_m)
    points.flags.writeable = False
    return points


def image_box(world: World, index: int, time_s: float, frame: str = "camera_optical") -> Rectangle | None:
    """Bounding rectangle of a box in the picture of the camera of a frame, even if something hides it.

    Returns:
        Left, top, right, bottom in pixels from the picture's top left corner, clipped to the picture; None
        where the box is outside it.
    """
    T_world_optical, camera = inverse(world.sensor(frame, time_s)), world.lens(frame)
    optical = transform(T_world_optical, corners(world.boxes[index], time_s))
    points = optical
    if isinstance(camera, Fisheye):
        # Edges are bent in its picture: points along all of them.
        along = np.linspace(0.0, 1.0, 33)[:, None, None]
        starts, ends = optical[EDGES.T]
        points = (starts + along * (ends - starts)).reshape(-1, 3)
        points = points[points[:, 2] > NEAR_M]
        if not len(points):
            return None
    elif not (optical[:, 2] > NEAR_M).all():
        kept = [corner for face, _, _ in FACES for corner in _clip(optical[list(face)].tolist())]
        if not kept:
            return None
        points = np.array(kept)
    pixels = camera.project(points) + 0.5
    left, top = np.maximum(pixels.min(axis=0), 0).tolist()
    right, bottom = np.minimum(pixels.max(axis=0), [camera.width, camera.height]).tolist()
    return (left, top, right, bottom) if left < right and top < bottom else None


class Renderer:
    """Draws the world by the painter's algorithm; pictures are RGB, uint8 (height, width, 3)."""

    def __init__(self, world: World, frame: str = "camera_optical") -> None:
        self.world, self.frame, self.lens = world, frame, world.lens(frame)
        self._light, self._dark = _backdrops(world, frame)
        self._tiles = _checkerboard()
        self._marks = _road_marks(world)

    def picture(self, time_s: float) -> Pixels:
        """The picture at a time."""
        T_world_optical = inverse(self.world.sensor(self.frame, time_s))
        shade = Image.new("L", self._light.size)
        self.fill(ImageDraw.Draw(shade), transform(T_world_optical, self._tiles), 255, reach_m=90)
        image = Image.composite(self._dark, self._light, shade)
        canvas = ImageDraw.Draw(image)
        self.fill(canvas, transform(T_world_optical, self._marks), (225, 225, 215), reach_m=55)
        for box, brightness, face in self.faces(time_s):
            r, g, b = (round(v * brightness) for v in box.color)
            self.fill(canvas, face, (r, g, b))
        return np.array(image)

    def faces(self, time_s: float) -> list[tuple[SceneBox, float, FloatArray]]:
        """The faces to paint, in this order: box, brightness, and corners (1, 4, 3) in the optical frame."""
        T_optical_world = self.world.sensor(self.frame, time_s)
        T_world_optical, eye = inverse(T_optical_world), T_optical_world[:3, 3]
        faces = []
        for box in self._far_to_near(eye, time_s):
            points = corners(box, time_s)
            rotation = box.motion.state(time_s).rotation()
            for face, normal, brightness in FACES:
                if (eye - points[face[0]]) @ (rotation @ normal) > 0:
                    faces.append((box, brightness, transform(T_world_optical, points[None, list(face)])))
        return faces

    def fill(
        self,
        canvas: ImageDraw.ImageDraw,
        polygons_m: FloatArray,
        color: int | tuple[int, int, int],
        reach_m: float = math.inf,
    ) -> None:
        """Paint polygons (N, corners, 3) of the optical frame."""
        depth = polygons_m[..., 2]
        shown = polygons_m[(depth.max(axis=1) > NEAR_M) & (depth.min(axis=1) < reach_m)]
        whole = shown[..., 2].min(axis=1) > NEAR_M
        # Nearly all of them lie wholly before the camera: these are projected together, and drawn if in view.
        projected = self._pixels(shown[whole])
        inside = (
            ((projected.max(axis=1) >= 0) & (projected.min(axis=1) < canvas.im.size)).all(axis=1).tolist()
        )
        corners_px = iter(
            zip(projected.reshape(len(projected), 2 * projected.shape[1]).tolist(), inside, strict=True)
        )
        for polygon, is_whole in zip(shown, whole.tolist(), strict=True):
            pixels, is_inside = next(corners_px) if is_whole else (self._clipped(polygon.tolist()), True)
            if is_inside:
                canvas.polygon(pixels, fill=color)

    def _pixels(self, points_m: FloatArray) -> npt.NDArray[np.int64]:
        pixels: npt.NDArray[np.int64] = np.rint(self.lens.project(points_m)).astype(np.int64)
        return pixels

    def _clipped(self, polygon_m: list[list[float]]) -> list[int]:
        # Of few corners: plain numbers are quicker than arrays.
        focal_px, centre_px = self.lens.focal_px, self.lens.center_px
        return [round(focal_px * at[n] / at[2] + centre_px[n]) for at in _clip(polygon_m) for n in (0, 1)]

    def _far_to_near(self, eye: FloatArray, time_s: float) -> list[SceneBox]:
        """The boxes in view, sorted so that each is painted before any box that hides part of it."""
        world = self.world
        found = ((box, image_box(world, i, time_s, self.frame)) for i, box in enumerate(world.boxes))
        seen = {box: rectangle for box, rectangle in found if rectangle is not None}
        waiting = list(seen)
        order: list[SceneBox] = []
        while waiting:
            free = (
                box
                for box in waiting
                if not any(_overlap(seen[box], seen[b]) and _before(box, b, eye, time_s) for b in waiting)
            )
            order.append(next(free, waiting[0]))
            waiting.remove(order[-1])
        return order


class Tracer:
    """Sees the world ray by ray, through any lens and however it is tilted; its road has no marks."""

    def __init__(self, world: World, frame: str) -> None:
        self.world, self._frame, self.lens = world, frame, world.lens(frame)
        self._rays = self.lens.directions().reshape(-1, 3)

    def picture(self, time_s: float) -> Pixels:
        """The picture at a time."""
        eye, rays, distance, hit = self.seen(time_s)
        sky = np.array([150, 175, 200]) + np.clip(0.5 - rays[:, 2:], 0.0, 1.0) * [120, 110, 90]
        places = eye + rays * np.where(np.isfinite(distance), distance, 0.0)[:, None]
        tile = np.floor(places[:, :2] / TILE_M)
        is_dark = (tile.sum(axis=1) % 2 == 0) & (np.abs(tile) <= HALF_TILES).all(axis=1) & (distance < 90)
        shade = np.array(GROUND_SHADES)[is_dark.astype(int)] - HAZE
        ground = HAZE + shade * np.exp(-np.minimum(distance, 1e3) / 30)[:, None]
        pixels = np.where((hit == GROUND)[:, None], ground, sky)
        for index, box in enumerate(self.world.boxes):
            its = np.flatnonzero(hit == index)
            local = transform(inverse(box.motion.state(time_s).matrix()), places[its])
            share = 2 * (local - [0, 0, box.size_m[2] / 2]) / box.size_m
            axis = np.abs(share).argmax(axis=1)
            ahead = np.take_along_axis(share, axis[:, None], axis=1)[:, 0] > 0
            pixels[its] = BRIGHTNESS[axis, ahead.astype(int)][:, None] * box.color
        return pixels.round().clip(0, 255).astype(np.uint8).reshape(self.lens.height, self.lens.width, 3)

    def seen(self, time_s: float) -> tuple[FloatArray, FloatArray, FloatArray, npt.NDArray[np.int64]]:
        """The eye, rays, distances and what is hit, in the world."""
        T_optical_world = self.world.sensor(self._frame, time_s)
        eye, rays = T_optical_world[:3, 3], self._rays @ T_optical_world[:3, :3].T
        return eye, rays, *cast(self.world, time_s, eye, rays, math.inf)


View = Renderer | Tracer
"""What draws the pictures of a camera."""


def view(world: World, frame: str = "camera_optical") -> View:
    """Draws what the camera of a frame sees: by polygons, which need straight lines and a level horizon."""
    # At two times, as its mount may turn.
    tilts = [abs(world.mounted(frame, time_s)[2, 1] + 1) for time_s in (0.0, 0.37)]
    # How far the sine of a level camera's tilt may be from none, by rounding.
    is_level = max(tilts) < 1e-9 and world.rig.is_level
    is_bent = isinstance(world.lens(frame), Fisheye)
    return Renderer(world, frame) if is_level and not is_bent else Tracer(world, frame)


def _clip(polygon_m: list[list[float]]) -> list[list[float]]:
    """The part of a polygon, given by its corners, that lies beyond the near plane."""
    kept = []
    for i, here in enumerate(polygon_m):
        before = polygon_m[i - 1]
        if (here[2] > NEAR_M) != (before[2] > NEAR_M):
            ahead_m, deep_m = NEAR_M - before[2], here[2] - before[2]
            kept.append([a + (b - a) * ahead_m / deep_m for a, b in zip(before, here, strict=True)])
        if here[2] > NEAR_M:
            kept.append(here)
    return kept


def _overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _before(box: SceneBox, other: SceneBox, eye: FloatArray, time_s: float) -> bool:
    """Whether a box may hide another: a plane of either separates them, with the eye on the box's side."""
    if box is other:
        return False
    for walls, beyond in ((box, other), (other, box)):
        T_world_walls = inverse(walls.motion.state(time_s).matrix())
        half = np.array(walls.size_m[:2]) / 2
        foot = transform(T_world_walls, corners(beyond, time_s))[:, :2]
        spot = transform(T_world_walls, eye)[:2]
        for side in (1, -1):
            parting = (side * foot >= half).all(axis=0)
            if parting.any():
                return bool((side * spot >= half)[parting][0]) == (beyond is box)
    return False


def _backdrops(world: World, frame: str) -> tuple[Image.Image, Image.Image]:
    """Background pictures with light and with dark ground; the two blend towards the horizon."""
    camera = world.lens(frame)
    below = (np.arange(camera.height) - camera.center_px[1])[:, None]
    near = np.exp(-camera.focal_px * world.mounted(frame, 0.0)[2, 3] / np.maximum(below, 0.5) / 30)
    sky = np.array([150, 175, 200]) + (below / camera.height + 0.5) * [120, 110, 90]
    haze = np.array(HAZE)
    shades = []
    for ground in GROUND_SHADES:
        rows = np.where(below < 0, sky, haze + (ground - haze) * near).round().clip(0, 255)
        pixels = np.repeat(rows.astype(np.uint8)[:, None], camera.width, axis=1)
        shades.append(Image.fromarray(pixels))
    return shades[0], shades[1]


def _checkerboard() -> FloatArray:
    """Every other tile of the ground around the origin, (N, 4, 3) in the world."""
    x, y = (v.ravel() for v in np.mgrid[-HALF_TILES:HALF_TILES, -HALF_TILES:HALF_TILES])
    start = np.stack([x, y, 0 * x], axis=1)[(x + y) % 2 == 0]
    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]) * TILE_M
    tiles: FloatArray = start[:, None] * TILE_M + square
    return tiles


def _road_marks(world: World) -> FloatArray:
    """Dashes between the lanes and lines along the edges, (N, 4, 3) in the world."""
    marks = []
    for offset, spacing_deg in ((1.8, 6), (-1.9, 6), (5.6, 3), (-7.4, 3)):
        for start in range(0, 360, spacing_deg):
            ends = [
                replace(world.rig, phase_rad=math.radians(start + on), offset_m=offset + side, stops=())
                for on, side in ((0, -0.08), (3, -0.08), (3, 0.08), (0, 0.08))
            ]
            marks.append([end.state(0.0).position_m for end in ends])
    return np.array(marks)
