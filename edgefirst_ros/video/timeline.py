"""Holes in the stamps of a video: where a frame was lost that nothing else tells of."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

from edgefirst_ros.video.step import AFTER_LOSS

_PAST = 32
"""Frames whose spacing is remembered: about a second, so a changed frame rate is learnt in half of it."""

_NEVER = -(1 << 63)


@dataclass(slots=True)
class Mark:
    """One picture on the time axis; ``poc`` and ``start_ns`` as in ``step.Step``."""

    time_ns: int
    key: bool
    poc: int | None
    poc_modulus: int
    start_ns: int | None = None


class Timeline:
    """Walks the frames in order of time, and holds back those after a hole whose decoding started before it.

    A frame was lost where two frames are more than one and a half intervals apart, the interval being the
    median spacing around them; unless the encoder's own picture count runs on without a step across the
    hole. Then it was late or never encoded, and nothing is damaged.

    Args:
        ahead_ns: how far past a frame everything has arrived when its verdict is asked for.
    """

    def __init__(self, ahead_ns: int) -> None:
        self._ahead_ns = ahead_ns
        self._marks: list[Mark] = []
        self._past: deque[Mark] = deque(maxlen=_PAST)
        self._key_ns = _NEVER
        self._hole_ns = _NEVER

    def add(self, mark: Mark) -> None:
        """Take one frame; frames may come in any order, as long as it is ahead of the walk."""
        insort(self._marks, mark, key=_time)

    @property
    def walked_ns(self) -> int | None:
        """Time of the last frame walked over."""
        return self._past[-1].time_ns if self._past else None

    def interval_ns(self) -> int | None:
        """Median spacing of the frames around the last one walked over, None if there are fewer than two."""
        return self._spacing_ns(self._around(self.walked_ns or 0))

    @staticmethod
    def _spacing_ns(marks: list[Mark]) -> int | None:
        spacing = sorted(later.time_ns - mark.time_ns for mark, later in pairwise(marks))
        return spacing[len(spacing) // 2] if spacing else None

    def walk(self, time_ns: int) -> list[tuple[int, str | None]]:
        """Walk to a time: the frames passed, and why each is held back, None if it is not."""
        passed = []
        while self._marks and self._marks[0].time_ns <= time_ns:
            mark = self._marks[0]
            if mark.key:
                self._key_ns = mark.time_ns
            elif self._past and self._lost(self._past[-1], mark):
                self._hole_ns = mark.time_ns
            start_ns = self._key_ns if mark.start_ns is None else mark.start_ns
            passed.append((mark.time_ns, AFTER_LOSS if start_ns < self._hole_ns else None))
            self._past.append(self._marks.pop(0))
        return passed

    def _around(self, time_ns: int) -> list[Mark]:
        ahead = bisect_right(self._marks, time_ns + self._ahead_ns, key=_time)
        return [*self._past, *self._marks[:ahead]]

    def _lost(self, before: Mark, after: Mark) -> bool:
        around = self._around(after.time_ns)
        interval_ns = self._spacing_ns(around)
        gap_ns = after.time_ns - before.time_ns
        if interval_ns is None or 2 * gap_ns <= 3 * interval_ns:
            return False
        if before.poc is None or after.poc is None or before.poc_modulus != after.poc_modulus:
            return True
        steps = sorted(
            (later.poc - mark.poc) % later.poc_modulus
            for mark, later in pairwise(around)
            if mark.poc is not None and later.poc is not None and not later.key
        )
        step = max(1, steps[len(steps) // 2])
        # The count wraps: past half a turn it cannot tell no picture from a whole turn of them.
        provable_ns = interval_ns * (after.poc_modulus // (2 * step))
        return gap_ns > provable_ns or (after.poc - before.poc) % after.poc_modulus != step


def _time(mark: Mark) -> int:
    return mark.time_ns
