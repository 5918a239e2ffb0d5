"""The middle of the page: pairing errors, latencies, track and speed, and pictures.

The track from above as SVG: north is up, with a scale bar, losses and numbered pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.report.drives import Loss, distance, legs_of, silences, time_of
from edgefirst_ros.report.html import Html, joined, missing, section, tag
from edgefirst_ros.report.models import Pairing, Report
from edgefirst_ros.report.page.lanes import TimeAxis, bars, clocks, latencies, speed
from edgefirst_ros.report.page.thumbnails import Thumbnail

WIDTH, LEAST_HEIGHT, MOST_HEIGHT = 800.0, 260.0, 560.0
MARGIN = 46.0
EARTH_RADIUS_M = 6_371_000.0
LEAST_EXTENT_M = 10.0
SOLID = ("measured", "interpolated")
"""Bases of positions that are drawn as a solid line."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position of the rig: when, metres east and north, on which stretch of line, and how it is known."""

    time_ns: int
    east_m: float
    north_m: float
    line: int
    solid: bool


def places(report: Report) -> list[Place]:
    """All positions of the report in metres east and north of the first origin."""
    found: list[Place] = []
    first = None
    for number, sequence in enumerate(report.sequences):
        track = sequence.track
        for time_ns, east_m, north_m, _, frame, basis in track.points if track is not None else ():
            east, north = east_m, north_m
            origin = track.origins[frame] if track is not None and frame < len(track.origins) else None
            first = first or origin
            if origin is not None and first is not None:
                north += math.radians(origin.latitude - first.latitude) * EARTH_RADIUS_M
                parallel_m = EARTH_RADIUS_M * math.cos(math.radians(first.latitude))
                east += math.radians(_around(origin.longitude - first.longitude)) * parallel_m
            bases = track.bases if track is not None else []
            solid = basis < len(bases) and bases[basis] in SOLID
            found.append(Place(time_ns, east, north, number * 256 + frame, solid))
    return found


def _around(degrees: float) -> float:
    """A difference of longitudes the shorter way around."""
    return (degrees + 180.0) % 360.0 - 180.0


def track_map(
    found: Sequence[Place], pictures: Mapping[int, int], losses: Iterable[Loss], *, on_earth: bool
) -> Html:
    """The map.

    Args:
        found: at least one position.
        pictures: number of each picture by its time.
        losses: stretches during which something was lost.
        on_earth: whether north is known.
    """
    easts, norths = [p.east_m for p in found], [p.north_m for p in found]
    wide, high = max(easts) - min(easts), max(norths) - min(norths)
    extent_m = max(wide, high, LEAST_EXTENT_M)
    wide, high = max(wide, extent_m / 8), max(high, extent_m / 8)
    middle = (max(easts) + min(easts)) / 2, (max(norths) + min(norths)) / 2
    scale = min((WIDTH - 2 * MARGIN) / wide, (MOST_HEIGHT - 2 * MARGIN) / high)
    height = max(LEAST_HEIGHT, high * scale + 2 * MARGIN)

    def xy(place: Place) -> tuple[float, float]:
        x = WIDTH / 2 + (place.east_m - middle[0]) * scale
        return round(x, 1), round(height / 2 - (place.north_m - middle[1]) * scale, 1)

    parts = [
        _polyline([xy(p) for p in line], "track" if line[-1].solid else "track unsure")
        for line in _lines(found)
    ]
    for loss in losses:
        if loss.kind not in {"pause", "absent"}:
            continue
        inside = [p for p in found if loss.begin_ns <= p.time_ns <= loss.end_ns]
        parts += [_polyline([xy(p) for p in line], "track lost") for line in _lines(inside)]
    for end, kind in ((found[0], "start"), (found[-1], "finish")):
        parts.append(tag("circle", cx=xy(end)[0], cy=xy(end)[1], r=7, class_=kind))
    for time_ns, number in pictures.items():
        nearest = min(found, key=lambda place: abs(place.time_ns - time_ns))
        x, y = xy(nearest)
        parts.append(
            tag(
                "g",
                tag("circle", cx=x, cy=y, r=12, class_="pin"),
                tag("text", number, x=x, y=y, dy=".35em", class_="pin-text", text_anchor="middle"),
            )
        )
    parts.append(_scale_bar(scale, height))
    if on_earth:
        parts.append(_north())
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        class_="map",
        role="img",
        aria_label="The track of the drive from above",
    )


def _lines(found: Iterable[Place]) -> list[list[Place]]:
    """Stretches of one local frame and one kind, which is that of the last point of each."""
    lines: list[list[Place]] = []
    before: Place | None = None
    for place in found:
        if before is None or before.line != place.line:
            lines.append([place])
        elif len(lines[-1]) > 1 and lines[-1][-1].solid != place.solid:
            lines.append([before, place])
        else:
            lines[-1].append(place)
        before = place
    return lines


