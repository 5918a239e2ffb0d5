"""L5Kit datasets as the rest of the package knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgefirst_ros.formats.crashsafe.names import finished_path
from edgefirst_ros.formats.format import Format, Target, below
from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.sample import Role

if TYPE_CHECKING:
    from edgefirst_ros.formats.crashsafe.report import Recovery
    from edgefirst_ros.formats.findings import Check
    from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
    from edgefirst_ros.formats.l5kit.write.writer import L5KitWriter

_APART_S = 0.1
"""A frame waits for the next sample, and a sample for the next frame."""
_ARRAYS = ("scenes", "frames", "agents", "traffic_light_faces")


class L5KitFormat(Format[L5KitOptions]):
    """A zarr folder of scenes, frames, agents and traffic lights, made of samples."""

    name = "l5kit"
    options = L5KitOptions
    nothing = "nothing was written, no sample had an ego pose: it takes gps or odometry, and two fixes"

    def writer(self, options: L5KitOptions, target: Target) -> L5KitWriter:
        """Writes one dataset into ``root/<dataset>.zarr``."""
        from edgefirst_ros.formats.l5kit.write.writer import L5KitWriter

        return L5KitWriter(target.root, target.dataset, options, overwrite=target.overwrite)

    def find(self, path: Path) -> list[Path]:
        """Folders with two of the arrays at least: a check names those that are lost."""
        folders = [array.parent for array in below(path, *_ARRAYS) if array.is_dir()]
        return sorted({finished_path(folder) for folder in folders if folders.count(folder) > 1})

    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        """Finish the dataset at its ``.zarr`` folder."""
        from edgefirst_ros.formats.l5kit.recover import recover

        return recover(path)

    def check(self, path: Path, *, official_python: Path | None = None) -> Check:  # noqa: ARG002
        """Arrays, chunks, intervals, times, rotations and probabilities."""
        from edgefirst_ros.formats.l5kit.check.dataset import check

        return check(path)

    def read(self, path: Path) -> ChunkedDataset:
        """The dataset as L5Kit itself opens it."""
        from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset

        return ChunkedDataset(path).open()

    def companions(self, options: L5KitOptions) -> frozenset[Role]:
        """What agents, lights and points are made of."""
        return options.roles

    def hold_s(self, options: L5KitOptions) -> float:
        """Frames lie between samples, and a track needs those after it."""
        return options.ahead_s + _APART_S
