"""The pauses of a topic: when it sent nothing for much longer than usual."""

from __future__ import annotations

import heapq

FACTOR = 3
"""A pause is longer than so many usual intervals ..."""
UNEVEN_FACTOR = 8
"""... or mean intervals, of a topic that has no usual one ..."""
LEAST_NS = 100_000_000
"""... and than this ..."""
FEW, FEW_NS = 3, 2_000_000_000
"""... or than this, if there are fewer other intervals."""
LEAST_MESSAGES = 8
KEPT = 32
MOST_OPEN = 256
"""Intervals that are kept until it is known whether they are pauses: the longest ones."""


class Pauses:
    """Pauses of one topic: how many, how long in all, and when the longest were; times come in order.

    What is usual is not known at the beginning: long intervals are kept until it is, and judged again then,
    or at the end by the mean of all others.

    Attributes:
        limit_ns: what is longer is worth a call of ``judge``.
        count: number of pauses.
        total_ns: their sum.
    """

    def __init__(self) -> None:
        self.limit_ns = LEAST_NS
        self.count = 0
        self.total_ns = 0
        self._longest: list[tuple[int, int]] = []
        """Length and begin, as a heap."""
        self._open: list[tuple[int, int]] = []
        """The same of intervals that may turn out to be pauses."""

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
        if usual_ns is not None:
            self.limit_ns = max(LEAST_NS, FACTOR * usual_ns)
            self._settle()
            if length > self.limit_ns:
                self._count(length, begin_ns)
            return
        self.limit_ns = LEAST_NS
        if messages >= LEAST_MESSAGES and length > max(LEAST_NS, UNEVEN_FACTOR * mean_ns):
            self._count(length, begin_ns)
        elif length > LEAST_NS:
            heapq.heappush(self._open, (length, begin_ns))
            if len(self._open) > MOST_OPEN:
                heapq.heappop(self._open)

    def ended(self, usual_ns: int | None, span_ns: int, messages: int) -> Pauses:
        """The pauses if nothing follows; these stay as they are.

        Args:
            usual_ns: the topic's usual interval, None if it has none.
            span_ns: time from its first message to its last.
            messages: their number.
        """
        found = Pauses()
        found.count, found.total_ns, found.limit_ns = self.count, self.total_ns, self.limit_ns
        found._longest, found._open = list(self._longest), list(self._open)
        if usual_ns is not None:
            found.limit_ns = max(LEAST_NS, FACTOR * usual_ns)
            found._settle()
            return found
        for length, begin_ns in sorted(self._open, reverse=True):
            others = messages - 1 - found.count - 1
            least_ns = LEAST_NS if others >= FEW else FEW_NS
            if others < 1:
                break
            mean_ns = (span_ns - found.total_ns - length) // others
            if length <= max(least_ns, UNEVEN_FACTOR * mean_ns):
                break
            found._count(length, begin_ns)
        return found

    def _settle(self) -> None:
        """Judge again what came before the usual interval was known."""
        for length, begin_ns in self._open:
            if length > self.limit_ns:
                self._count(length, begin_ns)
        self._open = []

    def _count(self, length: int, begin_ns: int) -> None:
        self.count += 1
        self.total_ns += length
        heapq.heappush(self._longest, (length, begin_ns))
        if len(self._longest) > KEPT:
            heapq.heappop(self._longest)

    @property
    def longest(self) -> list[tuple[int, int]]:
        """Begin and end of the longest ones, in order of time."""
        return sorted((begin, begin + length) for length, begin in self._longest)
