"""Messages that never arrived, counted from the gaps they leave in the stamps."""

from __future__ import annotations

from collections import deque

LEARN = 32
"""Intervals that the usual one is the median of."""
LEAST = 8
HOLE = 1.5


class GapCounter:
    """Counts losses of one topic that sends at a steady rate; times come in order.

    DDS overwrites and network losses raise no event, so holes in the times are all there is to see. Topics
    that send irregularly give no count worth having.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._last_ns: int | None = None
        self._intervals: deque[int] = deque(maxlen=LEARN)

    def add(self, time_ns: int) -> int:
        """Take the next time in; how many messages are missing before it."""
        last_ns, self._last_ns = self._last_ns, time_ns
        if last_ns is None:
            return 0
        interval_ns = time_ns - last_ns
        missing = 0
        if len(self._intervals) >= LEAST:
            usual_ns = sorted(self._intervals)[len(self._intervals) // 2]
            if usual_ns > 0 and interval_ns > HOLE * usual_ns:
                missing = round(interval_ns / usual_ns) - 1
        if not missing:
            self._intervals.append(interval_ns)
        self.lost += missing
        return missing
