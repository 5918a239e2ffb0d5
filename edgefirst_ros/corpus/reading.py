"""Opens datasets, and makes batches of their samples for torch's DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import structured_to_unstructured

from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.store.archive import QUALITY
from edgefirst_ros.model.errors import DatasetNotFound, ExtraNotInstalled

_TABLE = ".arrow"
_DEEPEST = 4
"""How far below a folder datasets are looked for: a fleet has sets/DRIVE/edgefirst/NAME."""


def open(  # noqa: A001 - it is called edgefirst_ros.open
    path: str | PathLike[str],
    *,
    keys: Iterable[str] | None = None,
    group: str | None = None,
    transform: Callable[[Sample], Any] | None = None,
    labels: Iterable[str] | None = None,
    labelled: str | None = None,
) -> EdgeFirstDataset:
    """Open an EdgeFirst dataset, ZIP or folder; see ``EdgeFirstDataset`` for what its samples are.

    Args:
        path: the dataset's folder, its ``.arrow`` or ``.zip``, or a folder above the only dataset in it.
        keys: what to read, such as ``["image", "boxes2d"]``; default: all.
        group: only samples of this group: ``train`` or ``val``.
        transform: called with each sample; returns what ``dataset[i]`` shall be.
        labels: names of the classes in the order of their numbers, so that several datasets have the same;
            by default those of this dataset.
        labelled: only samples that were searched for ``boxes2d``, ``boxes3d`` or ``masks``, be it without
            result: what to train on.

    Raises:
        DatasetNotFound: there is no finished dataset, or several.
        DatasetError: it is damaged.
        ConfigError: there is no such key or group, or a label that occurs is not among ``labels``.
    """
    folder, name = _place(Path(path))
    return EdgeFirstDataset(
        folder, name, keys=keys, group=group, transform=transform, labels=labels, labelled=labelled
    )


def _place(path: Path) -> tuple[Path, str]:
    """Folder and name of a dataset."""
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    if path.is_file():
        if path.suffix not in {".arrow", ".zip"}:
            raise DatasetNotFound(f"{path}: is no EdgeFirst dataset; give its folder, its .arrow or its .zip")
        path = path.resolve() if path.is_symlink() else path
        return path.parent, path.stem
    name = path.absolute().name
    if any((path / f"{name}{ending}").exists() for ending in (".arrow", ".zip", ".journal.part")):
        return path, name
    found = sorted(_tables(path, _DEEPEST))
    if len(found) == 1:
        return found[0].parent, found[0].stem
    if found:
        some = ", ".join(
            str(table.parent if table.stem == table.parent.name else table) for table in found[:3]
        )
        raise DatasetNotFound(f"{path}: holds {len(found)} datasets; name one of them, such as {some}")
    raise DatasetNotFound(f"{path}: holds no finished EdgeFirst dataset; is it the folder of one?")


def beneath(path: Path) -> list[Path]:
    """The datasets at or below a path, as ``open`` takes them.

    Raises:
        DatasetNotFound: there is none.
    """
    tables = sorted(_tables(path, _DEEPEST)) if path.is_dir() else []
    return tables if len(tables) > 1 else [path]


def _tables(folder: Path, depth: int) -> Iterator[Path]:
    """Tables in and below a folder, but not below one that has some: its sensor files may be many."""
    try:
        with os.scandir(folder) as entries:
            here = list(entries)
    except OSError:  # what may not be read holds nothing that could be opened
        return
    ending = [Path(entry.path) for entry in here if entry.name.endswith(_TABLE) and entry.name != QUALITY]
    tables = [
        path for path in ending if path.is_file()
    ]  # unlike entry.is_file() no error for a loop of links
    own = [table for table in tables if table.stem == folder.absolute().name]
    yield from own or tables
    if not tables and depth:
        for entry in here:
            if entry.is_dir(follow_symlinks=False):
                yield from _tables(Path(entry.path), depth - 1)


CLOUDS = ("lidar", "radar")
_GRIDS = ("image", "cube", "depth", "lidar_depth", "lidar_reflect")
_LISTS = (
    "boxes2d", "labels2d", "scores2d", "ignore2d", "boxes3d", "labels3d", "scores3d", "ignore3d",
    "labels_masks", "ignore_masks",
)  # fmt: skip
_ANGLES = {"location": 2, "pose": 3}
UNKNOWN_NS = -1


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """Make a batch of samples, as ``collate_fn`` of torch's DataLoader; runs in its workers.

    What every sample has in one size becomes one tensor, with the batch as its first dimension: ``image``
    (B, 3, H, W) uint8, ``cube`` complex64, ``depth`` and the lidar's images int32. If sizes differ, or a
    sample lacks it, it is a list of B tensors or None. ``lidar`` and ``radar`` are lists of (N, F) float32
    tensors or None, with x, y, z first; ``lidar_fields`` and ``radar_fields`` name the columns. Boxes,
    labels, scores and what is to be ignored are lists of B tensors, or None where nobody looked for them.
    Where unknown, ``location`` (B, 2) and
    ``pose`` (B, 3) float64 are NaN, and ``time_ns`` and ``frame`` (B,) int64 are -1. Others are lists of what
    the samples have.

    Raises:
        ExtraNotInstalled: torch is missing.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("torch is not installed: pip install torch", name="torch") from error
    tensor = torch.from_numpy
    batch: dict[str, Any] = {}
    for key in samples[0]:
        values = [sample[key] for sample in samples]
        if key in _GRIDS:
            batch[key] = _stacked([None if v is None else tensor(_grid(key, v)) for v in values], torch.stack)
        elif key in CLOUDS:
            fields = fields_of(values)
            batch[key] = [None if v is None else tensor(matrix_of_cloud(v, fields)) for v in values]
            batch[f"{key}_fields"] = fields
        elif key in _LISTS:
            batch[key] = [None if value is None else tensor(value) for value in values]
        elif key in _ANGLES:
            unknown = np.full(_ANGLES[key], np.nan)
            batch[key] = tensor(np.stack([unknown if value is None else value for value in values]))
        elif key in {"frame", "time_ns"}:
            batch[key] = torch.tensor([UNKNOWN_NS if v is None else v for v in values], dtype=torch.int64)
        else:
            batch[key] = values
    return batch


def _grid(key: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if key == "image" and value.ndim == 3:
        return value.transpose(2, 0, 1)
    return value if key == "cube" else value.astype(np.int32)


def _stacked(tensors: list[Any], stack: Callable[[list[Any]], Any]) -> Any:  # noqa: ANN401 - torch has no types
    shapes = {None if each is None else (each.shape, each.dtype) for each in tensors}
    return stack(tensors) if len(shapes) == 1 and None not in shapes else tensors


def fields_of(clouds: Sequence[npt.NDArray[np.void] | None]) -> tuple[str, ...]:
    """Fields that all clouds have and that are one number a point: x, y, z, then the others in order."""
    there = [cloud.dtype for cloud in clouds if cloud is not None]
    plain = [
        name
        for name in (there[0].names or () if there else ())
        if all(name in (dtype.names or ()) and not dtype[name].shape for dtype in there)
    ]
    return tuple(sorted(plain, key=lambda name: (name not in {"x", "y", "z"}, plain.index(name))))


def matrix_of_cloud(cloud: npt.NDArray[np.void], fields: Sequence[str]) -> npt.NDArray[np.float32]:
    """The columns (N, F) of a cloud."""
    return np.array(structured_to_unstructured(cloud[list(fields)], np.float32))
