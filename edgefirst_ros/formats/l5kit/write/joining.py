"""One object in several cameras: their tracks of it get one number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from edgefirst_ros.formats.l5kit.options import VELOCITY_WINDOW_NS
from edgefirst_ros.formats.l5kit.store.schema import AgentLabel
from edgefirst_ros.formats.l5kit.write.tracks import AgentTrack
from edgefirst_ros.formats.tracks.sizes import Kind
from edgefirst_ros.formats.tracks.views import HANDOVER_NS, SURE, Seen, are_two, may_be_one, unseen_m

_KINDS = tuple(Kind(each.value) if each.value in [*Kind] else Kind.UNKNOWN for each in AgentLabel)
_Pair = tuple[AgentTrack, AgentTrack]


class Joiner:
    """Finds the tracks of different cameras that are of one object, by place at one time and by kind.

    Each track keeps its path; the one that was there first gives its number to the other. Of one camera's
    tracks that were seen at one time, each is another object. A track of which no frame has been made yet is
    joined at once, others once they fit often enough; those that come apart have numbers of their own again.
    """

    def __init__(self) -> None:
        self._fits: dict[_Pair, int] = {}
        """How much more often two tracks, the older one first, fitted than not, up to SURE."""

    def join(self, tracks: Sequence[AgentTrack], sample: int) -> None:
        """Look at named tracks, in order of their beginning, after what a sample of this number brought."""
        if len({each.view for each in tracks}) < 2:
            return
        known = set(tracks)
        self._fits = {pair: count for pair, count in self._fits.items() if known.issuperset(pair)}
        fitting: list[tuple[float, _Pair]] = []
        for pair, apart_m, fit_m in _pairs(tracks, sample):
            older, younger = pair
            is_one = older.number == younger.number
            before = self._fits.get(pair, SURE if is_one else 0)
            if apart_m > fit_m * (2 if is_one else 1):
                self._fits[pair] = max(before - 1, 0)
                if is_one and before <= 1:
                    younger.number = younger.own_number
            elif is_one:
                self._fits[pair] = min(before + 1, SURE)
            else:
                fitting.append((apart_m, pair))
        for _, (older, younger) in sorted(fitting, key=lambda each: each[0]):
            if older.number != younger.number and not _are_two(older, younger, tracks):
                count = self._fits[older, younger] = self._fits.get((older, younger), 0) + 1
                if count >= SURE or younger.last.time_ns - younger.first_ns < VELOCITY_WINDOW_NS // 2:
                    _rename(younger.number, older.number, tracks)


def _pairs(tracks: Sequence[AgentTrack], sample: int) -> Iterator[tuple[_Pair, float, float]]:
    """Older and younger track of two cameras; how far apart they are, and how far one object's may be."""
    for number, younger in enumerate(tracks):
        now = younger.last
        if now.sample != sample:
            continue
        for older in tracks[:number]:
            off_ns = abs(now.time_ns - older.last.time_ns)
            if older.view != younger.view and off_ns <= HANDOVER_NS and _may_be_one(older, younger):
                apart_m = math.dist(older.expected_m(now.time_ns), now.place_m)
                yield (older, younger), apart_m, max(now.fit_m, older.last.fit_m) + unseen_m(off_ns / 1e9)


def _may_be_one(one: AgentTrack, other: AgentTrack) -> bool:
    kinds = (_KINDS[int(np.argmax(each.last.label))] for each in (one, other))
    return may_be_one(*kinds)


def _are_two(one: AgentTrack, other: AgentTrack, tracks: Sequence[AgentTrack]) -> bool:
    def seen(number: int) -> list[Seen]:
        same = (each for each in tracks if each.number == number)
        return [(each.view, each.first_ns, each.last.time_ns) for each in same]

    return are_two(seen(one.number), seen(other.number))


def _rename(before: int, now: int, tracks: Sequence[AgentTrack]) -> None:
    for each in tracks:
        each.number = now if each.number == before else each.number
