"""Finds what a crash left behind, of any format, and has its format finish it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import RecordingNotFound
from edgefirst_ros.formats.edgefirst.recover import recover as recover_edgefirst


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
    folders = sorted({p.parent for p in _below(path, "*.journal.part")}) or sorted(
        {p.parent for p in _below(path, "*.arrow")}
    )
    if not folders:
        raise RecordingNotFound(f"{path}: holds no dataset of this package, finished or not")
    return [Recovered(folder, _edgefirst(folder)) for folder in folders]


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
