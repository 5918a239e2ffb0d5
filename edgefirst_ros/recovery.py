"""Finds what a crash left behind, of any format, and has its format finish it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import RecordingNotFound
from edgefirst_ros.formats.edgefirst.recover import recover as recover_edgefirst
from edgefirst_ros.formats.l5kit.recover import recover as recover_l5kit
from edgefirst_ros.formats.ncore.recover import recover as recover_ncore


@dataclass(frozen=True, slots=True)
class Recovered:
    """One output that is finished now, and what was kept of it."""

    path: Path
    text: str


def recover(path: Path) -> list[Recovered]:
    """Finish every unfinished output at or below a path; safe to repeat.

    Raises:
        RecordingNotFound: nothing there that this package writes.
        WriteError: an output is being written right now, or the disk refuses.
    """
    if not path.exists():
        raise RecordingNotFound(f"{path}: no such file or folder")
    folders = edgefirst_folders(path)
    done = [Recovered(folder, _edgefirst(folder)) for folder in folders]
    done += [Recovered(root, recover_ncore(root).text) for root in ncore_roots(path)]
    done += [Recovered(dataset, _l5kit(dataset)) for dataset in l5kit_datasets(path)]
    if not done:
        raise RecordingNotFound(f"{path}: holds no dataset of this package, finished or not")
    return done


def edgefirst_folders(path: Path) -> list[Path]:
    """EdgeFirst datasets at or below a path: unfinished ones, or the finished if there are none."""
    ncore = {p.parent for p in _below(path, "*.ncore4*")}
    journals = {p.parent for p in _below(path, "*.journal.part")} - ncore
    return sorted(journals or {p.parent for p in _below(path, "*.arrow")})


def ncore_roots(path: Path) -> list[Path]:
    """Folders of NCore sequences at or below a path: those that hold a sequence's folder."""
    return sorted({p.parent.parent for p in _below(path, "*.ncore4*") if ".ncore4" in p.name})


def l5kit_datasets(path: Path) -> list[Path]:
    """L5Kit datasets at or below a path, finished or not."""
    marks = [m for m in _below(path, ".zgroup") if (m.parent / "traffic_light_faces").is_dir()]
    return sorted({m.parent.with_name(m.parent.name.removesuffix(".part")) for m in marks})


def _below(path: Path, pattern: str) -> list[Path]:
    folder = path if path.is_dir() else path.parent
    return list(folder.rglob(pattern))


def _edgefirst(folder: Path) -> str:
    done = recover_edgefirst(folder)
    if done.was_finished:
        return f"{done.dataset}: was finished already, {done.samples:,} samples; nothing to do"
    if not done.samples:
        return f"{done.dataset}: no sample had been committed; the leftovers are removed"
    kept = f"{done.samples:,} samples, {done.files:,} files and {done.rows:,} rows are kept"
    lost = f", {done.samples_lost:,} samples were torn and are lost" if done.samples_lost else ""
    return f"{done.dataset}: {kept}{lost}; {done.bytes_dropped:,} bytes of unfinished samples dropped"


def _l5kit(path: Path) -> str:
    done = recover_l5kit(path)
    kept = f"{done.scenes:,} scenes and {done.frames:,} frames"
    if done.was_finished:
        return f"{path.name}: was finished already, {kept}; nothing to do"
    if not done.paths:
        return f"{path.name}: no frame had been committed; the leftovers are removed"
    return f"{path.name}: {kept} are kept; {done.rows_dropped:,} rows of incomplete frames dropped"
