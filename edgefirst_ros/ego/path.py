"""The path through the graph's nodes: rows every 50 ms, and poses at any time between them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats, Quaternion, Series, Vector, quaternion, rot3
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.inertia import Segment

Number = TypeVar("Number", float, Floats)
COLUMNS = 18
"""Position, velocity, rotation (x, y, z, w), sigmas (6), whether it turns, whether it begins again."""
DECIMALS = 6, 8
"""Of metres and of quaternions: no sigma is as small, and the last digits differ between processors."""
SPEED_DECIMALS = 3
"""Of m/s: no estimate is as good."""


@dataclass(frozen=True, slots=True)
class Point:
    """The estimate at one time: ENU metres, rotation of the rig, and their standard deviations."""

    position_m: Vector
    speed_m_s: float
    """Horizontal."""
    position_sigma_m: Vector
    rotation_xyzw: Quaternion
    rotation_sigma_rad: Vector
    turns: bool
    """Whether angular rates were measured then."""


def rows_of(nodes: Sequence[Node], sigmas: Floats) -> tuple[list[int], Floats]:
    """Times and rows (n, 18) of nodes, and between them from what the IMU measured.

    Args:
        nodes: consecutive ones.
        sigmas: of theirs (n, 6).
    """
    table = np.zeros((len(nodes), COLUMNS))
    turned = [node.pose.rotation() for node in nodes]
    for row, node, turn in zip(table, nodes, turned, strict=True):
        row[0:3], row[3:6], row[6:10] = node.pose.translation(), node.velocity_m_s, quaternion(turn)
        row[16:] = node.segment is not None and node.segment.turns, node.segment is None
    table[:, 10:16] = sigmas
    table[0, 16] = table[min(1, len(table) - 1), 16]
    times, rows = [nodes[0].time_ns], [table[0]]
    for index, node in enumerate(nodes[1:]):
        if node.segment is not None:
            inner = _between(table[index], table[index + 1], node.segment, turned[index], turned[index + 1])
            for at_s, row in inner:
                times.append(nodes[index].time_ns + round(at_s * 1e9))
                rows.append(row)
        times.append(node.time_ns)
        rows.append(table[index + 1])
    found = np.array(rows)
    found[:, :6] = np.round(found[:, :6], DECIMALS[0])
    found[:, 6:10] = np.round(found[:, 6:10], DECIMALS[1])
    return times, found


def _between(
    start: Floats, end: Floats, segment: Segment, turned: gtsam.Rot3, turned_then: gtsam.Rot3
) -> Iterator[tuple[float, Floats]]:
    """Seconds and rows between two: what was measured, bent and turned evenly so that it ends at the second.

    A constant acceleration, as of gravity or by a bias, is a part of the cubic that bends it.
    """
    axes, dt, whole = turned.matrix(), segment.dt_s, segment.measured
    off = gtsam.Rot3.Logmap(turned.compose(whole.deltaRij()).between(turned_then))
    slope: Floats = start[3:6] * dt
    last_slope: Floats = (end[3:6] - axes @ whole.deltaVij()) * dt
    last: Floats = end[:3] - axes @ whole.deltaPij()
    for at_s, state in segment.inner:
        s = at_s / dt
        bend, bending = _cubic(start[:3], slope, last, last_slope, s)
        row = (1 - s) * start + s * end
        row[0:3], row[3:6] = axes @ state.position() + bend, axes @ state.velocity() + bending / dt
        row[6:10] = quaternion(turned.compose(state.attitude()).compose(gtsam.Rot3.Expmap(off * s)))
        row[16:] = 1.0, 0.0
        yield at_s, row


class Path:
    """Rows in order of time, interpolated by cubics through velocities.

    Attributes:
        series: the rows.
    """

    def __init__(self) -> None:
        self.series = Series(COLUMNS)

    def replace(self, times_ns: Sequence[int], rows: Floats) -> None:
        """Append rows, in place of those from the first of them on."""
        self.series.cut(times_ns[0])
        self.series.extend(times_ns, rows)

    def at(self, time_ns: int) -> Point | None:
        """The estimate at a time; None if the path is empty."""
        times_ns = self.series.times_ns
        if not times_ns:
            return None
        after = bisect_right(times_ns, time_ns)
        first = max(after - 1, 0)
        rows = self.series.part(first, first + 2).tolist()
        start, end = rows[0], rows[-1]
        dt = (time_ns - times_ns[first]) / 1e9
        # Where the estimate begins again it is extrapolated from before that, too.
        if 0 < after < len(times_ns) and dt > 0 and not end[17]:
            h = (times_ns[after] - times_ns[first]) / 1e9
            s = dt / h
            # Numbers, as numpy takes long over three of them.
            moves = [_cubic(start[n], start[n + 3] * h, end[n], end[n + 3] * h, s) for n in range(3)]
            position, speed_m_s = [place for place, _ in moves], math.hypot(moves[0][1], moves[1][1]) / h
            rotation, turns = rot3(start[6:10]).slerp(s, rot3(end[6:10])), bool(end[16])
            sigma = [(1 - s) * a + s * b for a, b in zip(start[10:16], end[10:16], strict=True)]
        else:
            # The velocity is constant, with noise of the acceleration of 2 m/s²/√Hz.
            far_m = 2.0 * math.sqrt(abs(dt) ** 3 / 3)
            position, speed_m_s = [start[n] + start[n + 3] * dt for n in range(3)], math.hypot(*start[3:5])
            rotation, turns = rot3(start[6:10]), bool(start[16]) and abs(dt) < 0.1
            sigma = [*(math.hypot(each, far_m) for each in start[10:13]), *start[13:16]]
        x, y, z = (round(value, DECIMALS[0]) for value in position)
        a, b, c, d, e, f = sigma
        speed_m_s = round(speed_m_s, SPEED_DECIMALS)
        return Point((x, y, z), speed_m_s, (a, b, c), quaternion(rotation), (d, e, f), turns)


def _cubic(
    start: Number, start_slope: Number, end: Number, end_slope: Number, s: float
) -> tuple[Number, Number]:
    """Hermite's cubic at s from 0 to 1, and its slope."""
    rest, bend = 1 - s, 6 * s * (end - start)
    value = (1 + 2 * s) * rest * rest * start + s * s * (3 - 2 * s) * end
    value += s * rest * (rest * start_slope - s * end_slope)
    return value, rest * (bend + (1 - 3 * s) * start_slope) + s * (3 * s - 2) * end_slope
