"""A quantity known at some times, and what that says about the times between."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Track(Generic[Value]):
    """Values in order of time, interpolated between, unknown beyond the ends and in gaps.

    Args:
        between: the value at a fraction (0..1) of the way from one value to the next.
        max_gap_ns: values further apart than this are ends, with nothing known between.

    Attributes:
        times_ns: when there is a value.
    """

    def __init__(self, between: Callable[[Value, Value, float], Value], *, max_gap_ns: int) -> None:
        self.times_ns: list[int] = []
        self._between = between
        self._max_gap_ns = max_gap_ns
        self._values: list[Value] = []

    def __len__(self) -> int:
        return len(self.times_ns)

    def add(self, time_ns: int, value: Value) -> bool:
        """Append a value; one no later than the last is left out, because settled times must not change."""
        if self.times_ns and time_ns <= self.times_ns[-1]:
            return False
        self.times_ns.append(time_ns)
        self._values.append(value)
        return True

    def at(self, time_ns: int) -> Value | None:
        """The value at a time, or None where nothing is known close enough."""
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
        """The value nearest to a time, and its time; the earlier of two equally near."""
        after = bisect_left(self.times_ns, time_ns)
        around = [index for index in (after - 1, after) if 0 <= index < len(self.times_ns)]
        index = min(around, key=lambda each: abs(self.times_ns[each] - time_ns), default=None)
        return None if index is None else (self.times_ns[index], self._values[index])

    def settled(self, time_ns: int, coming_ns: int) -> bool:
        """Whether no value at ``coming_ns`` or later can change ``at(time_ns)`` any more."""
        if not self.times_ns or self.times_ns[-1] < time_ns:
            too_late = bool(self.times_ns) and coming_ns - self.times_ns[-1] > self._max_gap_ns
            return too_late and coming_ns > time_ns
        return True

    def forget(self, before_ns: int) -> None:
        """Drop what no time from ``before_ns`` on depends on."""
        useless = bisect_right(self.times_ns, before_ns) - 1
        if useless > 0:
            del self.times_ns[:useless]
            del self._values[:useless]
