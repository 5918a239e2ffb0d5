"""Finishing what a killed writer left behind, with everything that it had committed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import DatasetError, DatasetNotFound, WriteError
from edgefirst_ros.formats.crashsafe.aside import move_aside
from edgefirst_ros.formats.ncore.options import Profile
from edgefirst_ros.formats.ncore.store.files import PART, SequenceFiles, recover_store, remove
from edgefirst_ros.formats.ncore.store.journal import lock
from edgefirst_ros.formats.ncore.store.marks import Contents
from edgefirst_ros.formats.ncore.store.reading import entry_counts
from edgefirst_ros.formats.ncore.write.cubes import CubePairing, HeldCubes
from edgefirst_ros.formats.ncore.write.extrinsics import RIG
from edgefirst_ros.formats.ncore.write.facts import Facts
from edgefirst_ros.formats.ncore.write.finish import complete, discard, finish
from edgefirst_ros.formats.ncore.write.remarks import Remarks
from edgefirst_ros.formats.ncore.write.stores import StoreSet


@dataclass(frozen=True, slots=True)
class RecoveredSequence:
    """What became of one sequence.

    Attributes:
        meta: its meta file, None if nothing of it was ever committed.
        kept: entries by component and instance, ``cameras/camera`` and so on.
        poses: rig poses kept; None if they were not counted.
        dropped_bytes: what was behind the last complete frames.
        beside: the complete sequence that it was to replace, which stays as it is.
        warnings: what a user must know of it.
    """

    sequence_id: str
    meta: Path | None
    kept: Mapping[str, int]
    poses: int | None
    dropped_bytes: int
    beside: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """A line for a person, and one for every warning."""
        return "\n".join([self._summary, *(f"warning: {warning}" for warning in self.warnings)])

    @property
    def _summary(self) -> str:
        stays = f"; the complete {self.beside}, which it was to replace, stays" if self.beside else ""
        if self.meta is None:
            return f"{self.sequence_id}: nothing had been committed, removed{stays}"
        kept = ", ".join(f"{count} {name}" for name, count in self.kept.items()) or "no frames"
        poses = "" if self.poses is None else f", {self.poses} poses"
        torn = f"; dropped {self.dropped_bytes} bytes behind the last frames" if self.dropped_bytes else ""
        return f"{self.sequence_id}: kept {kept}{poses}{torn}{stays}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What ``recover`` did.

    Attributes:
        sequences: every unfinished sequence that it finished.
        complete: how many were complete already.
        busy: sequences that another process is still writing; they were left alone.
    """

    sequences: tuple[RecoveredSequence, ...]
    complete: int
    busy: tuple[str, ...]

    @property
    def text(self) -> str:
        """A few lines for a person."""
        lines = [sequence.text for sequence in self.sequences]
        lines += [f"{name}: still being written, left alone" for name in self.busy]
        if self.complete:
            lines.append(f"{self.complete} complete already")
        return "\n".join(lines) or "no NCore sequence here"


