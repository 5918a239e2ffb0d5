"""Where a dataset's files lie, finished and growing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.edgefirst.options import Container


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
