"""Completes a dataset: container, annotation table and final names."""

from __future__ import annotations

from collections.abc import Iterator

from edgefirst_ros.formats.crashsafe.manifest import Entry, write_manifest
from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.replacing import remove, take_name
from edgefirst_ros.formats.crashsafe.sync import sync_path
from edgefirst_ros.formats.edgefirst.finish.quality import write_quality
from edgefirst_ros.formats.edgefirst.finish.table import TableFile, write_table
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import Archive
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.store.paths import QUALITY, TABLE, DatasetPaths

MADE_BY = "edgefirst"
"""What the manifests of the format say."""


def complete_dataset(
    paths: DatasetPaths, archive: Archive | None, journal: SampleJournal, options: EdgeFirstOptions
) -> int:
    """Complete container, tables and manifest under ``.part`` names, synced; returns the table's rows.

    The manifest has the sensor files as the journal has them, in the order in which they were written, which
    is that of a ZIP's directory, and then the tables.

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
    table = write_table(journal, part_path(paths.arrow), options)
    quality = write_quality(journal, part_path(paths.quality), table.looked)
    write_manifest(part_path(paths.manifest), MADE_BY, _entries(journal, table, quality))
    journal.sync()
    sync_path(paths.folder)
    return table.rows


def _entries(journal: SampleJournal, table: TableFile, quality: TableFile) -> Iterator[Entry]:
    for committed in journal:
        for file in committed.files:
            yield Entry(file.path, file.size, file.crc)
    yield Entry(TABLE, table.size, table.crc)
    yield Entry(QUALITY, quality.size, quality.crc)


def publish_dataset(paths: DatasetPaths, journal: SampleJournal, options: EdgeFirstOptions) -> None:
    """Give container, tables and manifest their names, and remove what they replace and the journal.

    Every step can be repeated: until the journal is gone, recovery takes up wherever this was interrupted.

    Raises:
        OSError: as the file system has it.
    """
    container = paths.container(options.container)
    if part_path(container).exists():
        take_name(container)
    take_name(paths.arrow)
    take_name(paths.quality)
    take_name(paths.manifest)
    remove(paths.container("folder" if options.container == "zip" else "zip"))
    remove(old_path(paths.container("folder")))
    paths.journal.unlink()
    sync_path(paths.folder)
    journal.close()
