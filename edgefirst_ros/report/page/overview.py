"""What a page says above its lanes and below them: verdict, findings, samples, times, the way, the rig."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from edgefirst_ros.report.drives import clock, distance, lasts_s, legs_of, utc
from edgefirst_ros.report.html import Child, Html, folded, joined, missing, section, tag
from edgefirst_ros.report.judge import Verdict
from edgefirst_ros.report.models import Latency, Report
from edgefirst_ros.report.page.lanes import Lane, TimeAxis, clocks, lanes
from edgefirst_ros.report.sensors import mounted, rig_frame

MOST_TEXTS = 50
"""Notes, warnings and hints of one kind, or rows of one table, that are shown."""
OUTCOMES = {
    "sample": ("became samples", "used"),
    "incomplete": ("lacked a sensor", "dropped"),
    "skipped": ("were not selected", "unused"),
    "unusable": ("were unusable", "refused"),
    "dropped": ("were dropped", "dropped"),
}
WIDTH, HEIGHT, MARGIN = 800.0, 360.0, 40.0
"""Of the map, in pixels."""
DEGREE_M = 111_195.0
"""Of latitude."""
LEAST_EXTENT_M = 10.0
"""Of the map: a rig that stands is a dot on it."""


def header(report: Report, verdict: Verdict, title: str) -> Html:
    """Title, verdict and the figures that one wants first."""
    grade, _, sentence = verdict.sentence.partition(": ")
    said = joined(tag("strong", f"{grade}:", class_="grade"), " ", sentence)
    facts = (tag("div", tag("dt", name), tag("dd", value)) for name, value in _facts(report))
    return tag(
        "header",
        tag("p", "recording" if report.purpose == "recording" else "dataset", class_="kicker"),
        tag("h1", title),
        tag("p", said, id="verdict", class_=f"verdict {verdict.grade}"),
        tag("dl", *facts, class_="facts"),
    )


def _facts(report: Report) -> Iterator[tuple[str, Child]]:
    if report.sequences and report.start_ns:
        yield "begins", utc(report.start_ns)
        legs = legs_of(report)
        count = legs[-1].drive + 1
        yield "lasts", clock(lasts_s(legs)) + (f" in {count} drives" if count > 1 else "")
    if report.samples is not None:
        yield "samples possible" if report.purpose == "recording" else "samples", f"{report.samples:,}"
    if report.samples and report.labelled is not None:
        yield "with labels", f"{report.labelled:,} of {report.samples:,}"
    if driven_m := [each.driven_m for each in report.sequences if each.driven_m is not None]:
        yield "driven", distance(sum(driven_m))
    if report.topics:
        yield "topics", len(report.topics)
        yield "messages", f"{sum(each.received for each in report.topics.values()):,}"
    for name, held in list(report.formats.items())[:8] if report.purpose == "dataset" else ():
        figures = ((unit, n) for unit, n in held.items() if isinstance(n, int) and unit != "messages")
        yield name, ", ".join(f"{n:,} {unit}" for unit, n in figures)


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
    keys = (tag("span", tag("span", class_=f"key {kind}"), label) for kind, label in _KEYS)
    name = tag("div", tag("small", "time since the start"), class_="lane-name")
    plot = tag("div", class_="plot axis-plot", id="axis")
    axis_row = tag("div", name, plot, tag("output", class_="lane-said", id="cursor-time"), class_="lane axis")
    return section(
        "drive",
        "The drive, topic by topic",
        tag("p", *keys, class_="keys"),
        tag("p", "Drag to zoom all lanes over time, double-click to return.", class_="note pointer"),
        tag("div", *rows, axis_row, class_="lanes"),
        tag("p", f"{hidden:,} more topics are in the table below.", class_="note") if hidden > 0 else None,
    )


_KEYS = (
    ("used", "used"),
    ("unused", "not used"),
    ("dropped", "dropped, or frame without a sensor"),
    ("refused", "rejected"),
    ("gap", "nothing sent"),
    ("odd", "frozen, black, or points missing"),
)


def _lane(number: int, lane: Lane, known: Sequence[tuple[str, str, str]]) -> Html:
    name = lane.topic or "camera frames"
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


def samples(report: Report) -> Html:
    """What became of the reference frames, and how many samples have each companion."""
    parts: list[Html] = []
    frames = sum(each.reference_frames for each in report.sequences)
    if frames:
        counts = {name: sum(getattr(each, name) for each in report.sequences) for name in OUTCOMES}
        shares = (_share(OUTCOMES[n][0], c, frames, OUTCOMES[n][1]) for n, c in counts.items() if c)
        parts += [tag("p", f"{frames:,} camera frames, of which"), tag("div", *shares)]
    if (total := report.samples or 0) and report.companions:
        parts.append(tag("h3", "Sensors"))
        if report.complete is not None:
            complete = (
                f"{report.complete:,} of {total:,} samples have a message of every sensor that was sending"
            )
            parts.append(tag("p", f"{complete}."))
        having = list(report.companions.items())[:MOST_TEXTS]
        parts.append(tag("div", *(_share(topic, count, total, "used") for topic, count in having)))
    elif total:
        parts.append(missing(report.lacking.get("companions") or "no sample has another sensor"))
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
    percent = "all" if part == 1.0 else f"{100 * part:.1f} %".replace("100.0", "99.9")
    figures = tag("span", f"{count:,} ({percent})", class_="n")
    return tag("div", tag("span", label, class_="share-name"), bar, figures, class_="share")


def times(report: Report) -> Html:
    """Latencies, and how far companions are off their reference frames, in milliseconds."""
    late: dict[str, Latency] = {}
    for sequence in report.sequences:
        for topic, stream in (sequence.streams or {}).items():
            if stream.latency_ms is not None and (
                topic not in late or stream.latency_ms.p95 > late[topic].p95
            ):
                late[topic] = stream.latency_ms
    off = {topic: each.pairing_error_ms for topic, each in report.topics.items() if each.pairing_error_ms}
    topics = sorted({*late, *off})[:MOST_TEXTS]
    if not topics:
        return section("times", "Times", missing(report.lacking.get("streams") or "no message has a time"))
    names = list(dict.fromkeys(name for each in off.values() for name in each))[:4]
    heads = ("latency p50", "p95", "max", *(f"pairing {name}" for name in names), "worst pairing at")
    rows = [_times_of(report, topic, late.get(topic), off.get(topic) or {}, names) for topic in topics]
    return section(
        "times",
        "Times",
        tag(
            "p",
            "In milliseconds. Latency: from acquisition to receipt, in the sequence where it is the longest. "
            "Of another clock it is an estimate. Pairing: time of the message minus that of its frame.",
            class_="note",
        ),
        _table(("topic", *heads), rows),
    )


def _times_of(
    report: Report, topic: str, late: Latency | None, off: Mapping[str, float], names: Sequence[str]
) -> tuple[Child, ...]:
    latency = ("", "", "") if late is None else (f"{late.p50:.0f}", f"{late.p95:.0f}", f"{late.max:.0f}")
    found = report.pairing.get(topic)
    worst = None if found is None else found.worst
    where = "" if worst is None else f"frame {worst.frame:,}: {worst.error_ms:+.1f}"
    return tag("b", topic), *latency, *(f"{off[n]:.1f}" if n in off else "" for n in names), where


def _table(heads: Sequence[str], rows: Iterable[Sequence[Child]]) -> Html:
    """A table whose first column has names, the others figures."""

    def row(cell: str, values: Sequence[Child]) -> Html:
        return tag("tr", *(tag(cell, value, class_="n" if n else None) for n, value in enumerate(values)))

    return tag("div", tag("table", row("th", heads), *(row("td", each) for each in rows)), class_="wide")


def track(report: Report, pins: Mapping[int, int]) -> Html:
    """The way from above, north up where that is known; ``pins`` are numbers of pictures by their times."""
    lines = _lines(report)
    if not lines:
        why = report.lacking.get("streams") or "no position is known: no GPS fix and no odometry was used"
        return section("track", "Track", missing(why))
    places = [place for line in lines for place in line]
    low, high = ([edge(place[axis] for place in places) for axis in (1, 2)] for edge in (min, max))
    wide, tall = (max(b - a, LEAST_EXTENT_M) for a, b in zip(low, high, strict=True))
    scale = min((WIDTH - 2 * MARGIN) / wide, (HEIGHT - 2 * MARGIN) / tall)

    def at(place: tuple[int, float, float]) -> tuple[float, float]:
        x = WIDTH / 2 + (place[1] - (low[0] + high[0]) / 2) * scale
        return round(x, 1), round(HEIGHT / 2 - (place[2] - (low[1] + high[1]) / 2) * scale, 1)

    ways = (" ".join(f"{x:g},{y:g}" for x, y in map(at, line)) for line in lines)
    parts = [tag("polyline", points=way, class_="track") for way in ways]
    for place, kind in ((places[0], "start"), (places[-1], "finish")):
        parts.append(tag("circle", cx=at(place)[0], cy=at(place)[1], r=7, class_=kind))
    for time_ns, number in pins.items():
        x, y = at(min(places, key=lambda place: abs(place[0] - time_ns)))
        pin = tag("circle", cx=x, cy=y, r=12, class_="pin")
        parts.append(
            joined(pin, tag("text", number, x=x, y=y, dy=".35em", class_="pin-text", text_anchor="middle"))
        )
    most_m = WIDTH / 3 / scale
    power = 10.0 ** math.floor(math.log10(most_m))
    length_m = power * max(step for step in (1, 2, 5) if step * power <= most_m)
    parts += [
        tag("path", d=f"M16 {HEIGHT - 14:g}h{length_m * scale:g}", class_="scale"),
        tag("text", distance(length_m), x=16, y=HEIGHT - 22, class_="map-text"),
    ]
    origin = next((o for s in report.sequences if s.track for o in s.track.origins if o is not None), None)
    where = "in the frame of the odometry: north is unknown"
    if origin is not None:
        where = f"north is up; the local frame begins at {origin.latitude:.5f}°, {origin.longitude:.5f}°"
    return section(
        "track",
        "Track",
        tag("p", f"Ring: start; dot: end; {where}.", class_="note"),
        tag(
            "svg", *parts, viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", class_="map", role="img",
            aria_label="The track of the drive from above",
        ),
    )  # fmt: skip


def _lines(report: Report) -> list[list[tuple[int, float, float]]]:
    """Time, metres east and north of the first origin, a line for each local frame of each sequence."""
    lines: list[list[tuple[int, float, float]]] = []
    first = None
    for sequence in report.sequences:
        before = None
        for time_ns, east_m, north_m, _, frame, _ in sequence.track.points if sequence.track else ():
            origins = sequence.track.origins if sequence.track else []
            origin = origins[frame] if frame < len(origins) else None
            first = first or origin
            east, north = east_m, north_m
            if origin is not None and first is not None:
                north += (origin.latitude - first.latitude) * DEGREE_M
                apart = (origin.longitude - first.longitude + 180.0) % 360.0 - 180.0
                east += apart * DEGREE_M * math.cos(math.radians(first.latitude))
            if frame != before:
                lines.append([])
            lines[-1].append((time_ns, east, north))
            before = frame
    return lines


def rig(report: Report) -> Html | None:
    """Where sensors are, and where they look; nothing where no sensor's place is known."""
    found = mounted(report)
    placed = [(each, each.pose) for each in found if each.pose is not None]
    if not placed:
        return None
    rows = []
    for each, pose in placed:
        x, y, z = each.ahead
        looks = math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))
        figures = [*(f"{place:.2f}" for place in pose[:3, 3]), *(f"{angle:.0f}" for angle in looks)]
        name = joined(tag("b", each.name), tag("small", f"{each.kind}, {each.frame}"))
        # Without the sign that a rounded zero may have.
        rows.append((name, *("0" if f == "-0" else f.replace("-0.00", "0.00") for f in figures)))
    frame = rig_frame(report)
    lost = [f"{e.name} ({e.frame or 'its messages name no frame'})" for e in found if e.pose is None]
    return section(
        "rig",
        "The rig",
        _table(("sensor", "x, m", "y, m", "z, m", "yaw, °", "pitch, °"), rows),
        tag(
            "p",
            f"In {frame}: x forward, y left, z up; angles are those of where a sensor looks.",
            class_="note",
        ),
        tag("p", f"No transform leads from {frame} to: {', '.join(lost)}.", class_="note") if lost else None,
    )
