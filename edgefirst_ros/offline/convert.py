"""Converts recordings into one dataset.

The calibration in force at the beginning of an excerpt, from messages before it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import (
    CONTEXT_ROLES,
    TopicMap,
    camera_of,
    choose_reference,
    find_prefix,
    full_type,
)
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, Measurement, RawMessage, Sample
from edgefirst_ros.model.untrusted import readable, renaming
from edgefirst_ros.offline.drives import ADJOINING_NS, RecordedDrive, extent_ns
from edgefirst_ros.offline.inputs import Places, open_recordings
from edgefirst_ros.offline.sessions import ChainReplay, find_chain, is_as_captured
from edgefirst_ros.offline.survey import MotionSurvey, wants_survey
from edgefirst_ros.pipeline.assembly import Pipeline, Progress
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import decoded_for, unwanted
from edgefirst_ros.pipeline.executor import worker_count
from edgefirst_ros.pipeline.intake import is_batch
from edgefirst_ros.pipeline.job import Job, was_interrupted
from edgefirst_ros.pipeline.processes import are_worth_it
from edgefirst_ros.pipeline.sequence import reorder_window_ns
from edgefirst_ros.report.drives import clock
from edgefirst_ros.sources.recording import Excerpt, InFull, Recording, TopicInfo
from edgefirst_ros.sources.session import RESUMED, resumed_of


def calibration_before(
    drive: RecordedDrive, known: Sequence[TopicInfo], config: Config
) -> Calibration | None:
    """What calibration messages said before the drive's window; None if it begins with the drive.

    The device repeats them once a second, a ROS graph may send them only once, at the beginning.
    """
    if not drive.is_excerpt:
        return None
    names = [topic for topic, _ in known]
    routes = TopicMap(config, find_prefix(names, config), known)
    found = {name: routes.route(name) for name in names}
    wanted = {name for name, route in found.items() if route is not None and route.rule.role in CONTEXT_ROLES}
    camera = camera_of(config, choose_reference(config, names, routes)[1], routes)
    context = SampleContext(config, camera=camera)
    for raw in sorted(drive.latched(wanted), key=lambda message: message.receive_ns):
        route = routes.route(raw.topic, full_type(raw.schema))
        if route is None or unwanted(raw, full_type(raw.schema), route) is not None:
            continue
        try:
            decoded = decoded_for(route.rule, raw, config.class_names)
        except DecodeError:
            continue
        times = raw.receive_ns, decoded.stamp_ns, raw.receive_ns
        learnt = Measurement(raw.topic, *times, raw.arrival, decoded.frame_id, decoded.datum)
        context.learn(learnt, route.sensor)
    context.close()
    return context.calibration


Sources = Sequence[tuple[RecordedDrive, Sequence[TopicInfo]]]
PROGRESS_EVERY_S = 0.2
SURVEYED_ONLY = "not converted: stopped while the motion was read, run it again"
NOT_READ = "not read: the conversion was interrupted before"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion; ``recorded_s`` is how long the recordings are."""

    paths: tuple[Path, ...]
    report: dict[str, Any]
    interrupted: bool
    recorded_s: float = 0.0

    @property
    def interruption(self) -> str:
        """What an interrupted conversion has written, in a sentence."""
        if self.report["totals"]["received"]:
            return "interrupted: the dataset is complete up to here"
        return "interrupted before anything was converted"


@dataclass(frozen=True, slots=True)
class Position:
    """Progress of a conversion: bytes of input read, and what has been written.

    ``share`` is how much of the work is done, None while the recordings are read for the motion; ``expected``
    is how many samples there will be, 0 while that is not known; ``size`` and ``whole_s`` are of the input.
    """

    file: str
    bytes_read: int
    bytes_total: int
    run: Progress
    notes: Sequence[str]
    share: float | None = 0.0
    expected: int = 0
    size: int = 0
    whole_s: float = 0.0


