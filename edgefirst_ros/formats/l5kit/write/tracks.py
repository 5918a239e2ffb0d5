"""The tracks of a scene: what was seen of each, and its row of the agents array at any time."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.options import PRIORS_OF_LABELS, TRACK_GAP_NS
from edgefirst_ros.formats.l5kit.store.schema import AGENT, LABELS, AgentLabel, Records
from edgefirst_ros.formats.l5kit.write.boxes import VIEWS
from edgefirst_ros.formats.tracks.rays import wrapped
from edgefirst_ros.formats.tracks.sizes import Prior, Size
from edgefirst_ros.formats.tracks.solver import (
    AWAY_NS,
    Place,
    Sightings,
    Solved,
    Spot,
    TrackPath,
    interpolated,
    motion,
    nearest,
    solved,
)

REACH_NS = 50_000_000
"""How far a track is extrapolated beyond its first and last sighting: half a step at 10 Hz."""

_LEAST_WEIGHT = 0.1
_MOST_SIGHTINGS, _KEPT_SIGHTINGS = 20_000, 200
"""Sightings of a track in memory, 48 bytes each, and those that are kept of them when it is settled."""
_NO_KIND = (AgentLabel.NOT_SET, AgentLabel.UNKNOWN, AgentLabel.DONTCARE, AgentLabel.AVRESEARCH_DONTCARE)
_KINDS = np.array([label not in _NO_KIND for label in AgentLabel])

_Labels = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One detection in the world.

    Attributes:
        key: as in PlacedDetections.
        source: as in PlacedDetections.
        sample: number of the sample that brought it.
        time_ns: when it was seen.
        place_m: east and north.
        bearing_rad: direction in the world that it was seen along.
        lateral_m, height_m, label: as in PlacedDetections.
        reach_m: half its typical size; untracked detections within it are the same object.
    """

    key: int
    source: int
    sample: int
    time_ns: int
    place_m: Place
    bearing_rad: float
    lateral_m: float
    height_m: float
    label: _Labels
    reach_m: float


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the agents array (1,), and the two sightings it lies between; they may be the same one."""

    row: Records
    sightings: tuple[Sighting, Sighting]
    track: AgentTrack

    @property
    def source(self) -> int:
        """The better of its sources."""
        return min(sighting.source for sighting in self.sightings)


@dataclass(frozen=True, slots=True)
class Settled:
    """What is known of rows that were made before, once an object is gone: N rows of the scene's agents.

    Attributes:
        rows: (N,) numbers of the rows in the scene.
        yaw: (N,) as in the agents array.
        extent: length, width, height of the object.
    """

    rows: npt.NDArray[np.int64]
    yaw: npt.NDArray[np.float64]
    extent: Size


class AgentTrack:
    """One object as one view has it: its path, heading, size and class.

    Rows are made of what is known when their frame is due. ``settle`` says later what all sightings say.

    Attributes:
        number: its id in the scene.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._path = TrackPath()
        self._sightings: list[Sighting] = []
        self._waiting: deque[Sighting] = deque()
        self._times_ns = array("q")
        self._seen = array("d")
        """Of all sightings: east, north, bearing, lateral, height."""
        self._solved_at = 0
        self._heading_rad: float | None = None
        self._across = False
        self._size: Size | None = None
        self._label = np.zeros(len(LABELS))
        self._learnt = 0
        self._rows = array("q")
        """Numbers of its rows, and their times."""
        self._ego_yaws_rad = array("d")

    @property
    def last(self) -> Sighting:
        """The latest sighting."""
        return self._sightings[-1]

    @property
    def is_long(self) -> bool:
        """Whether so much is known of it that it may as well be settled."""
        return len(self._times_ns) >= _MOST_SIGHTINGS

    def add(self, sighting: Sighting) -> None:
        """Add a sighting, unless it is not later than the last one."""
        if self._path.add(sighting.time_ns, sighting.place_m):
            self._sightings.append(sighting)
            self._waiting.append(sighting)

    def forget(self, before_ns: int) -> None:
        """Drop sightings that no row from this time on needs."""
        del self._sightings[: self._path.forget(before_ns)]

    def needs(self, from_ns: int, known_ns: int) -> int | None:
        """Number of the first sample that rows from a time on depend on; None if there is none.

        ``known_ns`` is the time up to which sightings have come.
        """
        times = self._path.times_ns
        first = max(bisect_right(times, from_ns) - 1, 0)
        if times[first] < from_ns - REACH_NS:
            following = times[first + 1] if first + 1 < len(times) else known_ns
            if following - times[first] > TRACK_GAP_NS:
                first += 1
        return self._sightings[first].sample if first < len(times) else None

    def learn(self, until_ns: int) -> None:
        """Take heading, size and class from the sightings up to this time."""
        while self._waiting and self._waiting[0].time_ns <= until_ns:
            seen = self._waiting.popleft()
            self._times_ns.append(seen.time_ns)
            self._seen.extend((*seen.place_m, seen.bearing_rad, seen.lateral_m, seen.height_m))
            self._learnt += 1
            self._label += max(1 / self._learnt, _LEAST_WEIGHT) * (seen.label - self._label)
        # Each time with a quarter more than before, so that all of it together takes as long as a few times.
        if len(self._times_ns) > 1.25 * self._solved_at:
            self._take(self._solve())

    def shown(self, time_ns: int, ego_yaw_rad: float) -> Shown | None:
        """Its row at a time; None where it was not seen."""
        spot = self._path.at(time_ns, gap_ns=TRACK_GAP_NS, reach_ns=REACH_NS)
        return None if spot is None else self._row(time_ns, spot, ego_yaw_rad)

    def wrote(self, row: int, time_ns: int, ego_yaw_rad: float) -> None:
        """Note that ``shown`` of this time is this row of the scene."""
        self._rows.extend((row, time_ns))
        self._ego_yaws_rad.append(ego_yaw_rad)

    def settle(self) -> Settled | None:
        """What all sightings say of the rows since the last call, and begin anew; None if there are none.

        The last sightings are kept, for a track that goes on.
        """
        self.learn(self._path.times_ns[-1])
        if not len(self._rows):
            return None
        found = self._solve()
        held_rad = self._heading_rad
        self._take(found)
        rows, times_ns = np.array(self._rows).reshape(-1, 2).T
        told = np.isfinite(found.headings_rad)
        if told.any():
            begin_ns = self._times_ns[0]
            own_s = (np.array(self._times_ns)[told] - begin_ns) / 1e9
            yaw = interpolated(own_s, found.headings_rad[told], (times_ns - begin_ns) / 1e9)
        elif held_rad is not None:
            yaw = np.full(len(rows), held_rad)
        else:
            yaw = np.array(self._ego_yaws_rad) + (math.pi / 2 if found.across else 0.0)
        kept = len(self._times_ns) - _KEPT_SIGHTINGS
        if kept > 0:
            del self._times_ns[:kept], self._seen[: 5 * kept]
            self._solved_at = len(self._times_ns)
        del self._rows[:], self._ego_yaws_rad[:]
        return Settled(rows, np.asarray(wrapped(yaw), np.float64), found.size_m)

    def _solve(self) -> Solved:
        east, north, *others = np.array(self._seen).reshape(-1, 5).T
        places = np.column_stack([east, north])
        times_ns = np.array(self._times_ns, np.int64)
        return solved(Sightings(times_ns, places, *others), self._prior())

    def _take(self, found: Solved) -> None:
        """Take what is known so far for the rows to come."""
        self._solved_at = len(self._times_ns)
        self._across, self._size = found.across, found.size_m
        if math.isfinite(found.headings_rad[-1]):
            self._heading_rad = float(found.headings_rad[-1])

    def _yaw(self, time_ns: int) -> float | None:
        """Direction of its motion at a time, else what is known of its heading so far."""
        times_s = (np.array(self._path.times_ns) - time_ns) / 1e9
        if len(times_s) > 1:
            places_m = np.array(self._path.places_m)
            found, _ = motion(times_s, places_m)
            near = found[nearest(times_s, np.zeros(1))[0]]
            if math.isfinite(near):
                self._heading_rad = float(near)
        return self._heading_rad

    def _row(self, time_ns: int, spot: Spot, ego_yaw_rad: float) -> Shown:
        yaw = self._yaw(time_ns)
        if yaw is None:
            yaw = ego_yaw_rad + (math.pi / 2 if self._across else 0.0)
        row = np.zeros(1, AGENT)
        row["centroid"], row["extent"] = spot.place_m, self._size or self._prior().typical_m
        row["yaw"], row["track_id"] = wrapped(np.array(yaw)), self.number
        row["velocity"] = self._path.velocity(time_ns) or (0.0, 0.0)
        row["label_probabilities"] = self._label / self._label.sum()
        return Shown(row, (self._sightings[spot.before], self._sightings[spot.after]), self)

    def _prior(self) -> Prior:
        """Typical and possible sizes of the most probable label that names a kind of object."""
        likely = np.where(_KINDS, self._label, 0.0)
        label = list(AgentLabel)[int(np.argmax(likely))] if likely.any() else AgentLabel.UNKNOWN
        return PRIORS_OF_LABELS[label]


