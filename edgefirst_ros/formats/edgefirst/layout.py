"""Where a dataset's files lie, finished and growing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.crashsafe.sync import sync_path
from edgefirst_ros.formats.edgefirst.archive import Archive, remove_archive
from edgefirst_ros.formats.edgefirst.journal import Journal
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
        return [*map(part, self.finished()), old(self.container("folder")), self.note, self.journal]


def part(path: Path) -> Path:
    """The name under which ``path`` grows."""
    return path.with_name(f"{path.name}.part")


def old(path: Path) -> Path:
    """Where a folder waits while its successor takes its name."""
    return path.with_name(f"{path.name}.old.part")


def finish_dataset(
    paths: DatasetPaths, archive: Archive | None, journal: Journal, options: EdgeFirstOptions
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
    rows = write_table(journal, part(paths.arrow), options)
    if archive is not None:
        if container.is_dir():
            remove_archive(old(container))
            container.replace(old(container))
        part(container).replace(container)
    part(paths.arrow).replace(paths.arrow)
    remove_archive(paths.container("folder" if options.container == "zip" else "zip"))
    remove_archive(old(paths.container("folder")))
    sync_path(paths.folder)
    paths.journal.unlink()
    journal.close()
    return rows


def restore_old(paths: DatasetPaths) -> None:
    """Undo a replacement that was killed before the successor had the name.

    Raises:
        OSError: as the file system has it.
    """
    container = paths.container("folder")
    if old(container).exists() and not container.exists():
        old(container).replace(container)
