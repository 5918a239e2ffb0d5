"""Finishing what a killed writer left behind, with everything that it had committed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import RecordingError, RecordingNotFound
from edgefirst_ros.formats.ncore.cubes import CubePairing, HeldCubes
from edgefirst_ros.formats.ncore.facts import Facts
from edgefirst_ros.formats.ncore.files import SequenceFiles, recover_store
from edgefirst_ros.formats.ncore.finish import COMMON, complete, discard, finish
from edgefirst_ros.formats.ncore.journal import lock
from edgefirst_ros.formats.ncore.stores import StoreSet

_JOURNAL = ".journal.part"
_META_PART = ".json.part"


@dataclass(frozen=True, slots=True)
class RecoveredSequence:
    """What became of one sequence.

    Attributes:
        meta: its meta file, None if nothing of it was ever committed.
        kept: entries by component and instance, ``cameras/camera`` and so on.
        poses: rig poses kept.
        dropped_bytes: of the frames that were being written.
    """

    sequence_id: str
    meta: Path | None
    kept: Mapping[str, int]
    poses: int
    dropped_bytes: int

    @property
    def text(self) -> str:
        """One line for a person."""
        if self.meta is None:
            return f"{self.sequence_id}: nothing had been committed, removed"
        kept = ", ".join(f"{count} {name}" for name, count in self.kept.items()) or "no frames"
        torn = f"; {self.dropped_bytes} bytes of unfinished frames dropped" if self.dropped_bytes else ""
        return f"{self.sequence_id}: kept {kept}, {self.poses} poses{torn}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What ``recover`` did: every unfinished sequence it found, and how many were complete already."""

    sequences: tuple[RecoveredSequence, ...]
    complete: int

    @property
    def text(self) -> str:
        """A few lines for a person."""
        lines = [sequence.text for sequence in self.sequences]
        if self.complete:
            lines.append(f"{self.complete} complete already, left as {'it is' if self.complete == 1 else 'they are'}")
        return "\n".join(lines) or "no NCore sequence here"


def recover(path: Path) -> Recovery:
    """Finish every unfinished sequence at ``path``; complete ones are not touched, so it may run again.

    Args:
        path: a file of a sequence, its folder, or the folder above.

    Raises:
        RecordingNotFound: there is no such path.
        RecordingError: unfinished stores whose journal is missing or damaged from the start.
        WriteError: the sequence is still being written, or the disk is full.
    """
    if not path.exists():
        raise RecordingNotFound(f"{path} does not exist")
    folder = path if path.is_dir() and not path.name.endswith((".zarr", ".zarr.part")) else path.parent
    found = [file for pattern in ("*", "*/*") for file in sorted(folder.glob(pattern))]
    metas = [file for file in found if file.name == f"{file.parent.name}.json"]
    unfinished = {file.parent for file in found if file.name.endswith(".part")}
    sequences = tuple(_recover(SequenceFiles(where, where.name)) for where in sorted(unfinished))
    return Recovery(sequences, sum(file.parent not in unfinished for file in metas))


def _recover(files: SequenceFiles) -> RecoveredSequence:
    if not files.journal.exists():
        if files.meta_part.exists():
            complete(files)
            return _summary(files)
        raise RecordingError(
            f"{files.folder} has unfinished stores but no {files.journal.name}, which holds their poses and "
            f"calibration; put it back, or remove the folder"
        )
    held = lock(files.journal)
    try:
        if files.meta_part.exists():
            complete(files)
            return _summary(files)
        return _finish(files)
    finally:
        os.close(held)


def _finish(files: SequenceFiles) -> RecoveredSequence:
    try:
        facts = Facts.read(files.journal)
    except ValueError as error:
        if files.parts():
            raise RecordingError(f"{error}; the stores beside it cannot be finished without it") from error
        discard(files)
        return RecoveredSequence(files.id, None, {}, 0, 0)
    stores, dropped = {}, 0
    for group, part in files.parts().items():
        stores[group], torn = recover_store(part)
        dropped += torn
    profile = "single" if facts.sequence.get("profile") == "single" else "separate-sensors"
    scans = StoreSet(files, facts.sequence["store"], profile, recovered=stores)
    tolerance_us = facts.sequence.get("cube_tolerance_us", 0)
    CubePairing(HeldCubes.load(files.held), scans, tolerance_us).settle_all()
    if not finish(files, stores, facts):
        return RecoveredSequence(files.id, None, {}, 0, dropped)
    kept = {"/".join(key): len(times) for store in stores.values() for key, times in store.contents.instances.items()}
    return RecoveredSequence(files.id, files.meta, kept, len(facts.pose_times_us), dropped)
