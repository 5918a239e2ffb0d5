"""NCore V4 sequences as the rest of the package knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgefirst_ros.formats.crashsafe.names import refuse_links
from edgefirst_ros.formats.format import EVERYTHING, Format, Look, Target, below
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.model.errors import DatasetNotFound, OutputExists
from edgefirst_ros.model.sample import Role
from edgefirst_ros.model.untrusted import safe_name

if TYPE_CHECKING:
    from edgefirst_ros.formats.format import Check, Recovery
    from edgefirst_ros.formats.ncore.scenes import NCoreScenes
    from edgefirst_ros.formats.ncore.store.files import FinishedStore
    from edgefirst_ros.formats.ncore.write.writer import NCoreWriter


class NCoreFormat(Format[NCoreOptions]):
    """A folder of component stores for each sequence, made of every sensor's own measurements."""

    name = "ncore"
    follows_mounts = True
    options = NCoreOptions
    nothing = "nothing was written: no measurement could be stored"
    visible_by = ("*.json",)
    users = ("NuRec",)

    def writer(self, options: NCoreOptions, target: Target) -> NCoreWriter:
        """Writes sequences into ``root/<sequence_id>/``."""
        from edgefirst_ros.formats.ncore.write.writer import NCoreWriter

        for name in () if target.overwrite else target.sequences:
            refuse_links(target.root, folder := target.root / safe_name(name))
            if folder.exists():
                raise OutputExists(f"{folder}: is there already")
        of_picture = target.tolerances_ms if target.reference is Role.CAMERA else {}
        return NCoreWriter(
            target.root,
            options,
            overwrite=target.overwrite,
            boxes2d_tolerances_ms=of_picture.get(Role.MODEL, {}),
        )

    def find(self, path: Path) -> list[Path]:
        """Folders with a store of their own name, or with a journal of this format."""
        from edgefirst_ros.formats.crashsafe.journal import journal_format

        stores = {p.parent for p in below(path, "*.ncore4*") if p.name.startswith(f"{p.parent.name}.ncore4")}
        return sorted(
            stores | {p.parent for p in below(path, "*.journal.part") if journal_format(p) == self.name}
        )

    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        """Finish the sequence in a folder."""
        from edgefirst_ros.formats.ncore.recover import recover

        return recover(path, complete=complete)

    def check(self, path: Path, *, official_python: Path | None = None, look: Look = EVERYTHING) -> Check:
        """Container, index, metadata, times, rays and poses; NCore's own reader where it is installed."""
        from edgefirst_ros.formats.ncore.check.sequence import check_sequence

        return check_sequence(path, official_python, look)

    def unasked(self) -> str:
        """NVIDIA's, where no interpreter is known that has it."""
        from edgefirst_ros.formats.ncore.check.official import find_python

        return "" if find_python() else "nvidia-ncore"

    def scenes(self, path: Path) -> NCoreScenes:
        """The frames of the first camera, with the nearest of the first lidar."""
        from edgefirst_ros.formats.ncore.scenes import NCoreScenes

        return NCoreScenes(path)

    def locks(self, path: Path) -> tuple[Path, ...]:
        """The journal."""
        from edgefirst_ros.formats.ncore.store.files import SequenceFiles

        return (SequenceFiles(path, path.name).journal,)

    def read(self, path: Path) -> dict[str, FinishedStore]:
        """The sequence's stores by file name: records by key, as bytes."""
        from edgefirst_ros.formats.ncore.store.files import Reading

        stores = [p for p in below(path, "*.ncore4*") if p.name.endswith((".zarr", ".zarr.itar"))]
        if not stores:
            raise DatasetNotFound(f"{path}: no finished NCore sequence")
        return {store.name: Reading(store).store for store in sorted(stores)}

    def companions(self, options: NCoreOptions) -> frozenset[Role]:  # noqa: ARG002
        """None: sequences are made of measurements."""
        return frozenset()
