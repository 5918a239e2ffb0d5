"""How far the clocks of two recorders are apart, as both recorded how one rig turned.

Nothing need be known beforehand: how fast a rig turns is the same about any axes, so that the lag at which
two such signals resemble each other most is looked for over everything. ``common_lag`` then says it to less
than a millisecond, piece by piece, and by that how fast one clock runs away from the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from edgefirst_ros.timing.common import AROUND_S, LEAST_SIGMA_S, PIECE_S, WITHIN_S, Floats, common_lag

GRID_S = 0.04
"""On which turning is compared over everything: cars and robots turn slower than that shows."""
INDEPENDENT_S = 0.25
"""About so far apart values are that do not follow from each other."""
CANDIDATES, PIECES, TELLING = 5, 8, 3
"""Lags that are looked at closely, in how many pieces of the drive, and of how many of the liveliest one at
least must say something."""
LEAST_POWER = 1e-6
"""Share of both signals' power, multiplied, below which a lag has too little in common."""
LIKE = 0.5
"""Lags at which both are less than half as much alike as at the best one are not looked at."""
MOST_S = 43_200.0
"""Half a day of turning takes 400 MB to compare; no drive is so long."""
LEAST_COMMON_S = 3.0
"""What is shorter resembles something by chance."""
LIVELY = 0.1
"""Share of the liveliest piece's change that a piece must have for it to tell against a lag."""
AGREE_S = 0.003
"""Pieces agree within this, and what is uncertain of them."""
RIVALS = 2.0
"""The best lag explains so many times as much as any other one, or both are possible."""
MOST_DRIFT = 1e-4
"""Two quartzes run apart by no more, in seconds a second."""
DRIFT_AFTER_S = 30.0
"""From pieces that are so far apart a drift is known better than that."""
SAME = 1e-9
"""Share left unexplained that two gyroscopes cannot agree to: it is one's signal twice."""

Turns = tuple[Floats, Floats]
"""Ascending times (n,) in seconds of one clock, and angular velocities (n, 3) in rad/s about any axes."""


@dataclass(frozen=True, slots=True)
class Apart:
    """A second clock shows ``at_s + ahead_s`` when the first one shows ``at_s``, and gains by ``drift``.

    Attributes:
        at_s: where ``ahead_s`` holds.
        ahead_s: by how much the second clock is ahead, in seconds.
        drift: seconds by which it gains in each second.
        span_s: how long what both recorded is.
        sure_s: uncertainty (3 σ) anywhere in that.
        pieces: pieces of the drive that say so.
        evidence: how much they say; comparable between lags.
        is_same: whether both signals are one gyroscope's.
    """

    at_s: float
    ahead_s: float
    drift: float
    span_s: float
    sure_s: float
    pieces: int
    evidence: float
    is_same: bool = False


def apart(first: Turns, second: Turns, near_s: Sequence[float] = ()) -> list[Apart]:
    """What the motion says of the second clock; several if it does not tell which, none if it says nothing.

    Args:
        first: how the rig turned by one recorder.
        second: by another one.
        near_s: by how much the second clock may be ahead; empty if nothing is known.
    """
    if min(len(first[0]), len(second[0])) < 2 or max(np.ptp(first[0]), np.ptp(second[0])) > MOST_S:
        return []
    seen = filter(None, (_looked_at(first, second, s) for s in near_s or _resembling(first, second)))
    found: list[Apart] = []
    for each in sorted(seen, key=lambda each: -each.evidence):
        is_new = all(abs(each.ahead_s - other.ahead_s) > WITHIN_S for other in found)
        if is_new and (not found or each.evidence * RIVALS > found[0].evidence):
            found.append(each)
    return found


def _resembling(first: Turns, second: Turns) -> Iterator[float]:
    """Lags at which both turn alike, the likeliest first."""
    (one, is_one), (other, is_other) = _speeds(*first), _speeds(*second)
    size = 1 << (len(one) + len(other) - 1).bit_length()

    def summed(a: Floats, b: Floats) -> Floats:
        """Of products of what lies at each lag together."""
        found: Floats = np.fft.irfft(np.conj(np.fft.rfft(a, size)) * np.fft.rfft(b, size), size)
        return found

    # Of lag k the first one's i lies with the second one's i + k; negative ones are at the end.
    count = np.maximum(np.round(summed(is_one, is_other)), 1.0)
    of_one, of_other = summed(one, is_other), summed(is_one, other)
    spread = (summed(one**2, is_other) - of_one**2 / count) * (summed(is_one, other**2) - of_other**2 / count)
    # Where hardly anything turns, noise is alike by chance.
    least = LEAST_POWER * float(one @ one) * float(other @ other)
    likeness = (summed(one, other) - of_one * of_other / count) / np.sqrt(np.maximum(spread, least or 1.0))
    independent = np.maximum(count * GRID_S / INDEPENDENT_S - 3, 0.0)
    score = np.arctanh(np.clip(likeness, 0.0, 0.999)) * np.sqrt(independent)
    score[count * GRID_S < LEAST_COMMON_S] = 0.0
    begin_s = float(second[0][0] - first[0][0])
    least = max(float(score.max()) * LIKE, 1e-9)
    for _ in range(CANDIDATES):
        best = int(score.argmax())
        if score[best] < least:
            return
        yield begin_s + (best if best < len(other) else best - size) * GRID_S
        score[np.arange(best - round(WITHIN_S / GRID_S), best + round(WITHIN_S / GRID_S) + 1) % size] = 0.0


