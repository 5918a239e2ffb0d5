"""Reads the truth about a simulated drive: where everything was at any time."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
from pydantic import TypeAdapter

from edgefirst_ros.simulation import camera
from edgefirst_ros.simulation.sensors import cast
from edgefirst_ros.simulation.world import (
    Circuit,
    Fisheye,
    FloatArray,
    Lens,
    Mount,
    SceneBox,
    World,
    inverse,
    transform,
)
from faulty.video import classes, sampled
from faulty.world import Line, Rocked

CAMERA = "camera_optical"


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth of one drive. Times are ns of CLOCK_REALTIME, positions ENU metres at the world's origin.

    ``data`` is the JSON itself; topics are named as in the recording, boxes by index in ``world.boxes``.
    """

    data: dict[str, Any]
    world: World

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Read the truth of a recording from its .truth.json, or beside its .mcap."""
        data = json.loads(path.with_suffix("").with_suffix(".truth.json").read_text())
        return cls(data, _world(data["world"]))

    def seconds(self, time_ns: int) -> float:
        """Seconds since the drive's start, the time of the world."""
        return (time_ns - int(self.data["start_ns"])) / 1e9

    def true_ns(self, topic: str) -> npt.NDArray[np.int64]:
        """Acquisition of a topic's messages in file order."""
        return np.array(self.data["messages"][topic], np.int64).reshape(-1, 3)[:, 0]

    def by_stamp(self, topic: str) -> dict[int, int]:
        """Acquisition by header stamp, for topics whose stamps differ."""
        return {stamp: true for true, stamp, _ in self.data["messages"][topic]}

    def least_latency_ns(self, *topics: str) -> int:
        """Minimum time from acquisition to receipt over the messages of these topics; by default of all."""
        messages = self.data["messages"]
        least: int = min(log - true for topic in topics or messages for true, _, log in messages[topic])
        return least

    def rig(self, time_ns: int) -> FloatArray:
        """base_link to world, 4×4."""
        return self.world.rig.state(self.seconds(time_ns)).matrix()

    def sensor(self, child: str, time_ns: int) -> FloatArray:
        """Sensor (camera_optical, radar, lidar) to world, 4×4."""
        return self.world.sensor(child, self.seconds(time_ns))

    def box(self, index: int, time_ns: int) -> FloatArray:
        """Box (x forward, origin in the middle of its floor) to world, 4×4."""
        return self.world.boxes[index].motion.state(self.seconds(time_ns)).matrix()

    def box_corners(self, index: int, time_ns: int) -> FloatArray:
        """Eight corners (8, 3) in the world."""
        return camera.corners(self.world.boxes[index], self.seconds(time_ns))

    def box_in_image(
        self, index: int, time_ns: int, frame: str = CAMERA
    ) -> tuple[float, float, float, float] | None:
        """Left, top, right, bottom in pixels from the top left corner, clipped; None if out of view."""
        return camera.image_box(self.world, index, self.seconds(time_ns), frame)

    def project(
        self, points_m: FloatArray, time_ns: int, camera: str = CAMERA
    ) -> tuple[FloatArray, FloatArray]:
        """Pixels (N, 2), whole numbers being centres, and depths (N,) in metres of world points (N, 3)."""
        optical = transform(inverse(self.sensor(camera, time_ns)), points_m)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.world.lens(camera).project(optical), optical[:, 2]

    def seen(self, points_m: FloatArray, time_ns: int, frame: str = CAMERA) -> npt.NDArray[np.bool_]:
        """Which world points (N, 3) on surfaces are not hidden from a sensor, inside its picture or not."""
        eye = self.sensor(frame, time_ns)[:3, 3]
        return sees(self.world, self.seconds(time_ns), eye, points_m)

    def surface_distance(
        self, points_m: FloatArray, time_ns: int
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Distance (N,) of world points (N, 3) to the nearest surface: that box's index or -1, the ground."""
        distance = [np.abs(points_m[:, 2])]
        for index, box in enumerate(self.world.boxes):
            local = transform(inverse(self.box(index, time_ns)), points_m)
            half = np.array(box.size_m) / 2
            beyond = np.abs(local - [0, 0, half[2]]) - half
            outside = np.linalg.norm(np.maximum(beyond, 0), axis=1)
            distance.append(np.where(outside > 0, outside, -beyond.max(axis=1)))
        nearest = np.argmin(distance, axis=0)
        return np.min(distance, axis=0), nearest - 1

    def box_of_color(self, rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """The box whose colour pixels (N, 3) show, in any shade; -1 for none (ground, sky, edges)."""
        if not self.world.boxes:
            return np.full(len(rgb), -1)
        colors = np.array([box.color for box in self.world.boxes], np.float64)
        hues = colors - colors.min(axis=1, keepdims=True)
        hues /= np.linalg.norm(hues, axis=1, keepdims=True)
        boxes = np.full(len(rgb), -1)
        vivid = np.flatnonzero(np.ptp(rgb, axis=1) > 70)
        chroma = rgb[vivid] - rgb[vivid].min(axis=1, keepdims=True).astype(np.float64)
        likeness = chroma @ hues.T / np.linalg.norm(chroma, axis=1, keepdims=True)
        boxes[vivid] = np.where(likeness.max(axis=1) > 0.97, likeness.argmax(axis=1), -1)
        return boxes

    def enu(self, latitude_deg: float, longitude_deg: float, altitude_m: float) -> FloatArray:
        """A geodetic position in the world (3,)."""
        origin = (self.world.latitude_deg, self.world.longitude_deg, self.world.altitude_m)
        return np.array(pymap3d.geodetic2enu(latitude_deg, longitude_deg, altitude_m, *origin), np.float64)

    def latencies_ns(self, topic: str) -> npt.NDArray[np.int64]:
        """Time from acquisition to receipt of a topic's messages in file order."""
        messages = np.array(self.data["messages"][topic], np.int64).reshape(-1, 3)
        return messages[:, 2] - messages[:, 0]

    def mask(self, time_ns: int, size: tuple[int, int], frame: str = CAMERA) -> npt.NDArray[np.uint8]:
        """Classes of the picture at a time, as indices of ``faulty.video.LABELS``, (height, width)."""
        return sampled(classes(_view(self.world, frame), self.seconds(time_ns)), size)

    def clean_messages(self, topic: str) -> list[int]:
        """Indices of messages whose pictures decode correctly: from a key frame to the next loss or damage.

        A message recorded twice is clean once, and what follows it stays so.
        """
        video = self.data["video"][topic]
        keyframes, damaged = set(video["keyframes"]), {index for index, _ in video.get("damaged", ())}
        clean, whole, before = [], False, -1
        for message, unit in enumerate(video["units"]):
            if unit == before:
                continue
            follows = unit == before + 1 or video["format"] == "jpeg"
            whole = message not in damaged and (message in keyframes or (whole and follows))
            if whole:
                clean.append(message)
            before = unit
        return clean


@lru_cache(maxsize=8)
def _view(world: World, frame: str) -> camera.View:
    return camera.view(world, frame)


def _world(data: dict[str, Any]) -> World:
    def of(kind: Any, values: Any) -> Any:  # noqa: ANN401 - plain values to any of the world's classes
        return TypeAdapter(kind).validate_python(values)

    boxes = tuple(
        SceneBox(
            box["label"], box["track_id"], tuple(box["color"]), tuple(box["size_m"]),
            of(Line if "start_m" in box["motion"] else Circuit, box["motion"]),
        )
        for box in data["boxes"]
    )  # fmt: skip
    rig = of(Rocked if "rocking_rad_s" in data["rig"] else Circuit, data["rig"])
    others = tuple(
        (frame, of(Fisheye if "coefficients" in lens else Lens, lens))
        for frame, lens in data["other_cameras"]
    )
    place = data["latitude_deg"], data["longitude_deg"], data["altitude_m"]
    return World(*place, rig, boxes, of(tuple[Mount, ...], data["mounts"]), of(Lens, data["camera"]), others)


def sees(
    world: World, time_s: float, eye_m: FloatArray, points_m: FloatArray, slack_m: float = 0.02
) -> npt.NDArray[np.bool_]:
    """Which points (N, 3) on or in an object are not hidden from the eye (3,) by another surface."""
    arms = points_m - eye_m
    away = np.linalg.norm(arms, axis=1)
    distance, _ = cast(world, time_s, eye_m, arms / away[:, None], math.inf)
    clear: npt.NDArray[np.bool_] = distance >= away - slack_m
    return clear