def convert(
    places: Places,
    output: Path,
    config: Config,
    *,
    excerpt: Excerpt | None = None,
    dataset: str = "",
    overwrite: bool = False,
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
    pace: Callable[[RawMessage], None] | None = None,
    committed: Callable[[Sample], None] | None = None,
    notes: Sequence[str] = (),
    unusable: Mapping[str, str] = MappingProxyType({}),
    processes: bool | None = None,
) -> Conversion:
    """Convert recordings into one dataset below ``output``.

    Inputs and outputs are checked before anything is written. A recording of a live session is named as the
    session was, and begins with the session's initial calibration.

    Args:
        places: recordings, or folders of them, as paths or URLs, or an open
            drive; folders are searched with all below.
        output: the output folder.
        config: the configuration.
        excerpt: the part of every drive to convert; None for all of it.
        dataset: name of the dataset; default: from the first recording.
        overwrite: replace an existing dataset once the new one is complete.
        stop: when set, what has been read is completed, and the result is marked as interrupted unless that
            is everything.
        on_progress: called several times a second, from another thread, until the output is complete.
        pace: called before each message; may wait.
        committed: called with every sample that any format has, from a writing thread.
        notes: go into the report before its own.
        unusable: topics of sensors that cannot be used, and why.
        processes: whether processes decode and encode, in place of threads; None where there are several
            workers, and enough to read for them. The result is the same.

    Raises:
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is not a recording, unless it is in a folder that was given; or a remote one
            cannot be read.
        ConfigError: prefix or reference do not fit a recording.
        ExtraNotInstalled: the library for a URL or a bag is missing.
        OutputExists: the dataset exists and ``overwrite`` is off.
        WriteError: the output cannot be written; what was committed stays in ``.part`` files.
    """
    inputs = open_recordings(places, config, excerpt)
    drives = [drive for drive, _ in inputs.drives]
    stop = stop or threading.Event()
    sequences = [named for drive in drives if (named := _sequence_name(drive)) is not None]
    session = drives[0].parts[0].session
    name = dataset or (drives[0].path.stem if session is None else session.dataset)
    whole_s = sum(last_ns - first_ns for first_ns, last_ns in map(span_ns, drives)) / 1e9
    if processes is None:
        size = sum(drive.size for drive in drives)
        processes = are_worth_it(worker_count(config.workers), size, whole_s if config.selects else None)
    job = Job(
        config,
        output,
        name,
        overwrite=overwrite or was_interrupted(config, output, name),
        sequences=sequences,
        committed=committed,
        processes=processes,
    )
    job.pipeline.tell_unusable(unusable)
    job.pipeline.notes += [*notes, *inputs.notes, *renaming("name", dataset)]
    if not dataset and session is None and len(drives) > 1:
        job.pipeline.notes.append(
            f"the dataset has the name of the first of {len(drives):,} drives, see --name"
        )
    reading = Reading(job.pipeline, inputs.drives, stop, streams=pace is not None)
    try:
        with reading.watched(on_progress):
            interrupted = None if pace is not None else _replay(reading, inputs.drives)
            if interrupted is None:
                interrupted = feed_drives(reading, inputs.drives, pace)
            recorded_s = job.pipeline.progress.recorded_s
            stopped_at = f"{_clock(recorded_s)} of {_clock(max(recorded_s, whole_s))}"
            paths_written, report = job.finish(
                {
                    "recordings": [described(part, drive) for drive in drives for part in drive.parts],
                    "left_out": [asdict(left_out) for left_out in inputs.left_out],
                    "interrupted": interrupted and stopped_at,
                },
                warnings=[*(left_out.text for left_out in inputs.left_out), *drive_warnings(drives, config)],
            )
    except BaseException:
        job.abort()
        raise
    return Conversion(tuple(paths_written), report, interrupted, recorded_s)


def span_ns(drive: RecordedDrive) -> tuple[int, int]:
    """When a drive begins and ends, or what is read of it."""
    (first_ns, last_ns), window = extent_ns(drive.parts), drive.window
    if window is not None:
        first_ns, last_ns = max(first_ns, window.begin_ns), min(last_ns, window.end_ns)
    return first_ns, max(first_ns, last_ns)


def _clock(seconds: float) -> str:
    return clock(seconds).removeprefix("0")


def _sequence_name(drive: RecordedDrive) -> str | None:
    """Name of a drive's first sequence; None for an excerpt, which is named by its own beginning."""
    return None if drive.is_excerpt else drive.parts[0].sequence_name


