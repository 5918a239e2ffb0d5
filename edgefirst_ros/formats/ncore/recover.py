"""Finishing what a killed writer left behind, with everything that it had committed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.lock import Lock
from edgefirst_ros.formats.crashsafe.names import PART, move_aside
from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.crashsafe.report import Recovery
from edgefirst_ros.formats.ncore.extrinsics import RIG
from edgefirst_ros.formats.ncore.finish.facts import Facts
from edgefirst_ros.formats.ncore.finish.remarks import Remarks
from edgefirst_ros.formats.ncore.finish.sequence import complete, discard, finish
from edgefirst_ros.formats.ncore.options import Profile
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, recover_store
from edgefirst_ros.formats.ncore.store.marks import Contents
from edgefirst_ros.formats.ncore.store.reading import entry_counts
from edgefirst_ros.formats.ncore.write.cubes import CubePairing, HeldCubes
from edgefirst_ros.formats.ncore.write.stores import StoreSet


def recover(path: Path) -> Recovery:
    """Finish an unfinished sequence; a complete one is not touched, so it may run again.

    One that was to replace a complete sequence, and did not come to an end, is finished beside that under the
    name ``<sequence_id>_recovered``. Once all its stores are complete it takes the place.

    Args:
        path: the sequence's folder, or a file in it.

    Raises:
        DatasetNotFound: no sequence there, finished or not.
        DatasetError: unfinished stores whose journal is missing, damaged at its start or of another version.
        WriteError: it is being written right now, or the disk refuses.
    """
    folder = path if path.is_dir() and not path.name.endswith((".zarr", ".zarr.part")) else path.parent
    files = SequenceFiles(folder, folder.name)
    if all(file == files.note for file in folder.glob(f"*{PART}")):
        files.note.unlink(missing_ok=True)  # the rest was moved from here, or into here and is finished
        if not files.meta.exists():
            raise DatasetNotFound(f"{folder} holds no NCore sequence, finished or not")
        return Recovery(folder, True, paths=(files.meta,))
    if not files.journal.exists():
        if files.meta_part.exists():
            return _rename(files)
        raise DatasetError(
            f"{folder} has unfinished stores but no {files.journal.name}, which holds their poses and "
            f"calibration; put it back, or remove the folder"
        )
    with Lock(files.journal):
        return _rename(files) if files.meta_part.exists() else _finish(files)


def _rename(files: SequenceFiles) -> Recovery:
    """All stores were complete when the writer was killed; some have their names, others not."""
    complete(files)
    kept: Counter[str] = Counter()
    for store in json.loads(files.meta.read_bytes())["component_stores"]:
        kept += entry_counts(files.folder / store["path"])
    return Recovery(files.folder, kept=kept, paths=(files.meta,))


def _finish(files: SequenceFiles) -> Recovery:
    beside = files.folder if files.meta.exists() else None
    facts = Facts.read(files.journal)
    if not facts.sequence:
        if files.parts() or files.note.exists():
            raise DatasetError(
                f"{files.journal} is torn at its start; the stores beside it cannot be finished without it"
            )
        discard(files)
        return Recovery(files.folder, beside=beside)
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
        return Recovery(beside or files.folder, dropped=dropped, beside=beside)
    kept = Counter(
        {
            "/".join(instance): len(times)
            for store in stores.values()
            for instance, times in store.contents.instances.items()
        }
    )
    return Recovery(
        files.folder,
        kept=kept + Counter(poses=len(facts.pose_times_us)),
        dropped=dropped,
        paths=(files.meta,),
        beside=beside,
        warnings=tuple(remarks.warnings),
    )


def _moved_aside(files: SequenceFiles) -> SequenceFiles:
    """The unfinished sequence in a folder of its own.

    Raises:
        WriteError: the disk refuses.
    """
    mine = [*files.parts().values(), files.held, files.journal]

    def moves(folder: Path) -> Iterator[tuple[Path, Path]]:
        for path in mine:
            yield path, folder / f"{folder.name}{path.name.removeprefix(files.id)}"

    with disk_errors(files.folder, "cannot be recovered"):
        for leftover in set(files.leftovers()) - {*mine, files.note}:
            remove(leftover)
        folder = move_aside(files.note, moves)
    return SequenceFiles(folder, folder.name)


def _complement(facts: Facts, contents: Contents) -> None:
    """What the entries say themselves, for a journal whose end a power cut took."""
    for node in contents.references - {RIG}:
        facts.nodes.setdefault(node, node)
    for name, size in contents.sizes.items():
        facts.instances.setdefault(("cameras", name), {"frame_id": name, "size": size})
