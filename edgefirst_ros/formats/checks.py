"""Finds every dataset below a path, of any format, and has its format verify it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.edgefirst.check import check as check_edgefirst
from edgefirst_ros.formats.findings import Check
from edgefirst_ros.formats.l5kit.check.dataset import check as check_l5kit
from edgefirst_ros.formats.l5kit.recover import dataset_path
from edgefirst_ros.formats.ncore.check.sequence import check as check_ncore
from edgefirst_ros.formats.recovery import ncore_sequences
from edgefirst_ros.naming import REPORT

_TABLE, _ARCHIVE, _JOURNAL = ".arrow", ".zip", ".journal.part"


def check(path: Path, *, official_python: Path | None = None) -> Iterator[Check]:
    """Check every dataset at or below a path, one after another: EdgeFirst, then L5Kit, then NCore.

    Args:
        path: a dataset, one of its files, or a folder above it.
        official_python: interpreter with nvidia-ncore, whose reader looks at NCore sequences, too.

    Raises:
        DatasetNotFound: no such path, or no dataset there, finished or not.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    sequences = ncore_sequences(path)
    edgefirst, l5kit = edgefirst_datasets(path, sequences), l5kit_datasets(path)
    if not (edgefirst or l5kit or sequences):
        raise DatasetNotFound(f"{path}: holds no EdgeFirst or L5Kit dataset and no NCore sequence")
    for dataset in edgefirst:
        yield check_edgefirst(dataset)
    for dataset in l5kit:
        yield check_l5kit(dataset)
    for sequence in sequences:
        yield from check_ncore(sequence, official_python=official_python)


def edgefirst_datasets(path: Path, sequences: list[Path]) -> list[Path]:
    """EdgeFirst datasets at or below a path, finished or not: folders, or files in a folder called otherwise.

    Args:
        path: where to look; one of a dataset's files means the dataset.
        sequences: folders that are NCore's, whose journals look alike.
    """
    if path.is_file():
        return [_dataset(path, path.suffix)] if path.suffix in {_TABLE, _ARCHIVE} else []
    found = {_dataset(p, _TABLE) for p in path.rglob(f"*{_TABLE}")}
    found |= {_dataset(p, _ARCHIVE) for p in path.rglob(f"*{_ARCHIVE}") if p.stem == p.parent.name}
    found |= {p.parent for p in path.rglob(f"*{_JOURNAL}") if p.parent not in sequences}
    # What is left of a dataset whose table and archive are lost.
    found |= {p.parent for p in path.rglob(REPORT)}
    return sorted(found)


def _dataset(file: Path, suffix: str) -> Path:
    """Its folder if that bears its name, as it should, else the file."""
    return file.parent if file.name == f"{file.parent.name}{suffix}" else file


def l5kit_datasets(path: Path) -> list[Path]:
    """L5Kit datasets at or below a path, finished or not, by the arrays that they have."""
    marks = {p.parent for name in ("scenes", "frames") for p in path.rglob(name) if _is_l5kit(p.parent)}
    if _is_l5kit(path):
        marks.add(path)
    return sorted({dataset_path(mark) for mark in marks})


def _is_l5kit(folder: Path) -> bool:
    """Two of the arrays are enough: what is lost is to be told."""
    return sum((folder / name).is_dir() for name in ("scenes", "frames", "agents")) > 1
