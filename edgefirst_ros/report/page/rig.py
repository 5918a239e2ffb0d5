"""The rig from above and from the side: where its sensors are, and what its cameras see; an SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from edgefirst_ros.model.transform import Floats
from edgefirst_ros.report.html import Html, joined, section, tag
from edgefirst_ros.report.models import Report
from edgefirst_ros.report.sensors import FARTHEST_M, Mounted, mounted, rig_frame

COLOURS = {"camera": "#2f7de0", "lidar": "#0f9aa8", "radar": "#d9822b", "imu": "#9a5bd0", "gps": "#d0507a"}
RIG, SOFT = "currentColor", "#8a94a0"
AXES = ("#d03b3b", "#2e9e44", "#3b6fd0")
LEAST_EXTENT_M = 1.0
WIDTH, COLUMN, MARGIN = 860.0, 170.0, 62.0
"""Of the drawing, of its labels on either side, and around the sensors for what cameras see, in pixels."""
MOST_HIGH = 260.0
HEADING, LINE = 24.0, 17.0
"""Above a view, and between labels."""
MOST_LETTERS = 24
"""Of a label: more do not fit beside the drawing."""
WEDGE_PX, AXIS_PX, ORIGIN_PX = 58.0, 11.0, 26.0
LEAST_GRID_PX = 45.0


def rig(report: Report) -> Html | None:
    """The section of the page; nothing where no sensor's place is known."""
    found = mounted(report)
    near = [each for each in found if each.is_near]
    if not near:
        return None
    frame = rig_frame(report)
    head = tag("tr", *(tag("th", name) for name in ("sensor", "frame")), *(_number(n) for n in _COLUMNS))
    rows = [
        tag("tr", tag("td", tag("b", each.name), tag("small", each.kind)), tag("td", each.frame), *_row(each))
        for each in near
    ]
    lost = [f"{e.name} ({e.frame or 'its messages name no frame'})" for e in found if e.pose is None]
    far = [f"{each.name} ({each.frame})" for each in found if each.pose is not None and not each.is_near]
    return section(
        "rig",
        "The rig",
        tag("div", drawing(near, frame), class_="wide"),
        tag("div", tag("table", head, *rows), class_="wide"),
        tag("p", f"No transform leads from {frame} to: {', '.join(lost)}.", class_="note") if lost else None,
        tag("p", f"Too far away to be on a vehicle, which is {FARTHEST_M:.0f} m: {', '.join(far)}.")
        if far
        else None,
    )


_COLUMNS = ("x, m", "y, m", "z, m", "yaw, °", "pitch, °", "sees, °")


def _number(words: str) -> Html:
    return tag("th", words, class_="n")


def _row(each: Mounted) -> Iterator[Html]:
    """Where it is, where it looks, and how far around."""
    x, y, z = each.ahead
    places = () if each.pose is None else each.pose[:3, 3]
    looks = math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))
    seen = [math.degrees(a) for a in each.angles_rad or ()]
    figures = [*(f"{place:.2f}" for place in places), *(f"{angle:.0f}" for angle in looks)]
    sees = f"{seen[0] + seen[1]:.0f} x {seen[2] + seen[3]:.0f}" if seen else ""
    # Without the sign that a rounded zero may have.
    yield from (tag("td", f.replace("-0.00", "0.00") if f != "-0" else "0", class_="n") for f in figures)
    yield tag("td", sees, class_="n")


@dataclass(frozen=True, slots=True)
class _View:
    """One of the two views: which axis of the rig points up, and where its origin is, in pixels."""

    up: int
    origin: tuple[float, float]
    scale: float

    def at(self, place: Floats) -> tuple[float, float]:
        """A place in metres."""
        x, y = self.origin
        return round(x + float(place[0]) * self.scale, 1), round(y - float(place[self.up]) * self.scale, 1)

    def beyond(self, place: Floats, way: Floats, length: float) -> tuple[float, float]:
        """So many pixels from a place along a direction."""
        x, y = self.at(place)
        return round(x + float(way[0]) * length, 1), round(y - float(way[self.up]) * length, 1)