class Reading:
    """Reads drives, ends when ``stop`` is set, and says how far that is, from any thread.

    Args:
        pipeline: what is read goes to.
        sources: the drives with their topics.
        stop: may be set by any thread.
        streams: they are read in real time, as if they were live.
    """

    def __init__(
        self, pipeline: Pipeline, sources: Sources, stop: threading.Event, *, streams: bool = False
    ) -> None:
        self.pipeline, self.stop = pipeline, stop
        self.twice = [wants_survey(pipeline.config, known, streams=streams) for _, known in sources]
        sizes = [drive.size for drive, _ in sources]
        self._size, self._total = sum(sizes), sum(n * (1 + t) for n, t in zip(sizes, self.twice, strict=True))
        self._spans = [span_ns(drive) for drive, _ in sources]
        self._whole_ns = sum(last_ns - first_ns for first_ns, last_ns in self._spans)
        self._drives = [drive for drive, _ in sources]
        self._drive, self._is_reading, self._is_survey = sources[0][0], False, any(self.twice)
        self._before: dict[str, RecordedDrive] = {}
        """The drive of each sequence that has ended."""
        self._read = {True: 0, False: 0}
        """Bytes of the drives before this one that were read: for their motion, and to be converted."""

    def read(
        self, drive: RecordedDrive, put: Callable[[RawMessage], None], in_full: InFull | None = None
    ) -> bool:
        """Pass every message to ``put``; returns whether the end was reached."""
        for ended in self.pipeline.sequences:
            self._before.setdefault(ended.name, self._drive)
        self._drive, self._is_reading, self._is_survey = drive, True, in_full is not None
        for message in drive.messages(in_full):
            put(message)
            if self.stop.is_set():
                return False
        self._is_reading = False
        self._read[self._is_survey] += drive.size
        return True

    def position(self) -> Position:
        """How far it is."""
        drive, run, begun = self._drive, self.pipeline.progress, dict(self._read)
        begun[self._is_survey] += drive.position * self._is_reading
        share, written = min(1.0, begun[False] / max(1, self._size)), self._written(*run.newest)
        expected = max(run.samples, round(run.samples / written)) if written else 0
        if written or not run.samples:
            # Samples are decoded and written behind what is read, which takes as long again.
            share = (share + written) / 2
        return Position(
            readable(drive.parts[drive.reading].path.name),
            min(self._total, sum(begun.values())),
            self._total,
            run,
            self.pipeline.notes,
            None if self._is_survey and not run.samples else share,
            expected,
            self._size,
            self._whole_ns / 1e9,
        )

    def _written(self, sequence: str, _: int, time_ns: int) -> float:
        """The share of the recordings that is written, by the newest sample; 0 if that is not known."""
        written, before_ns = self._before.get(sequence, self._drive), 0
        for drive, (first_ns, last_ns) in zip(self._drives, self._spans, strict=True):
            if drive is written and first_ns < time_ns <= last_ns + ADJOINING_NS:
                return min(1.0, (before_ns + time_ns - first_ns) / max(1, self._whole_ns))
            before_ns += last_ns - first_ns
        return 0.0

    @contextmanager
    def watched(self, on_progress: Callable[[Position], None] | None) -> Iterator[None]:
        """Call it several times a second, from a thread of its own, until all is written."""
        if on_progress is None:
            yield
            return
        ended = threading.Event()

        def watch() -> None:
            on_progress(self.position())
            while not ended.wait(PROGRESS_EVERY_S):
                on_progress(self.position())

        thread = threading.Thread(target=watch, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        last = self.position()
        on_progress(replace(last, share=1.0, expected=last.run.samples))


def feed_drives(reading: Reading, sources: Sources, pace: Callable[[RawMessage], None] | None = None) -> bool:
    """Feed every drive, until it is to stop; returns whether that was before the end; see ``convert``."""
    pipeline, stop = reading.pipeline, reading.stop
    for number, ((drive, known), twice) in enumerate(zip(sources, reading.twice, strict=True)):
        found: Sequence[Sequence[Motion]] = ()
        whole = False
        if twice:
            drive.keep()
            surveys = _Surveys(pipeline.config, known, lambda: not stop.is_set())
            if reading.read(drive, surveys.feed, surveys.needs):
                found = surveys.finish()
            if stop.is_set():
                pipeline.unread.append(f"{readable(drive.path.name)}: {SURVEYED_ONLY}")
        if not stop.is_set():
            source = _Source(pipeline, drive, known, found, pace)
            whole = reading.read(drive, source.take)
            source.flush()
            pipeline.cut_short |= not whole
            pipeline.end_source(*(() if whole else ("interrupted",)))
            for (topic, schema), count in drive.outside.items() if whole else ():
                pipeline.leave_out(topic, schema, count, Reason.OUTSIDE)
            pipeline.notes += _notes(drive) if whole else ()
        if stop.is_set():
            following = [readable(later.path.name) for later, _ in sources[number + 1 :]]
            pipeline.unread += [f"{name}: {NOT_READ}" for name in following]
            pipeline.cut_short |= not whole or bool(following)
            return not whole or bool(following)
    return False


def _notes(drive: RecordedDrive) -> Iterator[str]:
    for part in drive.parts:
        name = readable(part.path.name)
        if part.note:
            yield f"{name}: {part.note}"
        if part.displaced and part.is_sorted:
            yield f"{name}: {_displaced(part)}, read in order of receipt"


def _replay(reading: Reading, sources: Sources) -> bool | None:
    """Feed a session that continues another one, or is continued; None if it is no such session.

    Returns whether ``stop`` was set before the end. With whole-drive smoothing the poses are not the
    session's anyway, so it is converted like any recording.
    """
    (drive, known), pipeline = sources[0], reading.pipeline
    first, config = drive.parts[0], pipeline.config
    if len(sources) > 1 or first.session is None or not is_as_captured(first.session, config):
        return None
    if drive.window is not None or wants_survey(config, known, streams=False):
        return None
    chain = find_chain(first)
    pipeline.notes += chain.notes
    if len(chain.drive.parts) == 1 and chain.following is None:
        return None
    replay = ChainReplay(chain, pipeline)
    try:
        if reading.read(chain.drive, replay.feed):
            replay.finish(lambda: not reading.stop.is_set())
    finally:
        replay.close()
    interrupted = reading.stop.is_set()
    pipeline.cut_short |= interrupted
    pipeline.end_source(*(("interrupted",) if interrupted else ()))
    pipeline.notes += _notes(drive)
    return interrupted


class _Surveys:
    """Motion surveys of the parts of a recording between pauses."""

    def __init__(self, config: Config, known: Sequence[TopicInfo], proceed: Callable[[], bool]) -> None:
        self._make = partial(MotionSurvey, config, known, proceed)
        self._survey = self._make()
        self._found: list[Sequence[Motion]] = []

    def needs(self, topic: str, schema: str) -> bool:
        """Whether the next message of a topic is needed in full."""
        return topic == RESUMED or self._survey.needs(topic, schema)

    def feed(self, message: RawMessage) -> None:
        """Add one message."""
        if message.topic == RESUMED and resumed_of(message) is not None:
            self._found.append(self._survey.finish())
            self._survey = self._make()
        elif not message.repeated:
            self._survey.feed(message)

    def finish(self) -> list[Sequence[Motion]]:
        """What was found of each part."""
        return [*self._found, self._survey.finish()]


class _Source:
    """Feeds a pipeline one drive; a live session with its initial calibration and its pauses."""

    def __init__(
        self,
        pipeline: Pipeline,
        drive: RecordedDrive,
        known: Sequence[TopicInfo],
        surveyed: Sequence[Sequence[Motion]],
        pace: Callable[[RawMessage], None] | None,
    ) -> None:
        first = drive.parts[0]
        session, config = first.session, pipeline.config
        self._pipeline = pipeline
        self._again = session is not None and drive.window is None and is_as_captured(session, config)
        self._host, self._known, self._pace = first.host, None if self._again else known, pace
        self._waiting: list[RawMessage] = []
        self._surveyed = deque(surveyed)
        begins_with = calibration_before(drive, known, config)
        self._begin(
            _sequence_name(drive), session.known if session is not None and self._again else begins_with
        )

    def _begin(self, sequence: str | None, calibration: Calibration | None) -> None:
        motions = self._surveyed.popleft() if self._surveyed else ()
        self._pipeline.begin_source(self._known, self._host, sequence, motions, calibration=calibration)

    def take(self, message: RawMessage) -> None:
        """Feed the next message."""
        resumed = resumed_of(message) if message.topic == RESUMED else None
        if resumed is not None:
            self.flush()
            self._pipeline.end_source(Reason.PAUSED)
            sequence, known = resumed
            self._begin(sequence, known if self._again else self._pipeline.calibration)
        # Repeated messages are in the initial calibration, unless the configuration is another one.
        elif not (self._again and message.repeated):
            self._waiting.append(message)
            if self._pace is not None:
                self._pace(message)
            if self._pace is not None or is_batch(self._waiting):
                self.flush()

    def flush(self) -> None:
        """Feed what waits to be fed together."""
        waiting, self._waiting = self._waiting, []
        self._pipeline.feed_all(waiting)


def drive_warnings(drives: Sequence[RecordedDrive], config: Config) -> list[str]:
    """Warnings of files whose disorder is larger than the look-ahead can correct."""
    reach_ns = reorder_window_ns(config)
    return [
        f"{readable(part.path.name)}: {_displaced(part)}, too many to be sorted in memory: read in "
        f"file order; sort it by log_time first"
        for drive in drives
        for part in drive.parts
        if not part.is_sorted and any(d.worst_ns > reach_ns for d in part.displaced.values())
    ]


def _displaced(part: Recording) -> str:
    several = [
        f"{d.messages:,} of {readable(topic)} by up to {d.worst_ns / 1e9:,.1f} s"
        for topic, d in part.displaced.items()
    ]
    return f"messages are stored after later ones ({', '.join(several)})"


def described(recording: Recording, drive: RecordedDrive) -> dict[str, Any]:
    """What the report says of a recording that was read."""
    outside = {"messages": recording.outside.total(), "unread_bytes": recording.unread_bytes}
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
        **({} if drive.window is None else {"outside": outside}),
    }
