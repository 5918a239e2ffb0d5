"""Draws what a conversion would take from a recording: every measurement, decoded and dated as there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.base import EMPTY, Written
from edgefirst_ros.formats.scene import Mark
from edgefirst_ros.messages.calibration import picture_intrinsics
from edgefirst_ros.sample import Calibration, EgoPose, Observation, SequenceInfo
from edgefirst_ros.view.rerun.canvas import Canvas
from edgefirst_ros.view.rerun.strokes import Stroke, strokes_of


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
        self._calibrate(observation)
        canvas.at(measurement.time_ns)
        for stroke in prepared.strokes:
            stroke(canvas)
        refused = tuple((measurement.topic, reason) for reason in prepared.refused)
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
