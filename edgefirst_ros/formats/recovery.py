"""Finds what a crash left behind, of any format, and has its format finish it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import EdgeFirstError, RecordingNotFound, WriteError
from edgefirst_ros.formats.edgefirst.recover import recover as recover_edgefirst
from edgefirst_ros.formats.l5kit.recover import dataset_path as l5kit_dataset
from edgefirst_ros.formats.l5kit.recover import recover as recover_l5kit
from edgefirst_ros.formats.ncore.recover import recover as recover_ncore
from edgefirst_ros.formats.ncore.store.journal import is_journal as is_ncore_journal
from edgefirst_ros.naming import REPORT


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
    work: list[tuple[Path, Callable[[Path], str]]] = [
        *((folder, _edgefirst) for folder in edgefirst_folders(path)),
        *((sequence, _ncore) for sequence in ncore_sequences(path)),
        *((dataset, _l5kit) for dataset in l5kit_datasets(path)),
    ]
    if not work:
        raise RecordingNotFound(f"{path}: holds no dataset of this package, finished or not")
    for where, finish in work:
        try:
            done = Recovered(where, finish(where))
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
    return sorted(stores | {p.parent for p in _below(path, "*.journal.part") if is_ncore_journal(p)})


def l5kit_datasets(path: Path) -> list[Path]:
    """L5Kit datasets at or below a path, finished or not."""
    marks = [m for m in _below(path, ".zgroup") if (m.parent / "traffic_light_faces").is_dir()]
    return sorted({l5kit_dataset(mark.parent) for mark in marks})


def _below(path: Path, pattern: str) -> list[Path]:
    """What matches below a folder; a file may be one of its dataset, and then its folder is meant."""
    if path.is_dir():
        return list(path.rglob(pattern))
    return list(path.parent.glob(pattern)) if path.name.startswith(f"{path.parent.name}.") else []


def _ncore(folder: Path) -> str:
    done = recover_ncore(folder)
    if done.busy:
        raise WriteError(f"{folder}: this sequence is being written; wait until that has ended")
    return done.text


def _edgefirst(folder: Path) -> str:
    done = recover_edgefirst(folder)
    if done.was_finished:
        return f"{done.dataset}: was finished already, {done.samples:,} samples; nothing to do"
    if not done.samples:
        return f"{done.dataset}: no sample had been committed; the leftovers are removed{_stays(done.beside)}"
    if not done.beside:
        (folder / REPORT).unlink(missing_ok=True)  # of an earlier dataset: a run writes its own at its end
    kept = f"{done.samples:,} samples, {done.files:,} files and {done.rows:,} rows are kept"
    lost = f", {done.samples_lost:,} samples were torn and are lost" if done.samples_lost else ""
    dropped = f"{done.bytes_dropped:,} bytes of unfinished samples dropped"
    return f"{done.dataset}: {kept}{lost}; {dropped}{_stays(done.beside)}"


def _l5kit(path: Path) -> str:
    done = recover_l5kit(path)
    kept = f"{done.scenes:,} scenes and {done.frames:,} frames"
    if done.was_finished:
        return f"{path.name}: was finished already, {kept}; nothing to do"
    if not done.paths:
        return f"{path.name}: no frame had been committed; the leftovers are removed"
    dropped = f"{done.rows_dropped:,} rows of incomplete frames dropped"
    if done.beside == done.path:
        return f"{path.name}: {kept}, stays as it is; nothing more had been committed, {dropped}"
    return f"{done.path.name}: {kept} are kept; {dropped}{_stays(done.beside.name if done.beside else None)}"


def _stays(complete: str | None) -> str:
    return f"; the complete {complete}, which it was to replace, stays" if complete else ""
