"""Completes a dataset: container, annotation table and final names."""

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
    """Complete container and table, rename both, remove the journal; returns the number of rows.

    Every step can be repeated: as long as the journal exists, recovery completes an interrupted call.

    Args:
        paths: paths of the dataset.
        archive: the unfinished container; None if it has its final name already.
        journal: journal of the dataset.
        options: options of the dataset.

    Raises:
        OSError: the file system reports an error.
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
