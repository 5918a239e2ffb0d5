"""One live session on disk: begun under a name that is free, finished with its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import OutputExists
from edgefirst_ros.live.names import SessionNames
from edgefirst_ros.live.overloadadvice import shed_counts, shed_warnings
from edgefirst_ros.live.recording import LiveRecording, Pending, said_of
from edgefirst_ros.live.status import silent_roles
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.pipeline.job import Job, report_path
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.sample import Calibration, Sample
from edgefirst_ros.sources.session import Seam

APART_S = 0.1
"""A frame of L5Kit waits for the next sample, and a sample for the next frame."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A session that is complete on disk."""

    name: str
    paths: tuple[Path, ...]
    report: dict[str, Any]

    @property
    def summary(self) -> str:
        """What came of it, in a sentence."""
        totals, shed = self.report["totals"], self.report["shed"]
        counts = shed_counts({name: (each["shed"], each["of"]) for name, each in shed.items()})
        return (
            f"session {self.name} is complete: {self.report['samples']} samples, "
            f"{totals['received']} messages, {totals['dropped']} dropped"
            + (f"; shed for want of time: {counts}" if counts else "")
        )


@dataclass(frozen=True, slots=True)
class Split:
    """A session that ended because another one followed it at once."""

    closed: Finished
    opened: str
    """Name of the one that followed."""


@dataclass(frozen=True, slots=True)
class Tail:
    """A session that was split and still takes what was acquired before the seam.

    ``until_ns`` is the time of receipt from which on nothing more is needed, ``until_s`` the same on the
    monotonic clock, for the case that nothing is received any more.
    """

    job: Job
    why: str
    until_ns: int
    until_s: float
    following: Job
    recorded: Pending

    def is_over(self, message: RawMessage | None, now_s: float) -> bool:
        """Whether nothing more is needed, at this message or in this pause."""
        return now_s >= self.until_s if message is None else message.receive_ns >= self.until_ns


def overload_of(config: Config, before: Overload | None = None) -> Overload | None:
    """What decides which samples there is no time for, after a session before; None if all are kept."""
    options = config.overload
    if not options.latency_s:
        return None
    wait_s = max(config.lookahead_s, config.ego.wait_s)
    overload = Overload(
        config.formats,
        latency_s=options.latency_s,
        wait_s=wait_s,
        hold_s=config.l5kit.ahead_s + APART_S if "l5kit" in config.formats else 0.0,
        first=options.shed_first,
    )
    if before is not None:
        overload.go_on(before)
    return overload


def begin_session(
    config: Config,
    output: Path,
    names: SessionNames,
    now_ns: int,
    committed: Callable[[Sample], None],
    *,
    known: Calibration | None = None,
    after: tuple[Job, Seam] | None = None,
    recording: LiveRecording,
    overload: Overload | None = None,
) -> Job:
    """A job with its source begun, under the first of the names that is free.

    ``known`` is the calibration of the session before: what a robot says once holds for this one as well.
    ``after`` is the session that this one follows without a gap, and where the seam is.
    ``overload`` decides which samples there is no time for.

    Raises:
        OutputExists: the name that the user gave is taken.
        WriteError: the output cannot be written.
    """
    candidates = names.candidates(now_ns)
    while True:
        dataset, sequence = next(candidates)
        try:
            # A session of which nothing was written left only this, which is worth as much.
            report = report_path(config, output, dataset)
            if report.exists():
                raise OutputExists(f"{report}: is there already; choose another name")  # noqa: TRY301
            job = Job(config, output, dataset, committed=committed, overload=overload)
            break
        except OutputExists:
            if names.given:
                raise
    names.take(dataset, sequence)
    job.pipeline.notes += names.notes
    before = None if after is None else (after[0].pipeline, after[1].time_ns)
    try:
        job.pipeline.begin_source(None, names.host, sequence, calibration=known, after=before)
    except BaseException:
        job.abort()
        raise
    recording.begin(job.dataset, sequence, names.host, known, None if after is None else after[1])
    return job


def finish_session(job: Job, config: Config, why: str, recorded: Pending) -> Finished:
    """Complete the files and write the report, which says why the session ended.

    ``recorded`` is the session's recording, which has been ended.

    Raises:
        WriteError: or whatever made a writer fail.
    """
    if job.overload is not None:
        job.overload.hold()
    job.pipeline.end_source(why)
    warnings: list[str] = []
    if config.split_every_m and not job.pipeline.has_poses:
        warnings = ["split_every_m: where the rig was is not known, so nothing tells how far it drove"]
    silent = {role: list(t) for role, t in silent_roles(config, job.pipeline.ledger.topics).items()}
    head: dict[str, Any] = {"recordings": [], "interrupted": False, "ended": why, "silent": silent}
    head["shed"] = {} if job.overload is None else job.overload.report()
    if job.overload is not None:
        warnings += shed_warnings(job.overload, config)
    recording = recorded.result()
    if recording is not None:
        head["recording"] = said_of(recording)
        warnings += recording.warnings
    paths, report = job.finish(head, warnings=warnings)
    if recording is not None:
        paths.append(recording.path)
    return Finished(job.dataset, tuple(paths), report)
