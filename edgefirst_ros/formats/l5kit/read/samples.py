"""Samples of the ego vehicle and of agents, as sequences that a data loader takes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.read.agentmask import AgentFilter, cached_agent_counts
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.read.raster import Rasterizer, ReaderConfig, build_rasterizer, reader_config
from edgefirst_ros.formats.l5kit.read.sampling import (
    Reach,
    Sample,
    SceneWindow,
    Subject,
    ego_poses,
    host_id,
    read_window,
    sample_of,
)
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

MIN_FRAME_HISTORY = 10
MIN_FRAME_FUTURE = 1
"""L5Kit's defaults of what an agent must have been and be seen for."""


class EgoDataset:
    """A sample for every frame, of the ego vehicle; ``dataset[i]`` is a dictionary by L5Kit's keys.

    Args:
        cfg: in the layout of L5Kit's configuration files; what is missing has L5Kit's default.
        dataset: opened, or in memory.
        rasterizer: draws the images; by default what ``map_type`` says.

    Raises:
        ConfigError: the configuration is invalid.
    """

    def __init__(
        self,
        cfg: ReaderConfig | Mapping[str, Any],
        dataset: ChunkedDataset,
        rasterizer: Rasterizer | None = None,
    ) -> None:
        self.cfg = reader_config(cfg)
        self.dataset = dataset
        self.rasterizer = rasterizer or build_rasterizer(self.cfg)
        intervals = np.asarray(dataset.scenes["frame_index_interval"], np.int64).reshape(-1, 2)
        self._scene_start, self._scene_stop = intervals[:, 0], intervals[:, 1]
        self._hosts = [host_id(host) for host in dataset.scenes["host"].tolist()]

    def __len__(self) -> int:
        return len(self.dataset.frames)

    def __getitem__(self, index: int) -> Sample:
        """The sample of a frame; negative indices count from the end.

        Raises:
            IndexError: there is no such sample.
            DatasetError: it is damaged.
        """
        frame = _checked(index, len(self))
        with refusing(self.dataset.path, DatasetError, f"frame {frame} cannot be read"):
            return self._sample(frame, None)

    def __iter__(self) -> Iterator[Sample]:
        for index in range(len(self)):
            yield self[index]

    def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> Sample:
        """The sample of a scene's frame: of an agent by its track, or of the ego vehicle.

        Raises:
            IndexError: there is no such scene, frame or agent.
        """
        scene = _checked(scene_index, len(self._scene_start))
        start, stop = int(self._scene_start[scene]), int(self._scene_stop[scene])
        return self._sample(start + _checked(state_index, stop - start), track_id)

    def get_scene_dataset(self, scene_index: int) -> Self:
        """The samples of one scene, held in memory.

        Raises:
            IndexError: there is no such scene.
        """
        return type(self)(self.cfg, self.dataset.get_scene_dataset(scene_index), self.rasterizer)

    def get_scene_indices(self, scene_index: int) -> npt.NDArray[np.int64]:
        """Indices of the samples of a scene.

        Raises:
            IndexError: there is no such scene.
        """
        scene = _checked(scene_index, len(self._scene_start))
        return np.arange(self._scene_start[scene], self._scene_stop[scene])

    def get_frame_indices(self, frame_index: int) -> npt.NDArray[np.int64]:
        """Indices of the samples of a frame, counted over the dataset.

        Raises:
            IndexError: there is no such frame.
        """
        return np.array([_checked(frame_index, len(self.dataset.frames))], np.int64)

    def __str__(self) -> str:
        return str(self.dataset)

    def _sample(self, frame: int, track_id: int | None) -> Sample:
        model = self.cfg.model_params
        scene = int(np.searchsorted(self._scene_stop, frame, side="right"))
        wanted = self.rasterizer.wanted
        reach = Reach(
            model.history_num_frames,
            model.future_num_frames,
            agents=wanted != "poses",
            future_agents=track_id is not None,
            points=wanted == "points",
        )
        start, stop = int(self._scene_start[scene]), int(self._scene_stop[scene])
        window = read_window(self.dataset, (start, stop), frame, reach)
        subject = self._ego(window) if track_id is None else _agent(window, track_id)
        sample = sample_of(
            window,
            subject,
            (reach.history, reach.future),
            self.rasterizer.raster_from_agent,
            step_s=model.step_time,
            ego_extent_m=self.cfg.ego_extent_m,
        )
        sample["image"] = self.rasterizer.rasterize(window, subject).transpose(2, 0, 1)
        sample["scene_index"], sample["frame_index"] = np.int64(scene), np.int64(frame - start)
        sample["host_id"] = self._hosts[scene].copy()
        return sample

    def _ego(self, window: SceneWindow) -> Subject:
        position, yaw = ego_poses(window.frames[window.now : window.now + 1])
        return Subject(None, position[0], float(yaw[0]), np.array(self.cfg.ego_extent_m, np.float32))


