"""One live session on disk: its names, its beginning, and its completion with a report.

A paused live session: nothing is written, every message is counted, calibration is kept up to date.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import CONTEXT_ROLES, TopicMap, full_type
from edgefirst_ros.formats.crashsafe.sync import LOST
from edgefirst_ros.live.recorder import LiveRecording, PendingRecording, recording_report
from edgefirst_ros.live.status import shed_counts, shed_warnings, silent_roles
from edgefirst_ros.model.detection import relabelled
from edgefirst_ros.model.errors import DecodeError, OutputBusy, OutputExists
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import Calibration, Measurement, RawMessage, Sample
from edgefirst_ros.model.untrusted import renaming, safe_name, sequence_name
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.disk import Disk, Mark
from edgefirst_ros.pipeline.envelope import unwanted
from edgefirst_ros.pipeline.job import Job, report_path
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.report.finding import publishers_finding
from edgefirst_ros.sources.seen import SeenTopic
from edgefirst_ros.sources.session import Seam
from edgefirst_ros.sources.suggest import lost_sensor


class SessionNames:
    """Names for successive sessions.

    Sequences and datasets are named ``host_date_time``, unless the user gave names; those are numbered from
    the second session on.

    Args:
        host: host name of the device.
        dataset: the user's name for datasets, or empty.
        sequence: the user's name for sequences, or empty.
    """

    def __init__(self, host: str, dataset: str, sequence: str) -> None:
        self.given = bool(dataset)
        """Whether the next dataset must have exactly the name that the user gave."""
        self.host = host
        """Host name of the device."""
        self._dataset = dataset
        self._sequence = sequence
        self._taken: set[str] = set()
        self._held: list[socket.socket] = []
        self.sequence = ""
        """Name of the first sequence of the newest session."""

    def candidates(self, now_ns: int) -> Iterator[tuple[str, str]]:
        """Dataset and sequence names for a session that begins now, the preferred ones first."""
        sequence = self._sequence or sequence_name(self.host, now_ns)
        dataset = self._dataset or sequence
        for number in count(1):
            suffix = "" if number == 1 else f"_{number}"
            name = safe_name(dataset + suffix)
            if name not in self._taken:
                yield name, sequence + suffix

    @property
    def notes(self) -> list[str]:
        """Notes on given names that had to be changed."""
        return [*renaming("name", self._dataset), *renaming("session name", self._sequence)]

    def hold(self, datasets: Iterable[Path]) -> None:
        """Keep a new session's datasets from other processes, until ``release`` or the next session.

        A format takes its dataset with its first sample, but another process may begin within the same
        second, under the same name. An address in Linux' abstract namespace ends with its process and leaves
        nothing on disk; elsewhere nothing is held.

        Raises:
            OutputBusy: another process of this machine has begun one of them.
        """
        self.release()
        for path in datasets if sys.platform == "linux" else ():
            self._held.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            try:
                self._held[-1].bind(b"\0edgefirst_ros/" + sha256(os.fsencode(path.resolve())).digest())
            except OSError as error:
                self.release()
                raise OutputBusy(f"{path}: another capture has begun a session of this name") from error

    def release(self) -> None:
        """Hold nothing any more."""
        while self._held:
            self._held.pop().close()

    def claim(self, dataset: str, sequence: str) -> None:
        """Mark names as used."""
        self._taken.add(dataset)
        self.given, self.sequence = False, sequence


@dataclass(frozen=True, slots=True)
class Finished:
    """A session that is complete on disk."""

    name: str
    paths: tuple[Path, ...]
    report: dict[str, Any]

    @property
    def summary(self) -> str:
        """One line with the number of samples and messages."""
        totals, shed = self.report["totals"], self.report["shed"]
        at_risk_s = self.report.get("at_risk_s")
        counts = shed_counts({name: (each["shed"], each["of"]) for name, each in shed.items()})
        return (
            f"session {self.name} is complete: {self.report['samples']} samples, "
            f"{totals['received']} messages, {totals['dropped']} dropped"
            + (f"; shed because of overload: {counts}" if counts else "")
            + ("" if at_risk_s is None else f"; at risk of a power cut: the last {at_risk_s:.1f} s at most")
        )


@dataclass(frozen=True, slots=True)
class Split:
    """The end of a session that another one followed at once; ``opened`` is that one's dataset."""

    closed: Finished
    opened: str

    @property
    def values(self) -> list[tuple[str, str]]:
        """The split as keys and values, with a ``path`` for each file of the completed session."""
        report = self.closed.report
        return [
            ("closed", self.closed.name),
            ("opened", self.opened),
            ("reason", str(report["ended"])),
            ("samples", str(report["samples"])),
            ("messages", str(report["totals"]["received"])),
            ("dropped", str(report["totals"]["dropped"])),
            *(("path", str(path)) for path in self.closed.paths),
        ]


