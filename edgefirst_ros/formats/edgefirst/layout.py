"""Where a dataset's files lie, finished and growing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.replacing import remove, take_name
from edgefirst_ros.formats.crashsafe.sync import EDGEFIRST, sync_path
from edgefirst_ros.formats.edgefirst.archive import Archive
from edgefirst_ros.formats.edgefirst.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.options import Container, EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.table import write_table


@dataclass(frozen=True, slots=True)
class DatasetPaths:
    """The paths of the dataset in ``folder``, which bears its name."""

    folder: Path

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.folder.name

    @property
    def arrow(self) -> Path:
        """The annotation table."""
        return self.folder / f"{self.name}.arrow"

    @property
    def journal(self) -> Path:
        """The committed samples of an unfinished dataset; its presence says that there is one."""
        return self.folder / f"{self.name}.journal.part"

    @property
    def note(self) -> Path:
        """Says where the unfinished dataset goes while it is moved from beside a complete one."""
        return self.folder / f"{self.name}.aside.part"

    def container(self, kind: Container) -> Path:
        """The sensor files."""
        return self.folder / (f"{self.name}.zip" if kind == "zip" else self.name)

    def finished(self) -> list[Path]:
        """Everything there may be of a finished dataset."""
        return [self.arrow, self.container("zip"), self.container("folder")]

    def unfinished(self) -> list[Path]:
        """Everything a crash may leave, the journal last."""
        return [*map(part_path, self.finished()), old_path(self.container("folder")), self.note, self.journal]


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
