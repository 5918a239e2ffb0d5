"""The tracks of a scene: what was seen of each, and its row of the agents array at any time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import wrapped
from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.store.schema import AGENT, LABELS, AgentLabel, Records
from edgefirst_ros.formats.l5kit.write.candidates import CLUSTER_KEYS
from edgefirst_ros.formats.tracks.classes import Prior
from edgefirst_ros.formats.tracks.motion import Place, Spot, TrackPath
from edgefirst_ros.formats.tracks.sizes import NEW_SIDE_RAD, SeenExtent, SizeEstimate, View, still_heading

REACH_NS = 50_000_000
"""How far a track is extrapolated beyond its first and last sighting: half a step at 10 Hz."""

_LEAST_WEIGHT = 0.1
_FORGET = 0.03
_TOO_FAST_M_S = 50.0
_SIDES = 180
_NO_KIND = (AgentLabel.NOT_SET, AgentLabel.UNKNOWN, AgentLabel.DONTCARE, AgentLabel.AVRESEARCH_DONTCARE)
_KINDS = np.array([label not in _NO_KIND for label in AgentLabel])

_Labels = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One detection in the world.

    Attributes:
        key: as in PlacedDetections.
        source: rank among the sources, the best 0.
        sample: number of the sample that brought it.
        time_ns: when it was seen.
        place_m: east and north.
        bearing_rad: direction in the world that it was seen along.
        lateral_m, depth_m, height_m, label: as in PlacedDetections.
        reach_m: half its typical size; untracked detections within it are the same object.
    """

    key: int
    source: int
    sample: int
    time_ns: int
    place_m: Place
    bearing_rad: float
    lateral_m: float
    depth_m: float
    height_m: float
    label: _Labels
    reach_m: float


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the agents array (1,), and the two sightings it lies between; they may be the same one."""

    row: Records
    sightings: tuple[Sighting, Sighting]

    @property
    def source(self) -> int:
        """The better of its sources."""
        return min(sighting.source for sighting in self.sightings)


class AgentTrack:
    """One object: its path, heading, size and class. ``number`` is its id in the scene."""

    def __init__(self, number: int, options: L5KitOptions) -> None:
        self.number = number
        self._options = options
        self._path = TrackPath(round(options.velocity_window_s * 1e9))
        self._sightings: list[Sighting] = []
        self._waiting: deque[Sighting] = deque()
        self._heading_rad: float | None = None
        self._still_rad: float | None = None
        self._views: list[View] = []
        self._size = SizeEstimate(_FORGET)
        self._label = np.zeros(len(LABELS))
        self._learnt = 0

    @property
    def last(self) -> Sighting:
        """The latest sighting."""
        return self._sightings[-1]

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
        times, gap_ns = self._path.times_ns, round(self._options.track_gap_s * 1e9)
        first = max(bisect_right(times, from_ns) - 1, 0)
        if times[first] < from_ns - REACH_NS:
            following = times[first + 1] if first + 1 < len(times) else known_ns
            if following - times[first] > gap_ns:
                first += 1
        return self._sightings[first].sample if first < len(times) else None

    def learn(self, until_ns: int) -> None:
        """Take heading, size and class from the sightings up to this time."""
        while self._waiting and self._waiting[0].time_ns <= until_ns:
            seen = self._waiting.popleft()
            self._heading_rad = self._heading(seen.time_ns)
            heading = self._still(seen) if self._heading_rad is None else self._heading_rad
            turned = None if heading is None else heading - seen.bearing_rad
            self._size.see(SeenExtent(seen.lateral_m, seen.depth_m, seen.height_m, turned))
            self._learnt += 1
            self._label += max(1 / self._learnt, _LEAST_WEIGHT) * (seen.label - self._label)

    def shown(self, time_ns: int, ego_yaw_rad: float) -> Shown | None:
        """Its row at a time; None where it was not seen."""
        gap_ns = round(self._options.track_gap_s * 1e9)
        spot = self._path.at(time_ns, gap_ns=gap_ns, reach_ns=REACH_NS)
        return None if spot is None else self._row(time_ns, spot, ego_yaw_rad)

    def _heading(self, time_ns: int) -> float | None:
        """Direction of its motion at that time; while it stands still, the last one known."""
        moving = self._path.heading(time_ns, self._options.heading_speed_m_s)
        return self._heading_rad if moving is None else moving

    def _still(self, seen: Sighting) -> float | None:
        """Heading of an object never seen moving, estimated from the directions it was seen from."""
        last_rad = self._views[-1][0] if self._views else math.inf
        if not abs(seen.bearing_rad - last_rad) < NEW_SIDE_RAD and len(self._views) < _SIDES:
            self._views.append((seen.bearing_rad, seen.lateral_m))
            self._still_rad = still_heading(self._views, self._prior())
        return self._still_rad

    def _row(self, time_ns: int, spot: Spot, ego_yaw_rad: float) -> Shown:
        prior = self._prior()
        yaw = self._heading(time_ns)
        if yaw is None:
            yaw = self._still_rad
        if yaw is None:
            yaw = ego_yaw_rad + (math.pi / 2 if self._size.lies_across(prior) else 0.0)
        row = np.zeros(1, AGENT)
        row["centroid"], row["extent"] = spot.place_m, self._size.size(prior)
        row["yaw"], row["track_id"] = wrapped(np.array(yaw)), self.number
        row["velocity"] = self._path.velocity(time_ns) or (0.0, 0.0)
        row["label_probabilities"] = self._label / self._label.sum()
        return Shown(row, (self._sightings[spot.before], self._sightings[spot.after]))

    def _prior(self) -> Prior:
        """Typical and possible sizes of the most probable label that names a kind of object."""
        likely = np.where(_KINDS, self._label, 0.0)
        label = list(AgentLabel)[int(np.argmax(likely))] if likely.any() else AgentLabel.UNKNOWN
        return self._options.priors[label]


class Tracks:
    """The tracks of one scene that were seen within the timeout.

    A named track's id is its 32-bit key. The device reuses the numbers of clusters, so a cluster that was
    missing, or jumped at more than 50 m/s, gets a new id; such ids, and those of untracked detections, count
    up from 2³².
    """

    def __init__(self, options: L5KitOptions) -> None:
        self._options = options
        self._timeout_ns = round(options.track_timeout_s * 1e9)
        self._all: list[AgentTrack] = []
        self._by_key: dict[int, AgentTrack] = {}
        self._loose: dict[int, dict[int, list[AgentTrack]]] = {}
        self._next = CLUSTER_KEYS

    def __len__(self) -> int:
        return len(self._all)

    def see(self, sighting: Sighting) -> None:
        """Take a sighting; those of a track in order of time."""
        if not sighting.key:
            track = self._born(sighting)
            self._loose.setdefault(sighting.source, {}).setdefault(sighting.time_ns, []).append(track)
        else:
            known = self._by_key.get(sighting.key)
            if known is None or self._is_another(known.last, sighting):
                self._by_key[sighting.key] = known = self._born(sighting)
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
        found = {track.number: shown for track in self._all if (shown := track.shown(time_ns, ego_yaw_rad))}
        loose = [track.shown(track.last.time_ns, ego_yaw_rad) for track in self._near(time_ns, loose_ns)]
        every = [*found.values(), *(shown for shown in loose if shown is not None)]
        kept: list[Shown] = []
        for shown in sorted(every, key=lambda shown: shown.source):
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
        gone_ns = before_ns - self._timeout_ns
        for track in self._all:
            track.forget(before_ns)
        self._all = [track for track in self._all if track.last.time_ns >= gone_ns]
        self._by_key = {key: track for key, track in self._by_key.items() if track.last.time_ns >= gone_ns}
        for messages in self._loose.values():
            for time_ns in [time_ns for time_ns in messages if time_ns < before_ns]:
                del messages[time_ns]

    def _near(self, time_ns: int, loose_ns: tuple[int, int]) -> Iterator[AgentTrack]:
        first_ns, last_ns = loose_ns
        for messages in self._loose.values():
            times = [time for time in messages if first_ns <= time <= last_ns]
            if times:
                nearest = messages[min(times, key=lambda time: (abs(time - time_ns), time))]
                for track in nearest:
                    track.learn(track.last.time_ns)
                yield from nearest

    def _is_another(self, last: Sighting, now: Sighting) -> bool:
        """Whether the key now stands for another object, or its track has timed out."""
        step_ns = now.time_ns - last.time_ns
        leapt = math.dist(last.place_m, now.place_m) > _TOO_FAST_M_S * max(step_ns, 0) / 1e9
        return step_ns > self._timeout_ns or (now.key >= CLUSTER_KEYS and step_ns > 0 and leapt)

    def _born(self, sighting: Sighting) -> AgentTrack:
        number = sighting.key
        if not 0 < sighting.key < CLUSTER_KEYS:
            number, self._next = self._next, self._next + 1
        return AgentTrack(number, self._options)


def _same(better: Shown, other: Shown) -> bool:
    """Whether both rows show one object; untracked detections and clusters are compared by position."""
    if better.source == other.source or 0 < other.sightings[0].key < CLUSTER_KEYS:
        return False
    apart = np.linalg.norm(better.row["centroid"] - other.row["centroid"])
    return bool(apart < better.sightings[0].reach_m)
