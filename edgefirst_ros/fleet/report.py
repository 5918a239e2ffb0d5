"""What a fleet's datasets hold, over all drives: hours, samples by sensor, losses, pairing errors, trends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgefirst_ros.fleet.notes import COUNTS
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.fleet.page import page
from edgefirst_ros.fleet.plan import failures
from edgefirst_ros.fleet.table import each_done
from edgefirst_ros.fleet.trends import Trends
from edgefirst_ros.model.errors import DatasetNotFound, EdgeFirstError
from edgefirst_ros.model.untrusted import PAGE
from edgefirst_ros.offline.cataloguing import catalog

CATALOG = "catalog.parquet"
REPORT_NAME = "fleet_report"
FORMAT = "edgefirst_ros fleet report, version 1"
_WORST = 20


@dataclass(slots=True)
class _Fleet:
    """Gathers the notes of complete drives one by one, of which there may be many thousands."""

    drives: list[dict[str, Any]] = field(default_factory=list)
    _lost: Counter[str] = field(default_factory=Counter)
    _sensors: dict[str, Counter[str]] = field(default_factory=dict)
    _worst: list[dict[str, Any]] = field(default_factory=list)
    _trends: Trends = field(default_factory=Trends)

    def add(self, note: Mapping[str, Any]) -> None:
        """Take a drive's note."""
        self.drives.append(drive_summary(note))
        self._lost.update(note["report"]["lost"])
        self._trends.add(note["report"])
        for topic, account in note["report"]["topics"].items():
            counts = self._sensors.setdefault(topic, Counter())
            counts["drives"] += 1
            for name in COUNTS:
                counts[name] += account[name]
            if account["pairing_error_ms"]:
                self._worst.append({"drive": note["drive"], "topic": topic, **account["pairing_error_ms"]})
        if len(self._worst) > 50 * _WORST:
            self._worst = self._worst_pairing()

    def report(self, failed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """The report on them, and on drives that failed."""
        self.drives.sort(key=lambda drive: str(drive["drive"]))
        broken = sorted(failed, key=lambda note: str(note["drive"]))
        return {
            "format": FORMAT,
            "totals": self._totals(len(broken)),
            "sensors": {
                topic: {name: self._sensors[topic][name] for name in ("drives", *COUNTS)}
                for topic in sorted(self._sensors)
            },
            "worst_pairing": self._worst_pairing(),
            "trends": self._trends.rows(),
            "drives": self.drives,
            "failed": [
                {
                    "drive": note["drive"],
                    "reason": note["reason"],
                    "inputs": [f["uri"] for f in note["inputs"]],
                }
                for note in broken
            ],
        }

    def _worst_pairing(self) -> list[dict[str, Any]]:
        """The largest pairing errors, the worst first."""
        return sorted(self._worst, key=lambda each: (-each["max"], each["drive"], each["topic"]))[:_WORST]

    def _totals(self, failed: int) -> dict[str, Any]:
        sums = {
            name: sum(drive[name] for drive in self.drives)
            for name in ("recorded_s", "seconds", "core_s", "samples", "bytes_read", "bytes_written")
        }
        return {
            "drives": len(self.drives),
            "failed": failed,
            "hours": round(sums["recorded_s"] / 3600, 4),
            "job_hours": round(sums["seconds"] / 3600, 4),
            "core_hours": round(sums["core_s"] / 3600, 4),
            **{name: sums[name] for name in ("samples", "bytes_read", "bytes_written")},
            "grades": dict(sorted(Counter(drive["grade"] for drive in self.drives).items())),
            "lost": dict(sorted(self._lost.items())),
        }


def fleet_report(done: Iterable[Mapping[str, Any]], failed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report of drives by their notes, as plain values."""
    fleet = _Fleet()
    for note in done:
        fleet.add(note)
    return fleet.report(failed)


def ignored(_: str) -> None:
    """Nobody is told."""


def put_report(output: Output, warn: Callable[[str], None] = ignored) -> tuple[dict[str, Any], list[str]]:
    """Write the report on everything in an output, as JSON and as a page, and its catalogue of samples.

    Of two runs that end at once, the later one reads the notes of both. The notes are compacted.

    Args:
        output: where all is.
        warn: is told what the catalogue lacks; no drive is less done for it.

    Returns:
        The report, and where the files are.

    Raises:
        OSError: the storage does not answer.
    """
    fleet, done = _Fleet(), list[str]()

    def take(key: str, note: Mapping[str, Any]) -> None:
        fleet.add(note)
        done.append(key)

    with output.alone():
        each_done(output.notes, take)
        report = fleet.report(failures(output.notes, done))
        places = [
            output.put(f"{REPORT_NAME}.json", _lines(report).encode()),
            output.put(f"{REPORT_NAME}.html", page(report).encode()),
            *put_catalog(output, warn),
        ]
    return report, places


def _lines(report: Mapping[str, Any]) -> str:
    """As JSON with a line for each drive, sensor and so on: indenting all of 50,000 takes a minute."""

    def each(value: Any) -> str:  # noqa: ANN401 - JSON
        if isinstance(value, list) and value:
            return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"
        return json.dumps(value)

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {each(part)}" for name, part in report.items()) + "\n}\n"


def drive_summary(note: Mapping[str, Any]) -> dict[str, Any]:
    """One complete drive in a few values; ``lost`` as ``shortfalls.losses`` has it.

    ``page`` is the report's page of its own, below the output; ``track`` are some latitudes and longitudes.
    """
    report = note["report"]
    pages = [file for file in note["files"] if file.endswith(PAGE)]
    return {
        "drive": note["drive"],
        "dataset": report["dataset"],
        "grade": report.get("grade", "unknown"),
        "device": report.get("device", ""),
        "start_ns": report.get("start_ns", 0),
        "page": f"{note['drive']}/{pages[0]}" if pages else "",
        "track": report.get("track", []),
        "samples": report["samples"],
        "recorded_s": note["recorded_s"],
        "seconds": note["seconds"],
        "core_s": note.get("core_s", note["seconds"]),
        "speed": round(note["recorded_s"] / note["seconds"], 2) if note["seconds"] else None,
        "bytes_read": sum(file["size"] for file in note["inputs"]),
        "bytes_written": sum(note["files"].values()),
        "lost": report["lost"],
        "worst_pairing_ms": max(
            (t["pairing_error_ms"]["max"] for t in report["topics"].values() if t["pairing_error_ms"]),
            default=None,
        ),
        "warnings": report["warnings"],
    }


def put_catalog(output: Output, warn: Callable[[str], None]) -> Iterator[str]:
    """Bring the catalogue of an output up to date; where it is, unless there is nothing for one."""
    path = f"{output.shown}/{CATALOG}"
    try:
        faults = catalog(output.shown, path).faults
    except DatasetNotFound:  # of other formats there is none
        return
    except (EdgeFirstError, OSError) as error:
        warn(f"{CATALOG} is as it was: {error}")
        return
    for fault in faults:
        warn(f"not in {CATALOG}: {fault}")
    yield path
