"""One object in several cameras: their cuboids of it get one track."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.tracks.sizes import PRIORS, Kind
from edgefirst_ros.formats.tracks.views import HANDOVER_NS, SURE, Seen, are_two, fit_m, may_be_one, unseen_m

if TYPE_CHECKING:
    from edgefirst_ros.formats.ncore.finish.cuboids import CuboidTable

Floats = npt.NDArray[np.float64]
_HANDOVER_S = HANDOVER_NS / 1e9
_MOTION_S = 0.5
"""What is extrapolated moves on as it did for so long."""


@dataclass(eq=False, slots=True)
class _Track:
    """What one topic says of one object: its rows in order of time, and the tracks that it is one with."""

    view: int
    name: str
    kind: Kind
    rows: npt.NDArray[np.intp]
    times_s: Floats
    places_m: Floats
    fits_m: Floats
    group: list[_Track]


def share_tracks(boxes: CuboidTable, places_m: Floats, placed: npt.NDArray[np.bool_]) -> None:
    """Name what is one object by the topic that had it first; other topics' names never mean the same.

    Two topics' tracks are one if they fit at most of the times that they have in common, or where one goes on
    as the other ends. Of a topic's tracks that are there at one time, each is another object.

    Args:
        boxes: changed in place; of a single topic they stay as they are.
        places_m: (N, 2) in the world.
        placed: (N,) whether that is known.
    """
    if len(boxes.topics) < 2:
        return
    tracks = sorted(_tracks(boxes, places_m, placed), key=lambda each: (each.times_s[0], each.view))
    for _, _, older, younger in sorted(_fitting(tracks), key=lambda each: each[:2]):
        if older.group is not younger.group and not _are_two(older.group, younger.group):
            older.group += younger.group
            for each in younger.group:
                each.group = older.group
    owners: dict[str, list[_Track]] = {}
    for each in tracks:
        first = min(each.group, key=lambda one: (one.times_s[0], one.view))
        name = first.name
        if owners.setdefault(name, first.group) is not first.group:
            name = f"{boxes.topics[first.view]}/{name}"
        boxes.rename(each.rows, name)


def _tracks(boxes: CuboidTable, places_m: Floats, placed: npt.NDArray[np.bool_]) -> Iterator[_Track]:
    views, names = np.array(boxes.views, np.int64), np.array(boxes.tracks, np.int64)
    times_us = np.array(boxes.times_us, np.int64)
    begin_us = times_us.min() if len(times_us) else 0
    rows = np.flatnonzero(placed & (np.array(boxes.tracked, np.uint8) == 1))
    rows = rows[np.lexsort((times_us[rows], names[rows], views[rows]))]
    away_m = np.linalg.norm(np.array(boxes.centroids).reshape(-1, 3), axis=1)
    kinds = boxes.kinds
    ends = np.flatnonzero(np.diff(names[rows]) | np.diff(views[rows])) + 1
    for of in np.split(rows, ends) if len(rows) else ():
        kind = kinds[of[len(of) // 2]]
        fits = fit_m(np.full(len(of), PRIORS[kind].typical_m[1]), away_m[of])
        times_s = (times_us[of] - begin_us) / 1e6
        name = boxes.texts[names[of[0]]]
        track = _Track(int(views[of[0]]), name, kind, of, times_s, places_m[of], fits, [])
        track.group.append(track)
        yield track


def _fitting(tracks: list[_Track]) -> Iterator[tuple[float, int, _Track, _Track]]:
    """How far apart tracks of two topics that may be one are, the number of the younger one, and both."""
    for number, younger in enumerate(tracks):
        rest()
        for older in tracks[:number]:
            is_near = younger.times_s[0] - older.times_s[-1] <= _HANDOVER_S
            if is_near and older.view != younger.view and may_be_one(older.kind, younger.kind):
                off = _off(older, younger)
                if off < 1.0:
                    yield off, number, older, younger


def _off(older: _Track, younger: _Track) -> float:
    """How far apart they are, in shares of how far one object's may be: the median of common times.

    Where they have none, it is that of the first ones after the older track's end.
    """
    times_s, end_s = younger.times_s, older.times_s[-1]
    common = times_s <= end_s
    if not common.any():
        common[:SURE] = times_s[:SURE] <= end_s + _HANDOVER_S
    recent = older.times_s >= end_s - _MOTION_S
    late_s = np.maximum(times_s[common] - end_s, 0.0)
    off = np.empty((len(late_s), 2))
    for axis in range(2):
        off[:, axis] = np.interp(times_s[common], older.times_s, older.places_m[:, axis])
        if recent.sum() > 1:
            off[:, axis] += np.polyfit(older.times_s[recent], older.places_m[recent, axis], 1)[0] * late_s
    apart_m = np.linalg.norm(off - younger.places_m[common], axis=1)
    fits_m = np.maximum(younger.fits_m[common], older.fits_m[-1])
    return float(np.median(apart_m / (fits_m + unseen_m(late_s))))


def _are_two(ones: list[_Track], others: list[_Track]) -> bool:
    def seen(group: list[_Track]) -> list[Seen]:
        return [(each.view, each.times_s[0], each.times_s[-1]) for each in group]

    return are_two(seen(ones), seen(others))
