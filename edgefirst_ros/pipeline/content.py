"""Watches what the messages of one topic hold: cheaply, in order of time, and in bounded memory."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.camera import CompressedImage, RawImage
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Datum, Look
from edgefirst_ros.report.content import Condition

LEAST_NS, LEAST_MESSAGES = 1_000_000_000, 3
"""A condition that holds for less is none: a single picture may be black, an epoch be sent twice."""
HOLE_NS = 2_000_000_000
"""After so long without a message nobody knows what a sensor showed."""
MOST_SPELLS = 32
POINTS = 2048
"""Points of a cloud that are looked at, evenly chosen: they tell shares to a hundredth."""
SECTORS = 36
LEAST_POINTS = 500
"""Of fewer the share of directions with points is chance, and a few points of bare ground are the same again
where noise is below what the sensor sends."""
ZEROS, MORE_ZEROS = 0.45, 0.25
"""Share of points at 0,0,0: of a list, in which rays that met nothing are left out, and how much more than
usual of one that has them."""
FEWER_SECTORS = 0.6
USUAL = 0.1
"""The quantile that is the usual share of zeros, and, from above, of directions."""
LOOK_NS = 1_000_000_000
"""Stills are decoded to be looked at once in so long ..."""
OTHER_SIZE = 1.5
"""... and whenever their size in bytes changes by this factor, as it does when they go black."""


class SpellCounter:
    """Spells in which a condition holds; times come in order."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self._last_ns = self._messages = 0
        self.count = self.total_ns = 0
        self._longest: list[tuple[int, int]] = []
        """Length and begin."""

    def add(self, time_ns: int, *, holds: bool, begin_ns: int | None = None) -> None:
        """Take the next message; ``begin_ns`` is of an earlier one for which it is known to hold as well."""
        if self._begin_ns is not None and time_ns - self._last_ns > HOLE_NS:
            self._end(self._last_ns)
        if not holds:
            self._end(time_ns)
            return
        if self._begin_ns is None:
            if begin_ns is not None and time_ns - begin_ns > HOLE_NS:
                begin_ns = None
            self._begin_ns = time_ns if begin_ns is None else begin_ns
            self._messages = int(begin_ns is not None)
        self._messages += 1
        self._last_ns = time_ns

    def _end(self, end_ns: int) -> None:
        span = self.current(end_ns)
        self._begin_ns = None
        if span is None:
            return
        self.count += 1
        self.total_ns += span[1] - span[0]
        heapq.heappush(self._longest, (span[1] - span[0], span[0]))
        if len(self._longest) > MOST_SPELLS:
            heapq.heappop(self._longest)

    def current(self, end_ns: int | None = None) -> tuple[int, int] | None:
        """The spell that goes on, if it is one already."""
        begin_ns, end_ns = self._begin_ns, self._last_ns if end_ns is None else end_ns
        if begin_ns is None or self._messages < LEAST_MESSAGES or end_ns - begin_ns < LEAST_NS:
            return None
        return begin_ns, end_ns

    def summary(self) -> dict[str, Any] | None:
        """How many, how long in all, and begin and end of the longest ones; None if there is none."""
        current = self.current()
        spans = [(begin, begin + length) for length, begin in self._longest]
        total_ns = self.total_ns
        if current is not None:
            spans.append(current)
            total_ns += current[1] - current[0]
        if not spans:
            return None
        return {
            "count": self.count + (current is not None),
            "total_s": round(total_ns / 1e9, 3),
            "longest_ns": [list(span) for span in sorted(spans)],
        }


@dataclass(slots=True)
class _Slot:
    """A picture that was requested, and its look once that is known."""

    time_ns: int
    look: Look | None = None
    is_known: bool = False


