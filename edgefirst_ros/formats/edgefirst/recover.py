"""Recovery: finishes a dataset whose writer was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import (
    forget,
    forget_unfinished,
    move_aside,
    part_path,
    refuse_links,
    restore_old,
)
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.finish import complete_dataset, count_samples, publish_dataset
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import Archive, DatasetPaths, open_archive
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.format import Recovery
from edgefirst_ros.model.errors import EdgeFirstError, RecordingNotFound, WriteError
from edgefirst_ros.model.untrusted import PAGE, REPORT


def recover(dataset_folder: Path, *, complete: bool = False) -> Recovery:
    """Finish what a crash left in a dataset's folder; safe to repeat, also when interrupted itself.

    Kept are the samples that the journal says were committed, in order, up to the first whose files are not
    whole in the container; that one and all after it are reported as lost. If none is kept, the leftovers are
    removed. A complete dataset of that name stays: what was to replace it is finished beside it, in
    ``NAME_recovered``.

    Args:
        dataset_folder: the folder.
        complete: the run that wrote it lacked only final names; it then replaces the dataset of its name.

    Raises:
        RecordingNotFound: there is no dataset in that folder.
        DatasetError: its journal was written by another version.
        OutputBusy: it is being written.
        WriteError: its journal is missing, a file is a symbolic link, or the file system reports an error.
    """
    paths = DatasetPaths(dataset_folder.resolve())
    refuse_links(paths.folder, *paths.unfinished())
    if not paths.journal.exists():
        return _without_journal(paths)
    with disk_errors(paths.folder, "cannot be recovered"), closing(SampleJournal(paths.journal)) as journal:
        options = journal.options()
        restore_old(paths.container("folder"))
        beside = paths.folder if any(path.exists() for path in paths.finished()) else None
        if options is None or (beside and next(iter(journal), None) is None):
            return _nothing_committed(paths, 0, 0, beside)
        if complete:
            return _with_journal(paths, journal, options, has_report=True)
        if paths.note.exists() or (beside and part_path(paths.container(options.container)).exists()):
            paths = _moved_aside(paths, journal, options)
            return _with_journal(paths, journal, options, beside)
        return _with_journal(paths, journal, options)


def finish_replacement(paths: DatasetPaths, journal: SampleJournal) -> bool:
    """Before a new run, complete the renames of a run that was killed while it replaced a dataset.

    Returns:
        Whether there were any; the journal is then closed and removed.

    Raises:
        OSError: the file system reports an error.
    """
    restore_old(paths.container("folder"))
    try:
        options = journal.options()
        if options is None or paths.note.exists() or next(iter(journal), None) is None:
            return False
        container = paths.container(options.container)
        if part_path(container).exists() or not container.exists():
            return False
        _with_journal(paths, journal, options)
    except EdgeFirstError:  # the journal belongs to another container; this one is complete
        return False
    return True


def _moved_aside(paths: DatasetPaths, journal: SampleJournal, options: EdgeFirstOptions) -> DatasetPaths:
    """Move the unfinished dataset and its journal to a folder of their own; returns its paths."""

    def moves(folder: Path) -> Iterator[tuple[Path, Path]]:
        target = DatasetPaths(folder)
        yield growing, part_path(target.container(options.container))
        yield paths.journal, target.journal

    growing = part_path(paths.container(options.container))
    forget(*(set(paths.unfinished()) - {growing, paths.note, paths.journal}))
    folder = move_aside(paths.note, moves)
    target = DatasetPaths(folder)
    journal.path = target.journal
    return target


def _without_journal(paths: DatasetPaths) -> Recovery:
    paths.note.unlink(missing_ok=True)  # all else has been moved, and is a dataset of its own
    if leftover := next((path for path in paths.unfinished() if path.exists()), None):
        raise WriteError(f"{leftover}: cannot be recovered without its journal, {paths.journal.name}")
    found = tuple(path for path in paths.finished() if path.exists())
    if not found:
        raise RecordingNotFound(f"{paths.folder} holds no EdgeFirst dataset, finished or not")
    samples, rows = count_samples(paths.arrow) if paths.arrow.exists() else (0, 0)
    return Recovery(paths.folder, True, Counter(samples=samples, rows=rows), paths=found)


def _with_journal(
    paths: DatasetPaths,
    journal: SampleJournal,
    options: EdgeFirstOptions,
    beside: Path | None = None,
    *,
    has_report: bool = False,
) -> Recovery:
    container = paths.container(options.container)
    growing = part_path(container).exists()
    if not growing and not container.exists():
        return _nothing_committed(paths, sum(1 for _ in journal), 0)
    archive = open_archive(part_path(container) if growing else container, options.container, resume=True)
    try:
        kept = _keep(journal, archive)
        if not growing and kept.lost:
            raise WriteError(
                f"{container} differs from its journal {paths.journal.name}; nothing was changed"
            )
        dropped = archive.cut() if growing else 0
        if not kept.samples:
            return _nothing_committed(paths, kept.lost, dropped, beside)
        journal.cut(kept.end)
        rows = complete_dataset(paths, archive if growing else None, journal, options).rows
        if not (beside or has_report):  # they are of an earlier dataset: a run writes its own at its end
            forget(*(paths.folder / name for name in (PAGE, REPORT)))
        publish_dataset(paths, journal, options)
    finally:
        archive.abort()
    return Recovery(
        paths.folder,
        kept=Counter(samples=kept.samples, files=kept.files, rows=rows),
        lost=Counter(samples=kept.lost),
        dropped=dropped,
        paths=(paths.arrow, container),
        beside=beside,
    )


@dataclass(slots=True)
class _Kept:
    samples: int = 0
    lost: int = 0
    files: int = 0
    end: int = 0


def _keep(journal: SampleJournal, archive: Archive) -> _Kept:
    """Keep samples up to the first incomplete one; ``end`` is the journal's offset behind the last kept."""
    kept = _Kept()
    for committed in journal:
        if kept.lost or not archive.keep(committed.files):
            kept.lost += 1
        else:
            kept.samples += 1
            kept.files += len(committed.files)
            kept.end = committed.end
    return kept


def _nothing_committed(paths: DatasetPaths, lost: int, dropped: int, beside: Path | None = None) -> Recovery:
    *others, journal = paths.unfinished()
    forget_unfinished(others, journal)
    if not any(paths.folder.iterdir()):
        paths.folder.rmdir()
    return Recovery(beside or paths.folder, lost=Counter(samples=lost), dropped=dropped, beside=beside)
