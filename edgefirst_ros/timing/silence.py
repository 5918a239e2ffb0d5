"""The pauses of a topic: when it sent nothing for much longer than usual."""

from __future__ import annotations

import heapq

FACTOR = 3
"""A pause is longer than so many usual intervals ..."""
UNEVEN_FACTOR = 8
"""... or mean intervals, of a topic that has no usual one ..."""
LEAST_NS = 100_000_000
"""... and than this."""
LEAST_MESSAGES = 8
KEPT = 32


class Pauses:
    """Pauses of one topic: how many, how long in all, and when the longest were; times come in order.

    Attributes:
        limit_ns: what is longer is worth a call of ``add``.
        count: number of pauses.
        total_ns: their sum.
    """

    def __init__(self) -> None:
        self.limit_ns = LEAST_NS
        self.count = 0
        self.total_ns = 0
        self._longest: list[tuple[int, int]] = []
        """Length and begin, as a heap."""

    def judge(self, begin_ns: int, end_ns: int, usual_ns: int | None, mean_ns: int, messages: int) -> None:
        """Count an interval between two messages if it is a pause.

        Args:
            begin_ns: time of the message before.
            end_ns: time of the message after it.
            usual_ns: the topic's usual interval, None if it has none.
            mean_ns: its mean interval so far.
            messages: number of messages so far.
        """
        length = end_ns - begin_ns
        self.limit_ns = max(LEAST_NS, FACTOR * usual_ns if usual_ns is not None else UNEVEN_FACTOR * mean_ns)
        if length <= self.limit_ns or messages < LEAST_MESSAGES:
            return
        self.count += 1
        self.total_ns += length
        heapq.heappush(self._longest, (length, begin_ns))
        if len(self._longest) > KEPT:
            heapq.heappop(self._longest)

    @property
    def longest(self) -> list[tuple[int, int]]:
        """Begin and end of the longest ones, in order of time."""
        return sorted((begin, begin + length) for length, begin in self._longest)
