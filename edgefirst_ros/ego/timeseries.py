"""A quantity that is known at some times: interpolation, and what the interpolated value is based on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from edgefirst_ros.sample import PoseBasis

PROMPT_NS = 100_000_000
"""Assumed period of a sensor that has sent less than two values."""

Value = TypeVar("Value")


class TimeSeries(Generic[Value]):
    """Values in order of time, interpolated; unknown beyond the ends and in gaps.

    Args:
        between: interpolates between two values at a fraction (0..1).
        max_gap_ns: longer gaps are not interpolated.

    Attributes:
        times_ns: times of the values.
    """

    def __init__(self, between: Callable[[Value, Value, float], Value], *, max_gap_ns: int) -> None:
        self.times_ns: list[int] = []
        self._between = between
        self._max_gap_ns = max_gap_ns
        self._values: list[Value] = []

    def __len__(self) -> int:
        return len(self.times_ns)

    def add(self, time_ns: int, value: Value) -> bool:
        """Append a value; False if it is not later than the last: settled times must not change."""
        if self.times_ns and time_ns <= self.times_ns[-1]:
            return False
        self.times_ns.append(time_ns)
        self._values.append(value)
        return True

    def at(self, time_ns: int) -> Value | None:
        """The value at a time; None beyond the ends and in gaps."""
        after = bisect_left(self.times_ns, time_ns)
        if after < len(self.times_ns) and self.times_ns[after] == time_ns:
            return self._values[after]
        if not 0 < after < len(self.times_ns):
            return None
        start_ns, end_ns = self.times_ns[after - 1], self.times_ns[after]
        if end_ns - start_ns > self._max_gap_ns:
            return None
        fraction = (time_ns - start_ns) / (end_ns - start_ns)
        return self._between(self._values[after - 1], self._values[after], fraction)

    def nearest(self, time_ns: int) -> tuple[int, Value] | None:
        """Time and value nearest to a time; of two equally near ones the earlier."""
        after = bisect_left(self.times_ns, time_ns)
        around = [index for index in (after - 1, after) if 0 <= index < len(self.times_ns)]
        index = min(around, key=lambda each: abs(self.times_ns[each] - time_ns), default=None)
        return None if index is None else (self.times_ns[index], self._values[index])

    def settled(self, time_ns: int, coming_ns: int) -> bool:
        """Whether no value from ``coming_ns`` on can change ``at(time_ns)``."""
        if not self.times_ns or self.times_ns[-1] < time_ns:
            too_late = bool(self.times_ns) and coming_ns - self.times_ns[-1] > self._max_gap_ns
            return too_late and coming_ns > time_ns
        return True

    def forget(self, before_ns: int) -> None:
        """Drop values that times from ``before_ns`` on do not need."""
        if len(self.times_ns) < 2 or self.times_ns[1] > before_ns:
            return
        useless = bisect_right(self.times_ns, before_ns) - 1
        if useless > 0:
            del self.times_ns[:useless]
            del self._values[:useless]


def basis(times_ns: Sequence[int], time_ns: int, max_gap_ns: int) -> PoseBasis:
    """What a quantity measured at some times is based on at another; DEAD_RECKONED if they are too far."""
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
    """The median period of a sensor around an index of its times."""
    first = max(0, index - 8)
    some = times_ns[first : first + 16]
    gaps = sorted(b - a for a, b in pairwise(some))
    return gaps[len(gaps) // 2] if gaps else PROMPT_NS


def nearest_ns(times_ns: Sequence[int], time_ns: int) -> int | None:
    """The nearest of the times; of two equally near ones the earlier. None if there is none."""
    after = bisect_left(times_ns, time_ns)
    around = times_ns[max(0, after - 1) : after + 1]
    return min(around, key=lambda each: abs(each - time_ns), default=None)
