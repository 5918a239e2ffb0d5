"""Finds what a crash left behind, of any format, and has its format finish it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import EdgeFirstError, RecordingNotFound
from edgefirst_ros.formats.crashsafe.journal import journal_format
from edgefirst_ros.formats.crashsafe.report import Recovery
from edgefirst_ros.formats.edgefirst.recover import recover as recover_edgefirst
from edgefirst_ros.formats.l5kit.recover import dataset_path as l5kit_dataset
from edgefirst_ros.formats.l5kit.recover import recover as recover_l5kit
from edgefirst_ros.formats.ncore.recover import recover as recover_ncore


@dataclass(frozen=True, slots=True)
class Recovered:
    """One output: finished now with what was kept of it, or why it could not be (then it is as it was)."""

    path: Path
    text: str
    failed: bool = False


def recover(path: Path) -> Iterator[Recovered]:
    """Finish every unfinished output at or below a path, one after another; safe to repeat.

    One that cannot be finished, because it is being written or damaged or the disk is full, does not keep
    the others from it.

    Raises:
        RecordingNotFound: nothing there that this package writes.
    """
    if not path.exists():
        raise RecordingNotFound(f"{path}: no such file or folder")
    work: list[tuple[Path, Callable[[Path], Recovery]]] = [
        *((folder, recover_edgefirst) for folder in edgefirst_folders(path)),
        *((sequence, recover_ncore) for sequence in ncore_sequences(path)),
        *((dataset, recover_l5kit) for dataset in l5kit_datasets(path)),
    ]
    if not work:
        raise RecordingNotFound(f"{path}: holds no dataset of this package, finished or not")
    for where, finish in work:
        try:
            done = Recovered(where, finish(where).text)
        except EdgeFirstError as error:
            done = Recovered(where, str(error), failed=True)
        yield done


def edgefirst_folders(path: Path) -> list[Path]:
    """EdgeFirst datasets at or below a path: unfinished ones, or the finished if there are none."""
    journals = {p.parent for p in _below(path, "*.journal.part")} - set(ncore_sequences(path))
    return sorted(journals or {p.parent for p in _below(path, "*.arrow")})


def ncore_sequences(path: Path) -> list[Path]:
    """Folders of NCore sequences at or below a path, finished or not."""
    stores = {p.parent for p in _below(path, "*.ncore4*") if p.name.startswith(f"{p.parent.name}.ncore4")}
    return sorted(stores | {p.parent for p in _below(path, "*.journal.part") if journal_format(p) == "ncore"})


def l5kit_datasets(path: Path) -> list[Path]:
    """L5Kit datasets at or below a path, finished or not."""
    marks = [m for m in _below(path, ".zgroup") if (m.parent / "traffic_light_faces").is_dir()]
    return sorted({l5kit_dataset(mark.parent) for mark in marks})


def _below(path: Path, pattern: str) -> list[Path]:
    """What matches below a folder; a file may be one of its dataset, and then its folder is meant."""
    if path.is_dir():
        return list(path.rglob(pattern))
    return list(path.parent.glob(pattern)) if path.name.startswith(f"{path.parent.name}.") else []
