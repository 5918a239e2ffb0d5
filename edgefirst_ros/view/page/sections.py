"""The sections of the page, each from what the report says; what it does not say, the section says why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from edgefirst_ros.view.page.html import Child, Html, joined, tag
from edgefirst_ros.view.page.lanes import Lane, bars, clocks, lanes, latencies, speed
from edgefirst_ros.view.page.reportfile import Pairing, Report, end_of
from edgefirst_ros.view.page.timeaxis import TimeAxis
from edgefirst_ros.view.page.trackmap import Place, places, track_map
from edgefirst_ros.view.page.verdict import Verdict, clock, found_losses, time_of

MOST_TEXTS = 50
"""Notes, warnings and hints of one kind that are shown."""
MOST_ROWS = 200
MOST_REASONS = 12
"""Reasons that are shown of one topic."""
MOST_CONFIGURATION = 200_000
"""Characters of the configuration that are shown."""
COLUMNS = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written", "lost_upstream")
OUTCOMES = {
    "sample": ("became samples", "used"),
    "incomplete": ("lacked a sensor", "dropped"),
    "skipped": ("were not selected", "unused"),
    "unusable": ("were unusable", "refused"),
    "dropped": ("were dropped", "dropped"),
}
_MANY = 1000
LEAST_ERROR_MS = 0.05
"""Smaller pairing errors are none."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A picture of the page: JPEG in base64, its size, what it is, when it was, and why it was chosen."""

    number: int
    base64: str
    size: tuple[int, int]
    why: str
    name: str
    time_ns: int | None


def header(report: Report, verdict: Verdict, title: str) -> Html:
    """Title, verdict and the figures that one wants first."""
    start_ns, end_ns = report.start_ns, report.end_ns
    driven_m = [each.driven_m for each in report.sequences if each.driven_m is not None]
    facts: list[tuple[str, Child]] = []
    if report.sequences and start_ns:
        facts.append(("begins", _utc(start_ns)))
        count = len(report.drives)
        lasts = sum((end_of(each) - each.start_ns) / 1e9 for each in report.sequences)
        several = f" in {count} drives" if count > 1 else ""
        facts.append(("lasts", clock(lasts if several else (end_ns - start_ns) / 1e9) + several))
    if report.samples is not None:
        label = "samples possible" if report.purpose == "recording" else "samples"
        facts.append((label, f"{report.samples:,}"))
    if driven_m:
        facts.append(("driven", distance(sum(driven_m))))
    if report.topics:
        facts.append(("topics", len(report.topics)))
        facts.append(("messages", f"{sum(each.received for each in report.topics.values()):,}"))
    if report.purpose == "dataset":
        for name, held in list(report.formats.items())[:8]:
            figures = [
                f"{n:,} {unit}" for unit, n in held.items() if isinstance(n, int) and unit != "messages"
            ]
            facts.append((name, ", ".join(figures)))
    grade, _, sentence = verdict.sentence.partition(": ")
    return tag(
        "header",
        tag("p", "recording" if report.purpose == "recording" else "dataset", class_="kicker"),
        tag("h1", title),
        tag(
            "p",
            tag("strong", f"{grade}:", class_="grade"),
            " ",
            sentence,
            id="verdict",
            class_=f"verdict {verdict.grade}",
        ),
        tag("p", "interrupted: what follows had not been read", class_="note")
        if report.interrupted
        else None,
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts"),
    )


def attention(report: Report, verdict: Verdict) -> Html:
    """Every loss, warning, hint and note."""
    groups = (
        ("lost", "Lost", verdict.details),
        ("warning", "Warnings", report.warnings),
        ("hint", "Hints", report.hints),
        ("note", "Notes", report.notes),
    )
    parts = []
    for kind, heading, texts in groups:
        shown = [tag("li", each) for each in texts[:MOST_TEXTS]]
        if len(texts) > MOST_TEXTS:
            shown.append(tag("li", f"and {len(texts) - MOST_TEXTS:,} more, in the report file"))
        if shown:
            content = joined(tag("h3", heading), tag("ul", *shown))
            quiet = kind == "note" and len(shown) > 3
            content = _folded(f"{heading} ({len(texts):,})", tag("ul", *shown)) if quiet else content
            parts.append(tag("div", content, class_=f"texts {kind}"))
    return section("attention", "What to look at", *(parts or [tag("p", "Nothing: no warning, no loss.")]))


