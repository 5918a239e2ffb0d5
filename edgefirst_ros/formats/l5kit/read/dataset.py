"""An L5Kit dataset to read: its arrays, its scenes, and a summary."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgefirst_ros.formats.crashsafe.names import refuse_links_in
from edgefirst_ros.formats.l5kit.store.chunks import ChunkCache, ChunkedArray, Files
from edgefirst_ros.formats.l5kit.store.schema import (
    AGENT,
    AGENTS,
    FACE,
    FACES,
    FRAME,
    FRAMES,
    INTERVALS,
    POINT,
    POINT_SPAN,
    POINTS,
    SCENE,
    SCENES,
    SPANS,
    Records,
    SceneNote,
    read_attributes,
    scene_notes,
)
from edgefirst_ros.formats.zarr2.metadata import GROUP_KEY
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound

Rows = ChunkedArray | Records
"""Rows on disk, or in memory: both slice alike."""

CACHE_BYTES = 128 * 2**20

_ATTRIBUTES = {
    POINTS: "points",
    SPANS: "point_spans",
    AGENTS: "agents",
    FACES: "tl_faces",
    FRAMES: "frames",
    SCENES: "scenes",
}
"""By array its attribute of a dataset; rows that others point to come first."""


@dataclass(slots=True)
class ChunkedDataset:
    """A dataset on disk, or one scene of one in memory; ``ChunkedDataset(path).open()`` as in L5Kit.

    Attributes:
        path: the ``.zarr`` folder; None in memory.
        scenes, frames, agents, tl_faces: the arrays of the format. Empty until ``open``.
        point_spans, points: this package's sensor points by frame; None in datasets from elsewhere.
        notes: by scene, its name and world origin where the dataset says so.
        cache: of decompressed chunks, shared by all arrays.
    """

    path: Path | None = None
    scenes: Rows = field(default_factory=lambda: np.zeros(0, SCENE))
    frames: Rows = field(default_factory=lambda: np.zeros(0, FRAME))
    agents: Rows = field(default_factory=lambda: np.zeros(0, AGENT))
    tl_faces: Rows = field(default_factory=lambda: np.zeros(0, FACE))
    point_spans: Rows | None = None
    points: Rows | None = None
    notes: list[SceneNote] = field(default_factory=list)
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
        self.scenes, self.frames = self._opened(SCENES, SCENE), self._opened(FRAMES, FRAME)
        self.agents = self._opened(AGENTS, AGENT)
        # The first L5Kit datasets have no traffic lights.
        faces = Files(self.path, FACES)
        self.tl_faces = self._opened(FACES, FACE) if faces.metadata.exists() else np.zeros(0, FACE)
        if Files(self.path, SPANS).metadata.exists():
            self.point_spans, self.points = self._opened(SPANS, POINT_SPAN), self._opened(POINTS, POINT)
        self.notes = scene_notes(self.attributes, len(self.scenes))
        return self

    @property
    def attributes(self) -> dict[str, Any]:
        """The root attributes as they are on disk."""
        return {} if self.path is None else read_attributes(self.path)

    def missing(self) -> list[Path]:
        """Chunk files that are missing; their rows read as zero."""
        arrays = [getattr(self, attribute) for attribute in _ATTRIBUTES.values()]
        return [path for array in arrays if isinstance(array, ChunkedArray) for path in array.missing()]

    def get_scene_dataset(self, scene_index: int) -> ChunkedDataset:
        """One scene in memory, its intervals counted from 0; negative indices count from the end.

        Raises:
            IndexError: there is no such scene.
        """
        index = operator.index(scene_index)
        if not -len(self.scenes) <= index < len(self.scenes):
            raise IndexError(f"scene {index} is out of range, the dataset has {len(self.scenes)} scenes")
        index %= len(self.scenes)
        return self.part(index, index + 1)

    def part(self, first: int, stop: int) -> ChunkedDataset:
        """Scenes ``first`` to ``stop`` in memory, their intervals counted from 0."""
        rows = dict(self.blocks(first, stop, 1 << 62))
        part = ChunkedDataset(notes=self.notes[first:stop])
        if self.point_spans is not None:
            part.point_spans, part.points = np.zeros(0, POINT_SPAN), np.zeros(0, POINT)
        for name, attribute in _ATTRIBUTES.items():
            if name in rows:
                setattr(part, attribute, rows[name])
        return part

    def blocks(self, first: int, stop: int, most: int) -> Iterator[tuple[str, Records]]:
        """All rows of scenes ``first`` to ``stop`` as array name and rows, intervals counted from 0.

        Rows that others point to come first; no block has more than ``most`` rows.
        """
        starts, stops = self._extents(first, stop)
        for name, attribute in _ATTRIBUTES.items():
            array: Rows | None = getattr(self, attribute)
            if array is None:
                continue
            for at in range(starts[name], stops[name], most):
                rows = np.array(array[at : min(at + most, stops[name])])
                for covered, (owner, interval) in INTERVALS.items():
                    if owner == name and interval in (rows.dtype.names or ()):
                        rows[interval] -= starts[covered]
                yield name, rows

    def __str__(self) -> str:
        return summary(self)

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

    def _extents(self, first: int, stop: int) -> tuple[dict[str, int], dict[str, int]]:
        """Where the scenes' rows start and stop in each array."""
        starts, stops = {SCENES: first}, {SCENES: max(stop, first)}
        owners: dict[str, Rows | None] = {SCENES: self.scenes, FRAMES: self.frames, SPANS: self.point_spans}
        for covered in (FRAMES, SPANS, AGENTS, FACES, POINTS):
            if covered == SPANS:
                starts[SPANS], stops[SPANS] = starts[FRAMES], stops[FRAMES]
                if self.point_spans is not None and stops[SPANS] > len(self.point_spans):
                    raise DatasetError(f"{self.path}: {SPANS} has {len(self.point_spans):,} rows, too few")
                continue
            owner, interval = INTERVALS[covered]
            rows = owners[owner]
            if rows is None or starts[owner] >= stops[owner]:
                starts[covered] = stops[covered] = 0
                continue
            ends = rows[[starts[owner], stops[owner] - 1]][interval]
            starts[covered], stops[covered] = int(ends[0, 0]), int(ends[1, 1])
            array: Rows | None = getattr(self, _ATTRIBUTES[covered])
            # The first datasets have no traffic lights, whatever their frames say.
            if isinstance(array, ChunkedArray) and not 0 <= starts[covered] <= stops[covered] <= len(array):
                named = f"{starts[covered]} to {stops[covered]} of {len(array):,} {covered}"
                raise DatasetError(f"{self.path}: {owner} name the rows {named}")
        return starts, stops