def drawing(sensors: Sequence[Mounted], frame: str, *, paper: str = "") -> Html:
    """Both views, x to the right in either, one below the other and of one scale.

    Args:
        sensors: with places, near the rig.
        frame: what transforms call the rig.
        paper: colour of the background, for a file of its own.
    """
    shown = [each for each in sensors if each.pose is not None]
    places = np.array([np.zeros(3), *(each.pose[:3, 3] for each in shown if each.pose is not None)])
    low, high = places.min(axis=0), places.max(axis=0)
    wide = np.maximum(high - low, LEAST_EXTENT_M)
    room = WIDTH - 2 * (COLUMN + MARGIN)
    scale = float(min(room / wide[0], MOST_HIGH / wide[1], MOST_HIGH / wide[2]))
    middle = (low + high) / 2
    parts: list[Html] = [_legend({each.kind for each in shown})]
    top = 34.0
    for up, words in ((1, "from above: x forward, y left"), (2, "from the side: x forward, z up")):
        tall = max(float(wide[up]) * scale + 2 * MARGIN, LINE * (len(shown) // 2 + 2))
        view = _View(
            up, (WIDTH / 2 - middle[0] * scale, top + HEADING + tall / 2 + middle[up] * scale), scale
        )
        parts += [_text((COLUMN, top + 14), words, RIG, weight="bold"), *_grid(view, top + HEADING, tall)]
        parts += [part for each in shown for part in _sensor(view, each)]
        parts += [*_axes(view, np.eye(4), ORIGIN_PX, "xyz"), _dot(view.at(np.zeros(3)), RIG)]
        named = [(f"{frame} (rig)", RIG, view.at(np.zeros(3)))]
        named += [(e.name, COLOURS[e.kind], view.at(e.pose[:3, 3])) for e in shown if e.pose is not None]
        parts += _labels(named, (top + HEADING + 8, top + HEADING + tall - 8))
        top += HEADING + tall + 28
    background = tag("rect", width=WIDTH, height=top, rx=8, fill=paper) if paper else None
    return tag(
        "svg",
        background,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:.0f} {top:.0f}",
        class_="rig",
        role="img",
        aria_label="The rig from above and from the side",
        color="#1b1f24" if paper else None,
        font_family="sans-serif",
        font_size=12,
    )


def _legend(kinds: Iterable[str]) -> Html:
    shown = [kind for kind in COLOURS if kind in kinds]
    at = [COLUMN + 8 + 80 * number for number in range(len(shown))]
    return joined(
        *(
            joined(_dot((x, 16.0), COLOURS[kind]), _text((x + 9, 20.0), kind, RIG))
            for x, kind in zip(at, shown, strict=True)
        )
    )


def _grid(view: _View, top: float, tall: float) -> Iterator[Html]:
    """Lines at round distances from the origin, with metres."""
    power = 10.0 ** math.floor(math.log10(LEAST_GRID_PX / view.scale))
    step = min(s * power for s in (1, 2, 5, 10) if s * power * view.scale >= LEAST_GRID_PX)
    left, right, bottom = COLUMN, WIDTH - COLUMN, top + tall
    for across, (begin, end) in ((True, (left, right)), (False, (top, bottom))):
        origin = view.origin[0] if across else view.origin[1]
        first, last = math.ceil((begin - origin) / (step * view.scale)), (end - origin) / (step * view.scale)
        for number in islice(range(first, math.floor(last) + 1), 64):
            at = round(origin + number * step * view.scale, 1)
            ends = ((at, top), (at, bottom)) if across else ((left, at), (right, at))
            yield _line(*ends, SOFT, 0.25 if number else 0.6)
            words = f"{(number if across else -number) * step:g}"
            place, anchor = ((at, bottom + 13), "middle") if across else ((left + 3, at - 3), "start")
            yield _text(place, words if words != "-0" else "0", SOFT, anchor)
    yield _text((right + 18, bottom + 13), "m", SOFT)


def _sensor(view: _View, each: Mounted) -> Iterator[Html]:
    """A sensor's mark and axes, and of a camera what it sees."""
    pose, colour = each.pose, COLOURS[each.kind]
    if pose is None:
        return
    at = pose[:3, 3]
    if each.kind == "camera":
        if each.angles_rad is not None:
            first, last = each.angles_rad[:2] if view.up == 1 else each.angles_rad[2:]
            turns = np.linspace(-first, last, 13)
            rays = np.zeros((len(turns), 3))  # x right and y down, so that left and top are negative
            rays[:, view.up - 1], rays[:, 2] = np.sin(turns), np.cos(turns)
            corners = [view.at(at), *(view.beyond(at, pose[:3, :3] @ ray, WEDGE_PX) for ray in rays)]
            points = " ".join(f"{x:g},{y:g}" for x, y in corners)
            yield tag("polygon", points=points, fill=colour, fill_opacity=0.18, stroke=colour)
        yield _line(view.at(at), view.beyond(at, each.ahead, WEDGE_PX), colour, 1.5, dash="4 3")
    yield from _axes(view, pose, AXIS_PX)
    yield _dot(view.at(at), colour)


def _axes(view: _View, pose: Floats, length: float, names: str = "") -> Iterator[Html]:
    """Red x, green y, blue z; those that point towards the reader are short."""
    for number, colour in enumerate(AXES):
        way, at = pose[:3, number], pose[:3, 3]
        yield _line(view.at(at), view.beyond(at, way, length), colour, 2.0)
        if names and number in {0, view.up}:
            x, y = view.beyond(at, way, length + 8)
            yield _text((x, y + 4), names[number], colour, "middle", "bold")


def _labels(
    named: Iterable[tuple[str, str, tuple[float, float]]], span: tuple[float, float]
) -> Iterator[Html]:
    """Names at the sides, the left half of the places on the left, each with a line to its place."""
    ordered = sorted(named, key=lambda each: each[2])
    half = len(ordered) // 2
    for group, edge, anchor in (
        (ordered[:half], COLUMN - 10, "end"),
        (ordered[half:], WIDTH - COLUMN + 10, "start"),
    ):
        group.sort(key=lambda each: each[2][1])
        heights: list[float] = []
        for _, _, (_, y) in group:
            heights.append(max(y, heights[-1] + LINE if heights else span[0]))
        below = span[1]
        for number in reversed(range(len(heights))):
            heights[number] = below = min(heights[number], below)
            below -= LINE
        for (name, colour, place), height in zip(group, heights, strict=True):
            short = name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"
            yield _line((edge + (4 if anchor == "end" else -4), round(height, 1)), place, colour, 0.5)
            yield _text((edge, round(height + 4, 1)), short, colour, anchor)


def _dot(at: tuple[float, float], colour: str) -> Html:
    return tag("circle", cx=at[0], cy=at[1], r=4.5, fill=colour)


def _line(
    start: tuple[float, float], end: tuple[float, float], colour: str, width: float, dash: str | None = None
) -> Html:
    way = f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}"
    return tag("path", d=way, stroke=colour, stroke_width=f"{width:g}", stroke_dasharray=dash)


def _text(
    at: tuple[float, float], words: str, colour: str, anchor: str | None = None, weight: str | None = None
) -> Html:
    return tag("text", words, x=at[0], y=at[1], fill=colour, text_anchor=anchor, font_weight=weight)
