"""In how many frames before and after each agent is seen without a break."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import wrapped
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.read.sampling import contiguous, counts_as_agent
from edgefirst_ros.formats.l5kit.store.schema import Records
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

Counts = npt.NDArray[np.uint32]
"""(N, 2): frames before and after in which the agent is seen without a break."""

_LEAST_AREA_M2 = 0.01


@dataclass(frozen=True, slots=True)
class AgentFilter:
    """When an agent counts as seen without a break; the defaults are L5Kit's.

    Attributes:
        probability: the labels CAR to ANIMAL must add up to more.
        distance_m: the agent must be nearer to the ego vehicle.
        yaw_deg: the heading must turn less from one frame to the next.
        extent_ratio: the area must grow or shrink by a smaller factor from one frame to the next.
    """

    probability: float = 0.5
    distance_m: float = 50.0
    yaw_deg: float = 30.0
    extent_ratio: float = 1.1


def agent_counts(dataset: ChunkedDataset, choice: AgentFilter) -> Counts:
    """For every agent of the dataset in how many frames before and after it is seen without a break.

    An agent that is improbable or far away has 0 and 0. A track is broken at such an agent, at a frame that
    lacks the track, and where heading or area jumps. Scenes are processed one at a time. Defined as in
    L5Kit's ``select_agents``, so that its thresholds mean the same here.
    """
    counts = np.zeros((len(dataset.agents), 2), np.uint32)
    for first, stop in dataset.scenes["frame_index_interval"].tolist():
        if first == stop:
            continue
        frames = dataset.frames[first:stop]
        with refusing(dataset.path, DatasetError, f"the scene from frame {first} on cannot be read"):
            rows = contiguous(frames["agent_index_interval"], len(dataset.agents))
            counts[rows] = _scene_counts(frames, dataset.agents[rows], choice)
    return counts


def _scene_counts(frames: Records, agents: Records, choice: AgentFilter) -> Counts:
    intervals = frames["agent_index_interval"]
    frame = np.repeat(np.arange(len(frames)), intervals[:, 1] - intervals[:, 0])
    away = np.linalg.norm(frames["ego_translation"][frame, :2] - agents["centroid"], axis=1)
    usable = counts_as_agent(agents, choice.probability) & (away < choice.distance_m)
    order = np.lexsort((frame, agents["track_id"]))
    track, at, good = agents["track_id"][order], frame[order], usable[order]
    yaw, extent = agents["yaw"][order].astype(np.float64), agents["extent"][order].astype(np.float64)
    area = extent[:, 0] * extent[:, 1]
    ratio = np.maximum(area[1:], area[:-1]) / np.maximum(np.minimum(area[1:], area[:-1]), _LEAST_AREA_M2)
    sized = area >= _LEAST_AREA_M2
    linked = (track[1:] == track[:-1]) & (at[1:] == at[:-1] + 1) & good[1:] & good[:-1]
    linked &= np.abs(np.degrees(wrapped(np.diff(yaw)))) < choice.yaw_deg
    linked &= (ratio < choice.extent_ratio) & sized[1:] & sized[:-1]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = ~linked
    start = np.flatnonzero(begins)
    chain = np.cumsum(begins) - 1
    length = np.diff(np.append(start, len(order)))
    before = np.arange(len(order)) - start[chain]
    counts = np.zeros((len(order), 2), np.uint32)
    counts[order] = np.stack([before, length[chain] - 1 - before], axis=1)
    return counts
