"""The beginning of the page: verdict, what to look at, a lane for each topic, and the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgefirst_ros.report.drives import clock, distance, lasts_s, legs_of, utc
from edgefirst_ros.report.html import Child, Html, folded, joined, missing, section, tag
from edgefirst_ros.report.judge import Verdict
from edgefirst_ros.report.models import Report
from edgefirst_ros.report.page.lanes import Lane, TimeAxis, clocks, lanes
from edgefirst_ros.report.shortfalls import FREQUENT, pairs_of

MOST_TEXTS = 50
"""Notes, warnings and hints of one kind that are shown."""
OUTCOMES = {
    "sample": ("became samples", "used"),
    "incomplete": ("lacked a sensor", "dropped"),
    "skipped": ("were not selected", "unused"),
    "unusable": ("were unusable", "refused"),
    "dropped": ("were dropped", "dropped"),
}


def header(report: Report, verdict: Verdict, title: str) -> Html:
    """Title, verdict and the figures that one wants first."""
    start_ns = report.start_ns
    driven_m = [each.driven_m for each in report.sequences if each.driven_m is not None]
    facts: list[tuple[str, Child]] = []
    if report.sequences and start_ns:
        facts.append(("begins", utc(start_ns)))
        legs = legs_of(report)
        count = legs[-1].drive + 1
        facts.append(("lasts", clock(lasts_s(legs)) + (f" in {count} drives" if count > 1 else "")))
    if report.samples is not None:
        label = "samples possible" if report.purpose == "recording" else "samples"
        facts.append((label, f"{report.samples:,}"))
    if report.samples and report.labelled is not None:
        facts.append(("with labels", f"{report.labelled:,} of {report.samples:,}"))
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
        ("lost", "Found", verdict.details),
        ("warning", "Warnings", [text for text in report.warnings if text not in verdict.details]),
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
            content = folded(f"{heading} ({len(texts):,})", tag("ul", *shown)) if quiet else content
            parts.append(tag("div", content, class_=f"texts {kind}"))
    if not parts and verdict.grade == "unknown":
        parts = [missing(report.lacking.get("topics") or report.lacking.get("sequences") or "no figures")]
    return section("attention", "What to look at", *(parts or [tag("p", "Nothing: no warning, no loss.")]))


def drive(report: Report, axis: TimeAxis, data: dict[str, Any]) -> Html:
    """One lane a topic, and the reference frames; ``data`` gets what the script draws."""
    found = lanes(report, axis)
    if not found:
        why = report.lacking.get("timeline") or "nothing was received"
        return section("drive", "The drive, topic by topic", missing(why))
    data["lanes"] = [each.plot for each in found]
    known = clocks(report)
    rows: list[Html] = []
    before = ""
    for number, lane in enumerate(found):
        if lane.group != before:
            rows.append(tag("h3", lane.group))
            before = lane.group
        rows.append(_lane(number, lane, known.get(lane.topic, [])))
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
    ("odd", "frozen, black, or points missing"),
)


def _lane(number: int, lane: Lane, known: Sequence[tuple[str, str, str]]) -> Html:
    name = lane.topic or "reference frames"
    chips = [tag("span", short, class_=f"chip {kind}", title=finding) for short, kind, finding in known[:3]]
    what = "what became of them" if not lane.topic else lane.role.replace("_", " ") or "not used"
    what = f"{lane.sensor}: {what}" if lane.sensor else what
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
    topics = sorted({topic for each in report.combinations for topic in each.topics} | set(report.companions))
    if topics and total:
        parts += _companions(report, topics, total)
    elif "combinations" in report.lacking:
        parts.append(missing(report.lacking["combinations"]))
    elif total:
        parts.append(tag("p", "No sample has a companion."))
    return section(
        "samples", "Samples", *(parts or [missing(report.lacking.get("sequences") or "no frames")])
    )


def _companions(report: Report, topics: Sequence[str], total: int) -> list[Html]:
    """How many samples have each topic, against what its rate promises, and which have what."""
    having = {t: sum(c.samples for c in report.combinations if t in c.topics) for t in topics}
    having.update(report.companions)
    pairs = {topic: each for topic, each in sorted(pairs_of(report).items()) if each.samples}
    parts = [tag("h3", "Companions")]
    if report.complete is not None:
        text = f"{report.complete:,} of {total:,} samples have a message of every sensor that was sending"
        lacking = {topic: each.paired / each.samples for topic, each in pairs.items() if each.missing}
        least = min(lacking, key=lambda topic: lacking[topic], default="")
        limit = f"; {least.strip('/')} limits them" if least else ""
        parts.append(tag("p", f"{text}{limit}."))
    parts.append(tag("div", *(_share(topic, count, total, "used") for topic, count in having.items())))
    slow = [
        f"{topic.strip('/')} {round(max(each.promised, each.paired)):,}"
        for topic, each in pairs.items()
        if max(each.promised, each.paired) < FREQUENT * each.samples
    ]
    if slow:
        words = f"Not sent for every sample, so that fewer can have them: {', '.join(slow[:MOST_TEXTS])}."
        parts.append(tag("p", words, class_="note"))
    rows = [
        tag("tr", tag("td", f"{c.samples:,}", class_="n"), tag("td", ", ".join(c.topics) or "none"))
        for c in report.combinations[:MOST_TEXTS]
    ]
    rest = total - sum(c.samples for c in report.combinations[:MOST_TEXTS])
    if rest > 0:
        rows.append(tag("tr", tag("td", f"{rest:,}", class_="n"), tag("td", "other combinations")))
    table = tag("table", tag("tr", tag("th", "samples"), tag("th", "have")), *rows)
    parts.append(folded("Which samples have what", tag("div", table, class_="wide")))
    return parts


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
