"""Finishing a dataset whose writer was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.lock import Lock
from edgefirst_ros.formats.crashsafe.names import finished_path, move_part, part_path
from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.crashsafe.report import Recovery
from edgefirst_ros.formats.l5kit.store.attributes import read_attributes, scene_notes
from edgefirst_ros.formats.l5kit.store.chunkfiles import Files, OwnFiles
from edgefirst_ros.formats.l5kit.store.growingarray import stored_blocks, stored_length, stored_rows
from edgefirst_ros.formats.l5kit.store.growingdataset import EXTENDS, GrowingDataset, open_scene, settle
from edgefirst_ros.formats.l5kit.store.schema import (
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
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, GROUP_KEY


def recover(path: Path) -> Recovery:
    """Finish what a crash left of the dataset at ``path``; safe to repeat, also when interrupted itself.

    Kept is every frame that was written whole, up to the first that is damaged: completed chunks, and the
    rows after them. If there is none, the leftovers are removed. A dataset that is already at ``path`` stays:
    what was to replace it is finished beside it as ``NAME_recovered.zarr``. One that was to extend it takes
    its place, or is removed if it has fewer frames.

    Args:
        path: the ``.zarr`` folder, there or not, or its ``.part``.

    Raises:
        DatasetNotFound: nothing there, finished or not.
        WriteError: it is being written right now, or the disk refuses.
    """
    path = finished_path(path.resolve())
    with disk_errors(path, "cannot be recovered"):
        if part_path(path).exists():
            return _take(path)
        settle(path)
        (path / EXTENDS).unlink(missing_ok=True)
        if not (path / GROUP_KEY).exists():
            raise DatasetNotFound(f"{path}: no dataset, finished or not")
        return Recovery(path, True, _finished_size(path), paths=(path,))


@dataclass(frozen=True, slots=True)
class _Whole:
    """Rows of each array that are stored, and that make up whole frames; the last scene if its end is new."""

    stored: dict[str, int]
    lengths: dict[str, int]
    last: Records

    def dropped(self, kept: dict[str, int]) -> int:
        return sum(max(self.stored[name] - kept.get(name, 0), 0) for name in SPECS)


def _take(path: Path) -> Recovery:
    """Finish, or remove, the ``.part`` folder of a dataset; held against others until it has its place."""
    part = part_path(path)
    with Lock(part):
        settle(path)
        whole = _whole(part)
        there = (path / GROUP_KEY).exists()
        extends = there and (part / EXTENDS).exists()
        # Attributes come last when a folder is set up, so without them nothing was added.
        nothing = not whole.lengths[FRAMES] or not (part / ATTRIBUTES_KEY).exists()
        if nothing or (extends and whole.lengths[FRAMES] < _finished_size(path)["frames"]):
            remove(part)
            stays = path if there else None
            return Recovery(path, dropped=whole.dropped({}), dropped_unit="rows", beside=stays)
        beside = path if there and not extends else None
        if beside:
            path = move_part(path)
    return _finish(path, whole, beside)


def _finish(path: Path, whole: _Whole, beside: Path | None) -> Recovery:
    scenes, frames = whole.lengths[SCENES] + len(whole.last), whole.lengths[FRAMES]
    notes = scene_notes(read_attributes(part_path(path)), scenes)
    dataset = GrowingDataset(path, whole.lengths, notes)
    try:
        dataset.append(SCENES, whole.last)
        dataset.finish()
    finally:
        dataset.close()
    dropped = whole.dropped({**whole.lengths, SCENES: scenes})
    kept = Counter(scenes=scenes, frames=frames)
    return Recovery(path, False, kept, dropped=dropped, dropped_unit="rows", paths=(path,), beside=beside)


def _whole(part: Path) -> _Whole:
    stored = {name: stored_length(_files(part, name)) for name in SPECS}
    return _Whole(stored, *_consistent(part, stored))


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


def _finished_size(path: Path) -> Counter[str]:
    """Scenes and frames of a finished dataset."""
    return Counter({name: Files(path, name).header().length for name in (SCENES, FRAMES)})
