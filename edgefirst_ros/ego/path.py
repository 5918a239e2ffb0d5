"""The backward pass, a Rauch-Tung-Striebel smoother, and the path that it gives."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.ego.geometry import Quaternion, Vector, exponential, logarithm, matrix, quaternion
from edgefirst_ros.ego.rows import Rows
from edgefirst_ros.ego.state import NORTH, PLACE, SIZE, TURN, Floats, MotionState, Node

BLIND_M_S2 = 2.0
"""Beyond the ends the velocity is constant, with this noise of the acceleration, m/s²/√Hz."""
COLUMNS = 21

Adjoint = tuple[Floats, Floats]
"""What later measurements contribute to a node: the adjoint (18,) and its covariance (18, 18)."""


@dataclass(frozen=True, slots=True)
class Point:
    """The estimate at one time: ENU metres, rotation of the rig, and their standard deviations."""

    position_m: Vector
    position_sigma_m: Vector
    rotation_xyzw: Quaternion
    rotation_sigma_rad: Vector
    turns: bool
    """Whether angular rates were measured then."""


def _row(node: Node, state: MotionState, covariance: Floats, *, as_configured: bool) -> list[float]:
    """Position, velocity, rotation (``as_configured``: by the sensor's north), rates, sigmas of a node."""
    north = exponential(np.array((0.0, 0.0, state.north_rad))) if as_configured else np.eye(3)
    rotation = north @ state.rotation
    turning = covariance[TURN, TURN].copy()
    if as_configured:
        turning[2, 2] += covariance[NORTH, NORTH]
        turning[2] += covariance[NORTH, TURN]
        turning[:, 2] += covariance[TURN, NORTH]
    about = rotation.T @ turning @ rotation
    rate = node.rate_rad_s - state.gyro_rad_s if node.turns else np.zeros(3)
    variances = np.concatenate([np.diagonal(covariance)[PLACE], np.diagonal(about)])
    return [
        *state.position_m.tolist(),
        *state.velocity_m_s.tolist(),
        *quaternion(rotation),
        *rate.tolist(),
        *np.sqrt(np.maximum(variances, 0.0)).tolist(),
        1.0 if node.turns else 0.0,
        1.0 if node.transition is None else 0.0,
    ]


class SmoothedPath:
    """Rows in order of time, interpolated by cubics through velocities and rates."""

    def __init__(self) -> None:
        self.times: array[int] = array("q")
        self._rows = Rows(COLUMNS)
        self._shift_m = np.zeros(3)

    def append(self, times: Iterable[int], numbers: Iterable[float]) -> None:
        """Append rows of later times."""
        self.times.extend(times)
        self._rows.extend(numbers)

    def shift(self, by_m: Floats) -> None:
        """Move every position."""
        self._shift_m = self._shift_m + by_m

    def at(self, time_ns: int) -> Point | None:
        """The estimate at a time; None if the path is empty."""
        if not self.times:
            return None
        after = bisect_right(self.times, time_ns)
        if after == 0:
            return self._beyond(0, time_ns)
        if after == len(self.times) or self.times[after - 1] == time_ns:
            return self._beyond(after - 1, time_ns)
        start, end = self._values(after - 1), self._values(after)
        if end[20]:
            # The estimate restarts there: extrapolate from before it.
            return self._beyond(after - 1, time_ns)
        h = (self.times[after] - self.times[after - 1]) / 1e9
        s = (time_ns - self.times[after - 1]) / 1e9 / h
        position = _cubic(start[0:3], start[3:6] * h, end[0:3], end[3:6] * h, s)
        first, last = _matrix(start), _matrix(end)
        turn = logarithm(first.T @ last)
        if start[19] and end[19]:
            turned = _cubic(np.zeros(3), start[10:13] * h, turn, end[10:13] * h, s)
        else:
            turned = turn * s
        sigma = (1 - s) * start[13:19] + s * end[13:19]
        return _point(position, first @ exponential(turned), sigma, bool(end[19]))

    def _beyond(self, index: int, time_ns: int) -> Point:
        values = self._values(index)
        dt = (time_ns - self.times[index]) / 1e9
        sigma = values[13:19].copy()
        sigma[:3] = np.hypot(sigma[:3], BLIND_M_S2 * math.sqrt(abs(dt) ** 3 / 3))
        turns = bool(values[19]) and abs(dt) < 0.1
        rotation = _matrix(values)
        if turns:
            rotation = rotation @ exponential(values[10:13] * dt)
        return _point(values[0:3] + values[3:6] * dt, rotation, sigma, turns)

    def _values(self, index: int) -> Floats:
        values = self._rows.row(index).copy()
        values[0:3] += self._shift_m
        return values


def nothing() -> Adjoint:
    """The adjoint after the last measurement."""
    return np.zeros(SIZE), np.zeros((SIZE, SIZE))


def smooth(
    nodes: Sequence[Node], later: Adjoint | None = None
) -> Iterator[tuple[Node, MotionState, Floats, Adjoint]]:
    """Each node with its smoothed state and covariance, from the last to the first, after Bryson and Frazier.

    The fourth value is ``later`` for the nodes before these.
    """
    adjoint, weight = nothing() if later is None else later
    for node in reversed(nodes):
        covariance = node.covariance
        correction = -(covariance @ adjoint)
        smoothed = covariance - covariance @ weight @ covariance
        state = node.state.moved(correction)
        for update in reversed(node.updates):
            kept = np.eye(SIZE) - update.gain @ update.jacobian
            told = update.jacobian.T @ update.information
            adjoint = kept.T @ adjoint - told @ update.innovation
            weight = kept.T @ weight @ kept + told @ update.jacobian
        if node.transition is None:
            adjoint, weight = nothing()
        else:
            adjoint = node.transition.T @ adjoint
            weight = node.transition.T @ weight @ node.transition
            weight = 0.5 * (weight + weight.T)
        yield node, state, smoothed, (adjoint, weight)


def smoothed(
    nodes: Sequence[Node], later: Adjoint | None = None, *, as_configured: bool
) -> tuple[list[int], array[float], Adjoint]:
    """Times and rows of a path through nodes, and ``later`` for the nodes before these."""
    rows: list[list[float]] = []
    before = nothing() if later is None else later
    for node, state, covariance, known in smooth(nodes, later):
        rows.append(_row(node, state, covariance, as_configured=as_configured))
        before = known
    numbers: array[float] = array("d")
    for each in reversed(rows):
        numbers.extend(each)
    return [node.time_ns for node in nodes], numbers, before


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
    x, y, z = position.tolist()
    return Point((x, y, z), (a, b, c), quaternion(rotation), (d, e, f), turns)
