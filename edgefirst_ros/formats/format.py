"""What an output format is to the rest of the package: one object, listed in ``registry.FORMATS``.

What the pipeline asks of a format: prepare anywhere, write in order, close once.
"""

from __future__ import annotations

import fnmatch
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict

from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.model.sample import EgoPose, Observation, Role, Sample, SequenceInfo
from edgefirst_ros.model.untrusted import LOGGER, is_fault, reason_of, visible

if TYPE_CHECKING:
    from edgefirst_ros.formats.scene import Scenes


STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class OptionsModel(BaseModel):
    """Options by name, none of which is unknown."""

    model_config = STRICT


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
class ByCamera(Protocol):
    """A format of samples that takes those of every camera, each camera's as a sequence of its own."""

    def begin_camera(self, sequence: SequenceInfo) -> None:
        """A camera's sequence starts beside that of the rig, ``sequence.rig``, and ends with it."""


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
        """One rig pose of the trajectory, in order of time; without ``location``, which takes long."""


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


Level = Literal["error", "warning", "note"]

_MOST_OF_A_KIND = 5
_MOST_KINDS = 1000
"""Of each level; names in a damaged dataset may make any number of kinds and places."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding: an error breaks readers, a warning is poor data, a note is neither."""

    level: Level
    where: str
    what: str


Verdict = Literal["fulfilled", "not fulfilled", "unknown"]


@dataclass(frozen=True, slots=True)
class Point:
    """What a user of datasets asks of one, and what it has.

    Attributes:
        name: of the point.
        verdict: unknown is what the data cannot tell, and what does not concern the dataset.
        found: what the dataset has.
        advice: what to do; may be empty.
        figures: what was found, as plain values by name.
    """

    name: str
    verdict: Verdict
    found: str
    advice: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """How thoroughly a check looks, and whom it tells how far it is.

    Attributes:
        quick: at headers and checksums only; pictures, clouds and masks are not decoded.
        passed: gets how many bytes were looked at since it was called last.
        user: whose demands it looks at as well, one of ``Format.users``; empty for nobody's.
    """

    quick: bool = False
    passed: Callable[[int], None] = lambda _: None
    user: str = ""


EVERYTHING = Look()
_SAID: Mapping[Verdict, str] = {"fulfilled": "YES", "not fulfilled": "NO", "unknown": "UNKNOWN"}


@dataclass(slots=True)
class Findings:
    """Collects findings; of one kind in one place only the first few are kept, the rest counted.

    Attributes:
        kept: findings in the order in which they were made.
        counts: how many of each level there were.
        look: what was asked for.
        points: what the user of ``look`` asks.
    """

    look: Look = field(default_factory=Look)
    kept: list[CheckFinding] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    counts: Counter[Level] = field(default_factory=Counter)
    _kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def error(self, where: str, kind: str, detail: str = "") -> None:
        """Add an error: readers fail on it or get wrong values."""
        self._add("error", where, kind, detail)

    def warning(self, where: str, kind: str, detail: str = "") -> None:
        """Add a warning: readable, but poor data."""
        self._add("warning", where, kind, detail)

    def note(self, where: str, kind: str, detail: str = "") -> None:
        """Add a note."""
        self._add("note", where, kind, detail)

    def at(self, where: str) -> Callable[[float, str, str], None]:
        """Adds errors by their time in seconds: ``where@time``, kind, detail."""
        return lambda at_s, kind, detail: self.error(f"{where}@{at_s:.3f} s", kind, detail)

    def _add(self, level: Level, where: str, kind: str, detail: str) -> None:
        self.counts[level] += 1
        key = level, where.partition("@")[0], kind
        if key not in self._kinds:
            if self._kinds[level, "", ""] == _MOST_KINDS:
                return
            self._kinds[level, "", ""] += 1
        self._kinds[key] += 1
        if self._kinds[key] <= _MOST_OF_A_KIND:
            text = f"{kind}: {detail}" if detail else kind
            self.kept.append(CheckFinding(level, visible(where), visible(text)))


