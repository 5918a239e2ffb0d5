"""What a fleet's datasets hold, over all drives: hours, samples by sensor, losses, worst pairing errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from edgefirst_ros.fleet.notes import DONE, FAILED, read_all
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.fleet.page import page

REPORT_NAME = "fleet_report"
FORMAT = "edgefirst_ros fleet report, version 1"
_COUNTS = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written", "lost_upstream")
_WORST = 20


def fleet_report(done: Iterable[Mapping[str, Any]], failed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report of drives by their notes, as plain values."""
    complete = sorted(done, key=lambda note: str(note["drive"]))
    broken = sorted(failed, key=lambda note: str(note["drive"]))
    return {
        "format": FORMAT,
        "totals": _totals(complete, broken),
        "sensors": _sensors(complete),
        "worst_pairing": _worst_pairing(complete),
        "drives": [drive_summary(note) for note in complete],
        "failed": [
            {"drive": note["drive"], "reason": note["reason"], "inputs": [f["uri"] for f in note["inputs"]]}
            for note in broken
        ],
    }


def put_report(output: Output) -> tuple[dict[str, Any], list[str]]:
    """Write the report on everything in an output, as JSON and as a page; the report, and where it is.

    Raises:
        OSError: the storage does not answer.
    """
    done, failed = read_all(output.notes, DONE), read_all(output.notes, FAILED)
    report = fleet_report(done.values(), (note for key, note in failed.items() if key not in done))
    text = json.dumps(report, indent=2) + "\n"
    places = [
        output.put(f"{REPORT_NAME}.json", text.encode()),
        output.put(f"{REPORT_NAME}.html", page(report).encode()),
    ]
    return report, places


def drive_summary(note: Mapping[str, Any]) -> dict[str, Any]:
    """One complete drive in a few values; ``lost`` as ``losses`` has it."""
    report = note["report"]
    return {
        "drive": note["drive"],
        "dataset": report["dataset"],
        "samples": report["samples"],
        "recorded_s": note["recorded_s"],
        "seconds": note["seconds"],
        "speed": round(note["recorded_s"] / note["seconds"], 2) if note["seconds"] else None,
        "bytes_read": sum(file["size"] for file in note["inputs"]),
        "bytes_written": sum(note["files"].values()),
        "lost": losses(report),
        "worst_pairing_ms": max(
            (t["pairing_error_ms"]["max"] for t in report["topics"].values() if t["pairing_error_ms"]),
            default=None,
        ),
        "warnings": report["warnings"],
    }


def losses(report: Mapping[str, Any]) -> dict[str, int]:
    """Messages and bytes that are not in the datasets though they should be; only what is not zero."""
    topics = report["topics"].values()
    found = {
        "refused": sum(t["refused"] for t in topics if not t["type"].endswith("/NavSatFix")),
        "dropped": sum(t["dropped"] for t in topics),
        "lost upstream": sum(t["lost_upstream"] for t in topics),
        "unreadable bytes": report["unreadable_bytes"],
    }
    return {what: count for what, count in found.items() if count}


def _totals(done: Iterable[Mapping[str, Any]], failed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    drives = [drive_summary(note) for note in done]
    lost: Counter[str] = Counter()
    for drive in drives:
        lost.update(drive["lost"])
    recorded_s, seconds = (sum(drive[key] for drive in drives) for key in ("recorded_s", "seconds"))
    return {
        "drives": len(drives),
        "failed": len([*failed]),
        "hours": round(recorded_s / 3600, 4),
        "job_hours": round(seconds / 3600, 4),
        "samples": sum(drive["samples"] for drive in drives),
        "bytes_read": sum(drive["bytes_read"] for drive in drives),
        "bytes_written": sum(drive["bytes_written"] for drive in drives),
        "lost": dict(sorted(lost.items())),
    }


def _sensors(done: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """By topic, in how many drives it is, and what became of its messages."""
    found: dict[str, Counter[str]] = {}
    for note in done:
        for topic, account in note["report"]["topics"].items():
            counts = found.setdefault(topic, Counter())
            counts["drives"] += 1
            for name in _COUNTS:
                counts[name] += account[name]
    return {topic: {name: found[topic][name] for name in ("drives", *_COUNTS)} for topic in sorted(found)}


def _worst_pairing(done: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The largest pairing errors, the worst first."""
    found = [
        {"drive": note["drive"], "topic": topic, **account["pairing_error_ms"]}
        for note in done
        for topic, account in note["report"]["topics"].items()
        if account["pairing_error_ms"]
    ]
    return sorted(found, key=lambda each: (-each["max"], each["drive"], each["topic"]))[:_WORST]
