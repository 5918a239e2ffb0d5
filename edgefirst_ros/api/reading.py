"""Opens datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, Sample

_TABLES = ("*/*.arrow", "*/*/*.arrow")


def open(  # noqa: A001 - it is called edgefirst_ros.open
    path: str | PathLike[str],
    *,
    keys: Iterable[str] | None = None,
    group: str | None = None,
    transform: Callable[[Sample], Any] | None = None,
) -> EdgeFirstDataset:
    """Open an EdgeFirst dataset, ZIP or folder; see ``EdgeFirstDataset`` for what its samples are.

    Args:
        path: the dataset's folder, its ``.arrow`` or ``.zip``, or a folder above the only dataset in it.
        keys: what to read, such as ``["image", "boxes2d"]``; default: all.
        group: only samples of this group: ``train`` or ``val``.
        transform: called with each sample; returns what ``dataset[i]`` shall be.

    Raises:
        DatasetNotFound: there is no finished dataset, or several.
        DatasetError: it is damaged.
        ConfigError: there is no such key or group.
    """
    folder, name = _place(Path(path))
    return EdgeFirstDataset(folder, name, keys=keys, group=group, transform=transform)


def _place(path: Path) -> tuple[Path, str]:
    """Folder and name of a dataset."""
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    if path.is_file():
        if path.suffix not in {".arrow", ".zip"}:
            raise DatasetNotFound(f"{path}: is no EdgeFirst dataset; give its folder, its .arrow or its .zip")
        return path.parent, path.stem
    name = path.absolute().name
    if any((path / f"{name}{ending}").exists() for ending in (".arrow", ".zip", ".journal.part")):
        return path, name
    below = sorted({t.parent for pattern in _TABLES for t in path.glob(pattern) if t.stem == t.parent.name})
    if len(below) == 1:
        return below[0], below[0].name
    if below:
        some = ", ".join(map(str, below[:3]))
        raise DatasetNotFound(f"{path}: holds {len(below)} datasets; name one of them, such as {some}")
    raise DatasetNotFound(f"{path}: holds no finished EdgeFirst dataset; is it the folder of one?")
