"""The path through the graph's nodes: rows every 50 ms, and poses at any time between them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import gtsam
import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.geometry import Floats, Quaternion, Series, Vector, quaternion, rot3
from edgefirst_ros.ego.graph import Node

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
    table = np.zeros((len(nodes), COLUMNS))
    turns = [node.pose.rotation() for node in nodes]
    ups = np.array([turn.matrix()[2] for turn in turns]).reshape(-1, 3)
    for row, node, turn, north in zip(table, nodes, turns, norths_rad.tolist(), strict=True):
        row[0:3], row[3:6] = node.pose.translation(), node.velocity_m_s
        row[6:10] = quaternion(gtsam.Rot3.Rz(-north).compose(turn))
        if node.segment is not None and node.segment.turns:
            row[10:13], row[19] = node.segment.rate_rad_s - node.bias.gyroscope(), 1
        row[20] = node.begins_again
    table[:, 13:16] = sigmas[:, :3]
    table[:, 16:19] = np.hypot(sigmas[:, 3:], ups * norths_rad[:, None])
    if len(table) > 1 and table[0, 19] == 0:
        table[0, 19], table[0, 10:13] = table[1, 19], table[1, 10:13]
    times, inner = _between(nodes, table, norths_rad, gravity_m_s2)
    times = np.concatenate([[node.time_ns for node in nodes], times]).astype(np.int64)
    rows = np.concatenate([table, inner])
    rows[:, :6] = np.round(rows[:, :6], DECIMALS[0])
    rows[:, 6:10] = np.round(rows[:, 6:10], DECIMALS[1])
    order = np.argsort(times, kind="stable")
    return times[order].tolist(), rows[order]


def _between(
    nodes: Sequence[Node], table: Floats, norths_rad: Floats, gravity_m_s2: float
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Times and rows between nodes: integrated from the one before, and bent so that they end at the next."""
    having = [
        (index, before, node, node.segment)
        for index, (before, node) in enumerate(pairwise(nodes))
        if node.segment is not None and len(node.segment.rows) and not node.begins_again
    ]
    if not having:
        return np.empty(0, np.int64), np.empty((0, COLUMNS))
    felt = np.concatenate([segment.rows for *_, segment in having])
    ends = np.array([(s.dt_s, *s.measured.deltaVij(), *s.measured.deltaPij()) for *_, s in having])
    axes = np.array([before.pose.rotation().matrix() for _, before, _, _ in having])
    bias = np.array([before.bias.accelerometer() for _, before, _, _ in having])
    index = np.array([index for index, *_ in having])
    start, end, gravity = table[index], table[index + 1], np.array((0.0, 0.0, -gravity_m_s2))

    def integrated(of: npt.NDArray[np.intp], moved: Floats) -> tuple[Floats, Floats]:
        t = moved[:, :1]
        velocity = start[of, 3:6] + gravity * t
        velocity += np.einsum("nij,nj->ni", axes[of], moved[:, 1:4] - bias[of] * t)
        place = start[of, 0:3] + start[of, 3:6] * t + 0.5 * gravity * t * t
        return velocity, place + np.einsum("nij,nj->ni", axes[of], moved[:, 4:] - 0.5 * bias[of] * t * t)

    velocity, place = integrated(np.arange(len(having)), ends)
    off_v, off_p = end[:, 3:6] - velocity, end[:, 0:3] - place
    of = np.repeat(np.arange(len(having)), [len(segment.rows) for *_, segment in having])
    velocity, place = integrated(of, felt)
    whole_s, off_v, off_p = ends[of, :1], off_v[of], off_p[of]
    s = felt[:, :1] / whole_s
    made = (1 - s) * start[of] + s * end[of]
    made[:, 0:3] = place + off_p * (3 * s * s - 2 * s**3) + off_v * whole_s * (s**3 - s * s)
    made[:, 3:6] = velocity + off_p * (6 * s - 6 * s * s) / whole_s + off_v * (3 * s * s - 2 * s)
    made[:, 10:13], made[:, 19], made[:, 20] = np.nan, 1.0, 0.0
    shares, rows = iter(s[:, 0].tolist()), iter(made)
    for number, before, node, segment in having:
        attitude, drift = before.pose.rotation(), before.bias.gyroscope() * segment.dt_s
        last = attitude.compose(segment.measured.deltaRij()).compose(gtsam.Rot3.Expmap(-drift))
        off = gtsam.Rot3.Logmap(last.between(node.pose.rotation())) - drift
        for turned in segment.turns_at:
            share = next(shares)
            bent = attitude.compose(turned).compose(gtsam.Rot3.Expmap(off * share))
            north = (1 - share) * norths_rad[number] + share * norths_rad[number + 1]
            next(rows)[6:10] = quaternion(gtsam.Rot3.Rz(-north).compose(bent) if north else bent)
    starts_ns = np.array([before.time_ns for _, before, _, _ in having], np.int64)
    return starts_ns[of] + np.round(felt[:, 0] * 1e9).astype(np.int64), made


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
        self.series.extend(times_ns, rows.ravel().tolist())

    def at(self, time_ns: int) -> Point | None:
        """The estimate at a time; None if the path is empty."""
        series = self.series
        if not len(series):
            return None
        after = bisect_right(series.times_ns, time_ns)
        if after == 0:
            return self._beyond(0, time_ns)
        start_ns = series.times_ns[after - 1]
        # Where the estimate begins again: extrapolate from before it.
        if after == len(series) or start_ns == time_ns or series.row(after)[20]:
            return self._beyond(after - 1, time_ns)
        start, end = series.row(after - 1), series.row(after)
        h = (series.times_ns[after] - start_ns) / 1e9
        s = (time_ns - start_ns) / 1e9 / h
        position = _cubic(start[0:3], start[3:6] * h, end[0:3], end[3:6] * h, s)
        rotation = rot3(start[6:10].tolist()).slerp(s, rot3(end[6:10].tolist()))
        sigma = (1 - s) * start[13:19] + s * end[13:19]
        return _point(position, rotation, sigma, bool(end[19]))

    def _beyond(self, index: int, time_ns: int) -> Point:
        values = self.series.row(index)
        dt = (time_ns - self.series.times_ns[index]) / 1e9
        sigma = values[13:19].copy()
        sigma[:3] = np.hypot(sigma[:3], BLIND_M_S2 * math.sqrt(abs(dt) ** 3 / 3))
        turns = bool(values[19]) and abs(dt) < 0.1
        rotation = rot3(values[6:10].tolist())
        if turns and dt and not math.isnan(values[10]):
            rotation = rotation.compose(gtsam.Rot3.Expmap(values[10:13] * dt))
        return _point(values[0:3] + values[3:6] * dt, rotation, sigma, turns)


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
