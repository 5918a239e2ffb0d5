"""The end of the page: what became of every message, sequences, settings, versions and files."""

from __future__ import annotations

import json

from edgefirst_ros.diagnosis.figures import clock, utc
from edgefirst_ros.diagnosis.report import Recording, Report, end_of
from edgefirst_ros.view.html import Html, folded, joined, missing, section, tag

MOST_ROWS = 200
MOST_REASONS = 12
"""Reasons that are shown of one topic."""
MOST_CONFIGURATION = 200_000
"""Characters of the configuration that are shown."""
COLUMNS = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written", "lost_upstream")


def accounting(report: Report) -> Html:
    """What became of every message."""
    if not report.topics:
        why = report.lacking.get("topics") or "nothing was received"
        return section("accounting", "Every message", missing(why))
    if report.purpose == "recording":
        columns: tuple[str, ...] = ("received", "refused", "lost_upstream")
    else:
        columns = tuple(c for c in COLUMNS if c != "lost_upstream" or _lost(report))
    head = tag("tr", tag("th", "topic"), *(tag("th", c.replace("_", " "), class_="n") for c in columns))
    rows = []
    for topic, account in list(report.topics.items())[:MOST_ROWS]:
        reasons = [
            tag("li", f"{count:,} {stage}: {reason}")
            for stage, several in list(account.reasons.items())[:8]
            for reason, count in list(several.items())[:MOST_REASONS]
            if report.purpose == "dataset" or stage == "refused"
        ]
        reasons += [
            tag("li", f"{n:,} parts refused: {r}")
            for r, n in list(account.refused_parts.items())[:MOST_REASONS]
        ]
        reasons += [
            tag("li", f"{n:,} left out of {name}: {r}")
            for name, several in list(account.left_out.items())[:8]
            for r, n in list(several.items())[:MOST_REASONS]
            if r not in account.reasons.get("skipped", {})
        ]
        name = joined(tag("b", topic), tag("small", account.type))
        name = joined(name, tag("ul", *reasons[:MOST_REASONS])) if reasons else name
        figures = (getattr(account, column) for column in columns)
        rows.append(tag("tr", tag("td", name), *(tag("td", _figure(f), class_="n") for f in figures)))
    left = len(report.topics) - len(rows)
    return section(
        "accounting",
        "Every message",
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide"),
        tag("p", f"{left:,} more topics are in the report file.", class_="note") if left > 0 else None,
        _sequences(report),
    )


def _lost(report: Report) -> bool:
    return any(account.lost_upstream for account in report.topics.values())


def _figure(count: int) -> str:
    return f"{count:,}" if count else "·"


def _sequences(report: Report) -> Html | None:
    if not report.sequences:
        return None
    rows = [
        tag(
            "tr",
            tag("td", tag("b", each.name), tag("small", utc(each.start_ns))),
            tag("td", clock((end_of(each) - each.start_ns) / 1e9), class_="n"),
            tag("td", f"{each.sample:,} of {each.reference_frames:,}", class_="n"),
            tag("td", each.ended),
        )
        for each in report.sequences[:MOST_ROWS]
    ]
    heads = ("sequence", "length", "samples", "ended by")
    head = tag("tr", *(tag("th", name) for name in heads))
    return joined(tag("h3", "Sequences"), tag("div", tag("table", head, *rows), class_="wide"))


def configuration(report: Report) -> Html:
    """Settings, versions, recordings and files."""
    parts: list[Html | None] = []
    if report.versions:
        shown = ", ".join(f"{name} {value}" for name, value in list(report.versions.items())[:20])
        parts.append(tag("p", f"Made with {shown}."))
    if report.configuration:
        try:
            written = json.dumps(report.configuration, indent=2, ensure_ascii=False)[:MOST_CONFIGURATION]
        except RecursionError:  # writing needs more levels than reading does
            written = "nested too deeply"
        block = joined(*(Html(joined(line, "\n")) for line in written.splitlines()))
        parts.append(folded("All settings", tag("pre", block)))
    else:
        parts.append(missing(report.lacking.get("configuration") or "no settings were noted"))
    if report.recordings:
        items = [_recording(each) for each in report.recordings[:MOST_ROWS]]
        parts.append(folded(f"Recordings ({len(report.recordings):,})", tag("ul", *items)))
    if report.files:
        items = [tag("li", each) for each in report.files[:MOST_ROWS]]
        parts.append(folded(f"Files ({len(report.files):,})", tag("ul", *items)))
    return section("configuration", "Configuration and versions", *parts)


def _recording(each: Recording) -> Html:
    mb = f", {each.bytes / 1e6:,.1f} MB" if each.bytes else ""
    damage = f", {len(each.faults):,} damaged places" if each.faults else ""
    return tag("li", f"{each.file}{mb}{damage}")
