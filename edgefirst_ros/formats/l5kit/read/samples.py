"""Samples of the ego vehicle and of agents, as sequences that a data loader takes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgefirst_ros.formats.l5kit.read import sampling
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.model.errors import ConfigError, DatasetError, sentences
from edgefirst_ros.model.untrusted import refusing

# L5Kit's files say more than samples need (training, maps, pictures), so other keys are passed over.
_LENIENT = ConfigDict(frozen=True, extra="ignore")


class ModelParams(BaseModel):
    """How much of the past and the future a sample holds, in frames."""

    model_config = _LENIENT

    history_num_frames: int = Field(default=0, ge=0, description="Frames before the current one.")
    future_num_frames: int = Field(default=50, ge=0, description="Frames after the current one.")
    step_time: float = Field(
        default=0.1, gt=0, description="Seconds from frame to frame, which velocities are differences over."
    )


class RasterParams(BaseModel):
    """Which agents there are samples of; L5Kit has this beside the settings of its pictures."""

    model_config = _LENIENT

    filter_agents_threshold: float = Field(
        default=0.5, description="Choose agents whose labels CAR to ANIMAL add up to more."
    )


class ReaderConfig(BaseModel):
    """Configuration of EgoDataset and AgentDataset; every field has L5Kit's default."""

    model_config = _LENIENT

    model_params: ModelParams = ModelParams()
    raster_params: RasterParams = RasterParams()
    ego_extent_m: tuple[float, float, float] = Field(
        default=(4.87, 1.85, 1.8), description="Length, width, height of the ego vehicle, which no array has."
    )


def _reader_config(values: ReaderConfig | Mapping[str, Any]) -> ReaderConfig:
    """A configuration from plain values, such as one of L5Kit's YAML files.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    if isinstance(values, ReaderConfig):
        return values
    try:
        return ReaderConfig.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(sentences(error, ReaderConfig)) from error


MIN_FRAME_HISTORY = 10
MIN_FRAME_FUTURE = 1
"""L5Kit's defaults of what an agent must have been and be seen for."""


class EgoDataset:
    """A sample for every frame, of the ego vehicle; ``dataset[i]`` is a dictionary by L5Kit's keys.

    Args:
        cfg: in the layout of L5Kit's configuration files; what is missing has L5Kit's default.
        dataset: opened, or in memory.

    Raises:
        ConfigError: the configuration is invalid.
    """

    def __init__(self, cfg: ReaderConfig | Mapping[str, Any], dataset: ChunkedDataset) -> None:
        self.cfg = _reader_config(cfg)
        self.dataset = dataset
        intervals = np.asarray(dataset.scenes["frame_index_interval"], np.int64).reshape(-1, 2)
        self._scene_start, self._scene_stop = intervals[:, 0], intervals[:, 1]
        self._hosts = [sampling.host_id(host) for host in dataset.scenes["host"].tolist()]

    def __len__(self) -> int:
        return len(self.dataset.frames)

    def __getitem__(self, index: int) -> sampling.Sample:
        """The sample of a frame; negative indices count from the end.

        Raises:
            IndexError: there is no such sample.
            DatasetError: it is damaged.
        """
        frame = _checked(index, len(self))
        with refusing(self.dataset.path, DatasetError, f"frame {frame} cannot be read"):
            return self._sample(frame, None)

    def __iter__(self) -> Iterator[sampling.Sample]:
        for index in range(len(self)):
            yield self[index]

    def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> sampling.Sample:
        """The sample of a scene's frame: of an agent by its track, or of the ego vehicle.

        Raises:
            IndexError: there is no such scene, frame or agent.
        """
        scene = _checked(scene_index, len(self._scene_start))
        start, stop = int(self._scene_start[scene]), int(self._scene_stop[scene])
        return self._sample(start + _checked(state_index, stop - start), track_id)

    def _sample(self, frame: int, track_id: int | None) -> sampling.Sample:
        model = self.cfg.model_params
        scene = int(np.searchsorted(self._scene_stop, frame, side="right"))
        reach = model.history_num_frames, model.future_num_frames
        start, stop = int(self._scene_start[scene]), int(self._scene_stop[scene])
        window = sampling.read_window(self.dataset, (start, stop), frame, reach, agents=track_id is not None)
        subject = self._ego(window) if track_id is None else _agent(window, track_id)
        sample = sampling.sample_of(
            window, subject, reach, step_s=model.step_time, ego_extent_m=self.cfg.ego_extent_m
        )
        sample["scene_index"], sample["frame_index"] = np.int64(scene), np.int64(frame - start)
        sample["host_id"] = self._hosts[scene].copy()
        return sample

    def _ego(self, window: sampling.SceneWindow) -> sampling.Subject:
        position, yaw = sampling.ego_poses(window.frames[window.now : window.now + 1])
        return sampling.Subject(None, position[0], float(yaw[0]), np.array(self.cfg.ego_extent_m, np.float32))


class AgentDataset(EgoDataset):
    """A sample for every agent that the mask chooses, of that agent.

    Args:
        cfg: as for EgoDataset.
        dataset: opened, or in memory.
        agents_mask: (N,) booleans over all agents. By default agents that are seen without a break in
            enough frames, by ``agent_filter``.
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
        *,
        agents_mask: npt.NDArray[np.bool_] | None = None,
        agent_filter: sampling.AgentFilter | None = None,
        min_frame_history: int = MIN_FRAME_HISTORY,
        min_frame_future: int = MIN_FRAME_FUTURE,
    ) -> None:
        super().__init__(cfg, dataset)
        if agents_mask is None:
            threshold = self.cfg.raster_params.filter_agents_threshold
            counts = sampling.agent_counts(dataset, agent_filter or sampling.AgentFilter(threshold))
            agents_mask = (counts[:, 0] >= min_frame_history) & (counts[:, 1] >= min_frame_future)
        agents_mask = np.asarray(agents_mask, np.bool_)
        if agents_mask.shape != (len(dataset.agents),):
            raise ValueError(f"agents_mask of shape {agents_mask.shape} for {len(dataset.agents)} agents")
        self.agents_mask = agents_mask
        self.agents_indices = np.flatnonzero(agents_mask)
        self._frame_stop = np.asarray(dataset.frames["agent_index_interval"], np.int64).reshape(-1, 2)[:, 1]

    def __len__(self) -> int:
        return len(self.agents_indices)

    def __getitem__(self, index: int) -> sampling.Sample:
        """The sample of a chosen agent; negative indices count from the end.

        Raises:
            IndexError: there is no such sample.
            DatasetError: it is damaged.
        """
        agent = int(self.agents_indices[_checked(index, len(self))])
        with refusing(self.dataset.path, DatasetError, f"agent {agent} cannot be read"):
            frame = int(np.searchsorted(self._frame_stop, agent, side="right"))
            return self._sample(frame, int(self.dataset.agents[agent]["track_id"]))


def _agent(window: sampling.SceneWindow, track_id: int) -> sampling.Subject:
    """The current frame's agent of that track.

    Raises:
        IndexError: there is none.
    """
    own = (window.agents["track_id"] == track_id) & (window.agent_frame == window.now)
    if not own.any():
        raise IndexError(f"track {track_id} is not in the frame")
    agent = window.agents[own][0]
    return sampling.Subject(track_id, agent["centroid"].copy(), float(agent["yaw"]), agent["extent"].copy())


def _checked(index: int, length: int) -> int:
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range, there are {length}")
    return number % length