def overload_of(config: Config, before: Overload | None = None) -> Overload | None:
    """The overload control of a session, continuing that of the session before; None if it is disabled."""
    options = config.overload
    if not options.latency_s:
        return None
    overload = Overload(
        config.formats,
        latency_s=options.latency_s,
        wait_s=max(config.lookahead_s, config.ego.wait_s),
        hold_s=max(each.hold_s(config.options(each)) for each in config.chosen_formats),
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
    durable: Callable[[Mark], None] | None = None,
    disk: Disk | None = None,
) -> Job:
    """Begin a job under the first name that is not used yet.

    Args:
        config: the capture's configuration.
        output: the output folder.
        names: proposes names.
        now_ns: wall clock, for the names.
        committed: called with every sample that any format has, from a writing thread.
        known: the calibration of the session before, since robots send some of it only once.
        after: the session that this one follows without a gap, and the seam between them.
        recording: also begins a recording of this session, if there is one.
        overload: the overload control.
        durable: called with how far the disk holds what was written, see ``GroupCommit``.
        disk: admits what is written, see ``FanOut``.

    Raises:
        OutputExists: the dataset that the user named exists.
        OutputBusy: another process is writing the dataset that the user named.
        WriteError: the output cannot be written.
    """
    before = None if after is None else (after[0].pipeline, after[1].time_ns)
    candidates = names.candidates(now_ns)
    while True:
        dataset, sequence = next(candidates)
        try:
            names.hold(output / each / dataset for each in config.formats)
            # A session without samples leaves only its report, which must not be overwritten either.
            report = report_path(config, output, dataset)
            if report.exists():
                raise OutputExists(f"{report}: exists: choose another name")  # noqa: TRY301
            job = Job(
                config,
                output,
                dataset,
                committed=committed,
                overload=overload,
                durable=durable,
                disk=disk,
                workers=None if before is None else before[0].workers,
            )
            break
        except (OutputBusy, OutputExists):
            if names.given:
                names.release()
                raise
    names.claim(dataset, sequence)
    job.pipeline.notes += names.notes
    try:
        job.pipeline.begin_source(None, names.host, sequence, calibration=known, after=before)
    except BaseException:
        names.release()
        job.abort()
        raise
    recording.begin(job.dataset, sequence, names.host, known, None if after is None else after[1])
    return job


def finish_session(job: Job, config: Config, why: str, recorded: PendingRecording) -> Finished:
    """Complete a session's files and write its report.

    Args:
        job: the session's job.
        config: the capture's configuration.
        why: why the session ended, for the report.
        recorded: returns the session's recording, which has been ended.

    Raises:
        WriteError: the output cannot be written.
    """
    overload, ledger = job.overload, job.pipeline.ledger
    if overload is not None:
        overload.hold()
    job.pipeline.end_source(why)
    counts = ledger.snapshot()
    came = [SeenTopic(t, row["type"], points="Cloud" in row["type"]) for t, row in counts.items()]
    there = (SeenTopic(each.topic, full_type(each.type), 1) for each in job.pipeline.around)
    head: dict[str, Any] = {"recordings": [], "interrupted": False, "ended": why}
    head["silent"] = {role: [*topics] for role, topics in silent_roles(config, counts.keys()).items()}
    head["shed"] = {} if overload is None else overload.report()
    head["unreadable"] = {each.topic: said for each in there if (said := lost_sensor(each, came))}
    warnings = [] if overload is None else shed_warnings(overload, config)
    warnings += [publishers_finding(*found).text for found in sorted(job.publishers.items())]
    warnings += [f"{name}: lost: its folder {LOST}" for name in sorted(job.pipeline.fanout.given_up)]
    recording = recorded()
    if recording is not None:
        head["recording"] = recording_report(recording)
        warnings += recording.warnings
    paths, report = job.finish(head, warnings=warnings)
    more = () if recording is None else (recording.path,)
    return Finished(job.dataset, (*paths, *more), report)


class Pause:
    """Ends the sequence under way; ``resume`` begins another one in the same session.

    So no sample pairs across the pause, no pose is carried over it, and video begins at the next key frame
    or recovery point. Messages during the pause count as skipped; calibration, which a robot may send only
    once (tf_static, CameraInfo), is taken.

    Args:
        job: of the session.
        config: whole.
        host: of the session.
        sequence: name of the session's first sequence.
        why: the sequence under way ends.
    """

    def __init__(self, job: Job, config: Config, host: str, sequence: str, why: str = Reason.PAUSED) -> None:
        self._pipeline = job.pipeline
        self._host = host
        self._sequence = sequence
        self._class_names = config.class_names
        self._routes = TopicMap(config, config.prefix or "")
        self._pipeline.end_source(why)
        known, camera = self._pipeline.calibration, self._pipeline.camera
        self._context = SampleContext(config, camera=camera, known=known)

    @property
    def calibration(self) -> Calibration:
        """Known now."""
        return self._context.calibration

    def take(self, message: RawMessage) -> None:
        """Count a message, and take its calibration."""
        schema = full_type(message.schema)
        ledger = self._pipeline.ledger
        ticket = ledger.receive(message.topic, schema, len(message.data), message.receive_ns)
        route = self._routes.route(message.topic)
        refusal = unwanted(message, schema, route)
        if refusal is not None or route is None:
            ledger.release(ticket, *(refusal or (Stage.SKIPPED, Reason.PAUSED)), unplaced=True)
            return
        if route.rule.role not in CONTEXT_ROLES:
            ledger.release(ticket, Stage.SKIPPED, Reason.PAUSED, unplaced=True)
            return
        try:
            decoded = decode(message)
        except DecodeError as error:
            ledger.release(ticket, Stage.REFUSED, str(error), unplaced=True)
            return
        measurement = Measurement(
            message.topic,
            message.receive_ns,
            decoded.stamp_ns,
            message.receive_ns,
            message.arrival,
            decoded.frame_id,
            relabelled(decoded.datum, self._class_names),
        )
        wrong = self._context.learn(measurement, route.sensor)
        ledger.release(ticket, Stage.DECODED if wrong is None else Stage.REFUSED, wrong or "", unplaced=True)

    def resume(self) -> str:
        """Let the next message begin another sequence; returns its name."""
        before = len(self._pipeline.sequences)
        name = self._sequence if not before else f"{self._sequence}_part{before + 1}"
        self._pipeline.begin_source(None, self._host, name, calibration=self.calibration)
        return name
