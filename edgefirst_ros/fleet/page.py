"""The fleet's report as one page that loads nothing: drives to sort and search, a map, a timeline, trends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.report.html import Child, Html, joined, section, tag, whole

GRADES = ("good", "fair", "poor", "empty", "unknown")
MOST_TEXT = 200
"""Characters of the warnings of one drive that can be searched."""
MOST_TRACK_BYTES = 2_000_000
"""Of the tracks of all drives: a page of 5 MB is slow to open."""
_BYTES_A_PLACE = 8


@cache
def _asset(name: str) -> str:
    return (files("edgefirst_ros.fleet") / "assets" / name).read_text(encoding="utf-8")


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
        "core hours of conversion": f"{totals['core_hours']:,.2f}",
        "lost": lost,
    }
    shown = (tag("div", tag("dt", name), tag("dd", value)) for name, value in figures.items())
    parts = [tag("h1", "Fleet report"), tag("dl", *shown)]
    if report["failed"]:
        rows = [(each["drive"], each["reason"]) for each in report["failed"]]
        parts.append(section("failed", "Failed", _table(("drive", "reason"), rows, text={1})))
    more = tag("button", "", id="more-trends", class_="more", type="button", hidden=True)
    changing = [tag("div", "", id="sensors-by-day"), more, tag("p", "", id="from-to", class_="note")]
    parts += [
        section("trends", "What begins to fail", *changing),
        section("map", "Where", tag("canvas", "", id="places"), tag("output", ""), _HINT),
        section("timeline", "When", tag("canvas", "", id="times"), tag("output", ""), _HINT),
        section(
            "drives",
            "Drives",
            tag(
                "div",
                tag("input", id="words", type="search", placeholder="search names, devices, dates, warnings"),
                tag("span", "", id="grades"),
                tag("span", "", id="count", class_="note"),
                class_="tools",
            ),
            tag("div", "", id="rows"),
            tag("button", "", id="more", class_="more", type="button", hidden=True),
        ),
    ]
    sensors = report["sensors"]
    if sensors:
        columns = [*next(iter(sensors.values()))]
        rows = [(topic, *(counts[name] for name in columns)) for topic, counts in sensors.items()]
        parts.append(section("sensors", "Messages by sensor", _table(("topic", *columns), rows)))
    if report["worst_pairing"]:
        columns = ["drive", "topic", "p50", "p95", "max"]
        rows = [tuple(each[name] for name in columns) for each in report["worst_pairing"]]
        parts.append(section("pairing", "Worst pairing errors, ms", _table(columns, rows, text={1})))
    return whole(
        "Fleet report",
        joined(*parts),
        styles=[_asset("fleet.css")],
        scripts=[_asset("fleet.js")],
        data=_data(report),
    )


_HINT = tag(
    "p", "Ctrl and wheel: zoom; drag: move; double click: all; click: this drive below.", class_="note"
)


def _data(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the script shows: a list of values for each drive, in its order of columns."""
    drives = report["drives"]
    places = max(2, MOST_TRACK_BYTES // (_BYTES_A_PLACE * max(1, len(drives))))
    warnings = {
        number: "; ".join(each["warnings"])[:MOST_TEXT]
        for number, each in enumerate(drives)
        if each["warnings"]
    }
    return {
        "drives": [_columns(each) for each in drives],
        "tracks": [_steps(each["track"], places) for each in drives],
        "warnings": warnings,
        "trends": [
            {**row, "device": visible(row["device"]), "sensor": visible(row["sensor"])}
            for row in report["trends"]
        ],
    }


def _columns(drive: Mapping[str, Any]) -> list[Any]:
    return [
        visible(drive["drive"]),
        drive["page"],
        drive["grade"] if drive["grade"] in GRADES else "unknown",
        visible(drive["device"]),
        drive["start_ns"] // 10**9,
        round(drive["recorded_s"]),
        drive["samples"],
        drive["speed"],
        drive["bytes_read"],
        drive["bytes_written"],
        sum(drive["lost"].values()),
        drive["worst_pairing_ms"],
        len(drive["warnings"]),
        visible("; ".join(f"{count:,} {what}" for what, count in drive["lost"].items())),
    ]


def _steps(track: Sequence[Sequence[float]], most: int) -> list[int]:
    """Differences of positions in 1e-4 degrees, latitude and longitude in turn: few digits each."""
    chosen = track[:: max(1, -(-len(track) // most))]
    rounded = [(0, 0), *((round(1e4 * latitude), round(1e4 * longitude)) for latitude, longitude in chosen)]
    return [step for (a, b), (c, d) in pairwise(rounded) for step in (c - a, d - b)]


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
