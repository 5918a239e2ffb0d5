"""What shows that pictures of a stream are missing: stamps, H.264's frame_num, fewer slices than others."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.parameters import SliceHeader, are_paired

MISCOUNTED = "frame_num does not count as H.264 says, so that lost pictures show only in the stamps"
_STEADY = 8
"""After so many pictures with the same slices the next one has them, too."""
_PAST = 32
"""Frames whose spacing is remembered: about a second, so a changed frame rate is learnt in half of it."""


class Step(Enum):
    """What a frame_num says of the pictures before it."""

    NEXT = auto()
    LOSS = auto()
    LATE = auto()
    """The picture itself, which no other needs, comes behind one that is decoded after it."""


class FrameNumbers:
    """Counts frame_num, which each reference picture increments (clause 7.4.3); a gap is a loss.

    Attributes:
        miscounted: the encoder counts otherwise: most pictures that nothing refers to have the number of the
            reference picture before them, or are counted like one. Then a gap says nothing.
    """

    def __init__(self) -> None:
        self._reference_num = -1
        self._before: SliceHeader | None = None
        self.miscounted = False

    def learn(self, headers: Iterable[SliceHeader]) -> None:
        """Find out from a stream's first pictures how its encoder counts."""
        still, counted = [], []
        for header in headers:
            before, steps = self._before, self._take(header)
            if not header.reference:
                still.append(steps == 0)
            if before is not None and not before.reference:
                counted.append((header.frame_num - before.frame_num) % header.frame_num_modulus == 1)
        self.miscounted = any(4 * sum(each) > 3 * len(each) for each in (still, counted))
        self._reference_num, self._before = -1, None

    def step(self, header: SliceHeader) -> Step:
        """Take the next picture."""
        before, steps = self._before, self._take(header)
        if header.idr or self.miscounted or header.sequence.gaps or steps == 1:
            return Step.NEXT
        if before is not None and are_paired(before, header):
            return Step.NEXT
        return Step.LATE if steps == 0 and not header.reference else Step.LOSS

    def _take(self, header: SliceHeader) -> int:
        """How many reference pictures come from the last one to a picture, itself counted in."""
        steps = (header.frame_num - self._reference_num) % header.frame_num_modulus
        self._before = header
        if header.reference:
            self._reference_num = header.frame_num
        return steps


class SliceLayouts:
    """Where slices begin; a picture that lacks some of those that all before it had is cut."""

    def __init__(self) -> None:
        self._known: dict[bool, tuple[frozenset[tuple[int, int]], int]] = {}

    def is_cut(self, headers: Iterable[SliceHeader], *, key: bool) -> bool:
        """Whether slices of the next picture are missing."""
        found = frozenset((header.field, header.address) for header in headers)
        known, times = self._known.get(key, (found, 0))
        other, _ = self._known.get(not key, (found, 0))
        if found < known and (times >= _STEADY or known == other):
            if key:  # the encoder may have been set up anew
                self._known.clear()
            return True
        self._known[key] = found, times + 1 if found == known else 1
        return False


@dataclass(slots=True)
class FrameMark:
    """One picture; ``poc`` and ``start_ns`` as in ``continuity.Assessment``."""

    time_ns: int
    key: bool
    poc: int | None
    poc_modulus: int
    start_ns: int | None = None


class GapDetector:
    """Finds lost frames by the time stamps, and rejects frames after a gap whose decoding started before it.

    A frame was lost where two frames are more than one and a half intervals apart, the interval being the
    median spacing around them. It was not lost if the encoder's own picture count continues across the gap:
    then it was late or never encoded.

    Args:
        ahead_ns: how far past a frame all others have arrived when it is walked over.
    """

    def __init__(self, ahead_ns: int) -> None:
        self._ahead_ns = ahead_ns
        self._marks: list[FrameMark] = []
        self._past: deque[FrameMark] = deque(maxlen=_PAST)
        self._key_ns: int | None = None
        self._gap_ns: int | None = None

    def add(self, mark: FrameMark) -> None:
        """Add a frame later than ``walked_ns``; otherwise in any order."""
        insort(self._marks, mark, key=_time)

    @property
    def walked_ns(self) -> int | None:
        """Time of the last frame walked over."""
        return self._past[-1].time_ns if self._past else None

    def interval_ns(self) -> int | None:
        """Median spacing of the frames around the last one walked over, None if there are fewer than two."""
        return self._spacing_ns(self._around(self.walked_ns or 0))

    @staticmethod
    def _spacing_ns(marks: list[FrameMark]) -> int | None:
        spacing = sorted(later.time_ns - mark.time_ns for mark, later in pairwise(marks))
        return spacing[len(spacing) // 2] if spacing else None

    def walk(self, time_ns: int) -> list[tuple[int, str | None]]:
        """Walk to a time: the frames passed, each with the reason why it is rejected, if it is."""
        passed: list[tuple[int, str | None]] = []
        while self._marks and self._marks[0].time_ns <= time_ns:
            mark = self._marks[0]
            if mark.key:
                self._key_ns = mark.time_ns
            elif self._past and self._lost(self._past[-1], mark):
                self._gap_ns = mark.time_ns
            start_ns = self._key_ns if mark.start_ns is None else mark.start_ns
            is_behind = self._gap_ns is not None and (start_ns is None or start_ns < self._gap_ns)
            passed.append((mark.time_ns, Reason.AFTER_LOSS if is_behind else None))
            self._past.append(self._marks.pop(0))
        return passed

    def _around(self, time_ns: int) -> list[FrameMark]:
        ahead = bisect_right(self._marks, time_ns + self._ahead_ns, key=_time)
        return [*self._past, *self._marks[:ahead]]

    def _lost(self, before: FrameMark, after: FrameMark) -> bool:
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


def _time(mark: FrameMark) -> int:
    return mark.time_ns
