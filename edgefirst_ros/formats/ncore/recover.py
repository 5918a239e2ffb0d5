"""Finishing what a crash left behind, with everything that had been committed."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path

from cbor2 import CBORError

from edgefirst_ros.formats.crashsafe.journal import Lock
from edgefirst_ros.formats.crashsafe.names import PART, forget, move_aside
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.format import Recovery
from edgefirst_ros.formats.ncore.finish.facts import Facts, Remarks
from edgefirst_ros.formats.ncore.finish.sequence import (
    complete_sequence,
    discard,
    publish_sequence,
    remove_unfinished,
)
from edgefirst_ros.formats.ncore.options import Profile
from edgefirst_ros.formats.ncore.store.base import Store
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, entry_counts, open_store
from edgefirst_ros.formats.ncore.store.journal import read_batches
from edgefirst_ros.formats.ncore.write.stores import CubePairing, HeldCubes, StoreSet
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, EdgeFirstError
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, read_regular

_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    EOFError,
    MemoryError,
    RecursionError,
    struct.error,
    CBORError,
    LZMAError,
)
"""What reading content raises that has the right checksum, but is not what this package writes."""


def recover(path: Path, *, complete: bool = False) -> Recovery:
    """Finish an unfinished sequence; a complete one is not touched, so it may run again.

    Kept are the batches that the journal has, of each store up to the first that is not whole. What a crash
    can leave, and what becomes of it:

    ==================  =====================  ====================================================
    meta file ``.part``  earlier meta file      then
    ==================  =====================  ====================================================
    not there           not there              finished under its name
    not there           there                  finished as ``<sequence_id>_recovered``, the earlier one stays
    there               there, another         the same, unless ``complete``: then it replaces the earlier one
    there               not there, or equal    complete, renaming may have begun: gets its name
    there, no journal,  there, another         removed: a power cut brought its name back
    no stores
    ==================  =====================  ====================================================

    An earlier meta file goes before anything is renamed, which only happens once the whole run is complete.
    The journal goes once the meta file has its name.

    Args:
        path: the sequence's folder, or a file in it.
        complete: the run that wrote it lacked only final names.

    Raises:
        DatasetNotFound: no sequence there, finished or not.
        DatasetError: the journal is missing, damaged at its start or of another version; or what is there is
            not what this package writes.
        WriteError: it is being written right now, or the disk refuses.
    """
    folder = path if path.is_dir() and not path.name.endswith((".zarr", ".zarr.part")) else path.parent
    try:
        with disk_errors(folder, "cannot be recovered"):
            return _recover(SequenceFiles(folder, folder.name), complete=complete)
    except EdgeFirstError:
        raise
    except _DAMAGE as error:
        raise DatasetError(
            f"{folder}: damaged, cannot be recovered: {type(error).__name__}: {error}"
        ) from error


def _recover(files: SequenceFiles, *, complete: bool) -> Recovery:
    if all(file == files.note for file in files.folder.glob(f"*{PART}")):
        files.note.unlink(missing_ok=True)  # the rest was moved from here, or into here and is finished
        if not files.meta.exists():
            raise DatasetNotFound(f"{files.folder} holds no NCore sequence, finished or not")
        return Recovery(files.folder, True, paths=(files.meta,))
    is_complete = files.meta_part.exists()
    if not files.journal.exists():
        if is_complete and files.would_replace() and not files.parts():
            remove_unfinished(files)
            return Recovery(files.folder, True, paths=(files.meta,))
        if is_complete:
            return _publish(files)
        raise DatasetError(
            f"{files.folder} has unfinished stores but no {files.journal.name}, which holds their poses and "
            f"calibration; put it back, or remove the folder"
        )
    with Lock(files.journal):
        return _publish(files) if is_complete and (complete or not files.would_replace()) else _finish(files)


def _publish(files: SequenceFiles) -> Recovery:
    """All stores are complete; some may have their names, others not."""
    publish_sequence(files)
    kept: Counter[str] = Counter()
    for store in json.loads(read_regular(files.meta, MOST_REPORT_BYTES))["component_stores"]:
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
    stores: dict[str, Store] = {}
    try:
        stores.update((group, open_store(part)) for group, part in files.parts().items())
        lost, dropped = _cut(files, stores)
        profile: Profile = "single" if facts.sequence.get("profile") == "single" else "separate-sensors"
        scans = StoreSet(files, facts.sequence["store"], profile, None, recovered=stores)
        tolerance_us = facts.sequence.get("cube_tolerance_us", 0)
        CubePairing(HeldCubes(files), scans, tolerance_us).recover(files)
        remarks = Remarks()
        is_complete = complete_sequence(files, stores, facts, remarks)
    finally:
        for store in stores.values():
            store.release()
    if not is_complete:
        return Recovery(beside or files.folder, lost=lost, dropped=dropped, beside=beside)
    publish_sequence(files)
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
        lost=lost,
        dropped=dropped,
        paths=(files.meta,),
        beside=beside,
        warnings=tuple(remarks.warnings),
    )


def _cut(files: SequenceFiles, stores: dict[str, Store]) -> tuple[Counter[str], int]:
    """Cut every store behind its last whole batch; the batches lost, and the bytes dropped."""
    lost: Counter[str] = Counter()
    damaged = set[str]()
    for group, batch in read_batches(files.journal):
        if group in damaged or group not in stores or not stores[group].keep(batch):
            damaged.add(group)
            lost["entries"] += 1
    return lost, sum(store.cut() for store in stores.values())


def _moved_aside(files: SequenceFiles) -> SequenceFiles:
    """The unfinished sequence in a folder of its own.

    Raises:
        WriteError: the disk refuses.
    """
    mine = [*files.parts().values(), *files.all_held(), files.journal]

    def moves(folder: Path) -> Iterator[tuple[Path, Path]]:
        for path in mine:
            yield path, folder / f"{folder.name}{path.name.removeprefix(files.id)}"

    forget(*(set(files.leftovers()) - {*mine, files.note}))
    folder = move_aside(files.note, moves)
    return SequenceFiles(folder, folder.name)
