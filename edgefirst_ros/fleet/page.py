"""What all datasets of an output hold, as JSON and as a page: one table of the drives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from edgefirst_ros.fleet.notes import DONE, FAILED, Notes
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.model.errors import DatasetNotFound, EdgeFirstError
from edgefirst_ros.offline.copies import catalog
from edgefirst_ros.report.html import Child, Html, joined, section, tag, whole

NAME, CATALOG = "fleet_report", "catalog.parquet"
_SUMS = ("recorded_s", "seconds", "core_s", "samples", "bytes_read", "bytes_written")
_KEPT = ("drive", "dataset", "grade", "page", "lost", "faults", "warnings", *_SUMS)
_STYLE = """
:root { color-scheme: light dark; } body { margin: 1.25rem; font: 15px/1.5 system-ui, sans-serif; }
section { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child, .text { text-align: left; } .text { overflow-wrap: anywhere; min-width: 9em; }
"""


def put_report(output: Output, warn: Callable[[str], None]) -> tuple[dict[str, Any], list[str]]:
    """Write what all datasets of an output hold, and bring their catalogue up to date.

    Args:
        output: where all is.
        warn: is called with what the catalogue lacks; no drive is less done for it.

    Returns:
        The report as plain values, and where the files are.

    Raises:
        OSError: the storage does not answer.
    """
    notes = Notes(output)
    report = fleet_report(notes.read_notes(DONE).values(), notes.read_notes(FAILED).values())
    output.put_file(f"{NAME}.json", (json.dumps(report, indent=1) + "\n").encode())
    output.put_file(f"{NAME}.html", page_of(report).encode())
    files, faults = [f"{NAME}.json", f"{NAME}.html", CATALOG], list[str]()
    try:
        faults = catalog(output.shown, f"{output.shown}/{CATALOG}").faults
    except (EdgeFirstError, OSError) as error:
        files.remove(CATALOG)
        # Of other formats than EdgeFirst there is none.
        faults = [] if isinstance(error, DatasetNotFound) else [str(error)]
    for fault in faults:
        warn(f"not in {CATALOG}: {fault}")
    return report, [f"{output.shown}/{file}" for file in files]


def fleet_report(done: Iterable[Mapping[str, Any]], failed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report of drives by their notes, as plain values."""
    drives = sorted(({name: note[name] for name in _KEPT} for note in done), key=itemgetter("drive"))
    broken = sorted(({n: note[n] for n in ("drive", "reason")} for note in failed), key=itemgetter("drive"))
    lost = Counter[str]()
    for drive in drives:
        lost.update({what: count for what, count in drive["lost"].items() if isinstance(count, int)})
    totals = {"drives": len(drives), "failed": len(broken)}
    totals |= {name: round(sum(drive[name] for drive in drives), 3) for name in _SUMS}
    return {"totals": {**totals, "lost": dict(sorted(lost.items()))}, "drives": drives, "failed": broken}


def lost_text(drive: Mapping[str, Any]) -> str:
    """What a drive lost, in words; empty if nothing."""
    return ", ".join(f"{count:,} {what}" for what, count in drive["lost"].items())


def page_of(report: Mapping[str, Any]) -> str:
    """The report as a page that runs nothing and loads nothing."""
    totals = report["totals"]
    hours, core_hours = totals["recorded_s"] / 3600, totals["core_s"] / 3600
    counts = f"{totals['drives']:,} drives, {totals['failed']:,} failed; {totals['samples']:,} samples"
    lost = lost_text(totals) or "nothing"
    sums = f"{counts}; {hours:,.2f} hours, converted in {core_hours:,.2f} core hours; lost: {lost}"
    parts = [tag("h1", "Drives"), tag("p", sums)]
    if report["failed"]:
        rows: list[Sequence[Child]] = [(each["drive"], each["reason"]) for each in report["failed"]]
        parts.append(section("failed", "Failed", _table(("drive", "reason"), rows)))
    columns = ("drive", "grade", "s", "× real time", "samples", "MB read", "MB written", "lost", "warnings")
    parts.append(section("drives", "Done", _table(columns, map(_row, report["drives"]))))
    return whole("Drives", joined(*parts), styles=[_STYLE])


def _row(drive: Mapping[str, Any]) -> Sequence[Child]:
    # A path from here, whatever a note says: not a scheme, and not out of the drive's folder.
    parts = [part for part in str(drive["page"]).split("/") if part not in {"", ".", ".."}]
    link = "./" + quote("/".join([str(drive["drive"]), *parts]), errors="replace")
    speed = f"{drive['recorded_s'] / drive['seconds']:.1f}" if drive["seconds"] else ""
    sizes = (f"{drive[name] / 1e6:,.1f}" for name in ("bytes_read", "bytes_written"))
    return (
        tag("a", drive["drive"], href=link) if parts else drive["drive"],
        drive["grade"], f"{drive['recorded_s']:,.0f}", speed, f"{drive['samples']:,}", *sizes,
        lost_text(drive), "; ".join(drive["warnings"]),
    )  # fmt: skip


def _table(names: Sequence[str], rows: Iterable[Sequence[Child]]) -> Html:
    texts = {"reason", "lost", "warnings"}
    body = (
        tag(
            "tr",
            *(tag("td", v, class_="text" if n in texts else None) for n, v in zip(names, row, strict=True)),
        )
        for row in rows
    )
    return tag("table", tag("thead", tag("tr", *(tag("th", name) for name in names))), tag("tbody", *body))
