"""Opens datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.store.paths import QUALITY

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