def drive(report: Report, axis: TimeAxis, data: dict[str, Any]) -> Html:
    """One lane a topic, and the reference frames; ``data`` gets what the script draws."""
    found = lanes(report, axis)
    if not found:
        why = report.lacking.get("timeline") or "nothing was received"
        return section("drive", "The drive, topic by topic", missing(why))
    data["lanes"] = [each.plot for each in found]
    known = clocks(report)
    rows = [_lane(number, lane, known.get(lane.topic, [])) for number, lane in enumerate(found)]
    hidden = len(report.timeline.topics) + 1 - len(found) if report.timeline is not None else 0
    return section(
        "drive",
        "The drive, topic by topic",
        tag(
            "p",
            *(tag("span", tag("span", class_=f"key {kind}"), label) for kind, label in _KEYS),
            class_="keys",
        ),
        tag("p", "Drag to zoom all plots over time, double-click to return.", class_="note pointer"),
        tag("div", *rows, _axis_row(), class_="lanes"),
        tag("p", f"{hidden:,} more topics are in the table below.", class_="note") if hidden > 0 else None,
    )


_KEYS = (
    ("used", "used"),
    ("unused", "not used"),
    ("dropped", "dropped, or frame without a sensor"),
    ("refused", "refused"),
    ("gap", "nothing sent"),
)


def _lane(number: int, lane: Lane, known: Sequence[tuple[str, str, str]]) -> Html:
    name = lane.topic or "reference frames"
    chips = [tag("span", short, class_=f"chip {kind}", title=finding) for short, kind, finding in known[:3]]
    what = "what became of them" if not lane.topic else lane.role.replace("_", " ") or "not used"
    rate = "" if lane.rate_hz is None else f", {lane.rate_hz:.1f} Hz"
    return tag(
        "div",
        tag("div", tag("b", name), tag("small", what, " ", *chips), class_="lane-name"),
        tag("div", class_="plot lane-plot", data_lane=number),
        tag("output", f"{lane.total:,}{rate}", class_="lane-said", data_rest=f"{lane.total:,}{rate}"),
        class_="lane",
    )


def _axis_row() -> Html:
    return tag(
        "div",
        tag("div", tag("small", "time since the start"), class_="lane-name"),
        tag("div", class_="plot axis-plot", id="axis"),
        tag("output", class_="lane-said", id="cursor-time"),
        class_="lane axis",
    )


def samples(report: Report) -> Html:
    """What became of the reference frames, and which companions the samples have."""
    parts: list[Html] = []
    frames = sum(each.reference_frames for each in report.sequences)
    if frames:
        counts = {name: sum(getattr(each, name) for each in report.sequences) for name in OUTCOMES}
        parts.append(tag("p", f"{frames:,} reference frames, of which"))
        parts.append(
            tag("div", *(_share(OUTCOMES[n][0], c, frames, OUTCOMES[n][1]) for n, c in counts.items() if c))
        )
    total = report.samples or 0
    topics = sorted({topic for each in report.combinations for topic in each.topics})
    if topics and total:
        whole = sum(c.samples for c in report.combinations if len(c.topics) == len(topics))
        names = ", ".join(topic.strip("/") for topic in topics)
        parts.append(tag("h3", "Companions"))
        parts.append(tag("p", f"{whole:,} of {total:,} samples have all of {names}."))
        having = {t: sum(c.samples for c in report.combinations if t in c.topics) for t in topics}
        parts.append(tag("div", *(_share(topic, count, total, "used") for topic, count in having.items())))
        rows = [
            tag("tr", tag("td", f"{c.samples:,}", class_="n"), tag("td", ", ".join(c.topics) or "none"))
            for c in report.combinations[:MOST_TEXTS]
        ]
        table = tag("table", tag("tr", tag("th", "samples"), tag("th", "have")), *rows)
        parts.append(_folded("Which samples have what", tag("div", table, class_="wide")))
    elif "combinations" in report.lacking:
        parts.append(missing(report.lacking["combinations"]))
    elif total:
        parts.append(tag("p", "No sample has a companion."))
    return section(
        "samples", "Samples", *(parts or [missing(report.lacking.get("sequences") or "no frames")])
    )


