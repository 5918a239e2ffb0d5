"""What the pipeline asks of a format: prepare anywhere, write in order, close once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from edgefirst_ros.sample import EgoPose, Observation, Sample, SequenceInfo

Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True)
class Written:
    """What one ``write`` put into the output, for the accounting."""

    topics: Collection[str]
    """Topics whose message of this sample or measurement is now in the output."""
    bytes: int
    refused: tuple[tuple[str, str], ...] = ()
    """(topic, reason) of parts that this format could not express."""


@runtime_checkable
class SampleWriter(Protocol[Prepared]):
    """A format made of aligned samples.

    ``prepare`` is a pure function of its argument, safe in any thread, and does the expensive work;
    ``begin``, ``write`` and ``close`` are called from one thread, ``write`` in the order of the samples.
    The same samples give the same bytes whatever the number of threads.
    """

    name: str

    @property
    def warnings(self) -> Sequence[str]:
        """What a user must know of the output before using it, a sentence each; asked once it is closed."""

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; its samples follow."""

    def prepare(self, sample: Sample) -> Prepared:
        """Encode everything of the sample that this format stores."""

    def write(self, prepared: Prepared) -> Written:
        """Append what ``prepare`` returned."""

    def close(self) -> list[Path]:
        """Finish and rename the output into place; the paths a user should look at."""

    def abort(self) -> None:
        """Release files without finishing; what is on disk stays as ``.part``."""


@runtime_checkable
class MeasurementWriter(Protocol[Prepared]):
    """A format made of every sensor's own measurements, delivered in order of time.

    Calls as for a SampleWriter; ``pose`` comes from the writing thread, between ``write`` calls.
    """

    name: str

    @property
    def warnings(self) -> Sequence[str]:
        """What a user must know of the output before using it, a sentence each; asked once it is closed."""

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; its measurements follow."""

    def prepare(self, observation: Observation) -> Prepared:
        """Encode the measurement; pure, any thread."""

    def write(self, prepared: Prepared) -> Written:
        """Append in order of time."""

    def pose(self, pose: EgoPose) -> None:
        """One rig pose of the trajectory, in order of time."""

    def close(self) -> list[Path]:
        """Finish and rename."""

    def abort(self) -> None:
        """Release files without finishing."""


Writer = SampleWriter[Any] | MeasurementWriter[Any]
