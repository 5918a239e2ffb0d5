"""One object in several cameras: their tracks of it get one number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from edgefirst_ros.formats.l5kit.store.schema import AgentLabel
from edgefirst_ros.formats.l5kit.write.tracks import AgentTrack
from edgefirst_ros.formats.tracks.sizes import Kind
from edgefirst_ros.formats.tracks.views import HANDOVER_NS, SURE, may_be_one

_KINDS = tuple(Kind(each.value) if each.value in [*Kind] else Kind.UNKNOWN for each in AgentLabel)
_Pair = tuple[AgentTrack, AgentTrack]


class Joiner:
    """Finds the tracks of different cameras that are of one object, by place at one time and by kind.

    Each track keeps its path; the one that was there first gives its number to the other. Of a camera's tracks
    that were seen at one time, each is another object. Tracks that come apart have numbers of their own again.
    """

    def __init__(self) -> None:
        self._near: dict[_Pair, int] = {}
        self._far: dict[_Pair, int] = {}
        """How often in succession two tracks, the older one first, were where one object is, or two are."""

    def join(self, tracks: Sequence[AgentTrack], sample: int) -> None:
        """Look at named tracks, in order of their beginning, after what a sample of this number brought."""
        if len({each.view for each in tracks}) < 2:
            return
        fits: list[tuple[float, _Pair]] = []
        far = {}
        for pair, apart_m, fit_m in _pairs(tracks, sample):
            older, younger = pair
            if older.number != younger.number:
                if apart_m < fit_m and not _are_two(older, younger, tracks):
                    fits.append((apart_m, pair))
            elif apart_m > 2 * fit_m:
                far[pair] = self._far.get(pair, 0) + 1
                if far[pair] >= SURE:
                    younger.number = younger.own_number
        known = set(tracks)
        waiting = {p: n for p, n in self._near.items() if p[1].last.sample != sample and known.issuperset(p)}
        near, taken = waiting, set[tuple[int, int]]()
        for _, pair in sorted(fits, key=lambda each: each[0]):
            older, younger = pair
            ends = {(older.number, younger.view), (younger.number, older.view)}
            if taken.isdisjoint(ends):
                taken |= ends
                near[pair] = self._near.get(pair, 0) + 1
                if near[pair] >= SURE and not _are_two(older, younger, tracks):
                    _rename(younger.number, older.number, tracks)
        self._near, self._far = near, far


def _pairs(tracks: Sequence[AgentTrack], sample: int) -> Iterator[tuple[_Pair, float, float]]:
    """Older and younger track of two cameras, what is between them when the younger was seen, and how far one
    object's may be apart."""
    for number, younger in enumerate(tracks):
        now = younger.last
        if now.sample != sample:
            continue
        for older in tracks[:number]:
            off_s = abs(now.time_ns - older.last.time_ns) / 1e9
            if older.view != younger.view and off_s * 1e9 <= HANDOVER_NS and _may_be_one(older, younger):
                apart_m = math.dist(older.expected_m(now.time_ns), now.place_m)
                # What it does unseen, at 2 m/s² in any direction.
                yield (older, younger), apart_m, max(now.fit_m, older.last.fit_m) + off_s**2


def _may_be_one(one: AgentTrack, other: AgentTrack) -> bool:
    kinds = (_KINDS[int(np.argmax(each.last.label))] for each in (one, other))
    return may_be_one(*kinds)


def _are_two(one: AgentTrack, other: AgentTrack, tracks: Sequence[AgentTrack]) -> bool:
    """Whether some camera saw both numbers' objects at one time."""
    ones, others = ([each for each in tracks if each.number == of.number] for of in (one, other))
    return any(
        a.view == b.view and a.last.time_ns >= b.first_ns and b.last.time_ns >= a.first_ns
        for a in ones
        for b in others
    )


def _rename(before: int, now: int, tracks: Sequence[AgentTrack]) -> None:
    for each in tracks:
        each.number = now if each.number == before else each.number
