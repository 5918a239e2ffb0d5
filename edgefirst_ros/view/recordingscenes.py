"""Samples of a recording that is only looked at, as scenes."""

from __future__ import annotations

from pathlib import Path

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.base import Written
from edgefirst_ros.formats.scene import Box2d, Moment, Scene, opened
from edgefirst_ros.messages.detection import Detections
from edgefirst_ros.messages.pointcloud import PointCloud
from edgefirst_ros.sample import Role, Sample, SequenceInfo


class SceneWriter:
    """Takes samples as a format does, and keeps what there is to see of them; a ``SampleWriter``.

    Attributes:
        scenes: of all samples, in order.
    """

    name = "page"
    unit = "samples"

    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts."""

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