def _share(label: str, count: int, total: int, kind: str) -> Html:
    part = min(1.0, count / total) if total else 0.0
    bar = tag(
        "svg",
        tag("rect", x=0, y=0, width=100, height=10, class_="bar-rest"),
        tag("rect", x=0, y=0, width=round(100 * part, 2), height=10, class_=f"fill-{kind}"),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    figures = f"{count:,} ({_percent(part)})"
    return tag(
        "div", tag("span", label, class_="share-name"), bar, tag("span", figures, class_="n"), class_="share"
    )


def _percent(part: float) -> str:
    return "all" if part == 1.0 else f"{100 * part:.1f} %".replace("100.0", "99.9")


def pairing(report: Report, data: dict[str, Any]) -> Html:
    """Companion − reference of every topic."""
    if not report.pairing:
        why = report.lacking.get("pairing") or "no sample has a companion"
        known = [(t, a.pairing_error_ms) for t, a in report.topics.items() if a.pairing_error_ms]
        figures = tag("ul", *(tag("li", f"{t}: {_quantiles(found)}") for t, found in known[:MOST_ROWS]))
        return section("pairing", "Pairing errors", missing(why), figures if known else None)
    exact = [topic for topic, found in report.pairing.items() if _is_exact(found)]
    shown = [(t, found) for t, found in report.pairing.items() if t not in exact][:MOST_TEXTS]
    data["pairing"] = [bars(found) for _, found in shown]
    cards = []
    for number, (topic, found) in enumerate(shown):
        account = report.topics.get(topic)
        amounts = _quantiles(account.pairing_error_ms) if account and account.pairing_error_ms else ""
        worst = found.worst
        where = f"worst: {worst.error_ms:+.1f} ms, frame {worst.frame:,}" if worst is not None else ""
        cards.append(_card("pairing", number, topic, amounts, where))
    return section(
        "pairing",
        "Pairing errors",
        tag("p", "Time of the companion minus that of its reference frame, in milliseconds.", class_="note"),
        tag("div", *cards, class_="cards") if cards else None,
        tag("p", f"Of the same time as the reference frame: {', '.join(exact[:MOST_ROWS])}.")
        if exact
        else None,
    )


def _is_exact(found: Pairing) -> bool:
    return (
        sum(map(bool, found.counts)) == 1
        and found.worst is not None
        and abs(found.worst.error_ms) < LEAST_ERROR_MS
    )


def _quantiles(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in list(found.items())[:8]) + " ms"


def _card(kind: str, number: int, topic: str, figures: str, more: str = "") -> Html:
    return tag(
        "div",
        tag("h4", topic),
        tag("p", figures, class_="note"),
        tag("div", class_="plot card-plot", **{f"data_{kind}": number}),
        tag("p", more, class_="note") if more else None,
        class_="card",
    )


def latency(report: Report, data: dict[str, Any]) -> Html:
    """From acquisition to receipt, of every topic."""
    found = latencies(report)
    if not found:
        why = report.lacking.get("streams") or report.lacking.get("sequences") or "no message has a time"
        return section("latency", "Latency", missing(why))
    by_receipt = sorted(t for t, each in clocks(report).items() if {kind for _, kind, _ in each} == {"late"})
    timed = {topic: several for topic, several in found.items() if topic not in by_receipt}
    shown = [(t, each) for t, several in timed.items() for each in several][:MOST_TEXTS]
    data["latency"] = [bars(each) for _, each in shown]
    cards = [
        _card("latency", number, topic, f"p50 {each.p50:.0f}, p95 {each.p95:.0f}, max {each.max:.0f} ms")
        for number, (topic, each) in enumerate(shown)
    ]
    return section(
        "latency",
        "Latency",
        tag(
            "p",
            "From acquisition to receipt, in milliseconds. Where the stamp is of another clock, the offset "
            "between the clocks, and with it the latency, is an estimate.",
            class_="note",
        ),
        tag("div", *cards, class_="cards") if cards else None,
        tag("p", f"Placed by time of receipt or publication: {', '.join(by_receipt[:MOST_ROWS])}.")
        if by_receipt
        else None,
    )


def track(report: Report, axis: TimeAxis, pictures: Iterable[Thumbnail], data: dict[str, Any]) -> Html:
    """The track from above, and the speed."""
    found: list[Place] = places(report)
    if not found:
        why = report.lacking.get("streams") or "no position is known: no GPS fix and no odometry was used"
        return section("track", "Track and speed", missing(why))
    pins = {p.time_ns: p.number for p in pictures if p.time_ns is not None}
    origins = [o for s in report.sequences if s.track is not None for o in s.track.origins]
    on_earth = any(origin is not None for origin in origins)
    picture = track_map(found, pins, found_losses(report), on_earth=on_earth)
    place = next((f"{o.latitude:.5f}°, {o.longitude:.5f}°" for o in origins if o is not None), "")
    driven_m = [each.driven_m for each in report.sequences if each.driven_m is not None]
    words = [f"{distance(sum(driven_m))} driven"] if driven_m else []
    words += [f"origin at {place}"] if place else ["in the frame of the odometry: north is unknown"]
    words += _bases(report)
    plot = speed(report, axis)
    if plot is not None:
        data["speed"] = plot
    return section(
        "track",
        "Track and speed",
        tag(
            "p",
            "; ".join(words),
            ". Ring: start; dot: end; dashed: position not measured; red: a topic was silent.",
            class_="note",
        ),
        picture,
        tag("h3", "Speed, km/h") if plot is not None else None,
        tag("div", class_="plot speed-plot", id="speed") if plot is not None else None,
    )


def _bases(report: Report) -> list[str]:
    totals: dict[str, float] = {}
    for each in report.sequences:
        for basis, seconds in (each.poses_s or {}).get("position", {}).items():
            totals[basis] = totals.get(basis, 0.0) + seconds
    return [f"position {basis} for {seconds:,.1f} s" for basis, seconds in totals.items() if seconds >= 0.1]


def pictures(found: Sequence[Thumbnail], why: str, report: Report) -> Html:
    """What the sensors saw at some moments."""
    figures, drives = [], report.drives
    for each in found:
        when = "" if each.time_ns is None else f" at {time_of(each.time_ns, drives)[0]}"
        image = tag(
            "img",
            src=Html(f"data:image/jpeg;base64,{each.base64}"),
            width=each.size[0],
            height=each.size[1],
            alt=f"{each.why}{when}",
        )
        caption = joined(
            tag("b", each.number, class_="pin-number"), f" {each.why}{when}", tag("small", each.name)
        )
        figures.append(
            tag("figure", tag("button", image, type="button", class_="zoom"), tag("figcaption", caption))
        )
    return section(
        "pictures",
        "Pictures",
        missing(why) if why else None,
        tag(
            "p",
            "Boxes are the model's; dots are the lidar's, red is near and violet is far. Views from above "
            "have a ring every 10 m; forward is up.",
            class_="note",
        )
        if figures
        else None,
        tag("div", *figures, class_="figures"),
        tag("dialog", tag("img", alt="", id="large"), id="viewer"),
    )


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
            tag("td", tag("b", each.name), tag("small", _utc(each.start_ns))),
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
        written = json.dumps(report.configuration, indent=2, ensure_ascii=False)[:MOST_CONFIGURATION]
        block = joined(*(Html(joined(line, "\n")) for line in written.splitlines()))
        parts.append(_folded("All settings", tag("pre", block)))
    else:
        parts.append(missing(report.lacking.get("configuration") or "no settings were noted"))
    if report.recordings:
        items = [_recording(each) for each in report.recordings[:MOST_ROWS]]
        parts.append(_folded(f"Recordings ({len(report.recordings):,})", tag("ul", *items)))
    if report.files:
        items = [tag("li", each) for each in report.files[:MOST_ROWS]]
        parts.append(_folded(f"Files ({len(report.files):,})", tag("ul", *items)))
    return section("configuration", "Configuration and versions", *parts)


def _recording(values: Mapping[str, Any]) -> Html:
    size, faults = values.get("bytes"), values.get("faults")
    mb = f", {size / 1e6:,.1f} MB" if isinstance(size, int) and 0 <= size < 2**63 else ""
    damage = f", {len(faults):,} damaged places" if isinstance(faults, list) and faults else ""
    return tag("li", f"{values.get('file')}{mb}{damage}")


def section(name: str, heading: str, *children: Child) -> Html:
    """A section of the page."""
    return tag("section", tag("h2", heading), *children, id=name)


def missing(why: str) -> Html:
    """Why something cannot be shown."""
    return tag("p", f"Not shown: {why}.", class_="missing")


def _folded(heading: str, content: Html) -> Html:
    return tag("details", tag("summary", heading), content)


def distance(metres: float) -> str:
    """A distance in metres or kilometres."""
    return f"{metres / 1000:,.2f} km" if metres >= _MANY else f"{metres:,.0f} m"


def _utc(time_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "at an impossible time"