@dataclass(slots=True)
class StreamContent:
    """What one topic's messages hold; fed in order of time, pictures' looks from any thread."""

    spells: dict[Condition, SpellCounter] = field(default_factory=dict)
    is_watched: bool = False
    """Whether its messages are of a kind whose repetition is noticed."""
    _before: tuple[int, Any] | None = None
    """Time and content of the message before."""
    _zeros: Counter[int] = field(default_factory=Counter)
    _sectors: Counter[int] = field(default_factory=Counter)
    _slots: deque[_Slot] = field(default_factory=deque)
    _anchor: tuple[int, npt.NDArray[np.int16]] | None = None
    """Time and fields of the picture that video has shown since."""
    _looked: tuple[int, int] = (-(2**63), 0)
    """When a still was looked at last, and its size in bytes."""
    _lock: Lock = field(default_factory=Lock)

    def message(self, time_ns: int, datum: Datum) -> dict[str, float]:
        """Take the next message; what is worth noting of it beside its sample."""
        if isinstance(datum, Imu):
            self._compare(time_ns, datum)
        elif isinstance(datum, PointCloud):
            return self._cloud(time_ns, datum)
        elif isinstance(datum, CompressedImage):
            return {"repeated": float(self._compare(time_ns, datum.data))}
        elif isinstance(datum, RawImage):
            return {"repeated": float(self._compare(time_ns, datum.pixels.data))}
        return {}

    def _compare(self, time_ns: int, content: object) -> bool:
        """Whether a message says the same as the one before, byte by byte up to the first difference."""
        before, self._before, self.is_watched = self._before, (time_ns, content), True
        same = before is not None and before[1] == content
        since_ns = None if before is None else before[0]
        self._note(Condition.FROZEN, time_ns, holds=same, begin_ns=since_ns)
        return same

    def _note(self, condition: Condition, time_ns: int, *, holds: bool, begin_ns: int | None = None) -> None:
        spells = self.spells.get(condition)
        if spells is None:
            if not holds:
                return
            spells = self.spells[condition] = SpellCounter()
        spells.add(time_ns, holds=holds, begin_ns=begin_ns)

    def _cloud(self, time_ns: int, cloud: PointCloud) -> dict[str, float]:
        count = len(cloud.points)
        if not count or not cloud.has("x", "y", "z"):
            return {"points": float(count)}
        try:
            some = PointCloud(cloud.points[:: max(1, count // POINTS)], 1, 0).xyz()
        except DecodeError:
            return {}  # every format refuses it
        repeated = count >= LEAST_POINTS and self._compare(time_ns, (count, some.tobytes()))
        x, y, z = some.T  # one after the other: numpy takes long over rows of three
        at_zero = (x == 0) & (y == 0) & (z == 0)
        zeros = float(at_zero.mean())
        is_return = ~at_zero & np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
        angles = np.arctan2(y[is_return], x[is_return])
        found = np.bincount(((angles / (2 * np.pi) % 1.0) * SECTORS).astype(np.int16))
        sectors = int(np.count_nonzero(found))
        usual_zeros = _quantile(self._zeros, USUAL, round(100 * zeros)) / 100
        usual_sectors = _quantile(self._sectors, 1 - USUAL, sectors)
        self._zeros[round(100 * zeros)] += 1
        self._sectors[sectors] += 1
        is_list = cloud.height <= 1
        many = zeros >= usual_zeros + MORE_ZEROS or (is_list and zeros >= ZEROS) or zeros > 1 - USUAL
        self._note(Condition.ZERO_POINTS, time_ns, holds=many)
        few = count >= LEAST_POINTS and sectors < FEWER_SECTORS * usual_sectors
        self._note(Condition.EMPTY_SECTORS, time_ns, holds=few)
        return {
            "points": float(count),
            "zeros": round(zeros, 3),
            "sectors": float(sectors),
            "repeated": float(repeated),
        }

    def is_due(self, time_ns: int, size: int) -> bool:
        """Whether a still of so many bytes is to be looked at."""
        then_ns, before = self._looked
        other = not before / OTHER_SIZE <= size <= before * OTHER_SIZE
        if not other and time_ns - then_ns < LOOK_NS:
            return False
        self._looked = time_ns, size
        return True

    def expect(self, time_ns: int) -> _Slot:
        """A picture was requested; its look comes later, by ``look``."""
        slot = _Slot(time_ns)
        with self._lock:
            self._slots.append(slot)
        return slot

    def look(self, slot: _Slot, look: Look | None, *, moving: bool) -> None:
        """The look of a picture is known, or will never be; ``moving`` if it is of video."""
        with self._lock:
            slot.look, slot.is_known = look, True
            while self._slots and self._slots[0].is_known:
                first = self._slots.popleft()
                if first.look is not None:
                    self._seen(first.time_ns, first.look, moving=moving)

    def _seen(self, time_ns: int, look: Look, *, moving: bool) -> None:
        if moving:
            self._compare_fields(time_ns, look)
        # A lamp at night lights more.
        black = look.lit < 0.002
        self._note(Condition.BLACK, time_ns, holds=black)
        # Fog has more levels.
        self._note(Condition.BLANK, time_ns, holds=not black and look.contrast < 2.0)

    def current(self) -> dict[str, tuple[int, int]]:
        """The conditions that hold now, each with its begin and the newest message; any thread."""
        with self._lock:
            spells = ((name.value, each.current()) for name, each in list(self.spells.items()))
            return {name: span for name, span in spells if span is not None}

    def _compare_fields(self, time_ns: int, look: Look) -> None:
        """Whether video goes on to show the same, which is compared with the first picture that did.

        Packets of frozen video mend the picture for long, so that it is never the same to the last digit.
        """
        fields = np.frombuffer(look.thumb, np.uint8).astype(np.int16)
        anchor, self.is_watched = self._anchor, True
        same = (
            anchor is not None
            # In darker video nothing changes on an empty road; a lit street is brighter.
            and look.luminance >= 25.0
            and len(anchor[1]) == len(fields) > 0
            # A frozen picture that is coded again and again changes by no more on average over a field: by
            # 4 at key frames of x264, which code it anew. While the rig drives, some field changes by
            # dozens.
            and int(np.abs(anchor[1] - fields).max()) <= 5
        )
        self._note(Condition.STILL, time_ns, holds=same, begin_ns=None if anchor is None else anchor[0])
        if not same:
            self._anchor = time_ns, fields

    def summary(self) -> dict[str, Any]:
        """What is said of it in the report."""
        with self._lock:
            spells = {name.value: found for name, each in self.spells.items() if (found := each.summary())}
            return {"spells": dict(sorted(spells.items())), "is_watched": self.is_watched}


def _quantile(counts: Counter[int], share: float, otherwise: int) -> int:
    """The value below which a share of the counted ones lies."""
    left = share * counts.total()
    for value in sorted(counts):
        left -= counts[value]
        if left < 0:
            return value
    return max(counts, default=otherwise)
