"""Satellite fixes that are refused by themselves: no position, doubled, frozen, out of reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.ego.geometry import Floats, Vector, ecef_m
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.reasons import Reason
from edgefirst_ros.sample import GeoPoint

EPOCH_NS = 75_000_000
"""A fix that follows an accepted one by less than this is of the same epoch.

Receivers send an epoch twice, about 40 ms apart. Epochs of 10 Hz and less are at least 100 ms apart, so
times tell them apart with room for jitter on both sides; positions do not, because a parked car has the
same one at every epoch. A receiver faster than 13 Hz is thinned.
"""
SAME_M = 10.0
"""Messages of one epoch further apart than this contradict each other."""


UNSURE_M = 1000.0
"""With such a standard deviation a receiver says that it does not know its place."""
_LOWEST_M, _HIGHEST_M = -12_000.0, 100_000.0
FASTEST_M_S, SLACK_M = 100.0, 8.0
_REACH_NS = 10_000_000_000

JudgedFix = tuple[int, str | None]
"""Running number of a fix's message, and why it is refused; None if it is accepted."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix with a valid position: when, number of its message, place, and declared standard deviations."""

    time_ns: int
    arrival: int
    point: GeoPoint
    ecef: Vector
    sigma_m: Vector | None


def judged(time_ns: int, arrival: int, fix: NavSatFix, last_altitude_m: float) -> Fix | str:
    """The fix if it has a valid position, or the reason why it is refused.

    A fix without an altitude, which drivers send as NaN, takes the last one; the first fix needs its own.
    """
    altitude_m = last_altitude_m if math.isnan(fix.altitude_m) else fix.altitude_m
    if fix.status < 0:
        return Reason.NO_FIX
    if fix.sigma_m is not None and max(fix.sigma_m) > UNSURE_M:
        return Reason.CONTRADICTORY_FIX
    if not all(map(math.isfinite, (fix.latitude_deg, fix.longitude_deg, altitude_m))):
        return Reason.NOT_FINITE_FIX
    if fix.latitude_deg == fix.longitude_deg == 0:
        return Reason.ZERO_FIX
    is_on_earth = abs(fix.latitude_deg) <= 90 and abs(fix.longitude_deg) <= 180
    if not (is_on_earth and _LOWEST_M <= altitude_m <= _HIGHEST_M):
        return Reason.FIX_OUT_OF_RANGE
    point = GeoPoint(fix.latitude_deg, fix.longitude_deg, altitude_m)
    return Fix(time_ns, arrival, point, ecef_m(point), fix.sigma_m)


def drivable(times_ns: Sequence[int], places_m: Floats, reach_ns: int = _REACH_NS) -> list[bool]:
    """Which fixes form the longest chain that a vehicle could have driven, one in each epoch.

    Args:
        times_ns: in ascending order.
        places_m: earth-centred positions (N, 3).
        reach_ns: a chain has no longer gaps where there are others in between.
    """
    count = len(times_ns)
    times = np.array(times_ns, np.int64)
    apart_ns, far_m = np.diff(times), np.linalg.norm(np.diff(places_m, axis=0), axis=1)
    if np.all((apart_ns >= EPOCH_NS) & (far_m <= SLACK_M + FASTEST_M_S * apart_ns / 1e9)):
        return [True] * count
    length, before = np.ones(count, np.int64), np.full(count, -1, np.int64)
    start = 0
    best_old = -1
    for i in range(1, count):
        while times[i] - times[start] > reach_ns:
            if best_old < 0 or length[start] >= length[best_old]:
                best_old = start
            start += 1
        near = slice(start, i)
        apart_ns = times[i] - times[near]
        far_m = np.linalg.norm(places_m[near] - places_m[i], axis=1)
        fits = (apart_ns >= EPOCH_NS) & (far_m <= SLACK_M + FASTEST_M_S * apart_ns / 1e9)
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
        max_gap_ns: longer gaps between fixes are not interpolated.
        fix_sigma_m: standard deviation of fixes that have none; 0 means that it is learnt.
    """

    rolls: bool = True
    max_gap_ns: int = 5_000_000_000
    fix_sigma_m: float = 0.0
