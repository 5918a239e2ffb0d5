"""Which satellite fixes are believed, and the forward pass over steps and fixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgefirst_ros.ego.filter import Filter, FilterStart, Noise
from edgefirst_ros.ego.inertia import ImuStep
from edgefirst_ros.ego.state import FORCE, PLACE, SIZE, SPEED, TURN, Floats, Node
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

EPOCH_NS = 75_000_000
"""A fix that follows an accepted one by less than this is of the same epoch.

Receivers send an epoch twice, about 40 ms apart. Epochs of 10 Hz and less are at least 100 ms apart, so
times tell them apart with room for jitter on both sides; positions do not, because a parked car has the
same one at every epoch. A receiver faster than 13 Hz is thinned.
"""
SAME_M = 10.0
"""Messages of one epoch further apart than this contradict each other."""

NO_FIX = "no fix (status)"
NOT_FINITE = "not finite"
ZERO = "0,0"
OUT_OF_RANGE = "out of range"
DUPLICATE = "duplicate epoch"
OUTLIER = "outlier (contradicts the motion)"

_LOWEST_M, _HIGHEST_M = -12_000.0, 100_000.0

SIGMAS = 6.0
LEAST_OFF_M = 5.0
"""A fix nearer than this is never refused, but it may weigh less."""
CLIP = 3.0
FIRST_SIGMA_M = 0.5
FLOOR_M = 0.02
CEILING_M = 10.0
MEMORY = 30.0
"""The noise is learnt from about this many recent fixes."""
FASTEST_M_S = 100.0
SLACK_M = 8.0
RECOVER, RECOVER_NS, RECOVER_LOST_NS = 3, 5_000_000_000, 1_000_000_000
"""This many refused fixes over this time that agree disprove the motion; the last applies after a gap."""
DOUBT_TILT_RAD, DOUBT_HEADING_RAD = math.radians(3), math.radians(10)
"""Uncertainty added to the attitude, which a wrong motion has affected, too."""
AGREE_M, AGREE_SHARE, AGREE_M_S2 = 2.0, 0.25, 5.0

_REACH_NS = 10_000_000_000

_JACOBIAN = np.zeros((3, SIZE))
_JACOBIAN[:, PLACE] = np.eye(3)


class FixJudge:
    """Rejects fixes without a valid position; remembers the last altitude."""

    def __init__(self) -> None:
        self._altitude_m = math.nan

    def judge(self, fix: NavSatFix) -> GeoPoint | str:
        """The position of a valid fix, or the reason why it is refused.

        A fix without an altitude, which drivers send as NaN, takes the last one; the first fix needs its own.
        """
        altitude_m = self._altitude_m if math.isnan(fix.altitude_m) else fix.altitude_m
        if fix.status < 0:
            return NO_FIX
        if not all(map(math.isfinite, (fix.latitude_deg, fix.longitude_deg, altitude_m))):
            return NOT_FINITE
        if fix.latitude_deg == fix.longitude_deg == 0:
            return ZERO
        if (
            abs(fix.latitude_deg) > 90
            or abs(fix.longitude_deg) > 180
            or not _LOWEST_M <= altitude_m <= _HIGHEST_M
        ):
            return OUT_OF_RANGE
        self._altitude_m = altitude_m
        return GeoPoint(fix.latitude_deg, fix.longitude_deg, altitude_m)


@dataclass(frozen=True, slots=True)
class LocalFix:
    """A fix in the local frame: ENU metres (3,), and its standard deviations (3,) if it has any."""

    time_ns: int
    position_m: Floats
    sigma_m: Floats | None = None


@dataclass(slots=True)
class Gate:
    """Accepts or refuses each fix by the filter's prediction for its time.

    Attributes:
        max_gap_ns: after this time without a fix it takes less to disprove the motion.
        fixed_m: standard deviation of fixes that have none; 0 means that it is learnt.
        accepted_ns: time of the latest accepted fix.
        worst_m: largest error of a refused fix, horizontal or in height,
        worst_m_s: and the speed to which it would correspond.
        restarts: how often fixes disproved the motion.
        off: error of the latest fix in standard deviations.
    """

    max_gap_ns: int
    fixed_m: float = 0.0
    accepted_ns: int | None = None
    worst_m: float = 0.0
    worst_m_s: float = 0.0
    restarts: int = 0
    off: float = 0.0
    _believed: int = 0
    _level_m2: float = FIRST_SIGMA_M**2
    _height_m2: float = (2 * FIRST_SIGMA_M) ** 2
    _refused: list[tuple[LocalFix, Floats]] = field(default_factory=list)

    def take(self, motion: Filter, place: LocalFix) -> bool:
        """Update the filter by a fix, weighted by how well it fits; False if it is refused."""
        node = motion.node
        residual = place.position_m - node.state.position_m
        variance = self._variance(place)
        spread = node.covariance[PLACE, PLACE]
        off_m = math.hypot(residual[0], residual[1])
        level = SIGMAS * math.sqrt(float(max(spread[0, 0] + variance[0], spread[1, 1] + variance[1])))
        height = SIGMAS * math.sqrt(float(spread[2, 2] + variance[2]))
        self.off = SIGMAS * off_m / level
        too_far = off_m > max(LEAST_OFF_M, level)
        too_high = abs(residual[2]) > max(3 * LEAST_OFF_M, height)
        if (too_far or too_high) and not self._recovers(motion, place):
            self._note(place, off_m if too_far else abs(float(residual[2])))
            return False
        if too_far or too_high:
            self._restart(motion, place, variance)
        else:
            motion.update(_JACOBIAN, residual, variance, clip=CLIP)
            if place.sigma_m is None and not self.fixed_m:
                self._learn(motion, place, spread)
        self.accepted_ns = place.time_ns
        self._believed += 1
        self._refused = []
        return True

    def _variance(self, place: LocalFix) -> Floats:
        if place.sigma_m is not None:
            return np.maximum(place.sigma_m, FLOOR_M) ** 2
        if self.fixed_m:
            return np.array((1.0, 1.0, 4.0)) * self.fixed_m**2
        return np.array((self._level_m2, self._level_m2, self._height_m2))

    def _learn(self, motion: Filter, place: LocalFix, before: Floats) -> None:
        """Learn the noise from what differs after the update, plus the filter's own uncertainty."""
        node = motion.node
        left = place.position_m - node.state.position_m
        spread = np.diagonal(node.covariance)[PLACE]
        if max(before[0, 0], before[1, 1]) > 25 * self._level_m2 + 1.0:
            return  # the position was too uncertain to compare with
        bound = 9.0
        level = 0.5 * float(left[0] ** 2 + left[1] ** 2 + spread[0] + spread[1])
        height = float(left[2] ** 2 + spread[2])
        share = 1 / MEMORY
        self._level_m2 += share * (min(level, bound * self._level_m2) - self._level_m2)
        self._height_m2 += share * (min(height, bound * self._height_m2) - self._height_m2)
        self._level_m2 = min(max(self._level_m2, FLOOR_M**2), CEILING_M**2)
        self._height_m2 = min(max(self._height_m2, FLOOR_M**2), CEILING_M**2)

    def _recovers(self, motion: Filter, place: LocalFix) -> bool:
        """Whether this fix and those refused before it agree on another position than the filter's."""
        predicted = motion.node.state.position_m
        if self._refused and not self._agrees(place, predicted):
            self._refused = []
        self._refused.append((place, predicted))
        span_ns = place.time_ns - self._refused[0][0].time_ns
        lost = self.accepted_ns is None or self._refused[0][0].time_ns - self.accepted_ns > self.max_gap_ns
        if len(self._refused) > self._believed:
            return True  # more fixes contradict the motion than support it
        return len(self._refused) >= RECOVER and span_ns >= (RECOVER_LOST_NS if lost else RECOVER_NS)

    def _agrees(self, place: LocalFix, predicted: Floats) -> bool:
        """Whether it moved from the last refused fix as the filter did, or as fast as the refused ones."""
        last, last_predicted = self._refused[-1]
        dt_s = (place.time_ns - last.time_ns) / 1e9
        moved, expected = place.position_m - last.position_m, predicted - last_predicted
        if math.hypot(*(moved - expected)) <= AGREE_M + AGREE_SHARE * math.hypot(*expected):
            return True
        if len(self._refused) < 2:
            return math.hypot(*moved) <= SLACK_M + FASTEST_M_S * dt_s
        before = self._refused[-2][0]
        velocity = (last.position_m - before.position_m) / ((last.time_ns - before.time_ns) / 1e9)
        return math.hypot(*(moved - velocity * dt_s)) <= AGREE_M + AGREE_M_S2 * dt_s * dt_s

    def _restart(self, motion: Filter, place: LocalFix, variance: Floats) -> None:
        """Take position and velocity from the refused fixes; keep the rest, but less certain."""
        self.restarts += 1
        self._believed = len(self._refused)
        first = self._refused[0][0]
        node = motion.node
        velocity = (place.position_m - first.position_m) / ((place.time_ns - first.time_ns) / 1e9)
        kept = node.covariance.copy()
        for block in (SPEED, PLACE, FORCE):
            kept[block] = kept[:, block] = 0.0
        kept[TURN, TURN] += np.diag(np.square((DOUBT_TILT_RAD, DOUBT_TILT_RAD, DOUBT_HEADING_RAD)))
        kept[SPEED, SPEED] = np.eye(3) * 4.0
        kept[PLACE, PLACE] = np.diag(variance)
        kept[FORCE, FORCE] = np.eye(3) * motion.noise.force_bias**2
        node.state.velocity_m_s, node.state.position_m = velocity, place.position_m
        node.state.force_m_s2 = np.zeros(3)
        node.covariance, node.transition, node.updates = kept, None, []

    def _note(self, place: LocalFix, off_m: float) -> None:
        if off_m <= self.worst_m:
            return
        self.worst_m = off_m
        since_ns = None if self.accepted_ns is None else place.time_ns - self.accepted_ns
        self.worst_m_s = off_m / (since_ns / 1e9) if since_ns else math.nan


