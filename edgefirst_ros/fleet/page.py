"""The fleet's report as one HTML page that loads nothing: tables, a map, a timeline, trends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

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
