"""A quantity known at some times, and what that says about the times between."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Generic, TypeVar

from edgefirst_ros.sample import PoseBasis

Value = TypeVar("Value")

PROMPT_NS = 100_000_000
"""A value this close to a time is a measurement at it: the period of the slower sensors."""


class Track(Generic[Value]):
    """Values in order of time, interpolated between, held at the ends, never extrapolated.

    Args:
        between: the value at a fraction (0..1) of the way from one value to the next.
        max_gap_ns: values further apart than this are ends, with nothing known between.
        hold_ns: how far beyond an end its value still holds.
    """

    def __init__(
        self, between: Callable[[Value, Value, float], Value], *, max_gap_ns: int, hold_ns: int
    ) -> None:
        self._between = between
        self._max_gap_ns = max_gap_ns
        self._hold_ns = hold_ns
        self._times: list[int] = []
        self._values: list[Value] = []

    def __len__(self) -> int:
        return len(self._times)

    def add(self, time_ns: int, value: Value) -> bool:
        """Append a value; one no later than the last is left out, because settled times must not change."""
        if self._times and time_ns <= self._times[-1]:
            return False
        self._times.append(time_ns)
        self._values.append(value)
        return True

    def at(self, time_ns: int) -> Value | None:
        """The value at a time, or None where nothing is known close enough."""
        after = bisect_left(self._times, time_ns)
        if self._bridged(after, time_ns):
            start_ns, end_ns = self._times[after - 1], self._times[after]
            fraction = (time_ns - start_ns) / (end_ns - start_ns)
            return self._between(self._values[after - 1], self._values[after], fraction)
        nearest = self._held(after, time_ns)
        return None if nearest is None else self._values[nearest]

    def basis(self, time_ns: int) -> PoseBasis:
        """What the value at a time rests on; ASSUMED where an end is held, or there is none."""
        after = bisect_left(self._times, time_ns)
        nearest = self._nearest(after, time_ns)
        if nearest is not None and abs(self._times[nearest] - time_ns) <= PROMPT_NS:
            return PoseBasis.MEASURED
        return PoseBasis.INTERPOLATED if self._bridged(after, time_ns) else PoseBasis.ASSUMED

    def covers(self, time_ns: int) -> bool:
        """Whether there is a value at a time."""
        after = bisect_left(self._times, time_ns)
        return self._bridged(after, time_ns) or self._held(after, time_ns) is not None

    def nearest_ns(self, time_ns: int) -> int | None:
        """The time of the value nearest to a time; the earlier of two equally near."""
        nearest = self._nearest(bisect_left(self._times, time_ns), time_ns)
        return None if nearest is None else self._times[nearest]

    def settled(self, time_ns: int, coming_ns: int) -> bool:
        """Whether no value at ``coming_ns`` or later can change ``at(time_ns)`` any more."""
        if self._times and self._times[-1] >= time_ns:
            return True
        can_hold = coming_ns - time_ns <= self._hold_ns
        can_bridge = bool(self._times) and coming_ns - self._times[-1] <= self._max_gap_ns
        return not (can_hold or can_bridge)

    def forget(self, before_ns: int) -> None:
        """Drop what no time from ``before_ns`` on depends on."""
        useless = bisect_right(self._times, before_ns) - 1
        if useless > 0:
            del self._times[:useless]
            del self._values[:useless]

    def _bridged(self, after: int, time_ns: int) -> bool:
        if not 0 < after < len(self._times) or self._times[after] == time_ns:
            return False
        return self._times[after] - self._times[after - 1] <= self._max_gap_ns

    def _held(self, after: int, time_ns: int) -> int | None:
        nearest = self._nearest(after, time_ns)
        if nearest is None or abs(self._times[nearest] - time_ns) > self._hold_ns:
            return None
        return nearest

    def _nearest(self, after: int, time_ns: int) -> int | None:
        around = [index for index in (after - 1, after) if 0 <= index < len(self._times)]
        return min(around, key=lambda index: abs(self._times[index] - time_ns), default=None)
