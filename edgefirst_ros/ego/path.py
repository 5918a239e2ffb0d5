"""The path through the graph's nodes: rows every 50 ms, and poses at any time between them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.ego.geometry import (
    Floats,
    Quaternion,
    Vector,
    exponential,
    logarithm,
    matrix,
    quaternion,
)
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.rows import Rows

BLIND_M_S2 = 2.0
"""Beyond the ends the velocity is constant, with this noise of the acceleration, m/s²/√Hz."""
COLUMNS = 21
"""Position, velocity, rotation (x, y, z, w), rates, sigmas (6), whether it turns, whether it begins again."""
DECIMALS = 6, 8
"""Of metres and of quaternions: no sigma is as small, and the last digits differ between processors."""


@dataclass(frozen=True, slots=True)
class Point:
    """The estimate at one time: ENU metres, rotation of the rig, and their standard deviations."""

    position_m: Vector
    position_sigma_m: Vector
    rotation_xyzw: Quaternion
    rotation_sigma_rad: Vector
    turns: bool
    """Whether angular rates were measured then."""


def rows_of(
    nodes: Sequence[Node], sigmas: Floats, norths_rad: Floats, gravity_m_s2: float
) -> tuple[list[int], Floats]:
    """Times and rows (n, 21) of nodes, and between them from what the IMU measured.

    Args:
        nodes: consecutive ones.
        sigmas: of theirs (n, 6).
        norths_rad: by how much the AHRS's north is turned to the left there (n,): the rotation is given as if
            it were right, so that nothing jumps where the AHRS falls silent, and its error is in the sigma.
        gravity_m_s2: downwards.
    """
    times: list[int] = []
    rows: list[Floats] = []
    gravity = np.array((0.0, 0.0, -gravity_m_s2))
    before: Node | None = None
    ups = np.array([node.pose.rotation().matrix()[2] for node in nodes]).reshape(-1, 3)
    sigmas = np.hypot(sigmas, np.concatenate([np.zeros_like(ups), ups * norths_rad[:, None]], axis=1))
    for index, node in enumerate(nodes):
        segment = node.segment
        inner = segment is not None and len(segment.rows) and before is not None and not node.begins_again
        if inner and segment is not None and before is not None:
            share = (segment.rows[:, 0] / segment.dt_s)[:, None]
            north_rad = (1 - share[:, 0]) * norths_rad[index - 1] + share[:, 0] * norths_rad[index]
            found = _between(before, node, segment.rows, north_rad, gravity)
            found[:, 13:19] = (1 - share) * sigmas[index - 1] + share * sigmas[index]
            times += (before.time_ns + np.round(segment.rows[:, 0] * 1e9).astype(np.int64)).tolist()
            rows.append(found)
        row = np.empty((1, COLUMNS))
        row[0, 0:3], row[0, 3:6] = node.pose.translation(), node.velocity_m_s
        row[0, 6:10] = quaternion(_north(norths_rad[index]) @ node.pose.rotation().matrix())
        turns = segment is not None and segment.turns
        row[0, 10:13] = segment.rate_rad_s - node.bias.gyroscope() if segment is not None and turns else 0.0
        row[0, 13:19] = sigmas[index]
        row[0, 19], row[0, 20] = turns, node.begins_again
        times.append(node.time_ns)
        rows.append(row)
        before = node
    if len(times) > 1 and rows[0][0, 19] == 0:
        rows[0][0, 19], rows[0][0, 10:13] = rows[1][0, 19], rows[1][0, 10:13]
    table = np.vstack(rows) if rows else np.empty((0, COLUMNS))
    table[:, :6] = np.round(table[:, :6], DECIMALS[0])
    table[:, 6:10] = np.round(np.where(table[:, 9:10] < 0, -table[:, 6:10], table[:, 6:10]), DECIMALS[1])
    return times, table


def _north(turned_rad: float) -> Floats:
    return exponential(np.array((0.0, 0.0, -turned_rad)))


def _between(before: Node, node: Node, rows: Floats, norths_rad: Floats, gravity: Floats) -> Floats:
    """Rows between two nodes: integrated from the first, and bent so that they end at the second."""
    segment = node.segment
    if segment is None:
        raise ValueError("a node between two has a segment")
    bias = before.bias
    whole_s = segment.dt_s
    end = segment.measured
    at_s = np.append(rows[:, 0], whole_s)
    velocity = np.vstack([rows[:, 5:8], end.deltaVij()])
    place = np.vstack([rows[:, 8:11], end.deltaPij()])
    start = before.pose.rotation().matrix()
    t = at_s[:, None]
    force = bias.accelerometer()
    velocity = before.velocity_m_s + gravity * t + (velocity - force * t) @ start.T
    place = (
        before.pose.translation()
        + before.velocity_m_s * t
        + 0.5 * gravity * t * t
        + (place - 0.5 * force * t * t) @ start.T
    )
    off_v, off_p = node.velocity_m_s - velocity[-1], node.pose.translation() - place[-1]
    s = t / whole_s
    made = np.zeros((len(rows), COLUMNS))
    made[:, 0:3] = (place + off_p * (3 * s * s - 2 * s**3) + off_v * whole_s * (s**3 - s * s))[:-1]
    made[:, 3:6] = (velocity + off_p * (6 * s - 6 * s * s) / whole_s + off_v * (3 * s * s - 2 * s))[:-1]
    turn_bias = bias.gyroscope()
    last = start @ end.deltaRij().matrix() @ exponential(-turn_bias * whole_s)
    off_r = logarithm(last.T @ node.pose.rotation().matrix())
    inner = zip(made, rows[:, 1:5].tolist(), rows[:, 0].tolist(), norths_rad.tolist(), strict=True)
    for row, (x, y, z, w), elapsed, north in inner:
        turned = start @ matrix((x, y, z, w)) @ exponential(off_r * (elapsed / whole_s) - turn_bias * elapsed)
        row[6:10] = quaternion(_north(north) @ turned if north else turned)
    made[:, 10:13] = np.nan
    made[:, 19] = 1.0
    return made


class SmoothedPath:
    """Rows in order of time, interpolated by cubics through velocities."""

    def __init__(self) -> None:
        self.times: array[int] = array("q")
        self._rows = Rows(COLUMNS)
        self._tail_ns: list[int] = []
        self._tail = np.empty((0, COLUMNS))

    def append(self, times: Sequence[int], rows: Floats) -> None:
        """Append rows, which stay; those of times that are there already are left out."""
        first = bisect_right(times, self.times[-1]) if self.times else 0
        self.times.extend(times[first:])
        self._rows.extend(rows[first:].ravel().tolist())

    def settle(self, until_ns: int) -> None:
        """Let the last rows up to a time stay."""
        count = bisect_right(self._tail_ns, until_ns)
        self.append(self._tail_ns[:count], self._tail[:count])
        self._tail_ns, self._tail = self._tail_ns[count:], self._tail[count:]

    def end_with(self, times: Sequence[int], rows: Floats) -> None:
        """Rows after those that stay, in place of the last such ones."""
        first = bisect_right(times, self.times[-1]) if self.times else 0
        self._tail_ns, self._tail = list(times[first:]), rows[first:]

    def forget(self, before_ns: int) -> None:
        """Drop rows that times from ``before_ns`` on do not need."""
        useless = bisect_right(self.times, before_ns) - 1
        if useless > max(1000, len(self.times) // 2):
            kept = self._rows.part(useless, len(self.times))
            self.times, self._rows = self.times[useless:], Rows(COLUMNS)
            self._rows.extend(kept.ravel().tolist())

    def __len__(self) -> int:
        return len(self.times) + len(self._tail_ns)

    def at(self, time_ns: int) -> Point | None:
        """The estimate at a time; None if the path is empty."""
        if not len(self):
            return None
        after = bisect_right(self.times, time_ns)
        if after == len(self.times):
            after += bisect_right(self._tail_ns, time_ns)
        if after == 0:
            return self._beyond(0, time_ns)
        start_ns = self._time(after - 1)
        if after == len(self) or start_ns == time_ns:
            return self._beyond(after - 1, time_ns)
        start, end = self._row(after - 1), self._row(after)
        if end[20]:
            # The estimate begins again there: extrapolate from before it.
            return self._beyond(after - 1, time_ns)
        h = (self._time(after) - start_ns) / 1e9
        s = (time_ns - start_ns) / 1e9 / h
        position = _cubic(start[0:3], start[3:6] * h, end[0:3], end[3:6] * h, s)
        first = _matrix(start)
        turned = logarithm(first.T @ _matrix(end)) * s
        sigma = (1 - s) * start[13:19] + s * end[13:19]
        return _point(position, first @ exponential(turned), sigma, bool(end[19]))

    def _beyond(self, index: int, time_ns: int) -> Point:
        values = self._row(index)
        dt = (time_ns - self._time(index)) / 1e9
        sigma = values[13:19].copy()
        sigma[:3] = np.hypot(sigma[:3], BLIND_M_S2 * math.sqrt(abs(dt) ** 3 / 3))
        turns = bool(values[19]) and abs(dt) < 0.1
        rotation = _matrix(values)
        if turns and dt and not math.isnan(values[10]):
            rotation = rotation @ exponential(values[10:13] * dt)
        return _point(values[0:3] + values[3:6] * dt, rotation, sigma, turns)

    def _time(self, index: int) -> int:
        return self.times[index] if index < len(self.times) else self._tail_ns[index - len(self.times)]

    def _row(self, index: int) -> Floats:
        if index < len(self.times):
            return self._rows.row(index)
        row: Floats = self._tail[index - len(self.times)]
        return row


def _matrix(values: Floats) -> Floats:
    x, y, z, w = values[6:10].tolist()
    return matrix((x, y, z, w))


def _cubic(start: Floats, start_slope: Floats, end: Floats, end_slope: Floats, s: float) -> Floats:
    """Hermite's cubic at s from 0 to 1."""
    rest = 1 - s
    return (
        (1 + 2 * s) * rest * rest * start
        + s * rest * rest * start_slope
        + s * s * (3 - 2 * s) * end
        - s * s * rest * end_slope
    )


def _point(position: Floats, rotation: Floats, sigma: Floats, turns: bool) -> Point:
    a, b, c, d, e, f = sigma.tolist()
    x, y, z = (round(value, DECIMALS[0]) for value in position.tolist())
    return Point((x, y, z), (a, b, c), quaternion(rotation), (d, e, f), turns)
