"""How far the clocks of two devices on one rigid rig are apart, as both measure the same turning.

The angular velocity of a rigid body is the same at every place of it, but for the axes in which it is
measured: two gyroscopes have one signal, up to a rotation and their errors. How much later the one has it
than the other is the difference between their clocks, whatever their messages' latencies are.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, isfinite
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from edgefirst_ros.timing.finding import RECORDINGS_OWN, Clock, Evidence, TopicClock, estimate, moved

Floats = npt.NDArray[np.float64]

STEP_S = 0.005
"""Of the grid on which signals are compared; few IMUs measure more often."""
SMOOTH = 15
"""Samples that both are smoothed over (75 ms): what turns faster is rather noise than the rig."""
LEAST_S = 1.5
"""Shorter pieces of a signal resemble others by chance."""
MOST_REST = 0.2
"""Share of a signal's power that the other one need not explain; at rest, where all is noise, that is all."""
RIVAL, FLOOR = 4.0, 1e-4
"""Every other lag must leave this many times as much unexplained, or this share at least: a regular movement
resembles itself."""
LEAST_SIGMA_S = 0.000_2
"""Of IMUs that stamp evenly; what else differs between them is not seen in what they measure."""
MOST_SIGMA_S = 0.003
"""A lag that is known less well says no more than usual latencies do."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How much later one signal shows what another one shows, and its standard deviation, in seconds.

    ``rest`` is the share of a signal's power that the other one does not explain.
    """

    lag_s: float
    sigma_s: float
    rest: float = 0.0


def common_lag(first: tuple[Floats, Floats], second: tuple[Floats, Floats], within_s: float) -> Lag | None:
    """The lag of the second signal behind the first one; None where the motion does not show it.

    Args:
        first: ascending times (n,) in seconds, and angular velocities (n, 3) in rad/s about any axes.
        second: likewise.
        within_s: how large the lag can be.
    """
    if min(len(first[0]), len(second[0])) < 2 or min(np.ptp(first[0]), np.ptp(second[0])) < LEAST_S:
        return None
    start_s = min(first[0][0], second[0][0])
    one, other = (_smooth(times_s - start_s, values) for times_s, values in (first, second))
    reach = round(within_s / STEP_S)
    rests = np.array([_rest(*_overlap(one, other, lag)) for lag in range(-reach, reach + 1)])
    best = int(rests.argmin())
    if rests[best] > MOST_REST or _has_rival(rests, best):
        return None
    lag = _refined(*_overlap(one, other, best - reach), (best - reach) * STEP_S)
    return lag and replace(lag, rest=float(rests[best]))


Signal = tuple[int, Floats]
"""Number of its first place on the grid, and its values there (n, 3)."""


def _smooth(times_s: Floats, values: Floats) -> Signal:
    """On the grid, without what noise adds from sample to sample; a symmetric window shifts nothing."""
    begin, end = int(np.ceil(times_s[0] / STEP_S)), int(times_s[-1] / STEP_S)
    window, grid_s = np.hanning(SMOOTH + 2), np.arange(begin, end + 1) * STEP_S
    axes = (
        np.convolve(np.interp(grid_s, times_s, axis), window / window.sum(), "valid") for axis in values.T
    )
    return begin + SMOOTH // 2, np.stack([*axes], axis=1)


def _overlap(one: Signal, other: Signal, lag: int) -> tuple[Floats, Floats]:
    """Both where both are known, the other one moved ahead by so many places."""
    (a_from, a), (b_from, b) = one, (other[0] - lag, other[1])
    begin, end = max(a_from, b_from), min(a_from + len(a), b_from + len(b))
    return a[begin - a_from : max(begin, end) - a_from], b[begin - b_from : max(begin, end) - b_from]


