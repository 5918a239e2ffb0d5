"""Counts of durations, folded into few bins for a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_BINS = 60


def folded(counts: Mapping[int, int], unit_ms: float) -> dict[str, Any] | None:
    """A histogram of at most ``MOST_BINS`` equal bins; None without counts.

    Args:
        counts: by multiple of the unit.
        unit_ms: the unit.

    Returns:
        ``bin_ms``, ``from_ms`` (the lower end of the first bin), and ``counts``.
    """
    if not counts:
        return None
    low, high = min(counts), max(counts)
    width = next(
        step * 10**power
        for power in range(20)
        for step in (1, 2, 5)
        if high // (step * 10**power) - low // (step * 10**power) < MOST_BINS
    )
    first = low // width
    bins = [0] * (high // width - first + 1)
    for number, count in counts.items():
        bins[number // width - first] += count
    return {"bin_ms": width * unit_ms, "from_ms": first * width * unit_ms, "counts": bins}


def quantile(counts: Mapping[int, int], share: float) -> int | None:
    """The multiple of the unit below or at which this share of the counts lies; None without counts."""
    seen, total = 0, sum(counts.values())
    for number in sorted(counts):
        seen += counts[number]
        if seen >= share * total:
            return number
    return None
