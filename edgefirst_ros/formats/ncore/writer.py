"""Measurements to NCore V4 sequences: prepared in any thread, appended in order, finished from disk."""

from __future__ import annotations

from pathlib import Path

from edgefirst_ros.formats.base import Written
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.sample import EgoPose, Observation, SequenceInfo


class NCoreWriter:
    """Writes sequences below ``root/<sequence_id>/``; implements MeasurementWriter."""

    name = "ncore"

    def __init__(self, root: Path, options: NCoreOptions, *, overwrite: bool = False) -> None:
        self.options = options

    def begin(self, sequence: SequenceInfo) -> None:
        """Finish the sequence before and start this one."""
        raise NotImplementedError

    def prepare(self, observation: Observation) -> object:
        """Compress everything of the measurement that NCore stores; pure, any thread."""
        raise NotImplementedError

    def write(self, prepared: object) -> Written:
        """Append; what is in the returned accounting survives the process."""
        raise NotImplementedError

    def pose(self, pose: EgoPose) -> None:
        """One rig pose, in order of time; poses without position or rotation are left out."""
        raise NotImplementedError

    def close(self) -> list[Path]:
        """Finish every sequence; their meta files."""
        raise NotImplementedError

    def abort(self) -> None:
        """Release files without finishing; ``recover`` completes what is on disk."""
        raise NotImplementedError
