"""L5Kit datasets as the rest of the package knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgefirst_ros.formats.crashsafe.names import PART, finished_path, old_path, part_path
from edgefirst_ros.formats.format import EVERYTHING, Format, Look, Target, below
from edgefirst_ros.formats.l5kit.options import TRACK_GAP_NS, L5KitOptions
from edgefirst_ros.model.sample import Role

if TYPE_CHECKING:
    from edgefirst_ros.formats.format import Check, Recovery
    from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset, L5KitScenes
    from edgefirst_ros.formats.l5kit.read.samples import EgoDataset
    from edgefirst_ros.formats.l5kit.write.writer import L5KitWriter

_APART_S = 0.1
"""A frame waits for the next sample, and a sample for the next frame."""
_ARRAYS = ("scenes", "frames", "agents", "traffic_light_faces")
_SUFFIX = ".zarr"


class L5KitFormat(Format[L5KitOptions]):
    """A zarr folder of scenes, frames, agents and traffic lights, made of samples."""

    name = "l5kit"
    follows_mounts = True
    options = L5KitOptions
    nothing = "nothing was written: no sample had an ego pose, which needs odometry or at least two GPS fixes"
    visible_by = (".zgroup",)

    def writer(self, options: L5KitOptions, target: Target) -> L5KitWriter:
        """Writes one dataset into ``root/<dataset>.zarr``."""
        from edgefirst_ros.formats.l5kit.write.writer import L5KitWriter

        return L5KitWriter(target.root, target.dataset, options, overwrite=target.overwrite)

    def find(self, path: Path) -> list[Path]:
        """Folders with two of the arrays at least (a check names those that are lost), ``.part`` folders."""
        tops = (path, part_path(path), old_path(path)) if path.suffix == _SUFFIX else (path,)
        folders = [array.parent for top in tops for array in below(top, *_ARRAYS) if array.is_dir()]
        found = {folder for folder in folders if folders.count(folder) > 1}
        found.update(filter(_is_left_behind, (*tops, *below(path, f"*{_SUFFIX}{PART}"))))
        return sorted({finished_path(folder) for folder in found})

    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        """Finish the dataset that is to be at a ``.zarr`` folder."""
        from edgefirst_ros.formats.l5kit.recover import recover

        return recover(path, complete=complete)

    def check(
        self,
        path: Path,
        *,
        official_python: Path | None = None,  # noqa: ARG002
        look: Look = EVERYTHING,
    ) -> Check:
        """Arrays, chunks, intervals, times, rotations and probabilities."""
        from edgefirst_ros.formats.l5kit.check import check

        return check(path, look)

    def scenes(self, path: Path) -> L5KitScenes:
        """Each frame from above."""
        from edgefirst_ros.formats.l5kit.read.dataset import L5KitScenes

        return L5KitScenes(path)

    def samples(self, path: Path) -> EgoDataset:
        """A sample for each frame, of the rig itself, by L5Kit's keys and with its defaults."""
        from edgefirst_ros.formats.l5kit.read.samples import EgoDataset

        return EgoDataset({}, self.read(path))

    def locks(self, path: Path) -> tuple[Path, ...]:
        """The journal in the folder that grows, or that has just got its name."""
        from edgefirst_ros.formats.l5kit.store.schema import JOURNAL

        path = finished_path(path)
        return (part_path(path) / JOURNAL, path / JOURNAL)

    def read(self, path: Path) -> ChunkedDataset:
        """The dataset as L5Kit itself opens it."""
        from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset

        return ChunkedDataset(path).open()

    def companions(self, options: L5KitOptions) -> frozenset[Role]:
        """What agents and lights are made of."""
        return options.roles

    def takes_all(self, options: L5KitOptions) -> frozenset[Role]:
        """Agents are seen by any camera."""
        return options.roles

    def hold_s(self, options: L5KitOptions) -> float:  # noqa: ARG002
        """Frames lie between samples, and a track needs those after it."""
        return TRACK_GAP_NS / 1e9 + _APART_S


def _is_left_behind(folder: Path) -> bool:
    """Whether it is the ``.part`` folder of a dataset, or a link to one; it may not hold anything yet."""
    from edgefirst_ros.formats.l5kit.store.schema import JOURNAL

    if not folder.name.endswith(f"{_SUFFIX}{PART}") or ".ncore4" in folder.name or not folder.is_dir():
        return False
    names = {each.name for each in folder.iterdir()}
    return not names or not names.isdisjoint((JOURNAL, *_ARRAYS))
