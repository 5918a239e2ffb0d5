"""Completes a dataset: its container, its annotation table, and the names that say it is finished."""

from __future__ import annotations

from edgefirst_ros.formats.crashsafe.names import old_path, part_path, remove, take_name
from edgefirst_ros.formats.crashsafe.sync import EDGEFIRST, sync_path
from edgefirst_ros.formats.edgefirst.finish.table import write_table
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import Archive
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.store.paths import DatasetPaths


def finish_dataset(
    paths: DatasetPaths, archive: Archive | None, journal: SampleJournal, options: EdgeFirstOptions
) -> int:
    """Complete container and table, rename both into place, remove the journal; returns the table's rows.

    Every step can be repeated: until the journal is gone, recovery takes up wherever this was interrupted.

    Args:
        paths: of the dataset.
        archive: the growing container; None if it has its name already.
        journal: what was committed.
        options: of the dataset.

    Raises:
        OSError: as the file system has it.
    """
    container = paths.container(options.container)
    if archive is not None:
        archive.finish()
    rows = write_table(journal, part_path(paths.arrow), options)
    if archive is not None:
        take_name(container)
    take_name(paths.arrow)
    remove(paths.container("folder" if options.container == "zip" else "zip"))
    remove(old_path(paths.container("folder")))
    if EDGEFIRST.names:
        sync_path(paths.folder)
    paths.journal.unlink()
    journal.close()
    return rows
