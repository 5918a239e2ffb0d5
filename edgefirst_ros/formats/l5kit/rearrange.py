"""Merging datasets into one, and splitting one by scene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.chunks import refuse_changed
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import INTERVALS
from edgefirst_ros.model.errors import DatasetError, OutputExists

_BLOCK = 20_000
_SUFFIX = ".zarr"
_MOST_PARTS = 10_000
"""Folders that one call makes."""


def merge(paths: Sequence[Path], out: Path, *, overwrite: bool = False) -> Path:
    """Make one dataset of several, their scenes one after another; any L5Kit datasets will do.

    Args:
        paths: the datasets, in the order of their scenes.
        out: the new dataset; ``.zarr`` is added if it does not end in it.
        overwrite: replace what is at ``out``, once the new one is complete.

    Raises:
        DatasetNotFound: one is not there.
        DatasetError: one is damaged or not as its manifest says, there is none, a scene name comes twice, or
            ``out`` is inside one.
        OutputExists: ``out`` is there.
        WriteError: it cannot be written.
    """
    sources = [_opened(path) for path in paths]
    if not sources:
        raise DatasetError("no datasets to merge")
    for path in paths:
        if path.resolve() in out.resolve().parents:
            raise DatasetError(f"{out}: lies inside {path}, and would go with it; choose another place")
    names = [note.name for source in sources for note in source.notes if note.name is not None]
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DatasetError(f"scene {twice[0]} is in more than one of the datasets")
    return _write([(source, 0, len(source.scenes)) for source in sources], out, overwrite=overwrite)


def split(path: Path, out: Path, at: Sequence[int] | None = None, *, overwrite: bool = False) -> list[Path]:
    """Cut a dataset between scenes into ``out/<name>_000.zarr``, ``out/<name>_001.zarr``, ...

    Args:
        path: the dataset.
        out: folder of the parts; made if it is not there.
        at: numbers of the scenes that a new part begins with, ascending; None makes a part of every scene.
        overwrite: replace parts that are there.

    Raises:
        DatasetNotFound: there is no dataset at ``path``.
        DatasetError: it is damaged or not as its manifest says, ``at`` names no boundary between scenes, or
            ``out`` is inside it.
        OutputExists: a part is there.
        WriteError: a part cannot be written.
    """
    source = _opened(path)
    if out.resolve().is_relative_to(path.resolve()):
        raise DatasetError(f"{out}: lies inside the dataset, and would go with it; choose another folder")
    count = len(source.scenes)
    cuts = [*range(1, count)] if at is None else [*at]
    edges = [0, *cuts, count]
    if any(low >= high for low, high in pairwise(edges)):
        raise DatasetError(
            f"{path}: cannot cut {count} scenes at {cuts}: ascending numbers below {count} wanted"
        )
    if len(edges) > _MOST_PARTS:
        raise DatasetError(f"{path}: has {count:,} scenes; name with --at where parts begin")
    stem = path.name.removesuffix(_SUFFIX)
    targets = [out / f"{stem}_{number:03d}{_SUFFIX}" for number in range(len(edges) - 1)]
    for target in targets:
        _refuse(target, overwrite=overwrite)
    return [
        _write([(source, low, high)], target, overwrite=overwrite)
        for target, low, high in zip(targets, edges, edges[1:], strict=False)
    ]


def _opened(path: Path) -> ChunkedDataset:
    refuse_changed(path)
    return ChunkedDataset(path).open()


def _write(parts: Sequence[tuple[ChunkedDataset, int, int]], out: Path, *, overwrite: bool) -> Path:
    """Scenes of datasets, one after another, as a dataset."""
    out = out if out.name.endswith(_SUFFIX) else out.with_name(out.name + _SUFFIX)
    _refuse(out, overwrite=overwrite)
    with disk_errors(out):
        growing = GrowingDataset(out)
        try:
            for source, first, stop in parts:
                _add(growing, source, first, stop)
            growing.finish()
        except BaseException:
            growing.discard()
            raise
    return out


def _add(growing: GrowingDataset, source: ChunkedDataset, first: int, stop: int) -> None:
    offsets = {name: growing.length(name) for name in INTERVALS}
    for name, rows in source.blocks(first, stop, _BLOCK):
        for covered, (owner, field) in INTERVALS.items():
            if owner == name:
                rows[field] += offsets[covered]
        growing.append(name, rows)
    growing.notes += source.notes[first:stop]
    if source.point_spans is None:
        growing.fill_spans()
    growing.commit()


def _refuse(path: Path, *, overwrite: bool) -> None:
    if overwrite:
        return
    for existing in (path, part_path(path), old_path(path)):
        if existing.exists():
            raise OutputExists(f"{existing} exists: choose another name or allow overwriting")
