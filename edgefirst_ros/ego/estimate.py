"""What a quantity rests on, by the times at which it was measured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from edgefirst_ros.sample import PoseBasis

PROMPT_NS = 100_000_000
"""The period that a sensor is taken to have before it has told its own."""


def basis(times_ns: Sequence[int], time_ns: int, max_gap_ns: int) -> PoseBasis:
    """What a quantity rests on that is measured at these times; DEAD_RECKONED where they are too far away."""
    after = bisect_left(times_ns, time_ns)
    around = times_ns[max(0, after - 1) : after + 1]
    if not around:
        return PoseBasis.ASSUMED
    period_ns = min(usual_ns(times_ns, after), max_gap_ns)
    gap_ns = around[-1] - around[0] if 0 < after < len(times_ns) else None
    nearest_ns = min(abs(each - time_ns) for each in around)
    if nearest_ns <= period_ns // 2 or (gap_ns is not None and gap_ns <= period_ns * 3 // 2):
        return PoseBasis.MEASURED
    return PoseBasis.INTERPOLATED if gap_ns is not None and gap_ns <= max_gap_ns else PoseBasis.DEAD_RECKONED


def usual_ns(times_ns: Sequence[int], index: int) -> int:
    """The usual period of a sensor around a place in its times: the median of some."""
    first = max(0, index - 8)
    some = times_ns[first : first + 16]
    gaps = sorted(b - a for a, b in pairwise(some))
    return gaps[len(gaps) // 2] if gaps else PROMPT_NS


def nearest_ns(times_ns: Sequence[int], time_ns: int) -> int | None:
    """The time nearest to one; the earlier of two equally near."""
    after = bisect_left(times_ns, time_ns)
    around = times_ns[max(0, after - 1) : after + 1]
    return min(around, key=lambda each: abs(each - time_ns), default=None)
