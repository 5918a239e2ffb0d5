"""Draws what a conversion would take from a recording: every measurement, decoded and dated as there.

Measurements as strokes: what is to be done with the canvas once it is a measurement's turn.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import EMPTY, Written
from edgefirst_ros.formats.masks import Outline, class_outlines, instance_outline
from edgefirst_ros.formats.scene import Box2d, Box3d, Mark, Ring
from edgefirst_ros.model.camera import picture_intrinsics
from edgefirst_ros.model.detection import BoxAxes, Detections, Mask, ModelInfo
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import RadarCube
from edgefirst_ros.model.sample import Calibration, EgoPose, Observation, Role, SequenceInfo
from edgefirst_ros.model.transform import bare
from edgefirst_ros.report.rerun import marks
from edgefirst_ros.report.rerun.canvas import Canvas
from edgefirst_ros.report.scene import label_of

Stroke = Callable[[Canvas], None]
_CLOUDS = {
    Role.LIDAR_POINTS: Mark.LIDAR,
    Role.LIDAR_CLUSTERS: f"{Mark.LIDAR}/clusters",
    Role.FUSION_LIDAR: f"{Mark.LIDAR}/fusion",
    Role.RADAR_TARGETS: Mark.RADAR,
    Role.RADAR_CLUSTERS: f"{Mark.RADAR}/clusters",
    Role.FUSION_RADAR: f"{Mark.RADAR}/fusion",
}
_KINDS = {Role.CAMERA: Mark.CAMERA, Role.LIDAR_POINTS: Mark.LIDAR, Role.RADAR_TARGETS: Mark.RADAR}
"""Of which a rig has several."""
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


@dataclass(frozen=True, slots=True)
class Drawing:
    """What to do with the canvas for a measurement, and what could not be drawn of it."""

    observation: Observation
    strokes: tuple[Stroke, ...]
    refused: tuple[str, ...] = ()


class Painter:
    """Draws measurements and poses; a ``MeasurementWriter``.

    Args:
        canvas: where to.
    """

    name = "view"
    unit = "measurements"
    needs_pose = False

    def __init__(self, canvas: Canvas) -> None:
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._canvas = canvas
        self._calibration: Calibration | None = None
        self._names: dict[tuple[str, str], str] = {}
        """What sensors are called, by kind and topic; the first of a kind has no name."""

    def begin(self, sequence: SequenceInfo) -> None:  # noqa: ARG002 - of writers
        """A sequence starts."""
        self._canvas.begin()

    def prepare(self, observation: Observation) -> Drawing:
        """What is to be drawn of a measurement; the costly part of it is done."""
        refused: list[str] = []
        try:
            strokes = strokes_of(observation, refused)
        except (DecodeError, ValueError) as error:
            return Drawing(observation, (), (str(error),))
        return Drawing(observation, tuple(strokes), tuple(refused))

    def write(self, prepared: Drawing) -> Written:
        """Draw it."""
        observation = prepared.observation
        measurement, canvas = observation.measurement, self._canvas
        canvas.of(self._name(observation))
        self._calibrate(observation)
        canvas.at(measurement.time_ns)
        for stroke in prepared.strokes:
            stroke(canvas)
        refused = tuple((measurement.topic, reason) for reason in prepared.refused)
        canvas.of("")
        if not prepared.strokes:
            return Written(refused=refused or ((measurement.topic, EMPTY),), items=0)
        return Written({measurement.topic: 1}, 1, refused)

    def pose(self, pose: EgoPose) -> None:
        """Draw where the rig is."""
        canvas = self._canvas
        if pose.position_m is not None and pose.rotation_xyzw is not None:
            canvas.pose(pose.time_ns, pose.position_m, pose.rotation_xyzw)
        if pose.rpy_deg is not None:
            canvas.scalars(Mark.ATTITUDE, pose.time_ns, pose.rpy_deg)
        if pose.location is not None:
            location = pose.location
            canvas.place(pose.time_ns, location.latitude_deg, location.longitude_deg)
            canvas.scalars(Mark.ALTITUDE, pose.time_ns, (location.altitude_m,))

    def close(self) -> list[Path]:
        """Nothing was written here; the canvas is finished by whoever made it."""
        return []

    def abort(self) -> None:
        """Nothing is open."""

    def _name(self, observation: Observation) -> str:
        kind = _KINDS.get(observation.role)
        if kind is None:
            return ""
        topic = observation.measurement.topic
        if (kind, topic) not in self._names:
            others = {name for each, name in self._names.items() if each[0] == kind}
            name = bare(observation.measurement.frame_id).replace("/", "_")
            free = name if name and name not in others else topic.strip("/").replace("/", "_")
            self._names[kind, topic] = free if others else ""
        return self._names[kind, topic]

    def _calibrate(self, observation: Observation) -> None:
        calibration = observation.calibration
        if calibration is not self._calibration:
            self._calibration = calibration
            self._canvas.mount(calibration.transforms.values())
        image = observation.image
        if image is not None and calibration.camera_info is not None:
            found = picture_intrinsics(calibration.camera_info, (image.width, image.height))
            if found is not None:
                self._canvas.camera(Mark.CAMERA, found, observation.measurement.frame_id)
