"""Sorts measurements by time, as far as they come out of order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

MOST_WAITING_BYTES = 256 << 20
Item = TypeVar("Item")


class Reorder(Generic[Item]):
    """Sorts items by (time, topic, arrival), holding each until nothing earlier can come.

    An item may come up to ``window_ns`` later than the newest time seen, so any order of arrival within that
    window gives the same order of output. Of items of more than ``most_bytes`` the first leave earlier.
    """

    def __init__(self, window_ns: int, most_bytes: int = MOST_WAITING_BYTES) -> None:
        self._window_ns = window_ns
        self._most_bytes = most_bytes
        self._bytes = 0
        self._heap: list[tuple[int, str, int, int, Item]] = []
        self._newest_ns: int | None = None
        self._left_ns: int | None = None

    def push(self, time_ns: int, topic: str, arrival: int, item: Item, size: int = 0) -> bool:
        """Take an item of ``size`` bytes; False if it comes too late for its place, and is not kept."""
        if self._left_ns is not None and time_ns < self._left_ns:
            return False
        heapq.heappush(self._heap, (time_ns, topic, arrival, size, item))
        self._bytes += size
        if self._newest_ns is None or time_ns > self._newest_ns:
            self._newest_ns = time_ns
        return True

    def pop(self) -> Iterator[Item]:
        """Items before which nothing can come any more, in order."""
        if self._newest_ns is None:
            return
        limit_ns = self._newest_ns - self._window_ns
        while self._heap and (self._heap[0][0] < limit_ns or self._bytes > self._most_bytes):
            yield self._take()

    def flush(self) -> Iterator[Item]:
        """All remaining items, in order."""
        while self._heap:
            yield self._take()

    def _take(self) -> Item:
        self._left_ns, _, _, size, item = heapq.heappop(self._heap)
        self._bytes -= size
        return item
