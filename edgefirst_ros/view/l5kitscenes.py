"""What can be seen of an L5Kit dataset: the rig and the agents from above, with the sensors' points."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.view.scene import MOST_POINTS, Agent, Moment, Scene

MOST_AGENTS = 500


class L5KitScenes:
    """The frames of an L5Kit dataset; see ``Scenes``.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: an array is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._dataset = ChunkedDataset(folder).open()
        with refusing(folder, DatasetError, "frames cannot be read"):
            times = self._dataset.frames["timestamp"]
            self._numbers = {int(time_ns): number for number, time_ns in enumerate(times.tolist())}

    def moments(self) -> list[Moment]:
        """All frames."""
        return [Moment("", None, time_ns) for time_ns in sorted(self._numbers)]

    def scene(self, moment: Moment) -> Scene:
        """The nearest frame, seen from above in the rig's frame."""
        scene = Scene(moment)
        with refusing(self._dataset.path, DatasetError, "a frame cannot be read"):
            nearest = min(self._numbers, key=lambda time_ns: abs(time_ns - (moment.time_ns or 0)))
            number = self._numbers[nearest]
            dataset = self._dataset
            frame = dataset.frames[number : number + 1][0]
            rotation, position = frame["ego_rotation"], frame["ego_translation"]
            yaw = math.atan2(rotation[1, 0], rotation[0, 0])
            begin, end = frame["agent_index_interval"].tolist()
            for agent in dataset.agents[begin : min(end, begin + MOST_AGENTS)]:
                offset = np.array([*agent["centroid"], position[2]]) - position
                x, y, _ = (rotation.T @ offset).tolist()
                length, width, _ = agent["extent"].tolist()
                scene.agents.append(Agent(x, y, length, width, float(agent["yaw"]) - yaw))
            if dataset.point_spans is not None and dataset.points is not None:
                begin, end = dataset.point_spans[number : number + 1][0]["point_index_interval"].tolist()
                scene.points = (
                    dataset.points[begin : min(end, begin + MOST_POINTS)]["position_cm"].astype(float) / 100.0
                )
        return scene
