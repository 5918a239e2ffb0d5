"""What a fleet's datasets hold, over all drives: hours, samples by sensor, losses, worst pairing errors.

The fleet's report as one HTML page without scripts, images or links to elsewhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from edgefirst_ros.fleet.catalog import ignored, put_catalog
from edgefirst_ros.fleet.notes import COUNTS, DONE, FAILED, read_all
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.report.html import Child, Html, joined, section, tag, whole

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#ddd, #444); --soft: light-dark(#666, #aaa);
  --bad: light-dark(#b00020, #ff8a80); }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
dl { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem } dt { color: var(--soft); font-size: .85rem }
dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums }
div { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top }
th { color: var(--soft); font-weight: 500 } th:first-child, td:first-child, .text { text-align: left }
#failed h2 { color: var(--bad) }
"""


def page(report: Mapping[str, Any]) -> str:
    """The page of a report as ``fleet_report`` returns it."""
    totals = report["totals"]
    lost = "; ".join(f"{count:,} {what}" for what, count in totals["lost"].items()) or "nothing"
    figures = {
        "drives": f"{totals['drives']:,}",
        "failed": f"{totals['failed']:,}",
        "hours of driving": f"{totals['hours']:,.2f}",
        "samples": f"{totals['samples']:,}",
        "read": _size(totals["bytes_read"]),
        "written": _size(totals["bytes_written"]),
        "hours of conversion": f"{totals['job_hours']:,.2f}",
        "lost": lost,
    }
    shown = (tag("div", tag("dt", name), tag("dd", value)) for name, value in figures.items())
    parts = [tag("h1", "Fleet report"), tag("dl", *shown)]
    if report["failed"]:
        rows = [(each["drive"], each["reason"]) for each in report["failed"]]
        parts.append(section("failed", "Failed", _table(("drive", "reason"), rows, text={1})))
    sensors = report["sensors"]
    if sensors:
        columns = [*next(iter(sensors.values()))]
        rows = [(topic, *(counts[name] for name in columns)) for topic, counts in sensors.items()]
        parts.append(section("sensors", "Messages by sensor", _table(("topic", *columns), rows)))
    if report["worst_pairing"]:
        columns = ["drive", "topic", "p50", "p95", "max"]
        rows = [tuple(each[name] for name in columns) for each in report["worst_pairing"]]
        parts.append(section("pairing", "Worst pairing errors, ms", _table(columns, rows, text={1})))
    rows = [_drive(each) for each in report["drives"]]
    names = ("drive", "samples", "recorded", "× real time", "read", "written", "lost", "warnings")
    parts.append(section("drives", "Drives", _table(names, rows, text={6, 7})))
    return whole("Fleet report", joined(*parts), styles=[_STYLE])


def _drive(drive: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        drive["drive"],
        drive["samples"],
        f"{drive['recorded_s']:,.1f} s",
        drive["speed"],
        _size(drive["bytes_read"]),
        _size(drive["bytes_written"]),
        "; ".join(f"{count:,} {what}" for what, count in drive["lost"].items()),
        "; ".join(drive["warnings"]),
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]], text: Collection[int] = ()) -> Html:
    def cells(kind: str, values: Sequence[Child]) -> Html:
        several = enumerate(values)
        made = (tag(kind, value, class_="text" if number in text else None) for number, value in several)
        return tag("tr", *made)

    head = tag("thead", cells("th", [name.replace("_", " ") for name in names]))
    body = tag("tbody", *(cells("td", [_shown(value) for value in row]) for row in rows))
    return tag("div", tag("table", head, body))


def _shown(value: Any) -> Child:  # noqa: ANN401 - of the report
    return f"{value:,}" if isinstance(value, int | float) else value


def _size(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


REPORT_NAME = "fleet_report"
FORMAT = "edgefirst_ros fleet report, version 1"
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


def put_report(output: Output, warn: Callable[[str], None] = ignored) -> tuple[dict[str, Any], list[str]]:
    """Write the report on everything in an output, as JSON and as a page, and its catalogue of samples.

    Of two runs that end at once, the later one reads the notes of both.

    Args:
        output: where all is.
        warn: is told what the catalogue lacks; no drive is less done for it.

    Returns:
        The report, and where the files are.

    Raises:
        OSError: the storage does not answer.
    """
    with output.alone():
        done, failed = read_all(output.notes, DONE), read_all(output.notes, FAILED)
        report = fleet_report(done.values(), (note for key, note in failed.items() if key not in done))
        text = json.dumps(report, indent=2) + "\n"
        places = [
            output.put(f"{REPORT_NAME}.json", text.encode()),
            output.put(f"{REPORT_NAME}.html", page(report).encode()),
            *put_catalog(output, done, warn),
        ]
    return report, places


def drive_summary(note: Mapping[str, Any]) -> dict[str, Any]:
    """One complete drive in a few values; ``lost`` as ``shortfalls.losses`` has it."""
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
        "lost": report["lost"],
        "worst_pairing_ms": max(
            (t["pairing_error_ms"]["max"] for t in report["topics"].values() if t["pairing_error_ms"]),
            default=None,
        ),
        "warnings": report["warnings"],
    }


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
            for name in COUNTS:
                counts[name] += account[name]
    return {topic: {name: found[topic][name] for name in ("drives", *COUNTS)} for topic in sorted(found)}


def _worst_pairing(done: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The largest pairing errors, the worst first."""
    found = [
        {"drive": note["drive"], "topic": topic, **account["pairing_error_ms"]}
        for note in done
        for topic, account in note["report"]["topics"].items()
        if account["pairing_error_ms"]
    ]
    return sorted(found, key=lambda each: (-each["max"], each["drive"], each["topic"]))[:_WORST]