def _speeds(at_s: Floats, rates: Floats) -> tuple[Floats, Floats]:
    """How fast it turns, on the grid, less its mean, and 1 where that is known; 0 elsewhere."""
    place = ((at_s - at_s[0]) / GRID_S).astype(np.int64)
    count = np.bincount(place)
    known = count > 0
    axes = (np.bincount(place, axis) / np.maximum(count, 1) for axis in rates.T)
    speed = np.linalg.norm(np.stack([*axes]), axis=0)
    return np.where(known, speed - speed[known].mean(), 0.0), known.astype(np.float64)


def _looked_at(first: Turns, second: Turns, ahead_s: float) -> Apart | None:
    """A lag in pieces of what both recorded; None if these do not say that it is so."""
    second = second[0] - ahead_s, second[1]
    begin_s, end_s = max(first[0][0], second[0][0]), min(first[0][-1], second[0][-1])
    if end_s - begin_s < LEAST_COMMON_S:
        return None
    pieces = sorted(_pieces(first, begin_s, end_s), key=lambda piece: -piece[2])
    rows: list[tuple[float, float, float, float]] = []
    lively, left = 0, 1.0
    for number, (from_s, to_s, change) in enumerate(pieces):
        if number == TELLING and not rows:
            break
        lively += change >= LIVELY * pieces[0][2]
        lag = common_lag(_between(first, from_s, to_s), _between(second, from_s, to_s), WITHIN_S)
        if lag is not None:
            said = (to_s - from_s) * -np.log(lag.rest + SAME)
            rows.append(((from_s + to_s) / 2, lag.lag_s, lag.sigma_s, said))
            left = min(left, lag.rest)
    if not rows:
        return None
    at_s, lags_s, sigmas_s, evidence = np.array(sorted(rows)).T
    agree = np.abs(_off_line(at_s, lags_s)) <= AGREE_S + 3 * sigmas_s
    if 2 * agree.sum() < max(lively, len(rows)):
        return None
    middle_s = float(np.median(at_s[agree]))
    ends_s = np.array([begin_s, end_s]) - middle_s
    lag_s, drift, sure_s = _fitted(at_s[agree] - middle_s, lags_s[agree], sigmas_s[agree], ends_s)
    return Apart(
        at_s=middle_s,
        ahead_s=ahead_s + lag_s,
        drift=drift,
        span_s=end_s - begin_s,
        sure_s=sure_s,
        pieces=int(agree.sum()),
        evidence=float(evidence[agree].sum()),
        is_same=left < SAME,
    )


def _fitted(at_s: Floats, lags_s: Floats, sigmas_s: Floats, ends_s: Floats) -> tuple[float, float, float]:
    """Lag at 0 and drift by least squares, and how sure (3 σ) they make a lag at either end."""
    has_drift = np.ptp(at_s) >= DRIFT_AFTER_S
    made_of = np.stack([np.ones_like(at_s), at_s][: 1 + has_drift], axis=1) / sigmas_s[:, None]
    covariance = np.linalg.inv(made_of.T @ made_of)
    found = covariance @ made_of.T @ (lags_s / sigmas_s)
    left = made_of @ found - lags_s / sigmas_s
    covariance *= max(1.0, float(left @ left) / max(1, len(at_s) - len(found)))
    ends = np.stack([np.ones_like(ends_s), ends_s][: 1 + has_drift], axis=1)
    sigma_s = max(float(np.sqrt(np.einsum("ij,jk,ik->i", ends, covariance, ends).max())), LEAST_SIGMA_S)
    if has_drift:
        return float(found[0]), float(found[1]), 3 * sigma_s
    # What is not measured may be anything that quartzes do.
    return float(found[0]), 0.0, float(np.hypot(3 * sigma_s, MOST_DRIFT * np.abs(ends_s).max()))


def _pieces(turns: Turns, begin_s: float, end_s: float) -> Iterator[tuple[float, float, float]]:
    """The liveliest piece of each part of a span: from, to, and how much the turning changes in it."""
    length_s = PIECE_S + AROUND_S
    parts = max(1, min(PIECES, int((end_s - begin_s) / length_s)))
    edges = np.linspace(begin_s, end_s, parts + 1)
    at_s, rates = turns
    change = np.concatenate([[0.0], np.cumsum((np.diff(rates, axis=0) ** 2).sum(axis=1))])
    for from_s, to_s in pairwise(edges):
        starts = np.arange(from_s, max(to_s - length_s, from_s) + 1e-9, PIECE_S / 2)
        ends = np.minimum(starts + length_s, to_s)
        inside = [np.interp(each, at_s, change) for each in (starts, ends)]
        best = int((inside[1] - inside[0]).argmax())
        yield float(starts[best]), float(ends[best]), float(inside[1][best] - inside[0][best])


def _between(turns: Turns, from_s: float, to_s: float) -> Turns:
    inside = slice(*np.searchsorted(turns[0], (from_s, to_s)))
    return turns[0][inside], turns[1][inside]


def _off_line(at_s: Floats, lags_s: Floats) -> Floats:
    """How far each lag is off the line through their medians, which a wrong one does not move."""
    apart_s = at_s[None, :] - at_s[:, None]
    is_far = apart_s >= DRIFT_AFTER_S
    slopes = (lags_s[None, :] - lags_s[:, None])[is_far] / apart_s[is_far]
    off_s = lags_s - (np.median(slopes) if len(slopes) else 0.0) * at_s
    return off_s - np.median(off_s)