def _polyline(points: Iterable[tuple[float, float]], kind: str) -> Html:
    return tag("polyline", points=" ".join(f"{x:g},{y:g}" for x, y in points), class_=kind)


def _scale_bar(scale: float, height: float) -> Html:
    """The longest round length that takes at most a quarter of the width."""
    most_m = WIDTH / 4 / scale
    power = 10.0 ** math.floor(math.log10(most_m))
    length_m = max(step * power for step in (1, 2, 5) if step * power <= most_m)
    label = f"{length_m / 1000:g} km" if length_m >= 1000 else f"{length_m:g} m"
    x, y = 16.0, height - 14.0
    right = round(x + length_m * scale, 1)
    return joined(
        tag("path", d=f"M{x:g} {y - 6:g}V{y:g}H{right:g}V{y - 6:g}", class_="scale"),
        tag("text", label, x=round((x + right) / 2, 1), y=y - 8, class_="map-text", text_anchor="middle"),
    )


def _north() -> Html:
    x = WIDTH - 26.0
    return joined(
        tag("path", d=f"M{x:g} 14L{x + 8:g} 42L{x:g} 36L{x - 8:g} 42Z", class_="north"),
        tag("text", "N", x=x, y=58, class_="map-text", text_anchor="middle"),
    )


MOST_CARDS = 50
"""Histograms of one kind."""
MOST_TOPICS = 200
"""Names of topics in one line or list."""
LEAST_ERROR_MS = 0.05
"""Smaller pairing errors are none."""


def pairing(report: Report, data: dict[str, Any]) -> Html:
    """Companion − reference of every topic."""
    if not report.pairing:
        why = report.lacking.get("pairing") or "no sample has a companion"
        known = [(t, a.pairing_error_ms) for t, a in report.topics.items() if a.pairing_error_ms]
        figures = tag("ul", *(tag("li", f"{t}: {_quantiles(found)}") for t, found in known[:MOST_TOPICS]))
        return section("pairing", "Pairing errors", missing(why), figures if known else None)
    exact = [topic for topic, found in report.pairing.items() if _is_exact(found)]
    shown = [(t, found) for t, found in report.pairing.items() if t not in exact][:MOST_CARDS]
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
        tag("p", f"Of the same time as the reference frame: {', '.join(exact[:MOST_TOPICS])}.")
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
    shown = [(t, each) for t, several in timed.items() for each in several][:MOST_CARDS]
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
        tag("p", f"Placed by time of receipt or publication: {', '.join(by_receipt[:MOST_TOPICS])}.")
        if by_receipt
        else None,
    )


def track(report: Report, axis: TimeAxis, pictures: Iterable[Thumbnail], data: dict[str, Any]) -> Html:
    """The track from above, and the speed."""
    found: list[Place] = places(report)
    if not found:
        why = report.lacking.get("streams") or "no position is known: no GPS fix and no odometry was used"
        return section("track", "Track and speed", missing(why))
    pins: dict[int, int] = {}
    for each in pictures:
        if each.time_ns is not None and each.number not in pins.values():  # one of several cameras
            pins[each.time_ns] = each.number
    origins = [o for s in report.sequences if s.track is not None for o in s.track.origins]
    on_earth = any(origin is not None for origin in origins)
    picture = track_map(found, pins, silences(report).losses, on_earth=on_earth)
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
    moments: dict[int, list[Html]] = {}
    legs = legs_of(report)
    for each in found:
        when = f" at {time_of(each.time_ns, legs)[0]}" if each.time_ns is not None and legs else ""
        image = tag(
            "img",
            src=Html(f"data:image/jpeg;base64,{each.base64}"),
            width=each.size[0],
            height=each.size[1],
            alt=f"{each.why}{when}",
        )
        row = moments.setdefault(each.number, [])
        pin = tag("b", each.number, class_="pin-number")
        if each.sensor and not row:
            row.append(tag("h3", pin, f" {each.why}{when}"))
        caption = (
            joined(tag("b", each.sensor), tag("small", each.name))
            if each.sensor
            else joined(pin, f" {each.why}{when}", tag("small", each.name))
        )
        row.append(
            tag("figure", tag("button", image, type="button", class_="zoom"), tag("figcaption", caption))
        )
    figures = [figure for row in moments.values() for figure in row]
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
        tag("div", *figures, class_="figures several" if any(e.sensor for e in found) else "figures"),
        tag("dialog", tag("img", alt="", id="large"), id="viewer"),
    )
