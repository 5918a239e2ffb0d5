"""An ideal detector and tracker: the boxes that the device's model would report."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from edgefirst.schemas.builtin_interfaces import Time
from edgefirst.schemas.edgefirst_msgs import DetectBox

from edgefirst_ros.simulation.camera import Rectangle, corners, image_box
from edgefirst_ros.simulation.sensors import cast
from edgefirst_ros.simulation.world import FloatArray, World, inverse, transform

OWN = "camera_optical"
REACH_M = 60.0
LEAST_SHARE = 1 / 3
LEAST_HEIGHT_PX = 8
Place = tuple[float, float, float, float, float]
"""x, y, width, height and distance."""
INNER = np.stack(np.meshgrid([-0.45, 0.0, 0.45], [-0.45, 0.0, 0.45], [0.05, 0.5, 0.95]), axis=-1).reshape(
    -1, 3
)


@lru_cache(maxsize=8)  # boxes in the picture and in space are of the same times
def detected(world: World, time_s: float, frame: str = OWN) -> tuple[tuple[int, Rectangle], ...]:
    """Boxes in a picture within 60 m, at least 8 px high and a third visible, with their rectangles."""
    eye = world.sensor(frame, time_s)[:3, 3]
    large: list[tuple[int, Rectangle]] = []
    aims: list[FloatArray] = []
    for index, box in enumerate(world.boxes):
        points = transform(box.motion.state(time_s).matrix(), INNER * box.size_m)
        if np.linalg.norm(points.mean(axis=0) - eye) > REACH_M:
            continue
        rectangle = image_box(world, index, time_s, frame)
        if rectangle is None or rectangle[3] - rectangle[1] < LEAST_HEIGHT_PX:
            continue
        large.append((index, rectangle))
        aims.append((points - eye) / np.linalg.norm(points - eye, axis=1, keepdims=True))
    if not large:
        return ()
    hits = cast(world, time_s, eye, np.concatenate(aims), 2 * REACH_M)[1].reshape(-1, len(INNER))
    return tuple(
        each for each, hit in zip(large, hits, strict=True) if np.mean(hit == each[0]) >= LEAST_SHARE
    )


def track_name(track_id: str, frame: str) -> str:
    """What the tracker of another camera calls a box."""
    return str(uuid.uuid5(uuid.UUID(track_id), frame))


class Detector:
    """Detects frame by frame in order of time; a track keeps its id and counts its detections.

    The camera of another frame than the device's has track names of its own.
    """

    def __init__(self, world: World, frame: str = OWN) -> None:
        self._world, self._frame = world, frame
        self._sightings: dict[int, tuple[int, Time]] = {}

    def boxes_2d(self, stamp_ns: int, time_s: float) -> Iterator[DetectBox]:
        """Rectangles normalised to the picture; ``distance`` is from the camera to the box's middle."""
        camera = self._world.lens(self._frame)
        eye = self._world.sensor(self._frame, time_s)[:3, 3]
        for index, (left, top, right, bottom) in detected(self._world, time_s, self._frame):
            middle = ((left + right) / 2 / camera.width, (top + bottom) / 2 / camera.height)
            extent = ((right - left) / camera.width, (bottom - top) / camera.height)
            away = np.linalg.norm(corners(self._world.boxes[index], time_s).mean(axis=0) - eye)
            yield self._box(index, stamp_ns, time_s, (*middle, *extent, float(away)))

    def boxes_3d(self, stamp_ns: int, time_s: float) -> Iterator[DetectBox]:
        """Metres in base_link as fusion/boxes3d gives them: distance x, centre (-y, -z), extents y and z."""
        T_world_rig = inverse(self._world.rig.state(time_s).matrix())
        for index, _ in detected(self._world, time_s, self._frame):
            points = transform(T_world_rig, corners(self._world.boxes[index], time_s))
            x, y, z = points.mean(axis=0).tolist()
            _, width, height = np.ptp(points, axis=0).tolist()
            yield self._box(index, stamp_ns, time_s, (-y, -z, width, height, x))

    def _box(self, index: int, stamp_ns: int, time_s: float, place: Place) -> DetectBox:
        box = self._world.boxes[index]
        count, created = self._sightings.get(index, (0, Time.from_nanos(stamp_ns)))
        self._sightings[index] = (count + 1, created)
        x, y, width, height, distance = place
        name = box.track_id if self._frame == OWN else track_name(box.track_id, self._frame)
        speed = float(np.linalg.norm(box.motion.state(time_s).velocity_m_s))
        return DetectBox(x, y, width, height, box.label, 0.9, distance, speed, name, count + 1, created)