def _fitted(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """What the first says of the other one, in any axes and with a bias: the map (3, 3), and what is left."""
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    # Of axes about which nothing turns nothing follows.
    fit = np.linalg.pinv(one.T @ one, rcond=1e-9, hermitian=True) @ (one.T @ other)
    return fit, other - one @ fit


def _rest(one: Floats, other: Floats) -> float:
    """Share of the other one's power that the first one does not explain; 1 where too little is known."""
    if len(one) * STEP_S < LEAST_S:
        return 1.0
    power = float(((other - other.mean(axis=0)) ** 2).sum())
    return float((_fitted(one, other)[1] ** 2).sum()) / power if power > 0 else 1.0


def _has_rival(rests: Floats, best: int) -> bool:
    """Whether a lag beyond a rise is about as likely, or the best one may lie outside of the search."""
    is_low = rests <= max(RIVAL * float(rests[best]), FLOOR)
    places = np.flatnonzero(is_low)
    return bool(is_low[0] or is_low[-1] or len(places) != places[-1] - places[0] + 1)


def _refined(one: Floats, other: Floats, lag_s: float) -> Lag | None:
    """The lag of signals that agree to a place of the grid."""
    fit, rest = _fitted(one, other)
    # What a lag of one second would change, but for what another map would change as well.
    change = -np.gradient(one, STEP_S, axis=0) @ fit
    seen = _fitted(one, change)[1]
    power = float((seen**2).sum())
    if power <= 0:
        return None
    further_s = float((seen * rest).sum()) / power
    left = rest - further_s * seen
    # Smoothed samples are not independent: about one in a window is.
    variance = float((left**2).sum()) / max(1, left.size - 13) * SMOOTH
    sigma_s = max(LEAST_SIGMA_S, float(np.sqrt(variance / power)))
    return Lag(lag_s + further_s, sigma_s) if sigma_s <= MOST_SIGMA_S else None


WITHIN_S = 0.5
"""How far offsets that were found by receipt can be off: beyond any latency of an IMU."""
LEAST_NS = 1_000_000
"""A smaller lag of a clock that seems to be the recording's own is none: times of receipt are no better."""


PIECE_S, AROUND_S = 10.0, 10.0
"""Of a whole drive the lag is found where the rig turns most for so long, and around that."""


class Turning:
    """How several IMUs turn in a drive, at their times on the recording's clock, each 32 bytes a sample."""

    def __init__(self) -> None:
        self._devices: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, device: str, time_ns: int, rate_rad_s: tuple[float, float, float]) -> None:
        """Take a sample of a device's IMU; all devices are sampled in order of time, but for some jitter."""
        times, rates = self._devices.setdefault(device, (array("q"), array("d")))
        if all(map(isfinite, rate_rad_s)) and (not times or time_ns > times[-1]):
            times.append(time_ns)
            rates.extend(rate_rad_s)

    def lags(self, lead: str) -> dict[str, Lag]:
        """The lag of each other device behind one, as far as the motion shows it."""
        if lead not in self._devices or len(self._devices) < 2 or not self._devices[lead][0]:
            return {}
        start_ns = self._devices[lead][0][0]
        signals = {
            name: ((np.array(times) - start_ns) / 1e9, np.array(rates).reshape(-1, 3))
            for name, (times, rates) in self._devices.items()
        }
        begin_s, end_s = _liveliest(*signals[lead])
        parts = {}
        for name, (at_s, rates) in signals.items():
            inside = slice(*np.searchsorted(at_s, (begin_s - AROUND_S, end_s + AROUND_S)))
            parts[name] = at_s[inside], rates[inside]
        found = {n: common_lag(parts[lead], part, WITHIN_S) for n, part in parts.items() if n != lead}
        return {name: lag for name, lag in found.items() if lag is not None}


def _liveliest(at_s: Floats, rates: Floats) -> tuple[float, float]:
    """The piece in which the turning changes most."""
    number = (at_s / PIECE_S).astype(np.int64)
    change = (np.diff(rates, axis=0) ** 2).sum(axis=1)
    best = int(np.bincount(number[1:], change).argmax()) if len(change) else 0
    return best * PIECE_S, (best + 1) * PIECE_S


