"""In how many frames before and after each agent is seen without a break; cached beside the arrays."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.l5kit.geometry import wrapped
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.read.window import counts_as_agent
from edgefirst_ros.formats.l5kit.store.chunkfiles import Files
from edgefirst_ros.formats.l5kit.store.schema import AGENTS, FRAMES, Records

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
        start, end = int(frames["agent_index_interval"][0, 0]), int(frames["agent_index_interval"][-1, 1])
        counts[start:end] = _scene_counts(frames, dataset.agents[start:end], choice)
    return counts


def cached_agent_counts(dataset: ChunkedDataset, choice: AgentFilter) -> Counts:
    """The same, kept in a file of the dataset's folder by the filter and the state of the arrays.

    Nothing is cached in a folder that is not writable. The file is not L5Kit's ``agents_mask``, whose name
    tells only the probability; L5Kit ignores it.
    """
    if dataset.path is None:
        return agent_counts(dataset, choice)
    path = dataset.path / f"agents_mask.{_fingerprint(dataset, choice)}.npy"
    with suppress(OSError, ValueError):
        kept: Counts = np.load(path, mmap_mode="r")
        if kept.shape == (len(dataset.agents), 2) and kept.dtype == np.uint32:
            return kept
    counts = agent_counts(dataset, choice)
    array_file = BytesIO()
    np.save(array_file, counts)
    with suppress(OSError):
        replace_file(path, array_file.getvalue())
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


def _fingerprint(dataset: ChunkedDataset, choice: AgentFilter) -> str:
    """A hash of the filter, the lengths of the arrays and the sizes of their files."""
    root = dataset.path or Path()
    sizes = [
        [file.name, file.stat().st_size]
        for name in (FRAMES, AGENTS)
        for _, file in Files(root, name).chunks()
    ]
    state = [asdict(choice), len(dataset.scenes), len(dataset.frames), len(dataset.agents), sizes]
    return hashlib.blake2b(json.dumps(state).encode(), digest_size=8).hexdigest()