def recover(path: Path) -> Recovery:
    """Finish every unfinished sequence at ``path``; complete ones are not touched, so it may run again.

    One that was to replace a complete sequence, and did not come to an end, is finished beside that under the
    name ``<sequence_id>_recovered``. Once all its stores are complete it takes the place.

    Args:
        path: a file of a sequence, its folder, or the folder above.

    Raises:
        DatasetNotFound: there is no such path.
        DatasetError: unfinished stores whose journal is missing or damaged from the start.
        WriteError: the disk is full.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path} does not exist")
    folder = path if path.is_dir() and not path.name.endswith((".zarr", ".zarr.part")) else path.parent
    found = [file for pattern in ("*", "*/*") for file in sorted(folder.glob(pattern))]
    complete_already = {file.parent for file in found if file.name == f"{file.parent.name}.json"}
    unfinished = {file.parent for file in found if file.name.endswith(PART)}
    sequences: list[RecoveredSequence] = []
    busy: list[str] = []
    for where in sorted(unfinished):
        files = SequenceFiles(where, where.name)
        if all(file == files.note for file in where.glob(f"*{PART}")):
            files.note.unlink(missing_ok=True)  # the rest was moved from here, or into here and is finished
            continue
        sequence = _recover(files)
        if sequence is None:
            busy.append(where.name)
        else:
            sequences.append(sequence)
    return Recovery(tuple(sequences), len(complete_already - unfinished), tuple(busy))


def _recover(files: SequenceFiles) -> RecoveredSequence | None:
    """Finish one sequence; None if its writer is alive."""
    if not files.journal.exists():
        if files.meta_part.exists():
            return _rename(files)
        raise DatasetError(
            f"{files.folder} has unfinished stores but no {files.journal.name}, which holds their poses and "
            f"calibration; put it back, or remove the folder"
        )
    held = lock(files.journal)
    if held is None:
        return None
    try:
        if files.meta_part.exists():
            return _rename(files)
        return _finish(files)
    finally:
        os.close(held)


def _rename(files: SequenceFiles) -> RecoveredSequence:
    """All stores were complete when the writer was killed; some have their names, others not."""
    complete(files)
    kept: Counter[str] = Counter()
    for store in json.loads(files.meta.read_bytes())["component_stores"]:
        kept += entry_counts(files.folder / store["path"])
    return RecoveredSequence(files.id, files.meta, kept, None, 0)


def _finish(files: SequenceFiles) -> RecoveredSequence:
    beside = files.id if files.meta.exists() else None
    try:
        facts = Facts.read(files.journal)
    except ValueError as error:
        if files.parts() or files.note.exists():
            raise DatasetError(f"{error}; the stores beside it cannot be finished without it") from error
        discard(files)
        return RecoveredSequence(files.id, None, {}, 0, 0, beside)
    if beside or files.note.exists():
        files = _moved_aside(files)
    stores, dropped = {}, 0
    for group, part in files.parts().items():
        stores[group], torn = recover_store(part)
        dropped += torn
        _complement(facts, stores[group].contents)
    profile: Profile = "single" if facts.sequence.get("profile") == "single" else "separate-sensors"
    scans = StoreSet(files, facts.sequence["store"], profile, recovered=stores)
    tolerance_us = facts.sequence.get("cube_tolerance_us", 0)
    CubePairing(HeldCubes.load(files.held), scans, tolerance_us).settle_all()
    remarks = Remarks()
    if not finish(files, stores, facts, remarks):
        return RecoveredSequence(beside or files.id, None, {}, 0, dropped, beside)
    kept = {
        "/".join(instance): len(times)
        for store in stores.values()
        for instance, times in store.contents.instances.items()
    }
    poses = len(facts.pose_times_us)
    return RecoveredSequence(files.id, files.meta, kept, poses, dropped, beside, tuple(remarks.warnings))


def _moved_aside(files: SequenceFiles) -> SequenceFiles:
    """The unfinished sequence in a folder of its own.

    Raises:
        WriteError: the disk refuses.
    """
    mine = [*files.parts().values(), files.held, files.journal]

    def moves(folder: Path) -> Iterator[tuple[Path, Path]]:
        for path in mine:
            yield path, folder / f"{folder.name}{path.name.removeprefix(files.id)}"

    try:
        for leftover in set(files.leftovers()) - {*mine, files.note}:
            remove(leftover)
        folder = move_aside(files.note, moves)
    except OSError as error:
        raise WriteError(f"{files.folder}: cannot recover: {error.strerror or error}") from error
    return SequenceFiles(folder, folder.name)


def _complement(facts: Facts, contents: Contents) -> None:
    """What the entries say themselves, for a journal whose end a power cut took."""
    for node in contents.references - {RIG}:
        facts.nodes.setdefault(node, node)
    for name, size in contents.sizes.items():
        facts.instances.setdefault(("cameras", name), {"frame_id": name, "size": size})
