"""Finishing a dataset whose writer was killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgefirst_ros.errors import DatasetNotFound, WriteError
from edgefirst_ros.formats.l5kit.attributes import NAMES, read_attributes, scene_notes
from edgefirst_ros.formats.l5kit.chunkfiles import Files, OwnFiles
from edgefirst_ros.formats.l5kit.growing import stored_blocks, stored_length, stored_rows
from edgefirst_ros.formats.l5kit.schema import (
    AGENTS,
    FACES,
    FRAMES,
    INTERVALS,
    POINTS,
    SCENE,
    SCENES,
    SPANS,
    SPECS,
    Records,
)
from edgefirst_ros.formats.l5kit.store import GrowingDataset, lock_folder, old_path, open_scene, part_path
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, GROUP_KEY


@dataclass(frozen=True, slots=True)
class Recovery:
    """What ``recover`` found and did.

    Attributes:
        path: the dataset.
        was_finished: there was nothing to do.
        scenes: of the dataset now.
        frames: of the dataset now.
        rows_dropped: of all arrays: damaged, or of frames that were not complete.
        paths: what a user should look at; empty if nothing had been committed.
    """

    path: Path
    was_finished: bool
    scenes: int
    frames: int
    rows_dropped: int
    paths: tuple[Path, ...]


def recover(path: Path) -> Recovery:
    """Finish what a crash left of the dataset at ``path``; safe to repeat, also when interrupted itself.

    Kept is every frame that was written whole, up to the first that is damaged: completed chunks, and the
    rows after them. If there is none, or fewer than the dataset already at ``path`` has of the same first
    scene (a run that was to replace or extend it), the leftovers are removed and that dataset stays.

    Args:
        path: the ``.zarr`` folder, there or not, or its ``.part``.

    Raises:
        DatasetNotFound: nothing there, finished or not.
        WriteError: it is being written right now, or the disk refuses.
    """
    path = _dataset_path(path)
    part, old = part_path(path), old_path(path)
    if not part.exists() and old.exists() and not path.exists():
        old.rename(path)
    if not part.exists():
        if old.exists():
            shutil.rmtree(old)
        if not (path / GROUP_KEY).exists():
            raise DatasetNotFound(f"{path}: no dataset, finished or not")
        return Recovery(path, True, *_finished_size(path), 0, (path,))
    try:
        os.close(lock_folder(part))
        return _finish(path)
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"{path}: cannot recover: {error.strerror or error}") from error


def _finish(path: Path) -> Recovery:
    part = part_path(path)
    stored = {name: stored_length(_files(part, name)) for name in SPECS}
    lengths, last = _consistent(part, stored)
    scenes, frames = lengths[SCENES] + len(last), lengths[FRAMES]
    notes = scene_notes(read_attributes(part), scenes)
    had_scenes, had_frames = _finished_size(path)
    # Attributes come last when a folder is set up, so without them nothing was added.
    nothing = not frames or not (part / ATTRIBUTES_KEY).exists()
    fewer = frames < had_frames and _first_name(part) == _first_name(path)
    if nothing or fewer:
        shutil.rmtree(part)
        kept = (path,) if had_frames else ()
        return Recovery(path, False, had_scenes, had_frames, sum(stored.values()), kept)
    dataset = GrowingDataset(path, lengths, notes)
    try:
        dataset.append(SCENES, last)
        dataset.finish()
    finally:
        dataset.close()
    now = {**lengths, SCENES: scenes}
    dropped = sum(max(stored[name] - now[name], 0) for name in SPECS)
    return Recovery(path, False, scenes, frames, dropped, (path,))


def _consistent(part: Path, stored: dict[str, int]) -> tuple[dict[str, int], Records]:
    """Rows of each array that make up whole frames; and the last scene's row, if it has a new end."""
    scenes = np.concatenate([np.zeros(0, SCENE), *_rows(part, SCENES, stored[SCENES])])
    following = open_scene(part)
    ends = scenes["frame_index_interval"][:, 1]
    end = int(ends[-1]) if len(ends) else 0
    following = following[following["frame_index_interval"][:, 0] == end]
    frames = min(
        stored[FRAMES] if len(following) else end,
        *(_sound(part, name, stored[name], stored[INTERVALS[name][0]]) for name in (AGENTS, FACES, POINTS)),
    )
    whole = int(np.searchsorted(ends, frames, side="right"))
    last = np.concatenate([scenes, following])[whole : whole + 1]
    last = last[last["frame_index_interval"][:, 0] < frames]
    lengths = {SCENES: whole, FRAMES: frames, SPANS: frames}
    for name in (AGENTS, FACES, POINTS):
        owner, field = INTERVALS[name]
        lengths[name] = int(_row(part, owner, frames - 1)[field][0, 1]) if frames else 0
    if len(last):
        last["frame_index_interval"][0, 1] = frames
        last["end_time"] = _row(part, FRAMES, frames - 1)["timestamp"]
    return lengths, last


def _sound(part: Path, covered: str, rows: int, owners: int) -> int:
    """How many owners, from the first on, have intervals that follow one another within the covered rows."""
    owner, field = INTERVALS[covered]
    end = count = 0
    for block in _rows(part, owner, owners):
        intervals = block[field]
        starts = np.concatenate([[end], intervals[:-1, 1]])
        bad = (intervals[:, 0] != starts) | (intervals[:, 1] < intervals[:, 0]) | (intervals[:, 1] > rows)
        if owner == FRAMES:
            bad |= block["timestamp"] <= 0
        if bad.any():
            return count + int(np.argmax(bad))
        count += len(block)
        end = int(intervals[-1, 1])
    return count


def _rows(part: Path, name: str, length: int) -> Iterator[Records]:
    return stored_blocks(_files(part, name), length)


def _row(part: Path, name: str, index: int) -> Records:
    """One row, (1,)."""
    files = _files(part, name)
    number, within = divmod(index, files.chunk)
    return stored_rows(files, number, within + 1)[-1:]


def _files(root: Path, name: str) -> OwnFiles:
    return OwnFiles(Files(root, name))


def _dataset_path(path: Path) -> Path:
    path = path.resolve()
    for suffix in (".old.part", ".part"):
        if path.name.endswith(suffix):
            return path.with_name(path.name.removesuffix(suffix))
    return path


def _finished_size(path: Path) -> tuple[int, int]:
    """Scenes and frames of a finished dataset, 0 if there is none."""
    if not (path / GROUP_KEY).exists():
        return 0, 0
    return Files(path, SCENES).header().length, Files(path, FRAMES).header().length


def _first_name(root: Path) -> object:
    names = read_attributes(root).get(NAMES)
    return names[0] if isinstance(names, list) and names else None
