"""What there is to see in an L5Kit dataset: the rig's way, and agents around it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.scene import Agent, Detail, Moment, Points, Scene, Scenes
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

MOST_AGENTS = 2000
"""Of a frame; the others are left out."""


class L5KitScenes(Scenes):
    """The frames of an L5Kit dataset; see ``Scenes``.

    Raises:
        DatasetNotFound: there is no dataset.
        DatasetError: an array is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._dataset = dataset = ChunkedDataset(folder).open()
        with refusing(folder, DatasetError, "frames cannot be read"):
            times = dataset.frames["timestamp"].tolist()
            starts = dataset.scenes["frame_index_interval"][:, 0]
            parts = np.searchsorted(starts, np.arange(len(times)), "right").tolist()
            moments = (Moment("", None, *each) for each in zip(times, parts, strict=True))
            self._numbers = {moment: number for number, moment in enumerate(moments)}

    def moments(self) -> list[Moment]:
        """All frames."""
        return list(self._numbers)

    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:  # noqa: ARG002
        """A frame, for a page seen from above in the rig's frame."""
        dataset = self._dataset
        scene = Scene(moment)
        with refusing(dataset.path, DatasetError, "a frame cannot be read"):
            number = self._numbers[moment]
            frame = dataset.frames[number : number + 1][0]
            rotation, position = frame["ego_rotation"].astype(float), frame["ego_translation"].astype(float)
            agents = _agents(dataset, frame)
            scene.agents = [_agent(agent, rotation, position) for agent in agents]
        return scene


def _agents(dataset: ChunkedDataset, frame: Any) -> Any:  # noqa: ANN401 - rows
    begin, end = frame["agent_index_interval"].tolist()
    return dataset.agents[begin : min(end, begin + MOST_AGENTS)]


def _agent(agent: Any, rotation: Points, position: Points) -> Agent:  # noqa: ANN401 - a row
    """An agent as the rig sees it, which has this rotation and position."""
    x, y, _ = (rotation.T @ (np.array([*agent["centroid"], position[2]]) - position)).tolist()
    length, width, _ = agent["extent"].tolist()
    return Agent(x, y, length, width, float(agent["yaw"]) - math.atan2(rotation[1, 0], rotation[0, 0]))
