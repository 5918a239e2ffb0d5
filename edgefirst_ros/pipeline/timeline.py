"""How many messages of each topic, and reference frames, there were when, in a bounded number of bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST_BINS = 600
FINEST_NS = 100_000_000
MOST_KINDS = 8


class Timeline:
    """Counts by lane, kind and time.

    Bins are multiples of a width that doubles whenever more than ``MOST_BINS`` of them hold something, so the
    result does not depend on the order of the calls, and hours between two drives take no room.

    Attributes:
        bin_ns: the width of a bin.
    """

    def __init__(self) -> None:
        self.bin_ns = FINEST_NS
        self._occupied: set[int] = set()
        self._lanes: dict[str, dict[int, int]] = {}

    def add(self, lane: str, time_ns: int, kind: int, count: int = 1) -> None:
        """Count something of a kind, which is less than ``MOST_KINDS``; times up to 0 are unknown ones."""
        if time_ns <= 0:
            return
        number = time_ns // self.bin_ns
        counts = self._lanes.get(lane)
        if counts is None:
            counts = self._lanes[lane] = {}
        key = number * MOST_KINDS + kind
        counts[key] = counts.get(key, 0) + count
        if number not in self._occupied:
            self._occupied.add(number)
            while len(self._occupied) > MOST_BINS:
                self._coarsen()

    def _coarsen(self) -> None:
        self.bin_ns *= 2
        self._occupied = {number // 2 for number in self._occupied}
        for lane, counts in self._lanes.items():
            merged: dict[int, int] = {}
            for key, count in counts.items():
                number, kind = divmod(key, MOST_KINDS)
                at = number // 2 * MOST_KINDS + kind
                merged[at] = merged.get(at, 0) + count
            self._lanes[lane] = merged

    def summary(self, kinds: Sequence[str]) -> dict[str, Any]:
        """The occupied bins, and for each lane the counts in them of every kind that it has."""
        numbers = sorted(self._occupied)
        first = numbers[0] if numbers else 0
        lanes: dict[str, dict[str, list[int]]] = {}
        for lane, counts in sorted(self._lanes.items()):
            present = sorted({key % MOST_KINDS for key in counts})
            lanes[lane] = {
                kinds[kind]: [counts.get(number * MOST_KINDS + kind, 0) for number in numbers]
                for kind in present
            }
        return {
            "start_ns": first * self.bin_ns,
            "bin_ns": self.bin_ns,
            "bins": [number - first for number in numbers],
            "counts": lanes,
        }