class Tracks:
    """The tracks of one scene that were seen within the timeout.

    A named track's id is its 32-bit key; those of untracked detections count up from 2³².
    """

    def __init__(self) -> None:
        self._all: list[AgentTrack] = []
        self._by_key: dict[int, AgentTrack] = {}
        self._loose: dict[int, dict[int, list[AgentTrack]]] = {}
        self._next = VIEWS
        self._gone: list[AgentTrack] = []

    def __len__(self) -> int:
        return len(self._all)

    def see(self, sighting: Sighting) -> None:
        """Take a sighting; those of a track in order of time."""
        if not sighting.key:
            track, self._next = AgentTrack(self._next), self._next + 1
            self._loose.setdefault(sighting.source, {}).setdefault(sighting.time_ns, []).append(track)
        else:
            known = self._by_key.get(sighting.key)
            if known is None or sighting.time_ns - known.last.time_ns > AWAY_NS:
                self._by_key[sighting.key] = known = AgentTrack(sighting.key)
                self._all.append(known)
            track = known
        track.add(sighting)

    def learn(self, until_ns: int) -> None:
        """Update every track with its sightings up to this time."""
        for track in self._all:
            track.learn(until_ns)

    def rows(self, time_ns: int, ego_yaw_rad: float, loose_ns: tuple[int, int]) -> list[Shown]:
        """The rows of a frame, those of the best source first; of an object shown twice only the first.

        Args:
            time_ns: of the frame.
            ego_yaw_rad: heading of objects whose own is unknown.
            loose_ns: detections without a track are shown if their message is the one of its source nearest
                to the frame, and its time lies between these.
        """
        found = [track.shown(time_ns, ego_yaw_rad) for track in self._all]
        found += [track.shown(track.last.time_ns, ego_yaw_rad) for track in self._near(time_ns, loose_ns)]
        every = [shown for shown in found if shown is not None]
        kept: list[Shown] = []
        has_views = any(shown.source % VIEWS for shown in every)
        # What has no name in one view may have one in another.
        for shown in sorted(
            every, key=lambda shown: (has_views and not shown.sightings[0].key, shown.source)
        ):
            if not any(_same(better, shown) for better in kept):
                kept.append(shown)
        return kept

    def needs(self, from_ns: int, known_ns: int, loose_ns: int) -> int | None:
        """Number of the first sample that frames from a time on depend on; None if there is none.

        ``known_ns`` is the time up to which sightings have come, ``loose_ns`` that of the first untracked
        ones that can still be shown.
        """
        loose = (
            track
            for messages in self._loose.values()
            for time_ns, tracks in messages.items()
            if time_ns >= loose_ns
            for track in tracks
        )
        numbers = [track.needs(from_ns, known_ns) for track in self._all]
        numbers += [track.last.sample for track in loose]
        return min((number for number in numbers if number is not None), default=None)

    def forget(self, before_ns: int) -> None:
        """Drop what no frame from this time on needs."""
        gone_ns = before_ns - AWAY_NS
        for track in self._all:
            track.forget(before_ns)
        self._gone += [track for track in self._all if track.last.time_ns < gone_ns]
        self._all = [track for track in self._all if track.last.time_ns >= gone_ns]
        self._by_key = {key: track for key, track in self._by_key.items() if track.last.time_ns >= gone_ns}
        for messages in self._loose.values():
            for time_ns in [time_ns for time_ns in messages if time_ns < before_ns]:
                del messages[time_ns]

    def settled(self, *, final: bool = False) -> Iterator[Settled]:
        """What is known by now of the rows of objects that are gone; with ``final`` of all objects."""
        gone, self._gone = self._gone, []
        for track in [*gone, *(track for track in self._all if final or track.is_long)]:
            if (found := track.settle()) is not None:
                yield found

    def _near(self, time_ns: int, loose_ns: tuple[int, int]) -> Iterator[AgentTrack]:
        first_ns, last_ns = loose_ns
        for messages in self._loose.values():
            times = [time for time in messages if first_ns <= time <= last_ns]
            if times:
                nearest = messages[min(times, key=lambda time: (abs(time - time_ns), time))]
                for track in nearest:
                    track.learn(track.last.time_ns)
                yield from nearest


def _same(better: Shown, other: Shown) -> bool:
    """Whether both rows show one object; untracked detections are compared by position."""
    if better.source == other.source or other.sightings[0].key:
        return False
    apart = np.linalg.norm(better.row["centroid"] - other.row["centroid"])
    return bool(apart < better.sightings[0].reach_m)
