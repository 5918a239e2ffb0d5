"""The axis of time of a page: seconds since the start, with long pauses between drives cut out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

LONGEST_PAUSE_S = 60.0
PAUSE_SHARE = 0.25
"""A pause of all topics is cut out if it is longer than this share of the rest, too."""
CUT_SHARE = 0.02
"""Width of a pause that is cut out, as a share of the rest."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """An unbroken part of the axis: where it begins on the page, in the drive, and how long it is, in s."""

    place_s: float
    since_start_s: float
    length_s: float


class TimeAxis:
    """Maps times to places on the page.

    Args:
        start_ns: the start of the drive.
        spans_ns: when anything was received, begin and end, in any order.
    """

    def __init__(self, start_ns: int, spans_ns: Iterable[tuple[int, int]]) -> None:
        self.start_ns = start_ns
        ordered = sorted(((a - start_ns) / 1e9, (b - start_ns) / 1e9) for a, b in spans_ns)
        covered_s = sum(end - begin for begin, end in ordered)
        longest_s = max(LONGEST_PAUSE_S, PAUSE_SHARE * covered_s)
        runs: list[list[float]] = []
        for begin, end in ordered or [(0.0, 1.0)]:
            if runs and begin - runs[-1][1] <= longest_s:
                runs[-1][1] = max(runs[-1][1], end)
            else:
                runs.append([begin, end])
        place_s, cut_s = 0.0, CUT_SHARE * sum(end - begin for begin, end in runs)
        self.stretches: list[Stretch] = []
        for begin, end in runs:
            self.stretches.append(Stretch(place_s, begin, end - begin))
            place_s += end - begin + cut_s
        self.end_s = place_s - cut_s
        self._begins = [stretch.since_start_s for stretch in self.stretches]

    def place_s(self, time_ns: int) -> float:
        """The place of a time; a time within a cut is at its edge."""
        since_start_s = (time_ns - self.start_ns) / 1e9
        stretch = self.stretches[max(0, bisect_right(self._begins, since_start_s) - 1)]
        inside = min(max(0.0, since_start_s - stretch.since_start_s), stretch.length_s)
        return round(stretch.place_s + inside, 3)