class AgentDataset(EgoDataset):
    """A sample for every agent that the mask chooses, of that agent.

    Args:
        cfg: as for EgoDataset.
        dataset: opened, or in memory.
        rasterizer: as for EgoDataset.
        agents_mask: (N,) booleans over all agents. By default agents that are seen without a break in
            enough frames, by ``agent_filter``; what that takes is computed once and kept beside the arrays.
        agent_filter: what breaks the sight of an agent; its probability is by default the configuration's
            ``filter_agents_threshold``.
        min_frame_history: frames that an agent must have been seen in before.
        min_frame_future: and after.

    Raises:
        ConfigError: the configuration is invalid.
        ValueError: a mask of another length.
    """

    def __init__(
        self,
        cfg: ReaderConfig | Mapping[str, Any],
        dataset: ChunkedDataset,
        rasterizer: Rasterizer | None = None,
        *,
        agents_mask: npt.NDArray[np.bool_] | None = None,
        agent_filter: AgentFilter | None = None,
        min_frame_history: int = MIN_FRAME_HISTORY,
        min_frame_future: int = MIN_FRAME_FUTURE,
    ) -> None:
        super().__init__(cfg, dataset, rasterizer)
        if agents_mask is None:
            threshold = self.cfg.raster_params.filter_agents_threshold
            counts = cached_agent_counts(dataset, agent_filter or AgentFilter(threshold))
            agents_mask = (counts[:, 0] >= min_frame_history) & (counts[:, 1] >= min_frame_future)
        agents_mask = np.asarray(agents_mask, np.bool_)
        if agents_mask.shape != (len(dataset.agents),):
            raise ValueError(f"agents_mask of shape {agents_mask.shape} for {len(dataset.agents)} agents")
        self.agents_mask = agents_mask
        self.agents_indices = np.flatnonzero(agents_mask)
        self._frame_stop = np.asarray(dataset.frames["agent_index_interval"], np.int64).reshape(-1, 2)[:, 1]

    def __len__(self) -> int:
        return len(self.agents_indices)

    def __getitem__(self, index: int) -> Sample:
        """The sample of a chosen agent; negative indices count from the end.

        Raises:
            IndexError: there is no such sample.
            DatasetError: it is damaged.
        """
        agent = int(self.agents_indices[_checked(index, len(self))])
        with refusing(self.dataset.path, DatasetError, f"agent {agent} cannot be read"):
            frame = int(np.searchsorted(self._frame_stop, agent, side="right"))
            return self._sample(frame, int(self.dataset.agents[agent]["track_id"]))

    def get_scene_dataset(self, scene_index: int) -> Self:
        """The samples of one scene, held in memory, of the same agents.

        Raises:
            IndexError: there is no such scene.
        """
        start, stop = self._agents_of(super().get_scene_indices(scene_index))
        dataset = self.dataset.get_scene_dataset(scene_index)
        return type(self)(self.cfg, dataset, self.rasterizer, agents_mask=self.agents_mask[start:stop])

    def get_scene_indices(self, scene_index: int) -> npt.NDArray[np.int64]:
        """Indices of the samples of a scene.

        Raises:
            IndexError: there is no such scene.
        """
        agents = self._agents_of(super().get_scene_indices(scene_index))
        return np.arange(*np.searchsorted(self.agents_indices, agents))

    def get_frame_indices(self, frame_index: int) -> npt.NDArray[np.int64]:
        """Indices of the samples of a frame, counted over the dataset.

        Raises:
            IndexError: there is no such frame.
        """
        agents = self._agents_of(super().get_frame_indices(frame_index))
        return np.arange(*np.searchsorted(self.agents_indices, agents))

    def _agents_of(self, frames: npt.NDArray[np.int64]) -> tuple[int, int]:
        """First agent and end of consecutive frames."""
        if not len(frames):
            return 0, 0
        start = int(self._frame_stop[frames[0] - 1]) if frames[0] else 0
        return start, int(self._frame_stop[frames[-1]])


def _agent(window: SceneWindow, track_id: int) -> Subject:
    """The current frame's agent of that track.

    Raises:
        IndexError: there is none.
    """
    own = (window.agents["track_id"] == track_id) & (window.agent_frame == window.now)
    if not own.any():
        raise IndexError(f"track {track_id} is not in the frame")
    agent = window.agents[own][0]
    return Subject(track_id, agent["centroid"].copy(), float(agent["yaw"]), agent["extent"].copy())


def _checked(index: int, length: int) -> int:
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range, there are {length}")
    return number % length
