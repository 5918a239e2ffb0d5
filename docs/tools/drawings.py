"""Draws docs/images/*.svg: axes of the rig's sensors, of the world and of a picture; samples, and clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "images"
Point = tuple[float, float]
Vector = tuple[float, float, float]

RED, GREEN, BLUE, INK, PALE = "#c62828", "#2e7d32", "#1565c0", "#37474f", "#cfd8dc"
AXES = {"x": RED, "y": GREEN, "z": BLUE}
FORWARD, LEFT, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
RIGHT, DOWN = (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)
HEAD_PX = 9.0


def svg(width: int, height: int, parts: Iterable[str]) -> str:
    """A drawing on white, so that it can be read on a dark page, too."""
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
                ' font-family="sans-serif" font-size="14">'
            ),
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def line(start: Point, end: Point, colour: str, width: float = 1.5, dash: str = "") -> str:
    """A line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        f' stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
    )


def text(at: Point, words: str, colour: str = INK, anchor: str = "start", weight: str = "normal") -> str:
    """Words."""
    return (
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" fill="{colour}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{words}</text>'
    )


def arrow(start: Point, end: Point, colour: str, label: str = "") -> str:
    """An arrow, and a label beyond its head."""
    length = math.dist(start, end)
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    foot = (end[0] - HEAD_PX * along[0], end[1] - HEAD_PX * along[1])
    side = (-along[1] * HEAD_PX / 2.5, along[0] * HEAD_PX / 2.5)
    corners = (end, (foot[0] + side[0], foot[1] + side[1]), (foot[0] - side[0], foot[1] - side[1]))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    parts = [line(start, foot, colour, 2.5), f'<polygon points="{points}" fill="{colour}"/>']
    if label:
        beyond = (end[0] + 12 * along[0], end[1] + 12 * along[1] + 5)
        parts.append(text(beyond, label, colour, "middle", "bold"))
    return "\n".join(parts)


def seen(point: Vector, origin: Point = (330.0, 300.0), scale: float = 78.0) -> Point:
    """A place in the rig's axes, metres, as seen from behind, above and the right of it."""
    x, y, z = point
    return origin[0] + scale * (0.88 * x - 0.52 * y), origin[1] - scale * (0.34 * x + 0.42 * y + z)


def axes(at: Vector, directions: tuple[Vector, Vector, Vector], length_m: float) -> list[str]:
    """The arrows of a coordinate frame."""
    start = seen(at)
    ends = [seen(tuple(a + length_m * d for a, d in zip(at, way, strict=True))) for way in directions]  # type: ignore[arg-type]
    return [arrow(start, end, AXES[name], name) for end, name in zip(ends, "xyz", strict=True)]


def rig() -> str:
    """The rig with its sensors, each with its axes."""
    low = [(-2.0, 0.8, 0.0), (2.1, 0.8, 0.0), (2.1, -0.8, 0.0), (-2.0, -0.8, 0.0)]
    high = [(-1.7, 0.7, 1.25), (0.6, 0.7, 1.25), (0.6, -0.7, 1.25), (-1.7, -0.7, 1.25)]
    parts = []
    for ring in (low, high):
        parts += [line(seen(a), seen(b), PALE, 3) for a, b in zip(ring, ring[1:] + ring[:1], strict=True)]
    parts += [line(seen(a), seen(b), PALE, 3) for a, b in zip(low, high, strict=True)]
    ros = (FORWARD, LEFT, UP)
    places: list[tuple[str, Vector, tuple[Vector, Vector, Vector], Point]] = [
        ("base_link (rig): x forward, y left, z up", (-0.5, 0.0, 0.0), ros, (36.0, 424.0)),
        ("lidar: x forward, y left, z up", (-1.5, 0.0, 1.45), ros, (36.0, 84.0)),
        (
            "camera_optical: x right, y down, z forward",
            (0.7, 0.0, 1.45),
            (RIGHT, DOWN, FORWARD),
            (382.0, 56.0),
        ),
        ("radar: x forward, y left, z up", (2.1, 0.0, 0.25), ros, (488.0, 370.0)),
    ]
    for words, at, directions, place in places:
        near = (place[0] + 60, place[1] + (6 if place[1] < 200 else -16))
        parts += [line(near, seen(at), PALE, 1, "3 3"), *axes(at, directions, 0.8), text(place, words)]
    return svg(740, 450, parts)


def world() -> str:
    """From above: east, north, and the rig's yaw."""
    origin, at, yaw = (90.0, 330.0), (330.0, 190.0), math.radians(35)
    ahead = (math.cos(yaw), -math.sin(yaw))
    side = (ahead[1], -ahead[0])
    corners = [(2.0, 0.9), (2.0, -0.9), (-2.0, -0.9), (-2.0, 0.9)]
    body = " ".join(
        f"{at[0] + 26 * (a * ahead[0] + b * side[0]):.1f},{at[1] + 26 * (a * ahead[1] + b * side[1]):.1f}"
        for a, b in corners
    )
    arc = (at[0] + 95 * ahead[0], at[1] + 95 * ahead[1])
    return svg(
        560,
        380,
        [
            f'<polygon points="{body}" fill="{PALE}"/>',
            arrow(origin, (530.0, origin[1]), RED, "E"),
            arrow(origin, (origin[0], 40.0), GREEN, "N"),
            f'<circle cx="{origin[0]}" cy="{origin[1]}" r="5" fill="{BLUE}"/>',
            text((origin[0] - 12, origin[1] + 28), "world: first fix; up is towards you", INK),
            line(origin, at, INK, 1, "4 4"),
            text((150.0, 250.0), "position_m", INK),
            line(at, (at[0] + 130, at[1]), INK, 1, "3 3"),
            arrow(at, (at[0] + 130 * ahead[0], at[1] + 130 * ahead[1]), RED, "x"),
            arrow(at, (at[0] + 80 * side[0], at[1] + 80 * side[1]), GREEN, "y"),
            (
                f'<path d="M {at[0] + 95} {at[1]} A 95 95 0 0 0 {arc[0]:.1f} {arc[1]:.1f}" fill="none"'
                f' stroke="{INK}" stroke-width="1.5"/>'
            ),
            text((at[0] + 102, at[1] - 26), "yaw", INK),
        ],
    )


