"""Recordings to datasets, offline: which files, in which order, and what is left behind."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.whole import Solution
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable, renaming
from edgefirst_ros.offline.drives import Drive
from edgefirst_ros.offline.inputs import open_recordings
from edgefirst_ros.offline.resumed import Replay, find_run
from edgefirst_ros.offline.settings import is_as_captured
from edgefirst_ros.offline.survey import Survey, wants_survey
from edgefirst_ros.pipeline.assembly import Pipeline, Progress
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.pipeline.pause import PAUSED
from edgefirst_ros.pipeline.sequence import reorder_window_ns
from edgefirst_ros.sample import Calibration, Sample
from edgefirst_ros.sources.mcap import McapRecording, TopicInfo
from edgefirst_ros.sources.session import resumed_of

PROGRESS_EVERY_S = 0.1
SURVEYED_ONLY = (
    "nothing of it is converted: it was interrupted while it was read for the rig's motion, which comes "
    "first; run it again, or with ego.smoothing: lag, which converts while it reads"
)
NOT_READ = "not read, as the conversion was interrupted before"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion left behind."""

    paths: tuple[Path, ...]
    report: dict[str, Any]
    interrupted: bool

    @property
    def interruption(self) -> str:
        """What an interruption has left, for a person."""
        if self.report["totals"]["received"]:
            return "interrupted: what had been read is finished and complete"
        return "interrupted before anything was converted"


@dataclass(frozen=True, slots=True)
class Position:
    """Progress for people: bytes of input read, and what came of them."""

    file: str
    bytes_read: int
    bytes_total: int
    run: Progress
    notes: Sequence[str]


def convert(
    paths: Sequence[Path],
    output: Path,
    config: Config,
    *,
    dataset: str = "",
    overwrite: bool = False,
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
    pace: Callable[[RawMessage], None] | None = None,
    committed: Callable[[Sample], None] | None = None,
    notes: Sequence[str] = (),
) -> Conversion:
    """Convert recordings into one dataset below ``output``.

    Everything that can be known beforehand is checked before anything is written. When ``stop`` is set,
    what has been read is finished and the result says it was interrupted. ``pace`` is called before each
    message and may wait; ``committed`` with every sample that is written, from a writing thread. ``notes`` go
    into the report, before its own.

    What live capture recorded is named as its session was, and begins with what was known before it.

    Raises:
        RecordingNotFound: a recording that is not there.
        RecordingError: a file that is not a recording, unless it is one of a folder's.
        ConfigError: a prefix or reference that does not fit a recording.
        OutputExists: the dataset is there already and ``overwrite`` is off.
        WriteError: the output cannot be written; what was committed stays in ``.part`` files.
    """
    inputs = open_recordings(paths, config)
    drives = [drive for drive, _ in inputs.drives]
    stop = stop or threading.Event()
    sequences = [named for drive in drives if (named := drive.parts[0].sequence_name) is not None]
    # Never a sequence's own name: readers take a container that holds one folder of its own name for nested.
    session = drives[0].parts[0].session
    name = dataset or (f"{drives[0].path.stem}-dataset" if session is None else session.dataset)
    job = Job(config, output, name, overwrite=overwrite, sequences=sequences, committed=committed)
    job.pipeline.notes += [*notes, *inputs.notes, *renaming("name", dataset)]
    try:
        if pace is not None or not _replay(job.pipeline, inputs.drives, stop, on_progress):
            _feed(job.pipeline, inputs.drives, stop, on_progress, pace)
        paths_written, report = job.finish(
            {
                "recordings": [_recording(part, drive) for drive in drives for part in drive.parts],
                "left_out": [asdict(left_out) for left_out in inputs.left_out],
                "interrupted": stop.is_set(),
            },
            warnings=[*(left_out.text for left_out in inputs.left_out), *_disorder(drives, config)],
        )
    except BaseException:
        job.abort()
        raise
    return Conversion(tuple(paths_written), report, stop.is_set())


class _Reading:
    """Goes through drives, tells how far it has come, and ends when it is told to."""

    def __init__(
        self,
        pipeline: Pipeline,
        total: int,
        stop: threading.Event,
        on_progress: Callable[[Position], None] | None,
    ) -> None:
        self._pipeline = pipeline
        self._total, self._before, self._shown_s = total, 0, 0.0
        self._stop = stop
        self._on_progress = on_progress

    def through(self, drive: Drive, take: Callable[[RawMessage], None]) -> bool:
        """Give every message to ``take``; whether it came to the end."""
        for message in drive.messages():
            take(message)
            self._show(drive)
            if self._stop.is_set():
                return False
        self._before += drive.size
        return True

    def _show(self, drive: Drive) -> None:
        if self._on_progress is None or time.monotonic() - self._shown_s < PROGRESS_EVERY_S:
            return
        self._shown_s = time.monotonic()
        name = readable(drive.parts[drive.reading].path.name)
        read = self._before + drive.position
        self._on_progress(Position(name, read, self._total, self._pipeline.progress, self._pipeline.notes))


