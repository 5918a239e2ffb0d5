"""One drive: converted, published, and noted as done, in whatever process or machine an engine runs it."""

from __future__ import annotations

import errno
import os
import socket
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from edgefirst_ros.fleet.notes import BEGUN, DONE, FAILED, Notes
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import Drive, Settings
from edgefirst_ros.formats.crashsafe.sync import tree
from edgefirst_ros.model.errors import EdgeFirstError, RecordingError, StorageUnreachable
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.inputs import suggested
from edgefirst_ros.offline.sessions import recorded_settings
from edgefirst_ros.report import make_pages
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed
from edgefirst_ros.report.shortfalls import losses
from edgefirst_ros.sources.location import location_of
from edgefirst_ros.sources.remote import is_outage, is_refusal

PACKAGE = "edgefirst_ros"
_MOST_REASON = 1 << 13
"""Characters: a library's message may quote all of an input."""
_OF_DRIVE = frozenset(
    {None, errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EFBIG}
)
"""What an operating system says of a path. All else, as of a full disk or a server that is away, passes."""


@dataclass(frozen=True, slots=True)
class Task:
    """A drive to convert; all plain values, since it is sent to other processes and machines."""

    drive: Drive
    settings: Settings
    output: str
    workers: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended; ``note`` is the note of a drive that is done, or has the ``reason``.

    ``later``: the storage or the machine was at fault, which says nothing of the drive.
    """

    how: Literal["done", "failed", "later"]
    note: Mapping[str, Any]


def run_task(task: Task) -> Ended:
    """Convert a drive, publish its datasets, and put the note that it is done; raises nothing."""
    if (here := version(PACKAGE)) != task.settings.version:
        where = f"{socket.gethostname()} has {PACKAGE} {here}"
        return Ended("later", {"reason": f"{where}, the coordinator has {task.settings.version}"})
    try:
        return Ended("done", _converted(task))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other drives go on
        return ended_by(error)


def ended_by(error: BaseException) -> Ended:
    """How a task ended that raised an error."""
    is_known = isinstance(error, EdgeFirstError | OSError)
    values = {"reason": (str(error) if is_known else f"{type(error).__name__}: {error}")[:_MOST_REASON]}
    if _is_passing(error):
        return Ended("later", values)
    trace = {} if is_known else {"traceback": "".join(traceback.format_exception(error))[-_MOST_REASON:]}
    return Ended("failed", values | trace)


def _is_passing(error: BaseException) -> bool:
    """Whether the storage or this machine is at fault, and not the drive."""
    found: BaseException | None = error
    is_reading = False
    while found is not None:
        is_reading |= isinstance(found, RecordingError)
        if isinstance(found, StorageUnreachable | TimeoutError):
            return True
        if type(found).__module__.startswith("obstore"):
            return is_refusal(found) or is_outage(found)
        if isinstance(found, OSError) and found.errno not in _OF_DRIVE:
            return not (is_reading and isinstance(found, PermissionError))
        found = found.__cause__
    return False


def _converted(task: Task) -> dict[str, Any]:
    """The note of a drive, once its datasets are published."""
    output, drive = open_output(task.output), task.drive
    notes = Notes(output)
    begun = {"host": socket.gethostname(), "pid": os.getpid(), "unix_s": round(time.time())}
    notes.put_note(BEGUN, drive.name, drive.key, begun)
    started_s, busy_s = time.monotonic(), sum(os.times()[:4])
    with output.work_folder() as folder:
        values = {"version": task.settings.version, "inputs": drive.places, "bytes_read": drive.size}
        values |= _convert(task, folder)
        values["bytes_written"] = sum(path.stat().st_size for path in tree(folder) if path.is_file())
        # From here on the datasets are not what earlier notes say.
        notes.remove_notes(DONE, drive.name, [*drive.earlier, drive.key])
        output.publish(drive.name, folder)
    values["seconds"] = round(time.monotonic() - started_s, 3)
    values["core_s"] = round(sum(os.times()[:4]) - busy_s, 3)
    notes.put_note(DONE, drive.name, drive.key, values)
    for kind in (FAILED, BEGUN):
        notes.remove_notes(kind, drive.name, [*drive.earlier, drive.key])
    return {**values, "drive": drive.name}


def _convert(task: Task, folder: Path) -> dict[str, Any]:
    """Convert a drive into a folder; what its report says, for the note."""
    inputs = [location_of(place) for place in task.drive.places]
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
    unusable = {} if suggestion is None else suggestion.unusable
    excerpt, notes = task.settings.excerpt, [note] if note else []
    done = convert(inputs, folder, config, excerpt=excerpt, notes=notes, unusable=unusable)
    pages, fault = make_pages(done.paths) if task.settings.page else ([], "")
    if suggestion is not None:
        suggestion.keep(folder, str(done.report["dataset"]))
    report, read = done.report, parsed(done.report)
    return {
        "dataset": report["dataset"],
        "grade": judge(read).grade,
        "samples": report["samples"],
        "recorded_s": round(done.recorded_s, 3),
        "lost": losses(read),
        "faults": sum(len(each["faults"]) for each in report["recordings"]),
        "warnings": [*report["warnings"], *([fault] if fault else [])],
        "page": pages[0].relative_to(folder).as_posix() if pages else "",
        "note": note,
    }
