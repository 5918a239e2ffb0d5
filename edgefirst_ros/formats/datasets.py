"""Finds the datasets below a path, of every format, and has their formats finish or verify them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import DatasetNotFound, EdgeFirstError
from edgefirst_ros.formats.findings import Check
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.registry import FORMATS


@dataclass(frozen=True, slots=True)
class Recovered:
    """One output: finished now with what was kept of it, or why it could not be (then it is as it was)."""

    path: Path
    text: str
    failed: bool = False


def find(path: Path) -> list[tuple[Format[Any], Path]]:
    """Every dataset at or below a path, finished or not, with its format.

    Args:
        path: a dataset, one of its files, or a folder above it.

    Raises:
        DatasetNotFound: no such path, or no dataset there.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    found = [(each, dataset) for each in FORMATS.values() for dataset in each.find(path)]
    if not found:
        known = ", ".join(FORMATS)
        raise DatasetNotFound(f"{path}: holds no dataset of a known format ({known}), finished or not")
    return found


def recover(path: Path) -> Iterator[Recovered]:
    """Finish every unfinished dataset at or below a path, one after another; safe to repeat.

    One that cannot be finished, because it is being written or damaged or the disk is full, does not keep
    the others from it.

    Raises:
        DatasetNotFound: no such path, or no dataset there.
    """
    for each, dataset in find(path):
        try:
            done = Recovered(dataset, each.recover(dataset).text)
        except EdgeFirstError as error:
            done = Recovered(dataset, str(error), failed=True)
        yield done


def check(path: Path, *, official_python: Path | None = None) -> Iterator[Check]:
    """Check every dataset at or below a path, one after another.

    Args:
        path: a dataset, one of its files, or a folder above it.
        official_python: interpreter with a format's official reader, which then looks, too.

    Raises:
        DatasetNotFound: no such path, or no dataset there.
    """
    for each, dataset in find(path):
        yield each.check(dataset, official_python=official_python)