@contextmanager
def reading(findings: Findings, where: str, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged content into a finding, and errors of this package likewise.

    As ``refusing`` does for those who need the content.
    """
    try:
        yield
    except BaseException as error:
        if not is_fault(error):
            raise
        LOGGER.debug("%s: %s cannot be read", where, what, exc_info=error)
        said = str(error) if isinstance(error, EdgeFirstError) else reason_of(error)
        findings.error(where, f"{what} cannot be read", said)


@dataclass(frozen=True, slots=True)
class Check:
    """The result for one dataset or sequence.

    Attributes:
        format: edgefirst, ncore or l5kit.
        name: of the dataset or sequence.
        findings: what is wrong, of each kind the first few.
        errors: how many errors there were.
        warnings: how many warnings there were.
        counts: what it holds, by kind.
        busy: what to say of a dataset that a process is writing, and that was not looked at; else empty.
        points: what the user asks for whom it was looked at.
        user: who that is.
    """

    format: str
    name: str
    findings: tuple[CheckFinding, ...]
    errors: int
    warnings: int
    counts: Mapping[str, int]
    busy: str = ""
    points: tuple[Point, ...] = ()
    user: str = ""

    @property
    def ok(self) -> bool:
        """Complete, without errors."""
        return not (self.errors or self.busy)

    @property
    def failed(self) -> int:
        """How many points are not fulfilled."""
        return sum(point.verdict == "not fulfilled" for point in self.points)

    @property
    def text(self) -> str:
        """Findings, one a line, and a summary."""
        if self.busy:
            return visible(f"BUSY: {self.format}/{self.name} is {self.busy}")
        lines = [f"{finding.level}: {finding.where}: {finding.what}" for finding in self.findings]
        for point in self.points:
            advice = f" ({point.advice})" if point.advice else ""
            lines.append(visible(f"{_SAID[point.verdict]:7} {point.name}: {point.found}{advice}"))
        held = "".join(f", {count} {name}" for name, count in self.counts.items())
        found = f"{self.errors} errors, {self.warnings} warnings"
        lines.append(visible(f"{'OK' if self.ok else 'FAIL'}: {self.format}/{self.name}, {found}{held}"))
        if self.points:
            ready = f"not ready, {self.failed} of {len(self.points)}" if self.failed else "ready"
            lines.append(f"{self.user}: {ready}")
        return "\n".join(lines)


def concluded(format_name: str, name: str, findings: Findings, counts: Mapping[str, int]) -> Check:
    """The result made from the findings."""
    return Check(
        format_name,
        name,
        tuple(findings.kept),
        findings.counts["error"],
        findings.counts["warning"],
        counts,
        points=tuple(findings.points),
        user=findings.look.user,
    )


@dataclass(frozen=True, slots=True)
class Recovery:
    """What ``recover`` found and did.

    Attributes:
        path: the dataset: its folder.
        was_finished: there was nothing to do.
        kept: what is in the dataset now, by the name to show, as ``{"samples": 12, "rows": 40}``; empty where
            that was not counted.
        lost: what had been committed and is not whole, by the name to show.
        dropped: how much was not committed, or follows what is not whole.
        dropped_unit: what ``dropped`` counts.
        paths: what a user should look at; empty if nothing had been committed.
        beside: the complete dataset that this one was to replace or to extend, which stays as it is.
        warnings: what a user must know of the dataset, a sentence each.
    """

    path: Path
    was_finished: bool = False
    kept: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    dropped_unit: str = "bytes"
    paths: tuple[Path, ...] = ()
    beside: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """A line for a person, and one for every warning."""
        return "\n".join([self._summary, *(f"warning: {warning}" for warning in self.warnings)])

    @property
    def _summary(self) -> str:
        if self.was_finished:
            counts = f", {_listed(self.kept)}" if self.kept else ""
            return f"{self.path.name}: was finished already{counts}; nothing to do"
        kept = f"{_listed(self.kept)} are kept" if self.kept else "all that had been committed is kept"
        parts = [kept if self.paths else "nothing had been committed; the leftovers are removed"]
        if +self.lost:
            parts.append(f"{_listed(self.lost)} were damaged and are lost")
        if self.dropped:
            parts.append(f"{self.dropped:,} {self.dropped_unit} of incomplete data dropped")
        if self.beside:
            parts.append(f"the complete {self.beside.name}, which it was to replace, stays")
        return f"{self.path.name}: {'; '.join(parts)}"


def _listed(counts: Counter[str]) -> str:
    """Counts by name, as ``3 samples, 12 files and 9 rows``."""
    words = [f"{count:,} {name}" for name, count in counts.items()]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


Options = TypeVar("Options", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a writer writes, and what is known before the first message.

    Attributes:
        root: folder of the format's datasets, the output folder's subfolder of the format's name.
        dataset: the dataset's name, safe as a file name.
        overwrite: replace what has this name, once the new one is complete.
        sequences: names of the sequences that will be written, as far as they are known.
        reference: role that samples are aligned to, where it is known.
        tolerances_ms: by role and end of the topic, how near to its reference frame a message must be.
    """

    root: Path
    dataset: str
    overwrite: bool = False
    sequences: tuple[str, ...] = ()
    reference: Role | None = None
    tolerances_ms: Mapping[Role, Mapping[str, float]] = field(default_factory=dict)


class Format(ABC, Generic[Options]):
    """An output format: its options, its writer, and what can be done with its datasets.

    Import what is heavy in the methods that need it: the class is imported by every command.

    Attributes:
        name: as in ``--format`` and as the key of its options in a configuration; letters, digits and ``_``.
        options: the options for users; every field needs a default, and a type that ROS parameters can have.
        nothing: warning, after the name, if a run has samples but nothing in this format.
        by_camera: whether it takes samples of every camera, see ``ByCamera``.
        visible_by: patterns of the names of files without which readers do not find a dataset, or do not open
            it; in an object store they appear last. Without any, the report alone says that all is there.
        users: programs whose demands ``check`` can look at, by the names that ``Look.user`` takes.
        presets: settings that make datasets for a program, by its name, as in a configuration file.
        follows_mounts: whether its datasets say, or heed, where sensors on mounts that move were.
    """

    name: str
    options: type[Options]
    nothing = "nothing was written"
    by_camera = False
    visible_by: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    follows_mounts = False

    @abstractmethod
    def writer(self, options: Options, target: Target) -> Writer:
        """A writer of a new dataset.

        Raises:
            OutputExists: it is there already, finished or not, and ``target.overwrite`` is off.
        """

    @abstractmethod
    def find(self, path: Path) -> list[Path]:
        """Datasets of this format at or below a path, finished or not; what ``recover`` and ``check`` take.

        A file of a dataset means the dataset, see ``below``.
        """

    @abstractmethod
    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        """Finish what a crash left of a dataset; one that is finished is not touched.

        Args:
            path: as ``find`` returns it.
            complete: the run that wrote it lacked only final names; it then replaces an existing dataset of
                its name. Otherwise that one stays, and this one is finished beside it.

        Raises:
            EdgeFirstError: it cannot be finished, because it is being written, damaged, or the disk refuses.
        """

    @abstractmethod
    def check(self, path: Path, *, official_python: Path | None = None, look: Look = EVERYTHING) -> Check:
        """What is wrong with a dataset.

        Args:
            path: as ``find`` returns it.
            official_python: a Python with the format's official reader.
            look: how thoroughly, and whom to tell how far it is.
        """

    def first_frame(self, options: Options) -> int:  # noqa: ARG002 - for formats that heed them
        """The least number that readers understand as that of a sequence's first frame."""
        return 0

    def unasked(self) -> str:
        """The official reader that ``check`` asks only with an interpreter that has it; empty without one."""
        return ""

    @abstractmethod
    def read(self, path: Path) -> Any:  # noqa: ANN401 - each format has a reader of its own
        """A finished dataset, open for reading.

        Raises:
            EdgeFirstError: it is not there, not finished, or damaged.
        """

    def scenes(self, path: Path) -> Scenes | None:  # noqa: ARG002 - for those that override it
        """The samples of a dataset, for a report page and a contact sheet; None if they cannot be looked at.

        Raises:
            EdgeFirstError: it is not there, or damaged.
        """
        return None

    def samples(self, path: Path) -> Any:  # noqa: ANN401, ARG002 - a sequence of each format's own
        """The samples of a dataset, for training; None if the format has none.

        Raises:
            EdgeFirstError: it is not there, not finished, or damaged.
        """
        return None

    def locks(self, path: Path) -> tuple[Path, ...]:  # noqa: ARG002 - for those that override it
        """What a process locks while it writes or recovers a dataset; ``path`` as ``find`` returns it."""
        return ()

    def companions(self, options: Options) -> frozenset[Role]:  # noqa: ARG002 - for those that override it
        """Roles that a sample is made of; a format of measurements has none."""
        return frozenset(Role)

    def takes_all(self, options: Options) -> frozenset[Role]:  # noqa: ARG002 - for those that override it
        """Roles of which samples need every sensor's message, in ``Sample.views``."""
        return frozenset()

    def hold_s(self, options: Options) -> float:  # noqa: ARG002 - for those that override it
        """How long the writer holds a sample back, since what it writes depends on later ones; seconds."""
        return 0.0

    def report(self, target: Target) -> Path | None:  # noqa: ARG002 - for those that override it
        """Where the report of the run goes if it is part of the dataset; None if it is not."""
        return None


def below(path: Path, *patterns: str) -> list[Path]:
    """Files and folders below ``path`` whose name matches one of the patterns, as ``*.zip``.

    A file named after its folder, as ``d/d.zip``, stands for the whole folder; any other file for itself.
    """
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    if path.is_dir():
        return [Path(root, name) for root, *names in os.walk(path) for name in chain(*names) if match(name)]
    if path.name.startswith(f"{path.parent.name}."):
        return [each for each in path.parent.iterdir() if match(each.name)] if path.parent.is_dir() else []
    return [path] if path.is_file() and match(path.name) else []
