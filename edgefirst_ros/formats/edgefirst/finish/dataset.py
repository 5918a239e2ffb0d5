"""Completes a dataset: container, annotation table and final names."""

from __future__ import annotations

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.replacing import remove, take_name
from edgefirst_ros.formats.crashsafe.sync import sync_path
from edgefirst_ros.formats.edgefirst.finish.table import write_table
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import Archive
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.store.paths import DatasetPaths


def complete_dataset(
    paths: DatasetPaths, archive: Archive | None, journal: SampleJournal, options: EdgeFirstOptions
) -> int:
    """Complete container and table under their ``.part`` names, synced; returns the table's rows.

    Args:
        paths: paths of the dataset.
        archive: the unfinished container; None if it has its final name already.
        journal: journal of the dataset.
        options: options of the dataset.

    Raises:
        OSError: the file system reports an error.
    """
    if archive is not None:
        archive.finish()
    rows = write_table(journal, part_path(paths.arrow), options)
    journal.sync()
    sync_path(paths.folder)
    return rows


def publish_dataset(paths: DatasetPaths, journal: SampleJournal, options: EdgeFirstOptions) -> None:
    """Give the complete container and table their names, and remove what they replace and the journal.

    Every step can be repeated: until the journal is gone, recovery takes up wherever this was interrupted.

    Raises:
        OSError: as the file system has it.
    """
    container = paths.container(options.container)
    if part_path(container).exists():
        take_name(container)
    take_name(paths.arrow)
    remove(paths.container("folder" if options.container == "zip" else "zip"))
    remove(old_path(paths.container("folder")))
    paths.journal.unlink()
    sync_path(paths.folder)
    journal.close()
