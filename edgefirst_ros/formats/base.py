"""What the pipeline asks of a format: prepare anywhere, write in order, close once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from edgefirst_ros.sample import EgoPose, Observation, Sample, SequenceInfo

Prepared = TypeVar("Prepared")
Made = TypeVar("Made")


class NoPlace(str):
    """Why a format stores nothing of a valid message: the format, or an option, has no place for it."""

    __slots__ = ()


EMPTY = NoPlace("contains nothing to write")
NO_FILE = NoPlace("the format has no file for it")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a whole sample is not in the output.

    ``kind`` is "skipped" where the format takes fewer samples, "unusable" where this one lacks something,
    "dropped" where there was no time for it.
    """

    kind: Literal["skipped", "unusable", "dropped"]
    reason: str


@dataclass(frozen=True, slots=True)
class Written:
    """What one ``write`` put into the output, for the accounting.

    A message counts as written by its bytes in ``stored``, and by nothing else.
    """

    stored: Mapping[str, int] = field(default_factory=dict)
    """By topic, bytes that the content of its message takes, as the writer laid it out."""
    bytes: int = 0
    """Bytes appended in all, shared context included."""
    refused: tuple[tuple[str, str], ...] = ()
    """(topic, reason) of messages, or parts of them, that this format could not express; or ``NoPlace``."""
    left_out: LeftOut | None = None
    """Why the sample is not in the output; None if it is, and for measurements."""
    items: int = 1
    """By how many of its own units, such as frames, the output has grown; of a sample left out none count."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of whose message bytes are now in the output, in alphabetical order."""
        return tuple(sorted(topic for topic, size in self.stored.items() if size > 0))


class AnyWriter(Protocol):
    """What writers of both kinds have."""

    name: str
    unit: str
    """What its output is counted in, such as "samples" or "measurements"."""

    @property
    def warnings(self) -> Sequence[str]:
        """Sentences that a user must read before using the output; valid once it is closed."""

    @property
    def notes(self) -> Sequence[str]:
        """Sentences on what was done to the data; valid once the output is closed."""

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; its samples or measurements follow."""

    def close(self) -> list[Path]:
        """Finish and rename the output into place; the paths a user should look at."""

    def abort(self) -> None:
        """Release files without finishing; what is on disk stays as ``.part``."""


@runtime_checkable
class SampleWriter(AnyWriter, Protocol[Prepared]):
    """A format made of aligned samples.

    ``prepare`` is a pure function of its argument, safe in any thread, and does the expensive work;
    ``begin``, ``write`` and ``close`` are called from one thread, ``write`` in the order of the samples.
    The same samples give the same bytes whatever the number of threads. A sample that cannot be
    written, for its time or anything else in it, is left out alone: ``write`` returns why in
    ``Written.left_out``.
    """

    def prepare(self, sample: Sample) -> Prepared:
        """Encode everything of the sample that this format stores."""

    def write(self, prepared: Prepared) -> Written | Future[Written]:
        """Append what ``prepare`` returned.

        A format that holds samples back, because what it writes of one depends on those after it, returns a
        future. A later ``write``, ``begin``, ``close`` or ``abort`` sets it, the earlier sample's first.
        """


@runtime_checkable
class LooksAhead(Protocol):
    """A format of samples that holds one until others after it have come."""

    def pass_by(self, ego: EgoPose) -> None:
        """Note that a sample with this pose was shed; called in its place among the ``write`` calls.

        Samples that are held back then need not wait for the next one that is written.
        """


@runtime_checkable
class MeasurementWriter(AnyWriter, Protocol[Prepared]):
    """A format of the single measurements of every sensor, delivered in order of time.

    Calls as for a SampleWriter; ``pose`` comes from the writing thread, between ``write`` calls.
    """

    needs_pose: bool
    """Whether measurements at times when the rig's pose is unknown are to be left out."""

    def prepare(self, observation: Observation) -> Prepared:
        """Encode the measurement; pure, any thread."""

    def write(self, prepared: Prepared) -> Written:
        """Append in order of time."""

    def pose(self, pose: EgoPose) -> None:
        """One rig pose of the trajectory, in order of time."""


@runtime_checkable
class CrashSafe(Protocol):
    """A format whose synced output survives a power cut, all of it once it is complete.

    The output of other formats is synced after ``close``, before the report is written.
    """

    def syncing(self) -> AbstractContextManager[Collection[Path]]:
        """The files and folders that hold what ``write`` and ``pose`` did before; see ``Syncing``.

        Raises:
            WriteError: the disk refuses; what it holds is unknown then.
        """

    def complete(self) -> list[Path]:
        """Finish the output, synced, under its ``.part`` names; the paths that a user should look at later.

        ``close`` is called next and gives the names. In between the run is recorded as complete: then
        recovery gives them, in place of what had them before.

        Raises:
            WriteError: it cannot be finished.
        """


@runtime_checkable
class Watched(Protocol):
    """A format that knows where its output grows, and what completing it takes; any thread may ask."""

    def finish_bytes(self) -> int:
        """By how many bytes, at most, ``complete`` makes grow what is on the disk by now."""

    def lost(self) -> Path | None:
        """What grows and is no longer where it was made: removed, renamed or unmounted; None if nothing is.

        Raises:
            OSError: the disk does not answer.
        """


class Call(Protocol):
    """Calls a pure function of a module, here or in another process, and returns what it returns."""

    def __call__(self, function: Callable[..., Made], *given: Any) -> Made:  # noqa: ANN401 - of any function
        """Whatever the function raises is raised here."""


def call_here(function: Callable[..., Made], *given: Any) -> Made:  # noqa: ANN401 - of any function
    """A ``Call`` in this thread."""
    return function(*given)


@runtime_checkable
class Distributes(Protocol):
    """A format whose ``prepare`` has its costly parts done by a ``Call``."""

    def distribute(self, call: Call) -> None:
        """Use it from now on."""


Writer = SampleWriter[Any] | MeasurementWriter[Any]
