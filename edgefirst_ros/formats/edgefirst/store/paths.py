"""Paths of a dataset's files, finished and unfinished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.edgefirst.options import Container

MANIFEST, TABLE = ".manifest", ".arrow"
"""How the names of manifest and table go on behind the dataset's."""
QUALITY = "quality.arrow"
"""Name of the table of what sensors showed, in every dataset."""


@dataclass(frozen=True, slots=True)
class DatasetPaths:
    """The paths of the dataset in ``folder``, whose name is the dataset's."""

    folder: Path

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.folder.name

    @property
    def arrow(self) -> Path:
        """The annotation table."""
        return self.folder / f"{self.name}{TABLE}"

    @property
    def journal(self) -> Path:
        """The journal of committed samples, which exists as long as the dataset is unfinished."""
        return self.folder / f"{self.name}.journal.part"

    @property
    def note(self) -> Path:
        """Names the folder to which recovery moves an unfinished dataset, until all is moved."""
        return self.folder / f"{self.name}.aside.part"

    def container(self, kind: Container) -> Path:
        """The ZIP or folder of sensor files."""
        return self.folder / (f"{self.name}.zip" if kind == "zip" else self.name)

    @property
    def manifest(self) -> Path:
        """Size and CRC-32 of every sensor file and of the tables; that of annotations is ``.arrow`` there."""
        return self.folder / f"{self.name}{MANIFEST}"

    @property
    def quality(self) -> Path:
        """What each sample's sensors showed; earlier versions wrote none."""
        return self.folder / QUALITY

    def finished(self) -> list[Path]:
        """All paths that a finished dataset may have, and by which it is one."""
        return [self.arrow, self.container("zip"), self.container("folder")]

    def unfinished(self) -> list[Path]:
        """All paths that a crash may leave, the journal last."""
        growing = map(part_path, (*self.finished(), self.manifest, self.quality))
        return [*growing, old_path(self.container("folder")), self.note, self.journal]
