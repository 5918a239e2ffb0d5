"""Measurements as strokes: what is to be done with the canvas once it is a measurement's turn."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.masks import Outline, class_outlines, instance_outline
from edgefirst_ros.formats.scene import Box2d, Box3d, Mark, Ring
from edgefirst_ros.messages.boxes3d import BoxAxes
from edgefirst_ros.messages.detection import Detections, Mask, ModelInfo
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.pointcloud import PointCloud
from edgefirst_ros.messages.radar import RadarCube
from edgefirst_ros.sample import Observation, Role
from edgefirst_ros.view.recordingscenes import label_of
from edgefirst_ros.view.rerun import marks
from edgefirst_ros.view.rerun.canvas import Canvas

Stroke = Callable[[Canvas], None]
_CLOUDS = {
    Role.LIDAR_POINTS: Mark.LIDAR,
    Role.LIDAR_CLUSTERS: f"{Mark.LIDAR}/clusters",
    Role.FUSION_LIDAR: f"{Mark.LIDAR}/fusion",
    Role.RADAR_TARGETS: Mark.RADAR,
    Role.RADAR_CLUSTERS: f"{Mark.RADAR}/clusters",
    Role.FUSION_RADAR: f"{Mark.RADAR}/fusion",
}
_SPEED = "speed"
"""Field of a radar's cloud: m/s away from it."""
_PLAIN_SIZE = (1920, 1080)
"""Of boxes before the first picture, whose size is not known."""


def strokes_of(observation: Observation, refused: list[str]) -> list[Stroke]:
    """What to draw of a measurement; empty for what has no picture, such as calibration.

    Args:
        observation: the measurement with its role and calibration.
        refused: gets a reason for each part that cannot be drawn.

    Raises:
        DecodeError: it cannot be drawn.
    """
    measurement, role, datum = observation.measurement, observation.role, observation.measurement.datum
    if observation.image is not None:
        image = observation.image
        return [partial(_on_camera, name=marks.PICTURE, what=marks.picture(image.data))]
    if role in _CLOUDS and isinstance(datum, PointCloud):
        return [partial(Canvas.draw, path=_CLOUDS[role], what=_cloud(datum), frame=measurement.frame_id)]
    if isinstance(datum, RadarCube):
        return [partial(Canvas.draw, path=marks.CUBE, what=marks.cube(datum))]
    if isinstance(datum, Imu):
        series = (Mark.TURN, datum.angular_velocity_rad_s), (Mark.FORCE, datum.linear_acceleration_m_s2)
        time_ns = measurement.time_ns
        return [partial(Canvas.scalars, path=path, time_ns=time_ns, values=row) for path, row in series]
    if isinstance(datum, Detections | Mask):
        return list(_labels(observation, datum, refused))
    return []


def _labels(observation: Observation, datum: Detections | Mask, refused: list[str]) -> Iterator[Stroke]:
    info = observation.calibration.model_info
    size = observation.picture or _PLAIN_SIZE
    if isinstance(datum, Mask):
        yield _masks(_of_classes(datum, info), size)
    elif observation.role is Role.BOXES_3D:
        axes = BoxAxes.of(observation.measurement.frame_id, observation.calibration.transforms)
        names = info.labels if info else ()
        boxes = marks.boxes_3d(
            Box3d(axes.centre_m(box), axes.extents_m(box), label_of(box.label, names)) for box in datum.boxes
        )
        yield partial(Canvas.draw, path=Mark.BOXES_3D, what=boxes, frame=axes.frame_id)
    else:
        yield from _detections(datum, info, size, refused)


def _on_camera(canvas: Canvas, *, name: str, what: object) -> None:
    canvas.on_picture(Mark.CAMERA, name, what)


def _cloud(cloud: PointCloud) -> object:
    points = cloud.xyz().astype(np.float64)
    speed = cloud.column(_SPEED).astype(np.float64) if cloud.has(_SPEED) else None
    if speed is not None and speed.ndim == 1:
        return marks.by_speed(points, speed)
    return marks.by_range(points)


def _detections(
    found: Detections, info: ModelInfo | None, size: tuple[int, int], refused: list[str]
) -> Iterator[Stroke]:
    names = info.labels if info else ()
    flat = [
        Box2d(box.center_x, box.center_y, box.width, box.height, label_of(box.label, names))
        for box in found.boxes
    ]
    yield partial(_on_camera, name=marks.BOXES_2D, what=marks.boxes_2d(flat, size))
    outlines: list[tuple[str, list[Ring]]] = []
    for number, mask in enumerate(found.masks):
        if not mask.boxed:
            outlines += _of_classes(mask, info)
        elif number < len(found.boxes):
            try:
                outline = instance_outline(mask, found.boxes[number])
            except DecodeError as error:
                refused.append(str(error))
                continue
            if outline is not None:
                outlines.append((flat[number].label, _rings(outline)))
    if found.masks:
        yield _masks(outlines, size)


def _masks(outlines: list[tuple[str, list[Ring]]], size: tuple[int, int]) -> Stroke:
    return partial(_on_camera, name=marks.MASKS, what=marks.masks(outlines, size))


def _of_classes(mask: Mask, info: ModelInfo | None) -> list[tuple[str, list[Ring]]]:
    names = info.labels if info else ()
    return [(label_of(str(index), names), _rings(outline)) for index, outline in class_outlines(mask)]


def _rings(outline: Outline) -> list[Ring]:
    decoded: list[npt.NDArray[np.float32]] = [
        np.frombuffer(base64.b64decode(ring), "<f4") for ring in outline.polygons
    ]
    return list(decoded)
