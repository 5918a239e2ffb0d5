"""Puts measurements into order of time, so that nothing later depends on order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Reorder(Generic[Item]):
    """A window over time: items leave in order of (time, topic, arrival) once nothing earlier can come.

    An item may arrive up to ``window_ns`` later than the newest time seen and still be in its place, so any
    order of arrival within the window gives the same output.
    """

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._heap: list[tuple[int, str, int, Item]] = []
        self._newest_ns: int | None = None
        self._left_ns: int | None = None

    def push(self, time_ns: int, topic: str, arrival: int, item: Item) -> bool:
        """Take an item in; False if it is too late to be in its place (it is not kept then)."""
        if self._left_ns is not None and time_ns < self._left_ns:
            return False
        heapq.heappush(self._heap, (time_ns, topic, arrival, item))
        self._newest_ns = time_ns if self._newest_ns is None else max(self._newest_ns, time_ns)
        return True

    def pop(self) -> Iterator[tuple[int, Item]]:
        """Items whose time has come, with their times."""
        if self._newest_ns is None:
            return
        limit_ns = self._newest_ns - self._window_ns
        while self._heap and self._heap[0][0] < limit_ns:
            yield self._take()

    def flush(self) -> Iterator[tuple[int, Item]]:
        """Everything still inside, in order."""
        while self._heap:
            yield self._take()

    def _take(self) -> tuple[int, Item]:
        time_ns, _, _, item = heapq.heappop(self._heap)
        self._left_ns = time_ns
        return time_ns, item