def _feed(
    pipeline: Pipeline,
    sources: Sequence[tuple[Drive, Sequence[TopicInfo]]],
    stop: threading.Event,
    on_progress: Callable[[Position], None] | None,
    pace: Callable[[RawMessage], None] | None,
) -> None:
    surveyed = [wants_survey(pipeline.config, known, streams=pace is not None) for _, known in sources]
    total = sum(drive.size * (1 + twice) for (drive, _), twice in zip(sources, surveyed, strict=True))
    reading = _Reading(pipeline, total, stop, on_progress)

    def take(message: RawMessage) -> None:
        if pace is not None:
            pace(message)
        pipeline.feed(message)

    for number, ((drive, known), twice) in enumerate(zip(sources, surveyed, strict=True)):
        motions: Sequence[Sequence[Solution]] = ()
        if twice:
            surveys = _Surveys(pipeline.config, known, lambda: not stop.is_set())
            if reading.through(drive, surveys.feed):
                motions = surveys.finish()
            if stop.is_set():
                pipeline.unread.append(f"{readable(drive.path.name)}: {SURVEYED_ONLY}")
        if not stop.is_set():
            source = _Source(pipeline, drive, known, motions, take)
            whole = reading.through(drive, source.take)
            pipeline.end_source(*(() if whole else ("interrupted",)))
            pipeline.notes += _notes(drive) if whole else ()
        if stop.is_set():
            following = [readable(later.path.name) for later, _ in sources[number + 1 :]]
            pipeline.unread += [f"{name}: {NOT_READ}" for name in following]
            return


def _notes(drive: Drive) -> Iterator[str]:
    for part in drive.parts:
        name = readable(part.path.name)
        if part.note:
            yield f"{name}: {part.note}"
        if part.displaced and part.is_sorted:
            yield f"{name}: {_displaced(part)}; read in the order of their receipt"


def _replay(
    pipeline: Pipeline,
    sources: Sequence[tuple[Drive, Sequence[TopicInfo]]],
    stop: threading.Event,
    on_progress: Callable[[Position], None] | None,
) -> bool:
    """Feed a session that went on from another, or was gone on from; whether it is one.

    Poses that know the whole recording are not those of the session, so there is nothing to take over then.
    """
    (drive, known), config = sources[0], pipeline.config
    first = drive.parts[0]
    if len(sources) > 1 or first.session is None or not is_as_captured(first.session, config):
        return False
    if wants_survey(config, known, streams=False):
        return False
    run = find_run(first)
    pipeline.notes += run.notes
    if len(run.drive.parts) == 1 and run.following is None:
        return False
    replay = Replay(run, config, pipeline)
    reading = _Reading(pipeline, run.drive.size, stop, on_progress)
    try:
        if reading.through(run.drive, replay.take):
            replay.finish(lambda: not stop.is_set())
    finally:
        replay.end()
    pipeline.end_source(*(("interrupted",) if stop.is_set() else ()))
    pipeline.notes += _notes(drive)
    return True


class _Surveys:
    """What is found beforehand of each stretch of a recording between pauses."""

    def __init__(self, config: Config, known: Sequence[TopicInfo], proceed: Callable[[], bool]) -> None:
        self._make = partial(Survey, config, known, proceed)
        self._survey = self._make()
        self._found: list[Sequence[Solution]] = []

    def feed(self, message: RawMessage) -> None:
        """Take one message."""
        if resumed_of(message) is not None:
            self._found.append(self._survey.finish())
            self._survey = self._make()
        elif not message.repeated:
            self._survey.feed(message)

    def finish(self) -> list[Sequence[Solution]]:
        """The motions of each stretch."""
        return [*self._found, self._survey.finish()]


class _Source:
    """Feeds a pipeline one drive; a session that was captured live as it went then, with what was known."""

    def __init__(
        self,
        pipeline: Pipeline,
        drive: Drive,
        known: Sequence[TopicInfo],
        motions: Sequence[Sequence[Solution]],
        take: Callable[[RawMessage], None],
    ) -> None:
        first = drive.parts[0]
        session, config = first.session, pipeline.config
        self._pipeline = pipeline
        self._again = session is not None and is_as_captured(session, config)
        self._host, self._known, self._take = first.host, None if self._again else known, take
        self._motions = deque(motions)
        self._begin(first.sequence_name, session.known if session is not None and self._again else None)

    def _begin(self, sequence: str | None, calibration: Calibration | None) -> None:
        motions = self._motions.popleft() if self._motions else ()
        self._pipeline.begin_source(self._known, self._host, sequence, motions, calibration=calibration)

    def take(self, message: RawMessage) -> None:
        """The next message."""
        resumed = resumed_of(message)
        if resumed is not None:
            self._pipeline.end_source(PAUSED)
            sequence, known = resumed
            self._begin(sequence, known if self._again else self._pipeline.calibration)
        # What the file repeats of before is known already, unless another configuration takes it.
        elif not (self._again and message.repeated):
            self._take(message)


def _disorder(drives: Sequence[Drive], config: Config) -> list[str]:
    """What is left out of order by more than the look-ahead makes up for."""
    reach_ns = reorder_window_ns(config)
    return [
        f"{readable(part.path.name)}: {_displaced(part)}, and too much lies across each other to be put in "
        f"order: read as it lies; order it by log_time first"
        for drive in drives
        for part in drive.parts
        if not part.is_sorted and any(d.worst_ns > reach_ns for d in part.displaced.values())
    ]


def _displaced(part: McapRecording) -> str:
    several = [
        f"{d.messages:,} of {readable(topic)} by up to {d.worst_ns / 1e9:,.1f} s"
        for topic, d in part.displaced.items()
    ]
    return f"messages lie behind later ones ({', '.join(several)})"


def _recording(recording: McapRecording, drive: Drive) -> dict[str, Any]:
    return {
        "file": readable(recording.path.name),
        "drive": readable(drive.path.name),
        "bytes": recording.size,
        "unreadable_bytes": sum(f.bytes for f in recording.faults),
        "faults": [{"offset": f.offset, "bytes": f.bytes, "what": f.text} for f in recording.faults],
        "displaced": {
            readable(topic): {"messages": d.messages, "worst_s": round(d.worst_ns / 1e9, 3)}
            for topic, d in recording.displaced.items()
        },
        "sorted": recording.is_sorted,
    }
