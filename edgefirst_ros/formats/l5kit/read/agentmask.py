"""In how many frames before and after each agent is seen without a break; cached beside the arrays."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import astuple, dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.l5kit.geometry import wrapped
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.read.sampling import contiguous, counts_as_agent
from edgefirst_ros.formats.l5kit.store.chunks import Files
from edgefirst_ros.formats.l5kit.store.schema import AGENTS, FRAMES, Records
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import open_regular, read_regular, refusing

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


def cached_agent_counts(dataset: ChunkedDataset, choice: AgentFilter) -> Counts:
    """The same, kept in a file of the dataset's folder by the filter and the state of the arrays.

    Nothing is cached in a folder that is not writable. The file is not L5Kit's ``agents_mask``, whose name
    tells only the probability; L5Kit ignores it.
    """
    if dataset.path is None:
        return agent_counts(dataset, choice)
    path = dataset.path / _cache_name(dataset, choice)
    with suppress(OSError, ValueError):
        open_regular(path).close()
        kept: Counts = np.load(path, mmap_mode="r")
        if kept.shape == (len(dataset.agents), 2) and kept.dtype == np.uint32:
            return kept
    counts = agent_counts(dataset, choice)
    array_file = BytesIO()
    np.save(array_file, counts)
    with suppress(OSError):
        replace_file(path, array_file.getvalue())
    return counts


def holds_counts(path: Path, dataset: ChunkedDataset) -> bool:
    """Whether ``cached_agent_counts`` takes a file for its own; then it holds what the agents give.

    Raises:
        DatasetError: it does not, or there are too many agents to see that.
        OSError: it is no ordinary file, or cannot be read.
    """
    found = _CACHE.fullmatch(path.name)
    try:
        choice = AgentFilter(*map(float, found[1].split("_"))) if found else AgentFilter()
    except (TypeError, ValueError):
        return False
    if path.name != _cache_name(dataset, choice):
        return False
    for first, stop in dataset.scenes["frame_index_interval"].tolist():
        ends = dataset.frames[[first, stop - 1]]["agent_index_interval"] if first < stop else np.zeros((2, 2))
        if ends[1, 1] - ends[0, 0] > _MOST_AGENTS:
            raise DatasetError(f"is of scenes with more than {_MOST_AGENTS:,} agents")
    counts = agent_counts(dataset, choice)
    data = BytesIO(read_regular(path, counts.nbytes + _MOST_HEADER_BYTES))
    with refusing(path.name, DatasetError):
        is_simple = np.lib.format.read_magic(data) == (1, 0)
        header = np.lib.format.read_array_header_1_0(data) if is_simple else None
    if header != (counts.shape, False, counts.dtype) or data.read() != counts.tobytes():
        raise DatasetError("holds other counts than the agents give")
    return True


_CACHE = re.compile(r"agents_mask\.(.{1,99})\.[0-9a-f]{16}\.npy")
_MOST_AGENTS = 1_000_000
"""Of a scene; each takes a quarter of a kilobyte while it is gone through."""
_MOST_HEADER_BYTES = 1024


def _cache_name(dataset: ChunkedDataset, choice: AgentFilter) -> str:
    """It tells the filter, so that a check can make the same again."""
    words = "_".join(str(float(value)) for value in astuple(choice))
    return f"agents_mask.{words}.{_fingerprint(dataset)}.npy"


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


def _fingerprint(dataset: ChunkedDataset) -> str:
    """A hash of the lengths of the arrays and the sizes of their files."""
    root = dataset.path or Path()
    sizes = [
        [file.name, file.stat().st_size]
        for name in (FRAMES, AGENTS)
        for _, file in Files(root, name).chunks()
    ]
    state = [len(dataset.scenes), len(dataset.frames), len(dataset.agents), sizes]
    return hashlib.blake2b(json.dumps(state).encode(), digest_size=8).hexdigest()