def drivable(times_ns: Sequence[int], places_m: Floats, epoch_ns: int) -> list[bool]:
    """Which fixes form the longest chain that a vehicle could have driven, one in each epoch.

    Args:
        times_ns: in ascending order.
        places_m: earth-centred positions (N, 3).
        epoch_ns: fixes closer in time than this are of one epoch.
    """
    count = len(times_ns)
    times = np.array(times_ns, np.int64)
    length, before = np.ones(count, np.int64), np.full(count, -1, np.int64)
    start = 0
    best_old = -1
    for i in range(1, count):
        while times[i] - times[start] > _REACH_NS:
            if best_old < 0 or length[start] >= length[best_old]:
                best_old = start
            start += 1
        near = slice(start, i)
        apart_ns = times[i] - times[near]
        far_m = np.linalg.norm(places_m[near] - places_m[i], axis=1)
        fits = (apart_ns >= epoch_ns) & (far_m <= SLACK_M + FASTEST_M_S * apart_ns / 1e9)
        lengths = np.where(fits, length[near], 0)
        # Of several longest chains extend the one that ends last, so that there is no needless gap.
        at = len(lengths) - 1 - int(np.argmax(lengths[::-1])) if len(lengths) else -1
        if at >= 0 and lengths[at] > 0:
            length[i], before[i] = lengths[at] + 1, start + at
        if best_old >= 0 and length[best_old] >= length[i]:
            far = float(np.linalg.norm(places_m[best_old] - places_m[i]))
            if far <= SLACK_M + FASTEST_M_S * float(times[i] - times[best_old]) / 1e9:
                length[i], before[i] = length[best_old] + 1, best_old
    chosen = [False] * count
    at = count - 1 - int(np.argmax(length[::-1])) if count else -1
    while at >= 0:
        chosen[at] = True
        at = int(before[at])
    return chosen


@dataclass(frozen=True, slots=True)
class Vehicle:
    """What the configuration says of the vehicle and its receiver.

    Attributes:
        rolls: it moves only where it points, neither sideways nor up.
        max_gap_ns: after this time without a fix it takes less to disprove the motion.
        fix_sigma_m: standard deviation of fixes that have none; 0 means that it is learnt.
    """

    rolls: bool = True
    max_gap_ns: int = 5_000_000_000
    fix_sigma_m: float = 0.0


class Forward:
    """The filter with its gate, for one pass over steps and fixes."""

    def __init__(self, gravity_m_s2: float, vehicle: Vehicle) -> None:
        self.filter = Filter(gravity_m_s2, Noise())
        self.gate = Gate(vehicle.max_gap_ns, fixed_m=vehicle.fix_sigma_m)

    def begin(self, step: ImuStep, start: FilterStart) -> Node:
        """The first node, at the end of a step."""
        return self.filter.begin(step, start)

    def advance(self, step: ImuStep, place: LocalFix | None) -> tuple[Node, bool]:
        """The node after a step, and whether the fix at its end, if any, is accepted."""
        node = self.filter.predict(step)
        believed = place is not None and self.gate.take(self.filter, place)
        self.filter.constrain(step)
        return node, believed