def picture() -> str:
    """A picture: where pixels are counted from, and what a 2-D box is."""
    left, top, right, bottom = 70.0, 60.0, 530.0, 320.0
    box = (260.0, 130.0, 430.0, 250.0)
    middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    return svg(
        600,
        370,
        [
            f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="#eceff1"/>',
            arrow((left, top), (right + 30, top), RED, "x"),
            arrow((left, top), (left, bottom + 25), GREEN, "y"),
            text((left - 4, top - 30), "0, 0 of box2d, of NCore: the corner of the first pixel"),
            f'<rect x="{left}" y="{top}" width="26" height="26" fill="#ffffff" stroke="{INK}"/>',
            f'<circle cx="{left + 13}" cy="{top + 13}" r="3" fill="{INK}"/>',
            text((left + 34, top + 22), "0, 0 of ROS (CameraInfo): its centre, so 0.5 less"),
            (
                f'<rect x="{box[0]}" y="{box[1]}" width="{box[2] - box[0]}" height="{box[3] - box[1]}"'
                f' fill="none" stroke="{BLUE}" stroke-width="2.5"/>'
            ),
            f'<circle cx="{middle[0]}" cy="{middle[1]}" r="4" fill="{BLUE}"/>',
            text((middle[0], middle[1] - 12), "xc, yc", BLUE, "middle"),
            text((middle[0], box[3] + 20), "box2d = [xc, yc, width, height], 0 to 1", BLUE, "middle"),
            text((box[0] - 8, box[1] + 6), "NCore: left, top", INK, "end"),
        ],
    )


def alignment() -> str:
    """Which messages a sample takes: the nearest ones within the tolerance, a cube once."""
    left, right, top, row, ms = 130.0, 730.0, 70.0, 46.0, 1.15
    frames = [30.0 + 66.7 * number for number in range(8)]
    topics: list[tuple[str, list[float], int]] = [
        ("camera", frames, 3),
        ("lidar", [18.0 + 100 * number for number in range(6)], 2),
        ("radar", [9.0 + 55.0 * number for number in range(10)], 4),
        ("radar cube", [62.0, 312.0], 1),
        ("model", frames[1::2], 1),
    ]
    x = left + ms * frames[3]
    parts = [
        text((left, 30.0), "a selected frame, and what its sample takes", INK, weight="bold"),
        (
            f'<rect x="{x - 50 * ms:.1f}" y="{top - 22:.1f}" width="{100 * ms:.1f}"'
            f' height="{row * 4 + 42:.1f}" fill="{PALE}" opacity="0.5"/>'
        ),
        text((x, top + row * 4 + 44), "± 50 ms; cube: ± 250 ms; model: the same frame", INK, "middle"),
        line((x, top - 22), (x, top + row * 4 + 20), BLUE, 1.5, "4 3"),
    ]
    for number, (name, times, taken) in enumerate(topics):
        y = top + row * number
        parts += [text((left - 16, y + 5), name, INK, "end"), line((left, y), (right, y), PALE, 1.5)]
        parts.append(line((left + ms * times[taken], y), (x, y), BLUE, 3))
        for index, at_ms in enumerate(times):
            colour, radius = (BLUE, 7) if index == taken else (INK, 4)
            parts.append(f'<circle cx="{left + ms * at_ms:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')
    return svg(760, 330, parts)


def clocks() -> str:
    """Receive − stamp of topics with two clocks: each at its latency above the offset of its clock."""
    left, right, own, other = 40.0, 560.0, 320.0, 150.0
    places: list[tuple[str, float, float, str]] = [
        ("camera: latency 25 ms", own, 25.0, GREEN),
        ("gps: 120 ms", own, 74.0, GREEN),
        ("imu: 3 ms", other, 8.0, RED),
        ("lidar: 60 ms", other, 48.0, RED),
    ]
    parts = [
        text((left - 20, 30.0), "receive − stamp", INK, weight="bold"),
        arrow((left, own + 30), (left, 50.0), INK),
        arrow((left, own + 30), (right + 20, own + 30), INK),
        text((right + 28, own + 35), "time"),
        line((left, own), (right, own), INK, 2, "6 4"),
        text((right + 8, own + 5), "0: the recording's clock", INK),
        line((left, other), (right, other), INK, 2, "6 4"),
        text((right + 8, other + 9), "offset of the other clock, ± 2 ms", INK),
        text((left + 20, own - 108), "… 1,777,625,862 s apart …", INK),
    ]
    for name, zero, latency, colour in places:
        for number in range(24):
            late = 16.0 * ((number * number * 7 + int(latency)) % 23 / 22) ** 4
            x, y = left + 14 + 22.0 * number, zero - latency - late
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        parts.append(text((right + 8, zero - latency + (4 if latency > 20 else -4)), name, colour))
    return svg(800, 380, parts)


DRAWINGS = {
    "rig.svg": rig,
    "world.svg": world,
    "picture.svg": picture,
    "alignment.svg": alignment,
    "clocks.svg": clocks,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
