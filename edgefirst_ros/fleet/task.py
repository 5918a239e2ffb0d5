"""Converts one drive of a fleet, in whatever process or machine an engine runs it."""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import find_prefix
from edgefirst_ros.fleet.claims import Claim, Claimant
from edgefirst_ros.fleet.engines.engine import this_worker
from edgefirst_ros.fleet.health import Fault, fault_of
from edgefirst_ros.fleet.keys import FleetDrive, Key, Settings
from edgefirst_ros.fleet.notes import COUNTS, DONE, FAILED, Notes
from edgefirst_ros.fleet.output import Output, open_output
from edgefirst_ros.model.errors import (
    EdgeFirstError,
    ExtraNotInstalled,
    OutputBusy,
    OutputExists,
    RecordingError,
)
from edgefirst_ros.offline.convert import Conversion, Position, convert
from edgefirst_ros.offline.inputs import suggested
from edgefirst_ros.offline.sessions import recorded_settings
from edgefirst_ros.report import make_pages
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import Report, parsed
from edgefirst_ros.report.shortfalls import losses
from edgefirst_ros.sources.location import location_of
from edgefirst_ros.sources.recording import device_host
from edgefirst_ros.sources.remote import READING

PACKAGE = "edgefirst_ros"
_MOST_REASON = 1 << 14
"""Characters: a library's message may quote all of an input."""
_MOST_PLACES = 16
_DEGREE_M = 111_320.0
"""Along a meridian."""
MOST_DEATHS = 3
"""A drive that has killed this many workers is given up."""


@dataclass(frozen=True, slots=True)
class Task:
    """One drive to convert; all plain values, since it is sent to other processes and machines.

    Attributes:
        drive: its files, and the name of its output.
        key: what the dataset is made from.
        settings: how.
        output: path or URL of the fleet's output.
        run: the coordinator's run.
        workers: encoder threads.
        abandoned: version of a claim that may be taken over.
        earlier: keys with which this drive was done or has failed before; their datasets are replaced.
        redo: convert it even if it is done, and replace whatever is there.
        patience_s: for so long what has begun waits for a store that is at fault.
        single: see ``open_output``.
        failed: the run whose failure is known; that of another run is respected.
    """

    drive: FleetDrive
    key: Key
    settings: Settings
    output: str
    run: str
    workers: int
    abandoned: str = ""
    earlier: tuple[str, ...] = ()
    redo: bool = False
    patience_s: float = 0.0
    single: bool = False
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended; ``note`` is what was written about it.

    ``busy``: another run writes this drive. ``earlier``: another run had completed it meanwhile; ``failed``
    may be that of another run, too. ``storage`` and ``unfit``: it has to be tried again, since the storage
    was at fault, or the worker; nothing was written about it, and the note has the ``reason``, and whether
    the worker fails ``all`` drives for it.
    """

    how: Literal["done", "earlier", "failed", "busy", "storage", "unfit"]
    note: Mapping[str, Any] = field(default_factory=dict)
    worker: str = ""


def run_task(task: Task) -> Ended:
    """Convert a drive, publish its datasets, and put the note that it is done.

    Errors of the recording, the configuration or the output become a note of the failure. Those of the
    storage and of this worker say nothing of the drive, and are returned.
    """
    try:
        ended = _run(task)
    except OutputBusy:
        ended = Ended("busy")
    except Exception as error:
        if (other := _of_others(error)) is None:
            raise
        ended = other
    return replace(ended, worker=this_worker())


def _run(task: Task) -> Ended:
    if (here := version(PACKAGE)) != task.settings.version:
        return unfit(f"has {PACKAGE} {here}, the coordinator has {task.settings.version}", of_all=True)
    READING.patience_s = task.patience_s
    try:
        output = open_output(task.output, task.patience_s, single=task.single)
    except ExtraNotInstalled as error:
        return unfit(str(error), of_all=True)
    with Claim(output.notes, task.drive.name, Claimant(task.run, task.key, task.abandoned)) as claim:
        try:
            ended = _claimed(task, output, claim)
        except Exception as error:
            if _of_others(error) is not None:
                raise
            if claim.is_lost:
                return Ended("busy")
            ended = failed(task, output, error)
        claim.finish()
    return ended


def _of_others(error: Exception) -> Ended | None:
    """How a task ended that had an error which is not the drive's; None if it may be."""
    fault = fault_of(error)
    if fault is Fault.DRIVE:
        return None
    return unfit(str(error)) if fault is Fault.WORKER else Ended("storage", _because(str(error)))


def unfit(reason: str, *, of_all: bool = False) -> Ended:
    """The end of a task that this worker cannot do."""
    return Ended("unfit", {**_because(reason), "all": of_all})


def _because(reason: str) -> dict[str, Any]:
    return {"reason": reason[:_MOST_REASON]}


def settled(task: Task, notes: Notes) -> Ended | None:
    """How another run has ended a drive since this one was planned; None if none has.

    Raises:
        OSError: the storage does not answer.
    """
    done = None if task.redo else notes.read(f"{DONE}/{task.key}")
    if done is not None and done.values:
        return Ended("earlier", done.values)
    found = notes.read(f"{FAILED}/{task.key}")
    if found is None or not found.values or found.values.get("again"):
        return None
    own = {task.failed, task.run}
    return Ended("failed", found.values) if found.values.get("run", task.failed) not in own else None


