"""The EdgeFirst format, as ``FORMATS`` has it."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgefirst_ros.formats.crashsafe.names import part_path
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.format import EVERYTHING, Format, Look, Target, below
from edgefirst_ros.model.errors import DatasetNotFound
from edgefirst_ros.model.untrusted import REPORT

if TYPE_CHECKING:
    import pyarrow as pa

    from edgefirst_ros.formats.edgefirst.scenes import EdgeFirstScenes
    from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
    from edgefirst_ros.formats.format import Check, Recovery

_TABLE, _ARCHIVE, _JOURNAL, _MANIFEST = ".arrow", ".zip", ".journal.part", ".manifest"


class EdgeFirstFormat(Format[EdgeFirstOptions]):
    """A ZIP or folder of sensor files beside an Arrow table of annotations, made of samples."""

    name = "edgefirst"
    by_camera = True
    options = EdgeFirstOptions
    nothing = "nothing was written: no sample had a sensor file"
    visible_by = (f"*{_TABLE}",)
    # The vendor's tools want today's columns and a folder.
    presets = MappingProxyType({"studio": {name: {"schema_version": "2026.10", "container": "folder"}}})

    def writer(self, options: EdgeFirstOptions, target: Target) -> EdgeFirstWriter:
        """Writes one dataset into ``root/<dataset>/``."""
        from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter

        return EdgeFirstWriter(target.root, target.dataset, options, overwrite=target.overwrite)

    def first_frame(self, options: EdgeFirstOptions) -> int:
        """The vendor's client writes three digits, its validator wants no leading zeros: 100 suits both."""
        return 100 if (options.schema_version, options.container) == ("2026.10", "folder") else 0

    def find(self, path: Path) -> list[Path]:
        """Folders with files of their own name; a table in a folder of another name is a dataset itself."""
        # Of a dataset whose table and archive are lost the manifest or the report is left.
        files = below(path, f"*{_TABLE}", f"*{_ARCHIVE}", f"*{_JOURNAL}", f"?*{_MANIFEST}", REPORT)
        return sorted({dataset for file in files if (dataset := _dataset(file, is_given=file == path))})

    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        """Finish the dataset in a folder; a table or a report alone needs no finishing."""
        from edgefirst_ros.formats.edgefirst.recover import recover
        from edgefirst_ros.formats.edgefirst.store.archive import DatasetPaths
        from edgefirst_ros.formats.format import Recovery

        paths = DatasetPaths(path)
        is_there = any(each.exists() for each in (*paths.finished(), *paths.unfinished()))
        return recover(path, complete=complete) if is_there else Recovery(path, was_finished=True)

    def check(
        self,
        path: Path,
        *,
        official_python: Path | None = None,  # noqa: ARG002
        look: Look = EVERYTHING,
    ) -> Check:
        """Check files and table by themselves, and against the manifest, each other and the report."""
        from edgefirst_ros.formats.edgefirst.check.dataset import check

        return check(path, look)

    def scenes(self, path: Path) -> EdgeFirstScenes:
        """Each sample's picture, boxes, clouds and cube."""
        from edgefirst_ros.formats.edgefirst.scenes import EdgeFirstScenes

        return EdgeFirstScenes(path)

    def locks(self, path: Path) -> tuple[Path, ...]:
        """The journal, and the report of a run whose datasets get their names."""
        from edgefirst_ros.formats.edgefirst.store.archive import DatasetPaths

        folder = path if path.is_dir() else path.parent
        return (DatasetPaths(folder).journal, part_path(folder / REPORT))

    def read(self, path: Path) -> pa.Table:
        """The annotation table, a row an annotation."""
        from edgefirst_ros.formats.edgefirst.finish import read_table

        table = path / f"{path.name}{_TABLE}" if path.is_dir() else path
        if not table.exists():
            raise DatasetNotFound(f"{table}: no annotation table; is the dataset finished?")
        return read_table(table)

    def report(self, target: Target) -> Path:
        """The report's path, beside the dataset's files."""
        return target.root / target.dataset / REPORT


def _dataset(file: Path, *, is_given: bool) -> Path | None:
    """The dataset of a file: its folder if the names agree; else the file, if it is a table or was given."""
    folder = file.parent
    if file.name == REPORT:
        return folder
    if file.name.endswith(_JOURNAL):
        from edgefirst_ros.formats.crashsafe.journal import journal_format

        # A journal without any record, cut short by a kill, may be of any format.
        return folder if journal_format(file) in {None, EdgeFirstFormat.name} else None
    if file.stem == folder.name:
        return folder
    return file if is_given or file.suffix == _TABLE else None
