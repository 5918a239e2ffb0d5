"""The frames around the current one, and the subject of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import Floats, yaw_of
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FIRST_AGENT, LAST_AGENT, Records


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose sample it is: an agent by its track, or the ego vehicle (None).

    ``centroid`` (2,) and ``yaw`` in the world, ``extent`` (3,) length, width, height.
    """

    track_id: int | None
    centroid: Floats
    yaw: float
    extent: npt.NDArray[np.float32]

    def world_from_agent(self) -> Floats:
        """The subject's pose (3, 3): x ahead, y to the left."""
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        x, y = self.centroid
        return np.array([[c, -s, x], [s, c, y], [0.0, 0.0, 1.0]])

    def agent_from_world(self) -> Floats:
        """The inverse pose (3, 3)."""
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        x, y = self.centroid
        return np.array([[c, s, -c * x - s * y], [-s, c, s * x - c * y], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, slots=True)
class SceneWindow:
    """Frames of one scene around the current one, in order of time, with everything in them.

    Attributes:
        now: index of the current frame in ``frames``.
        agents: of all these frames; empty if not asked for.
        agent_frame: (len(agents),), the index in ``frames`` of each.
        points: of the current frame, rows of POINT; None if the dataset has no points.
    """

    frames: Records
    now: int
    agents: Records
    agent_frame: npt.NDArray[np.intp]
    points: Records | None


@dataclass(frozen=True, slots=True)
class Reach:
    """What to read around a frame: how many frames before and after, and whether agents and points.

    ``future_agents`` is for subjects that are agents; others need those of the past at most, to be drawn.
    """

    history: int
    future: int
    agents: bool
    future_agents: bool
    points: bool


def read_window(dataset: ChunkedDataset, scene: tuple[int, int], frame: int, reach: Reach) -> SceneWindow:
    """Read the frames around a frame.

    Args:
        dataset: to read from.
        scene: first frame and end of its scene.
        frame: the current one, counted over the dataset.
        reach: what to read.
    """
    start = max(scene[0], frame - reach.history)
    frames = dataset.frames[start : min(scene[1], frame + 1 + reach.future)]
    now = frame - start
    agents, owner = np.zeros(0, AGENT), np.zeros(0, np.intp)
    if reach.agents or reach.future_agents:
        intervals = frames["agent_index_interval"][: None if reach.future_agents else now + 1]
        agents = dataset.agents[contiguous(intervals, len(dataset.agents))]
        owner = np.repeat(np.arange(len(intervals)), intervals[:, 1] - intervals[:, 0])
    points = None
    if reach.points and dataset.points is not None and dataset.point_spans is not None:
        first, stop = dataset.point_spans[frame]["point_index_interval"].tolist()
        points = dataset.points[first:stop]
    return SceneWindow(frames, now, agents, owner, points)


def contiguous(intervals: npt.NDArray[np.int64], length: int) -> slice:
    """The rows that consecutive intervals (N, 2) cover, of so many that there are.

    Raises:
        ValueError: they leave gaps, overlap, or name rows that are not there.
    """
    starts, stops = intervals.T
    is_sound = len(starts) and (starts <= stops).all() and (starts[1:] == stops[:-1]).all()
    if not is_sound or not 0 <= starts[0] <= stops[-1] <= length:
        raise ValueError("intervals of frames are not one after the other, within the rows that there are")
    return slice(int(starts[0]), int(stops[-1]))


def counts_as_agent(agents: Records, threshold: float) -> npt.NDArray[np.bool_]:
    """Which agents (N,) L5Kit keeps: their labels CAR to ANIMAL add up to more than the threshold."""
    total = agents["label_probabilities"][:, FIRST_AGENT : LAST_AGENT + 1].sum(axis=1)
    kept: npt.NDArray[np.bool_] = total > threshold
    return kept


def ego_poses(frames: Records) -> tuple[Floats, Floats]:
    """Positions (N, 2) and yaws (N,) of the ego vehicle."""
    return frames["ego_translation"][:, :2], yaw_of(frames["ego_rotation"])


def track_poses(
    window: SceneWindow, track_id: int
) -> tuple[Floats, Floats, npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Positions (N, 2), yaws (N,), lengths and widths (N, 2) of a track in each frame; where it is (N,).

    They are 0 in frames without it.
    """
    count = len(window.frames)
    position, yaw, there = np.zeros((count, 2)), np.zeros(count), np.zeros(count, np.bool_)
    extent = np.zeros((count, 2), np.float32)
    own = np.flatnonzero(window.agents["track_id"] == track_id)
    frame = window.agent_frame[own]
    position[frame], yaw[frame] = window.agents["centroid"][own], window.agents["yaw"][own]
    extent[frame] = window.agents["extent"][own, :2]
    there[frame] = True
    return position, yaw, extent, there
