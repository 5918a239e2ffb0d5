"""The track from above as SVG: north is up, with a scale bar, losses and numbered pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgefirst_ros.diagnosis.report import Report
from edgefirst_ros.diagnosis.silence import Loss
from edgefirst_ros.view.html import Html, joined, tag

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