def failed(task: Task, output: Output, error: Exception) -> Ended:
    """Put a note that a drive failed.

    A failure of the storage is not the drive's: the next run tries again by itself (``again``).

    Raises:
        OSError: the storage does not answer.
    """
    known = isinstance(error, EdgeFirstError | OSError)
    values = {
        **_head(task),
        "reason": (str(error) if known else f"{type(error).__name__}: {error}")[:_MOST_REASON],
        "again": _is_of_storage(error.__cause__ or error),
        "run": task.run,
        "unix_s": round(time.time()),
    }
    if not known:
        values["traceback"] = "".join(traceback.format_exception(error))[-_MOST_REASON:]
    output.notes.put(f"{FAILED}/{task.key}", values)
    return Ended("failed", values)


def _is_of_storage(error: BaseException) -> bool:
    """Whether a disk or an object store is at fault, or the way to it."""
    of_store = type(error).__module__.startswith("obstore")
    return of_store or (isinstance(error, OSError) and not isinstance(error, FileNotFoundError))


def _claimed(task: Task, output: Output, claim: Claim) -> Ended:
    notes, name = output.notes, task.drive.name
    if claim.attempts > MOST_DEATHS:
        raise RecordingError(deaths_text(MOST_DEATHS))
    if (ended := settled(task, notes)) is not None:
        return ended
    replaced = [note for key in task.earlier if (note := notes.read(f"{DONE}/{key}")) is not None]
    is_own = bool(task.earlier) or claim.resumed or task.redo
    if not is_own and output.holds(name):
        raise OutputExists(
            f"{output.shown}/{name}: is there already, and no note says what of; --overwrite replaces it"
        )
    # From here on the dataset is not what these notes say.
    for key in {*task.earlier, str(task.key)}:
        notes.remove(f"{DONE}/{key}")
    started_s, busy_s = time.monotonic(), sum(os.times()[:4])
    with output.place(name) as folder:
        converted, values = _convert(task, folder, claim, overwrite=is_own)
        old = {file: size for note in replaced for file, size in note.values.get("files", {}).items()}
        pages, fault = make_pages(converted.paths) if task.settings.page else ([], "")
        if fault:
            values["report"]["warnings"] = [*values["report"]["warnings"], fault]
        paths = [*converted.paths, *pages]
        values["files"] = output.publish(name, folder, paths, claim.check, old, is_resumed=claim.resumed)
    values |= {
        **_head(task),
        "seconds": round(time.monotonic() - started_s, 3),
        "core_s": round(sum(os.times()[:4]) - busy_s, 3),
    }
    claim.check()
    if notes.create(f"{DONE}/{task.key}", values) is None:
        return Ended("earlier", values)
    for key in {*task.earlier, str(task.key)}:
        notes.remove(f"{FAILED}/{key}")
    return Ended("done", values)


def _convert(task: Task, folder: Path, claim: Claim, *, overwrite: bool) -> tuple[Conversion, dict[str, Any]]:
    inputs = [location_of(file.uri) for file in task.drive.files]
    values: Mapping[str, Any] | None = None
    note, suggestion = "", None
    if task.settings.values is None:
        values, note = recorded_settings(inputs) or (None, "")
        suggestion = suggested(inputs, task.settings.config()) if values is None else None
        if suggestion is not None:
            values, note = suggestion.values, suggestion.note
    config = task.settings.config(values)
    if not config.workers:
        config = config.model_copy(update={"workers": task.workers})

    def watch(_: Position) -> None:
        claim.check()

    converted = convert(
        inputs,
        folder,
        config,
        overwrite=overwrite,
        on_progress=watch,
        notes=[note] if note else [],
        excerpt=task.settings.excerpt,
    )
    kept = {"report": _kept(converted.report, config), "recorded_s": round(converted.recorded_s, 3)}
    if suggestion is not None:
        path = suggestion.keep(folder, str(converted.report["dataset"]))
        converted = replace(converted, paths=(*converted.paths, path))
        kept["suggestion"] = suggestion.note
    return converted, kept


def _head(task: Task) -> dict[str, Any]:
    return {
        "drive": task.drive.name,
        "key": str(task.key),
        "inputs": task.drive.described,
        "version": task.settings.version,
    }


def _kept(report: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """What the fleet's report needs of a drive's report; topics without the device's prefix."""
    prefix, columns = find_prefix(report["topics"], config).strip("/"), ("type", *COUNTS, "pairing_error_ms")
    read = parsed(report)
    first = read.sequences[0].name if read.sequences else ""
    return {
        "grade": judge(read).grade,
        "device": device_host(first) or prefix,
        "start_ns": read.start_ns,
        "track": _track(read),
        "dataset": report["dataset"],
        "samples": report["samples"],
        "formats": report["formats"],
        "totals": report["totals"],
        "lost": losses(read),
        "faults": sum(len(each["faults"]) for each in report["recordings"]),
        "warnings": report["warnings"],
        "topics": {
            topic.strip("/").removeprefix(f"{prefix}/"): {name: account[name] for name in columns}
            for topic, account in report["topics"].items()
        },
    }


def _track(report: Report) -> list[list[float]]:
    """Latitudes and longitudes of some positions, for a map of many drives."""
    tracks = [sequence.track for sequence in report.sequences if sequence.track is not None]
    points = [(track, point) for track in tracks for point in track.points]
    found = []
    for track, (_, east_m, north_m, _, frame, _) in points[:: max(1, -(-len(points) // _MOST_PLACES))]:
        if frame < len(track.origins) and (origin := track.origins[frame]) is not None:
            # As if the earth were flat: within a drive that is off by less than a map of many shows.
            latitude = origin.latitude + north_m / _DEGREE_M
            width_m = _DEGREE_M * max(0.01, math.cos(math.radians(origin.latitude)))
            found.append([round(latitude, 4), round(origin.longitude + east_m / width_m, 4)])
    return found


def deaths_text(count: int) -> str:
    """Why a drive was given up whose workers died."""
    return f"{count} workers died while they converted it"
