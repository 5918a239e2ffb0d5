"""Messages that never arrived, counted from the gaps they leave in the stamps."""

from __future__ import annotations

from collections import deque

LEARN = 32
"""Intervals that the usual one is the median of."""
LEAST = 8
HOLE = 1.5
NEAR, SHARE = 0.25, 0.6
"""A topic is steady while so large a share of its intervals is so near the usual one."""
BURST = 4.0
"""Where a quarter of the intervals is longer than so many usual ones, messages come in bursts."""


class GapCounter:
    """Counts losses of one topic that sends at a steady rate; times come in order.

    DDS overwrites and network losses raise no event, so holes in the times are all there is to see. Topics
    that send in bursts or as they please give no count worth having, so none is made. Holes are learnt from
    like any interval: a sensor that was switched to a lower rate stops counting as lossy.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._last_ns: int | None = None
        self._intervals: deque[int] = deque(maxlen=LEARN)

    @property
    def usual_ns(self) -> int | None:
        """The usual interval, None while it is not known or there is none."""
        if len(self._intervals) < LEAST:
            return None
        count, by_length = len(self._intervals), sorted(self._intervals)
        usual_ns, long_ns = by_length[count // 2], by_length[count * 3 // 4]
        near = sum(abs(each - usual_ns) <= NEAR * usual_ns for each in by_length)
        return usual_ns if 0 < usual_ns >= long_ns / BURST and near >= SHARE * count else None

    def add(self, time_ns: int) -> int:
        """Take the next time in; how many messages are missing before it."""
        last_ns, self._last_ns = self._last_ns, time_ns
        if last_ns is None:
            return 0
        interval_ns, usual_ns = time_ns - last_ns, self.usual_ns
        self._intervals.append(interval_ns)
        if usual_ns is None or interval_ns <= HOLE * usual_ns:
            return 0
        missing = max(1, round(interval_ns / usual_ns) - 1)
        self.lost += missing
        return missing
