"""What a run tells machines: a log of JSON lines, and metrics in Prometheus' text format."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from edgefirst_ros.fleet.plan import Plan
from edgefirst_ros.fleet.run import Event
from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.model.untrusted import visible

_PREFIX = "edgefirst_ros_fleet_"
_HELP = {
    "drives": "gauge Drives of the run, by state.",
    "input_bytes": "gauge Bytes of the drives that are to be converted.",
    "input_bytes_ended": "gauge Bytes of those that have ended, whatever became of them.",
    "samples_total": "counter Samples of the drives that the run converted.",
    "recorded_seconds_total": "counter Length of the drives that the run converted.",
    "core_seconds_total": "counter Processor time of their conversion.",
    "lost_total": "counter Messages and bytes that were lost of them, by how.",
    "events_total": "counter What happened to drives, by event.",
    "last_event_timestamp_seconds": "gauge When the last of it happened.",
    "run_ended": "gauge 1 once the run has ended.",
}
_REWRITE_S = 5.0
"""Prometheus looks every 15 s or less often."""


class Telling:
    """Writes both files, as far as they are wanted; a context manager.

    Args:
        plan: of the run.
        metrics: file that is rewritten, whole at any time, for node_exporter's textfile collector.
        log: file to which a line is added for each event.

    Raises:
        OSError: they cannot be written.
    """

    def __init__(self, plan: Plan, metrics: Path | None, log: Path | None) -> None:
        self._plan, self._metrics = plan, metrics
        self._log: IO[str] | None = None if log is None else log.open("a", encoding="utf-8")
        self._ended = Counter[str]()
        self._sums = Counter[str]()
        self._lost = Counter[str]()
        self._events = Counter[str]()
        self._bytes, self._written_s, self._last_unix_s = 0, 0.0, time.time()

    def __enter__(self) -> Self:
        self._write("begin", drives=self._plan.drives, to_convert=len(self._plan.work))
        self._put()
        return self

    def __exit__(self, *_: object) -> None:
        self._write("end", **self._ended)
        self._put(over=True)
        if self._log is not None:
            self._log.close()

    def take(self, event: Event) -> None:
        """Note an event of the run."""
        self._events[event.what] += 1
        self._bytes, self._last_unix_s = event.bytes_done, time.time()
        if event.what in {"done", "earlier", "failed"}:
            self._ended["failed" if event.what == "failed" else "done"] += 1
        if event.what == "done":
            report = event.note["report"]
            self._sums["samples"] += report["samples"]
            self._sums["recorded_seconds"] += event.note["recorded_s"]
            self._sums["core_seconds"] += event.note.get("core_s", 0.0)
            self._lost.update(report["lost"])
        self._write(event.what, drive=event.drive.name, **_told(event.note))
        if time.monotonic() - self._written_s > _REWRITE_S:
            self._put()

    def _write(self, what: str, **values: object) -> None:
        if self._log is not None:
            line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": what, **values}
            self._log.write(json.dumps(line) + "\n")
            self._log.flush()

    def _put(self, *, over: bool = False) -> None:
        if self._metrics is None:
            return
        self._written_s = time.monotonic()
        failed = self._ended["failed"] + len(self._plan.failed)
        done = self._ended["done"] + len(self._plan.done)
        states = {"done": done, "failed": failed, "left": self._plan.drives - done - failed}
        values: dict[str, Any] = {
            "drives": {"state": states},
            "input_bytes": sum(work.drive.size for work in self._plan.work),
            "input_bytes_ended": self._bytes,
            **{f"{name}_total": self._sums[name] for name in ("samples", "recorded_seconds", "core_seconds")},
            "lost_total": {"how": self._lost},
            "events_total": {"event": self._events},
            "last_event_timestamp_seconds": round(self._last_unix_s, 3),
            "run_ended": int(over),
        }
        lines = []
        for name, value in values.items():
            kind, _, said = _HELP[name].partition(" ")
            lines += [f"# HELP {_PREFIX}{name} {said}", f"# TYPE {_PREFIX}{name} {kind}"]
            lines += _samples(f"{_PREFIX}{name}", value)
        replace_file(self._metrics, ("\n".join(lines) + "\n").encode(), sync=False)


def _samples(name: str, value: Any) -> list[str]:  # noqa: ANN401 - a number, or numbers by one label
    if not isinstance(value, Mapping):
        return [f"{name} {value}"]
    ((label, counts),) = value.items()
    return [f'{name}{{{label}="{_escaped(each)}"}} {count}' for each, count in sorted(counts.items())]


def _escaped(label: str) -> str:
    return visible(label).replace("\\", r"\\").replace('"', r"\"")


def _told(note: Mapping[str, Any]) -> dict[str, Any]:
    """What a line says of a drive's note."""
    if "report" not in note:
        return {name: note[name] for name in ("key", "reason") if name in note}
    report, names = note["report"], ("key", "recorded_s", "seconds", "core_s")
    whole = {name: note[name] for name in names if name in note}
    return whole | {name: report[name] for name in ("samples", "grade", "lost") if name in report}
