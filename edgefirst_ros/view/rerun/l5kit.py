"""An L5Kit dataset as it is drawn: the rig's way, agents around it, and sensors' points if it has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.schema import LABELS, LIDAR, RADAR
from edgefirst_ros.model.rotations import angles_of, quaternion_of
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.view.rerun import marks
from edgefirst_ros.view.rerun.canvas import DRIVE, RIG, Canvas
from edgefirst_ros.view.rerun.instants import Instant

MOST_AGENTS = 2000
"""Of a frame; the others are left out."""


def l5kit_drawings(folder: Path) -> list[L5KitDrawing]:
    """The scenes of a dataset.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: an array is damaged.
    """
    dataset = ChunkedDataset(folder).open()
    with refusing(folder, DatasetError, "scenes cannot be read"):
        spans = dataset.scenes["frame_index_interval"].tolist()
    most = len(dataset.frames)
    return [L5KitDrawing(folder, dataset, range(max(0, a), min(b, most))) for a, b in spans]


class L5KitDrawing:
    """One scene of a dataset, see ``Drawable``; made by ``l5kit_drawings``."""

    def __init__(self, folder: Path, dataset: ChunkedDataset, frames: range) -> None:
        self._folder, self._dataset, self._frames = folder, dataset, frames

    def __len__(self) -> int:
        return len(self._frames)

    def begin(self, canvas: Canvas) -> None:
        """Nothing holds for all of it: points are in the rig's frame."""

    def instants(self) -> Iterator[Instant]:
        """All frames."""
        for number in self._frames:
            with refusing(self._folder, DatasetError, f"frame {number} cannot be read"):
                frame = self._dataset.frames[number : number + 1][0]
                time_ns = int(frame["timestamp"])
            yield Instant(time_ns, partial(self._draw, number, frame, time_ns))

    def _draw(self, row: int, frame: Any, time_ns: int, canvas: Canvas, number: int) -> None:  # noqa: ANN401
        dataset = self._dataset
        with refusing(self._folder, DatasetError, "a frame cannot be read"):
            position, rotation = frame["ego_translation"].astype(float), frame["ego_rotation"].astype(float)
            canvas.pose(time_ns, tuple(position.tolist()), tuple(quaternion_of(rotation).tolist()), number)
            attitude = np.degrees(angles_of(rotation))
            canvas.scalars(marks.ATTITUDE, time_ns, tuple(attitude.tolist()))
            begin, end = frame["agent_index_interval"].tolist()
            agents = dataset.agents[begin : min(end, begin + MOST_AGENTS)]
            canvas.at(time_ns, number)
            boxes = marks.boxes_3d(_box(agent, float(position[2])) for agent in agents)
            canvas.draw(marks.BOXES_3D, boxes, frame=DRIVE)
            if dataset.point_spans is not None and dataset.points is not None:
                begin, end = dataset.point_spans[row : row + 1][0]["point_index_interval"].tolist()
                points = dataset.points[begin : min(end, begin + marks.MOST_POINTS)]
                for sensor, path in ((LIDAR, marks.LIDAR), (RADAR, marks.RADAR)):
                    found = points["position_cm"][points["sensor"] == sensor].astype(float) / 100.0
                    if len(found) or path in canvas.seen:
                        canvas.draw(path, marks.by_range(found), frame=RIG)


def _box(agent: Any, ground_m: float) -> marks.Box3d:  # noqa: ANN401 - a row
    """An agent's box, standing on the ground that the rig is on: the format has no heights of agents."""
    x, y = agent["centroid"].tolist()
    length, width, height = agent["extent"].tolist()
    label = LABELS[int(agent["label_probabilities"].argmax())].rpartition("_LABEL_")[2].lower()
    half_rad = float(agent["yaw"]) / 2
    turned = 0.0, 0.0, math.sin(half_rad), math.cos(half_rad)
    return marks.Box3d((x, y, ground_m + height / 2), (length, width, height), label, turned)
