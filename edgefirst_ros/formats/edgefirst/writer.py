"""Samples to an EdgeFirst dataset: prepared in any thread, appended in order, renamed at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.base import Written
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.sample import Sample, SequenceInfo


@dataclass(frozen=True, slots=True)
class PreparedSample:
    """A sample's files and rows, ready to be appended."""


class EdgeFirstWriter:
    """Writes one dataset below ``root/<dataset>/``; implements SampleWriter."""

    name = "edgefirst"

    def __init__(
        self, root: Path, dataset: str, options: EdgeFirstOptions, *, overwrite: bool = False
    ) -> None:
        self.options = options

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; its samples follow."""
        raise NotImplementedError

    def prepare(self, sample: Sample) -> PreparedSample:
        """Encode every file and row of the sample; pure, any thread."""
        raise NotImplementedError

    def write(self, prepared: PreparedSample) -> Written:
        """Append the files, then commit them with one journal line."""
        raise NotImplementedError

    def close(self) -> list[Path]:
        """Finish the container and the Arrow file and rename them into place."""
        raise NotImplementedError

    def abort(self) -> None:
        """Release files without finishing; what is on disk stays as ``.part``."""
        raise NotImplementedError
