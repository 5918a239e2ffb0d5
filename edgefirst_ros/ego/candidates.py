"""The fixes of a whole drive that a vehicle could have driven, in its local frame."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.gate import DUPLICATE, EPOCH_NS, OUTLIER, SAME_M, FixJudge, LocalFix, drivable
from edgefirst_ros.ego.geometry import Vector, ecef_m, enu_m
from edgefirst_ros.ego.state import Floats
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

IntArray = npt.NDArray[np.int64]

_NONE: IntArray = np.empty(0, np.int64)
_NOWHERE: Floats = np.empty((0, 3))


class _Positions:
    """Valid fixes in order of time, with the numbers of their messages; sigmas are NaN where unknown."""

    def __init__(self) -> None:
        self.times: array[int] = array("q")
        self.arrivals: array[int] = array("q")
        self.sigmas_m: array[float] = array("d")
        self._points: array[float] = array("d")

    def add(self, time_ns: int, arrival: int, point: GeoPoint, sigma_m: Vector | None) -> None:
        self.times.append(time_ns)
        self.arrivals.append(arrival)
        self.sigmas_m.extend(sigma_m or (math.nan,) * 3)
        self._points.extend((point.latitude_deg, point.longitude_deg, point.altitude_m))

    def point(self, index: int) -> GeoPoint:
        return GeoPoint(*self._points[3 * index : 3 * index + 3])


class Places:
    """Fixes in the local frame, packed, for a day has many.

    Attributes:
        origin: of the frame: the first of them; None if there is none.
        worst: largest error, metres, of a fix that no vehicle can have reached, and the speed it takes, m/s.
    """

    def __init__(
        self,
        origin: GeoPoint | None = None,
        times: IntArray = _NONE,
        arrivals: IntArray = _NONE,
        positions_m: Floats = _NOWHERE,
        sigmas_m: Floats = _NOWHERE,
    ) -> None:
        self.origin = origin
        self.worst = (0.0, math.nan)
        self._times, self._arrivals = times, arrivals
        self._positions_m, self._sigmas_m = positions_m, sigmas_m

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, index: int) -> LocalFix:
        sigma_m = self._sigmas_m[index]
        sigma = None if math.isnan(sigma_m[0]) else sigma_m
        return LocalFix(int(self._times[index]), self._positions_m[index], sigma)

    def arrival(self, index: int) -> int:
        """The number of a fix's message."""
        return int(self._arrivals[index])


def candidates(fixes: Iterable[tuple[int, int, NavSatFix]], refusals: dict[int, str]) -> Places:
    """Fixes that a vehicle could have driven.

    Args:
        fixes: time, running number of the message, and fix, in order of time and number.
        refusals: receives why the others are refused, by the number of their message.
    """
    judge, found = FixJudge(), _Positions()
    first_ns, last_m = 0, None
    for sent_ns, arrival, fix in fixes:
        time_ns = sent_ns
        judged = judge.judge(fix)
        if isinstance(judged, str):
            refusals[arrival] = judged
            continue
        at_m = ecef_m(judged)
        if last_m is not None and time_ns - first_ns < EPOCH_NS:
            if math.dist(at_m, last_m) < SAME_M:
                refusals[arrival] = DUPLICATE
                continue
            # They contradict each other, and both have the time of the first one.
            time_ns = max(first_ns, found.times[-1])
        else:
            first_ns = time_ns
        last_m = at_m
        found.add(time_ns, arrival, judged, fix.sigma_m)
    if last_m is None:
        return Places()
    all_times = np.array(found.times)
    places_m = np.array([ecef_m(found.point(index)) for index in range(len(all_times))])
    chosen = np.array(drivable(found.times, places_m, EPOCH_NS))
    times, of_chosen = all_times[chosen], places_m[chosen]
    indices = np.flatnonzero(chosen).tolist()
    origin = found.point(indices[0])
    positions_m = np.array([enu_m(found.point(index), origin) for index in indices])
    sigmas_m = np.array(found.sigmas_m).reshape(-1, 3)[chosen]
    places = Places(origin, times, np.array(found.arrivals)[chosen], positions_m, sigmas_m)
    for index in np.flatnonzero(~chosen).tolist():
        time_ns = found.times[index]
        near = np.abs(times - time_ns) < EPOCH_NS
        agrees = near.any() and np.linalg.norm(of_chosen[near] - places_m[index], axis=1).min() < SAME_M
        refusals[found.arrivals[index]] = DUPLICATE if agrees else OUTLIER
        if not agrees:
            places.worst = max(places.worst, _far(time_ns, places_m[index], times, of_chosen))
    return places


def _far(time_ns: int, place_m: Floats, times: IntArray, places_m: Floats) -> tuple[float, float]:
    """Distance of a fix from those around it in metres, and the speed in m/s to get there."""
    axes = [np.interp(time_ns, times, places_m[:, axis]) for axis in range(3)]
    off_m = float(np.linalg.norm(place_m - np.array(axes)))
    apart_ns = int(np.abs(times - time_ns).min())
    return off_m, off_m / (apart_ns / 1e9) if apart_ns else math.nan