def agreed(
    evidence: Sequence[Evidence],
    findings: Sequence[TopicClock],
    clocks: list[Clock],
    lead: str,
    *,
    lateness_ns: dict[str, int],
    lags: Mapping[str, Lag] = MappingProxyType({}),
) -> list[TopicClock]:
    """The findings of several devices' topics, their clocks corrected by what their IMUs have in common.

    A device's other clock, which no IMU stamps, is known by times of receipt only. By how much these are late
    shows where the IMU's clock is known.

    Args:
        evidence: of all topics.
        findings: by receipt, of each.
        clocks: that they refer to; changed and added to.
        lead: the device that the others are compared with.
        lateness_ns: by device, how much later than usual all comes of it; added to.
        lags: by device, what is left after that by the whole drive.
    """
    found = list(findings)
    turning = {n: seen for n, e in enumerate(evidence) if found[n].group is not None and (seen := e.turning)}
    leader = next((n for n in turning if evidence[n].rule.device == lead), None)
    if leader is None:
        return found
    start_ns = int(turning[leader][0][0]) + found[leader].offset_ns
    signals = {n: ((at + found[n].offset_ns - start_ns) / 1e9, rate) for n, (at, rate) in turning.items()}
    sure_ns = clocks[found[leader].group or 0].uncertainty_ns
    done = {lead}
    for n, signal in signals.items():
        device, group = evidence[n].rule.device, found[n].group
        lag = None if device in done or group is None else common_lag(signals[leader], signal, WITHIN_S)
        if lag is None or group is None:
            continue
        done.add(device)
        _shift(found, clocks, (evidence, device, group), lag, sure_ns)
    for device, lag in lags.items():
        there = (found[n].group for n in turning if evidence[n].rule.device == device != lead)
        if (group := next(there, None)) is not None:
            done.add(device)
            _shift(found, clocks, (evidence, device, group), lag, sure_ns)
    for n in turning if len(done) > 1 else ():
        device, group = evidence[n].rule.device, found[n].group
        if device and device in done and device not in lateness_ns and group is not None:
            late_ns = _late_ns(found, clocks, (evidence, device, group))
            if late_ns is not None:
                lateness_ns[device] = late_ns
    return found


def _late_ns(
    found: list[TopicClock], clocks: list[Clock], of: tuple[Sequence[Evidence], str, int]
) -> int | None:
    """How much later than usual all comes of a device by a clock that is known; corrects its others by it."""
    evidence, device, group = of
    own = [n for n, e in enumerate(evidence) if e.rule.device == device and e.rule.choice == "auto"]
    told = [evidence[n].arrivals(RECORDINGS_OWN) for n in own if found[n].group == group]
    received = estimate(told) if told else RECORDINGS_OWN
    if not told or received.uncertainty_ns is None:
        return None
    late_ns = received.offset_ns - clocks[group].offset_ns
    for number, clock in enumerate(clocks):
        members = [n for n in own if found[n].group == number]
        if number in {0, group} or not (members and late_ns):
            continue
        sure_ns = clock.uncertainty_ns
        now_ns = None if sure_ns is None else round(hypot(sure_ns, received.uncertainty_ns))
        clocks[number] = replace(clock, offset_ns=clock.offset_ns - late_ns, uncertainty_ns=now_ns)
        for n in members:
            found[n] = moved(found[n], clocks[number], number, -late_ns)
    return late_ns


def _shift(
    found: list[TopicClock],
    clocks: list[Clock],
    of: tuple[Sequence[Evidence], str, int],
    lag: Lag,
    sure_ns: int | None,
) -> None:
    """Correct one device's clock by a lag; one that seems to be the recording's own becomes another."""
    evidence, device, group = of
    by_ns, sigma_ns = -round(lag.lag_s * 1e9), round(3 * lag.sigma_s * 1e9)
    if not group and abs(by_ns) <= max(LEAST_NS, sigma_ns):
        return
    now_ns = None if sure_ns is None else round(hypot(sure_ns, sigma_ns))
    clock = Clock(clocks[group].offset_ns + by_ns, now_ns, device, by_motion=True)
    number = group or len(clocks)
    clocks[number:] = [clock, *clocks[number + 1 :]]
    for n, each in enumerate(evidence):
        if each.rule.device == device and found[n].group == group and each.rule.choice == "auto":
            found[n] = moved(found[n], clock, number, by_ns)