def summary(dataset: ChunkedDataset) -> str:
    """A table of counts and averages, as L5Kit prints it."""
    scenes, frames, agents = len(dataset.scenes), len(dataset.frames), len(dataset.agents)
    step_s = np.diff(dataset.frames[:50]["timestamp"]) / 1e9 if frames else np.zeros(0)
    step_s = step_s[step_s > 0]
    rate_hz = float(len(step_s) / step_s.sum()) if len(step_s) else 0.0
    hours = frames / rate_hz / 3600 if rate_hz else 0.0
    cells = {
        "Num Scenes": f"{scenes}",
        "Num Frames": f"{frames}",
        "Num Agents": f"{agents}",
        "Num TR lights": f"{len(dataset.tl_faces)}",
        "Total Time (hr)": f"{hours:.2f}",
        "Avg Frames per Scene": f"{frames / max(scenes, 1):.2f}",
        "Avg Agents per Frame": f"{agents / max(frames, 1):.2f}",
        "Avg Scene Time (sec)": f"{hours * 3600 / max(scenes, 1):.2f}",
        "Avg Frame frequency": f"{rate_hz:.2f}",
    }
    widths = [max(len(title), len(text)) for title, text in cells.items()]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [
        "|" + "|".join(f" {text:^{width}} " for text, width in zip(row, widths, strict=True)) + "|"
        for row in (cells.keys(), cells.values())
    ]
    return "\n".join([rule, lines[0], rule, lines[1], rule])
