"""The path through the graph's nodes: rows every 50 ms, and poses at any time between them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats, Quaternion, Vector, quaternion, rot3
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.inertia import Segment
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
    count = len(nodes)
    table = np.zeros((count, COLUMNS))
    attitudes = [node.pose.rotation() for node in nodes]
    if not count:
        return [], table
    ups = np.array([attitude.matrix()[2] for attitude in attitudes])
    table[:, 0:3] = [node.pose.translation() for node in nodes]
    table[:, 3:6] = [node.velocity_m_s for node in nodes]
    table[:, 6:10] = [
        quaternion(gtsam.Rot3.Rz(-north).compose(attitude))
        for north, attitude in zip(norths_rad.tolist(), attitudes, strict=True)
    ]
    table[:, 13:16] = sigmas[:, :3]
    table[:, 16:19] = np.hypot(sigmas[:, 3:], ups * norths_rad[:, None])
    for row, node in zip(table, nodes, strict=True):
        if node.segment is not None and node.segment.turns:
            row[10:13], row[19] = node.segment.rate_rad_s - node.bias.gyroscope(), 1
        row[20] = node.begins_again
    times, rows = [nodes[0].time_ns], [table[:1]]
    gravity = np.array((0.0, 0.0, -gravity_m_s2))
    for index in range(1, count):
        before, node, segment = nodes[index - 1], nodes[index], nodes[index].segment
        if segment is not None and len(segment.rows) and not node.begins_again:
            inner = _between(before, node, segment, norths_rad[index - 1 : index + 1].tolist(), gravity)
            share = segment.rows[:, :1] / segment.dt_s
            inner[:, 13:19] = (1 - share) * table[index - 1, 13:19] + share * table[index, 13:19]
            times += (before.time_ns + np.round(segment.rows[:, 0] * 1e9).astype(np.int64)).tolist()
            rows.append(inner)
        times.append(node.time_ns)
        rows.append(table[index : index + 1])
    whole = np.concatenate(rows)
    if len(whole) > 1 and whole[0, 19] == 0:
        whole[0, 19], whole[0, 10:13] = whole[1, 19], whole[1, 10:13]
    whole[:, :6] = np.round(whole[:, :6], DECIMALS[0])
    whole[:, 6:10] = np.round(whole[:, 6:10], DECIMALS[1])
    return times, whole


def _between(before: Node, node: Node, segment: Segment, norths_rad: list[float], gravity: Floats) -> Floats:
    """Rows between two nodes: integrated from the first, and bent so that they end at the second."""
    whole_s, end, bias = segment.dt_s, segment.measured, before.bias
    t = np.append(segment.rows[:, 0], whole_s)[:, None]
    s = t / whole_s
    felt = np.vstack([segment.rows[:, 1:], np.concatenate([end.deltaVij(), end.deltaPij()])])
    attitude, force = before.pose.rotation(), bias.accelerometer()
    axes = attitude.matrix().T
    velocity = before.velocity_m_s + gravity * t + (felt[:, :3] - force * t) @ axes
    place = before.pose.translation() + before.velocity_m_s * t + 0.5 * gravity * t * t
    place = place + (felt[:, 3:] - 0.5 * force * t * t) @ axes
    off_v, off_p = node.velocity_m_s - velocity[-1], node.pose.translation() - place[-1]
    made = np.zeros((len(segment.rows), COLUMNS))
    made[:, 0:3] = (place + off_p * (3 * s * s - 2 * s**3) + off_v * whole_s * (s**3 - s * s))[:-1]
    made[:, 3:6] = (velocity + off_p * (6 * s - 6 * s * s) / whole_s + off_v * (3 * s * s - 2 * s))[:-1]
    drift = bias.gyroscope() * whole_s
    last = attitude.compose(end.deltaRij()).compose(gtsam.Rot3.Expmap(-drift))
    off = gtsam.Rot3.Logmap(last.between(node.pose.rotation())) - drift
    north, next_north = norths_rad
    for row, turned, share in zip(made, segment.turns_at, s[:-1, 0].tolist(), strict=True):
        bent = attitude.compose(turned).compose(gtsam.Rot3.Expmap(off * share))
        if north or next_north:
            bent = gtsam.Rot3.Rz((share - 1) * north - share * next_north).compose(bent)
        row[6:10] = quaternion(bent)
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
        rotation = rot3(start[6:10].tolist()).slerp(s, rot3(end[6:10].tolist()))
        sigma = (1 - s) * start[13:19] + s * end[13:19]
        return _point(position, rotation, sigma, bool(end[19]))

    def _beyond(self, index: int, time_ns: int) -> Point:
        values = self._row(index)
        dt = (time_ns - self._time(index)) / 1e9
        sigma = values[13:19].copy()
        sigma[:3] = np.hypot(sigma[:3], BLIND_M_S2 * math.sqrt(abs(dt) ** 3 / 3))
        turns = bool(values[19]) and abs(dt) < 0.1
        rotation = rot3(values[6:10].tolist())
        if turns and dt and not math.isnan(values[10]):
            rotation = rotation.compose(gtsam.Rot3.Expmap(values[10:13] * dt))
        return _point(values[0:3] + values[3:6] * dt, rotation, sigma, turns)

    def _time(self, index: int) -> int:
        return self.times[index] if index < len(self.times) else self._tail_ns[index - len(self.times)]

    def _row(self, index: int) -> Floats:
        if index < len(self.times):
            return self._rows.row(index)
        row: Floats = self._tail[index - len(self.times)]
        return row


def _cubic(start: Floats, start_slope: Floats, end: Floats, end_slope: Floats, s: float) -> Floats:
    """Hermite's cubic at s from 0 to 1."""
    rest = 1 - s
    return (
        (1 + 2 * s) * rest * rest * start
        + s * rest * rest * start_slope
        + s * s * (3 - 2 * s) * end
        - s * s * rest * end_slope
    )


def _point(position: Floats, rotation: gtsam.Rot3, sigma: Floats, turns: bool) -> Point:
    a, b, c, d, e, f = sigma.tolist()
    x, y, z = (round(value, DECIMALS[0]) for value in position.tolist())
    return Point((x, y, z), (a, b, c), quaternion(rotation), (d, e, f), turns)
