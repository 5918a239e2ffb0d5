"""An L5Kit dataset to read: its arrays and its scenes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgefirst_ros.formats.crashsafe.names import refuse_links_in
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.chunks import ChunkCache, ChunkedArray, Files
from edgefirst_ros.formats.scene import Agent, Detail, Moment, Points, Scene, Scenes
from edgefirst_ros.formats.zarr2 import GROUP_KEY
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import refusing

Rows = ChunkedArray | schema.Records
"""Rows on disk, or in memory: both slice alike."""

CACHE_BYTES = 128 * 2**20


@dataclass(slots=True)
class ChunkedDataset:
    """A dataset on disk; ``ChunkedDataset(path).open()`` as in L5Kit.

    Attributes:
        path: the ``.zarr`` folder.
        scenes, frames, agents, tl_faces: the arrays of the format. Empty until ``open``.
        notes: by scene, its name and world origin where the dataset says so.
        cache: of decompressed chunks, shared by all arrays.
    """

    path: Path | None = None
    scenes: Rows = field(default_factory=lambda: np.zeros(0, schema.SCENE))
    frames: Rows = field(default_factory=lambda: np.zeros(0, schema.FRAME))
    agents: Rows = field(default_factory=lambda: np.zeros(0, schema.AGENT))
    tl_faces: Rows = field(default_factory=lambda: np.zeros(0, schema.FACE))
    notes: list[schema.SceneNote] = field(default_factory=list)
    cache: ChunkCache = field(default_factory=lambda: ChunkCache(CACHE_BYTES))

    def __post_init__(self) -> None:
        self.path = None if self.path is None else Path(self.path)

    def open(self, cache_bytes: int = CACHE_BYTES) -> ChunkedDataset:
        """Open the arrays and return the dataset; nothing is read but metadata.

        Args:
            cache_bytes: most decompressed chunks that are kept, over all arrays.

        Raises:
            DatasetNotFound: there is no dataset at ``path``.
            DatasetError: an array is not what the format says, or there is a symbolic link in it.
        """
        if self.path is None or not (self.path / GROUP_KEY).exists():
            raise DatasetNotFound(f"{self.path}: no L5Kit dataset (a .zarr folder); is it finished?")
        refuse_links_in(self.path)
        self.cache = ChunkCache(cache_bytes)
        self.scenes, self.frames = (
            self._opened(schema.SCENES, schema.SCENE),
            self._opened(schema.FRAMES, schema.FRAME),
        )
        self.agents = self._opened(schema.AGENTS, schema.AGENT)
        # The first L5Kit datasets have no traffic lights.
        faces = Files(self.path, schema.FACES)
        self.tl_faces = (
            self._opened(schema.FACES, schema.FACE) if faces.metadata.exists() else np.zeros(0, schema.FACE)
        )
        self.notes = schema.scene_notes(self.attributes, len(self.scenes))
        return self

    @property
    def attributes(self) -> dict[str, Any]:
        """The root attributes as they are on disk."""
        return {} if self.path is None else schema.read_attributes(self.path)

    def _opened(self, name: str, expected: np.dtype[np.void]) -> ChunkedArray:
        array = ChunkedArray(Files(self.path or Path(), name), self.cache)
        found: Mapping[str, Any] = array.dtype.fields or {}
        missing = [
            field
            for field, (kind, *_) in (expected.fields or {}).items()
            if field not in found or found[field][0].shape != kind.shape
        ]
        if missing:
            raise DatasetError(f"{self.path}: {name} has no {', '.join(missing)}; found {array.dtype}")
        return array


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
