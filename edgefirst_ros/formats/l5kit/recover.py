"""Finishing a dataset whose writer was killed, or whose computer lost power."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from edgefirst_ros.formats.crashsafe.journal import Journal
from edgefirst_ros.formats.crashsafe.names import finished_path, forget, move_part, old_path, part_path
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.format import Recovery
from edgefirst_ros.formats.l5kit.store.chunks import Files, OwnFiles, differences, has_manifest
from edgefirst_ros.formats.l5kit.store.growingarray import (
    JOURNAL_FORMAT,
    Commit,
    Growth,
    StoredRows,
    stored_rows,
)
from edgefirst_ros.formats.l5kit.store.growingdataset import (
    GrowingDataset,
    forget_tails,
    publish,
    remove_part,
    scene_row,
    settle,
)
from edgefirst_ros.formats.l5kit.store.schema import FRAMES, JOURNAL, SCENES, SPECS, SceneNote
from edgefirst_ros.formats.zarr2 import GROUP_KEY
from edgefirst_ros.model.errors import DatasetNotFound, WriteError


def recover(path: Path, *, complete: bool = False) -> Recovery:
    """Finish what a crash left of the dataset at ``path``; safe to repeat, also when interrupted itself.

    Kept are the frames that the journal says were committed, in order, up to the first whose rows are not
    what it says; that one and all after it are reported as lost. If none is kept, the leftovers are removed.
    A dataset that is already at ``path`` stays: what was to replace it is finished beside it as
    ``NAME_recovered.zarr``.

    Args:
        path: the ``.zarr`` folder, there or not, or its ``.part``.
        complete: the run that wrote it lacked only final names; it then replaces the dataset of its name.

    Raises:
        DatasetNotFound: nothing there, finished or not.
        DatasetError: its journal is of another version.
        WriteError: it is being written right now, its journal is missing, there are links in it, or the disk
            refuses.
    """
    path = finished_path(path.parent.resolve() / path.name)
    with disk_errors(path, "cannot be recovered"):
        if os.path.lexists(part_path(path)):
            return _recover_part(path, complete=complete)
        settle(path)
        if not (path / GROUP_KEY).exists():
            raise DatasetNotFound(f"{path}: no dataset, finished or not")
        if not path.is_symlink():
            (path / JOURNAL).unlink(missing_ok=True)  # killed behind the rename
        sizes = {name: Files(path, name).header().shape[0] for name in (SCENES, FRAMES)}
        return Recovery(path, True, Counter(sizes), paths=(path,))


@dataclass(slots=True)
class _Kept:
    """What is whole of a growing dataset, from the journal's first record on.

    Attributes:
        rows: of each array.
        notes: of the scenes.
        scene: first frame, host and start time of the scene that has not ended.
        lost: frames that were committed and are not whole.
        dropped: rows of all arrays that are not kept.
    """

    rows: Counter[str] = field(default_factory=Counter)
    notes: list[SceneNote] = field(default_factory=list)
    scene: tuple[int, str, int] | None = None
    lost: int = 0
    dropped: int = 0

    def add(self, commit: Commit) -> None:
        self.rows.update({name: growth.length - self.rows[name] for name, growth in commit.rows.items()})
        self.notes += commit.notes
        if commit.scene:
            self.scene = (self.rows[FRAMES], *commit.scene)
        elif SCENES in commit.rows:
            self.scene = None

    @property
    def scenes(self) -> int:
        """With the one under way, if it has frames."""
        return self.rows[SCENES] + (self.scene is not None and self.rows[FRAMES] > self.scene[0])


def _recover_part(path: Path, *, complete: bool) -> Recovery:
    part = part_path(path)
    _refuse_links(part)
    there = path if os.path.lexists(path) or os.path.lexists(old_path(path)) else None
    if not (part / JOURNAL).exists():
        if any(part.iterdir()):
            raise WriteError(
                f"{part}: has no journal: if an earlier version of this package wrote it, recover "
                "it with that version; nothing was changed"
            )
        part.rmdir()
        settle(path)
        return Recovery(path, beside=there)
    with closing(Journal(part / JOURNAL, JOURNAL_FORMAT)) as journal:
        whole = _complete(part, journal)
        kept = whole or _replayed(part, journal)
        settle(path)
        if not kept.rows[FRAMES]:
            remove_part(part)
            lost, dropped = Counter(frames=kept.lost), kept.dropped
            return Recovery(path, lost=lost, dropped=dropped, dropped_unit="rows", beside=there)
        beside = None if complete and not kept.lost else there
        if beside:
            path = move_part(path)
            journal.path = part_path(path) / JOURNAL
        if whole:
            forget_tails(part_path(path))
            publish(path)
        else:
            _finish(path, journal, kept)
    return Recovery(
        path,
        kept=Counter(scenes=kept.scenes, frames=kept.rows[FRAMES]),
        lost=Counter(frames=kept.lost),
        dropped=kept.dropped,
        dropped_unit="rows",
        paths=(path,),
        beside=beside,
    )


def _finish(path: Path, journal: Journal, kept: _Kept) -> None:
    rows = {name: Growth(length, 0) for name, length in (+kept.rows).items()}
    growing = GrowingDataset(path, rows, kept.notes[: kept.scenes], journal)
    try:
        if kept.scene is not None and kept.scenes > kept.rows[SCENES]:
            row = scene_row(*kept.scene)
            row["frame_index_interval"][0, 1] = kept.rows[FRAMES]
            files = OwnFiles(Files(growing.part, FRAMES))
            number, last = divmod(kept.rows[FRAMES] - 1, files.chunk)
            row["end_time"] = stored_rows(files, number)[last]["timestamp"]
            growing.append(SCENES, row)
        growing.finish()
    finally:
        growing.close()


def _complete(part: Path, journal: Journal) -> _Kept | None:
    """What a dataset holds that lacks its name only; None if it lacks more."""
    kept, is_complete = _Kept(), False
    for record in journal.records():
        commit = Commit.from_json(record.payload)
        if commit is None:
            return None
        kept.add(commit)
        is_complete = commit.complete
    tails = {tail.relative_to(part).as_posix() for name in SPECS for _, tail in Files(part, name).tails()}
    if not is_complete or not has_manifest(part) or any(differences(part, besides=tails)):
        return None
    return kept


def _replayed(part: Path, journal: Journal) -> _Kept:
    stored = {name: StoredRows(OwnFiles(Files(part, name))) for name in SPECS}
    kept, written = _Kept(), Counter[str]()
    is_whole = True
    for record in journal.records():
        commit = Commit.from_json(record.payload)
        if commit is None:
            break
        is_whole = is_whole and _is_whole(commit, kept, stored)
        if is_whole:
            kept.add(commit)
        written.update({name: growth.length - written[name] for name, growth in commit.rows.items()})
    forget(*(tail for rows in stored.values() for tail in sorted(rows.refuted)))
    kept.lost = written[FRAMES] - kept.rows[FRAMES]
    for name in SPECS:
        files = OwnFiles(Files(part, name))
        for number, tail in files.files.tails():
            rows = number * files.chunk + tail.stat().st_size // files.spec.dtype.itemsize
            written[name] = max(written[name], rows)
    kept.dropped = (written - kept.rows).total()
    return kept


def _is_whole(commit: Commit, kept: _Kept, stored: dict[str, StoredRows]) -> bool:
    """Whether the rows of the next commit are what it says."""
    rows = {name: commit.rows.get(name, Growth(kept.rows[name], 0)) for name in SPECS}
    return all(
        kept.rows[name] <= length and stored[name].holds(kept.rows[name], length, crc)
        for name, (length, crc) in rows.items()
    )


def _refuse_links(part: Path) -> None:
    """Nothing is read or written through what may be elsewhere, or may never end.

    Raises:
        WriteError: there is anything but files and folders.
    """
    found = (Path(top, name) for top, *names in os.walk(part) for name in chain(*names))
    for path in (part, *found):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise WriteError(f"{path}: is neither a file nor a folder; remove it, then recover again")
