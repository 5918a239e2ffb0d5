"""Whether lidars and radars measure what their messages and mounts say, by the way that was driven.

Most of what they see stands still: in the sensor's axes it moves against the rig, and a radar's speeds are
those at which it comes nearer. A sensor contradicts that if hardly anything fits as it is written, but most
does in another way, in which drivers and mounts go wrong. Traffic and poses that are off fit neither way.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations, product

import numpy as np

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import EgoPose, Measurement, PoseBasis, Role
from edgefirst_ros.model.transform import (
    Floats,
    Transform,
    between,
    frame_in_base,
    matrix_of,
    quaternion_of,
    rigid,
)

RANGING = frozenset({Role.LIDAR_POINTS, Role.RADAR_TARGETS})
"""Roles whose clouds the way driven can contradict."""
LOOK_NS, AROUND_NS, APART_NS = 1_000_000_000, 250_000_000, 100_000_000
"""A sensor is looked at once in so long; the rig's velocity is the mean over so long before and after, from
poses that are no farther apart or away."""
MOST_WAITING = 16
"""Looks that wait for poses; a live pose comes within ``ego.wait_s``."""
SWEEP, RETURNS, COMPARED = 4096, 64, 256
"""Points of a sweep, returns of a radar, and points of a sweep's cells that are taken, evenly chosen."""
CELL_M, CELLS, NEAREST_M = 1.0, 80, 2.0
"""What stands still is found in the same cell: poses are off by less, and so are sparse points. Nearer ones
may be the rig's own."""
AWAY_M, TURNED_RAD = 3.0, 0.2
"""Driven so far, or turned by so much, what stands still must be in other cells ..."""
ENOUGH, LOST_M = 24, 30.0
"""... and after so many pairs of sweeps only turns, within this way, tell anything new."""
MOST_LOOKS, CREEPS_M_S = 90, 0.3
"""After so many looks from a rig that is faster a sensor is known: no longer drive takes longer for it."""
LEAST_POINTS = 10
"""Where fewer are not in the same cells as before, as bare ground is, a pair of sweeps tells nothing."""
BETTER, LEAST_BETTER = 0.1, 3
"""By this share of them, and at least so many, one way must fit a pair better than another."""
TIES, NEARLY, FOUND = 0.01, 0.03, 0.25
"""Shares of points: ways within the first fit alike, and within the second nearly so. The third is found
again of what stands still, but not of vehicles side by side, taken for one another."""
MORE = 1.6
"""Times as many are found if a lidar is wrong, twice at least; of a sound one by chance 1.3."""
LEAST_PAIRS, TO_ONE = 8, 6
"""So many pairs must agree, and as many for each that does not: in 120 drives of sound lidars none did."""
FAR_M, LEAST_FAR = 300.0, 5
"""No lidar or radar has half of its points farther, look after look."""
DRIVES_M_S, SLACK_M_S, SLACK = 3.0, 0.4, 0.05
"""Speeds are judged from this on: a radar's steps of speed and angle, and poses, leave so much."""
LEAST_LOOKS, LEAST_RETURNS = 20, 80
FITS, HARDLY = 0.3, 0.35
"""Share of the returns that fit if they are taken in the right way, and of these, at most, as they are."""
ALONG = 2
"""Times as many points of a radar are found if it looks the other way: its mount is wrong, not its speeds."""
WIDE = 0.97
"""Length of the mean direction of returns 14° about it: a truck ahead may drive at any speed."""
KMH = 3.6
STEP_DEG = 10


def _ways() -> Floats:
    """How axes may be exchanged, (48, 3, 3), from a sensor's own to true ones: first those about z."""
    signed = (np.diag(s)[list(o)] for o in permutations(range(3)) for s in product((1.0, -1.0), repeat=3))
    return np.array(
        sorted(signed, key=lambda w: (np.linalg.det(w) < 0, -abs(w[2, 2]), -w[2, 2], -np.trace(w)))
    )


WAYS = _ways()
BACK = next(i for i, way in enumerate(WAYS) if np.array_equal(way, np.diag((-1.0, -1.0, 1.0))))
_LEVEL = [(1.0, math.radians(yaw), 1.0) for yaw in range(0, 360, STEP_DEG)]
_OTHERS = [(side, yaw, by) for side, by in ((1.0, KMH), (-1.0, 1.0)) for yaw in (0.0, math.pi)]
SIDES, YAWS, FACTORS = np.array([*_LEVEL, *_OTHERS]).T[..., None]
"""How a radar may be turned, then with speeds in km/h, and with y mirrored."""
MIRRORED = slice(len(SIDES) - 2, None)


@dataclass(frozen=True, slots=True)
class Look:
    """Some points (N, 3) of a message, how far they are, a radar's speeds (N,), and its place if known."""

    time_ns: int
    points: Floats
    away_m: Floats
    speeds: Floats | None
    T_sensor_rig: Floats | None


def look_at(measurement: Measurement, place: Floats | None, *, radar: bool) -> Look | None:
    """A look at a cloud; None if it has nothing to look at."""
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud) or not cloud.has("x", "y", "z"):
        return None
    step = max(1, len(cloud.points) // (RETURNS if radar else SWEEP))
    some = PointCloud(cloud.points[:: step + (step % 2 == 0)], 1, 0)  # an even step leaves rings out
    try:
        points = some.xyz().astype(np.float64)
        speeds = some.column("speed", np.float64) if radar and some.has("speed") else None
    except DecodeError:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        away_m = np.sqrt(np.einsum("ij,ij->i", points, points))
        kept = np.isfinite(away_m) & (away_m > NEAREST_M)
    if speeds is not None:
        kept &= np.isfinite(speeds)
        speeds = speeds[kept]
    return Look(measurement.time_ns, points[kept], away_m[kept], speeds, place) if kept.any() else None


@dataclass(slots=True)
class Ranging:
    """Judges the clouds of one topic.

    Attributes:
        topic: as the source calls it; entry as the configuration does.
        receding: whether formats are told that a radar's speeds are positive for what recedes, by option.
        next_ns: when it is to be looked at next.
        waiting: looks that wait for poses.
        moved: looks from a rig that moved.
    """

    topic: str
    entry: str
    receding: Mapping[str, bool]
    next_ns: int = -(1 << 63)
    waiting: deque[Look] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    moved: int = 0
    _T_sensor_rig: Floats = field(default_factory=lambda: np.eye(4))
    _toward: Floats = field(default_factory=lambda: np.zeros(3))
    """Sum of mean directions of points, which are rather below than above."""
    _far: list[bool] = field(default_factory=list)
    _before: tuple[Floats, Floats] | None = None
    """Points of a sweep, and where the sensor was."""
    _pairs: int = 0
    _compared: int = 0
    _hits: Floats = field(default_factory=lambda: np.zeros(len(WAYS)))
    """Points found again by way."""
    _won: Floats = field(default_factory=lambda: np.zeros((2, len(WAYS))))
    """Pairs that fit better by way than as they are, and worse."""
    _looks: int = 0
    _returns: int = 0
    _zeros: int = 0
    """Returns of speed 0."""
    _fits: Floats = field(default_factory=lambda: np.zeros((len(YAWS), 3)))
    """Other returns that fit, by turn, with the sums of their directions."""

    def add(self, look: Look) -> None:
        """Take a look whose pose is to come; of a sensor that is nowhere only distances are judged."""
        if len(self._far) < 4 * LEAST_FAR:
            self._far.append(bool(np.median(look.away_m) > FAR_M))
        if look.T_sensor_rig is not None:
            self._T_sensor_rig = look.T_sensor_rig
            self._toward += (1 / look.away_m) @ look.points / len(look.points)
            self.waiting.append(look)

    def place(self, look: Look, rig: Floats, velocity_m_s: Floats, rate_rad_s: Floats) -> None:
        """Judge a look, by where the rig was, and how it moved along and about its own axes."""
        self.moved += bool(np.linalg.norm(velocity_m_s) > CREEPS_M_S)
        at = self._T_sensor_rig
        moving = at[:3, :3].T @ (velocity_m_s + np.cross(rate_rad_s, at[:3, 3]))
        if look.speeds is not None and np.linalg.norm(moving) > DRIVES_M_S:
            sign = 1 if all(self.receding.values()) else -1
            self._speeds(look.points, sign * look.speeds, moving)
        self._points(look.points, rig @ at)

    def _speeds(self, points: Floats, speeds: Floats, moving: Floats) -> None:
        slack = SLACK_M_S + SLACK * float(np.linalg.norm(moving))
        azimuth = np.arctan2(points[:, 1], points[:, 0])
        directions = np.stack([np.ones_like(azimuth), np.cos(azimuth), np.sin(azimuth)], axis=1)
        level = np.hypot(points[:, 0], points[:, 1]) / np.linalg.norm(points, axis=1) * np.hypot(*moving[:2])
        self._looks += 1
        self._returns += len(speeds)
        self._zeros += int((speeds == 0).sum())
        expected = -FACTORS * level * np.cos(SIDES * azimuth + YAWS - math.atan2(moving[1], moving[0]))
        tells = np.abs(speeds) > slack
        self._fits += ((np.abs(expected - speeds) <= FACTORS * slack) & tells) @ directions

    def _points(self, points: Floats, place: Floats) -> None:
        if self._before is None:
            self._before = points, place
            return
        before, then = self._before
        moved = np.linalg.inv(place) @ then
        turned_rad = math.acos(max(-1.0, min(1.0, (float(np.trace(moved[:3, :3])) - 1) / 2)))
        away_m = float(np.linalg.norm(moved[:3, 3]))
        tells = turned_rad > TURNED_RAD or (away_m > AWAY_M and self._pairs < ENOUGH)
        if not tells and away_m < LOST_M:
            return
        self._before = points, place
        if not tells or away_m > LOST_M:
            return
        taken = np.zeros(CELLS**3 + 1, np.bool_)
        taken[_cells(points)] = True
        taken[-1] = False
        cells, first = np.unique(_cells(before), return_index=True)
        one = before[first][~taken[cells]]
        one = one[:: max(1, len(one) // COMPARED)]
        if len(one) < LEAST_POINTS:
            return
        turns, own = np.swapaxes(WAYS, 1, 2) @ moved[:3, :3] @ WAYS, np.swapaxes(WAYS, 1, 2) @ moved[:3, 3]
        hits = taken[_cells(one @ np.swapaxes(turns, 1, 2) + own[:, None])].sum(axis=1)
        better, least = hits - hits[0], max(LEAST_BETTER, BETTER * len(one))
        self._pairs += 1
        self._compared += len(one)
        self._hits += hits
        self._won += better >= least, better <= -least

    def contradictions(self) -> Iterator[str]:
        """What contradicts the way driven, a sentence each, with what mends it."""
        name = self.topic.strip("/")
        if sum(self._far) >= LEAST_FAR and sum(self._far) > 0.8 * len(self._far):
            yield (
                f"half of the points of {name} are beyond {FAR_M:g} m, where nothing measures: their "
                "coordinates seem to be in cm or mm; have its driver send metres"
            )
        elif (way := self._way()) is not None:
            is_sure = len(self._alike(NEARLY)) == 1
            mended = self._mended(WAYS[way]) if is_sure else "give it its true mount"
            axes = ", ".join(
                "-" * (min(row) < 0) + "xyz"[int(np.abs(row).argmax())] for row in WAYS[way].tolist()
            )
            yield (
                f"what stands still moves in {name} as if its true x, y, z were {axes} "
                f"({self._won[0, way]:.0f} of {self._pairs} pairs of sweeps, {self._won[1, way]:.0f} against "
                f"it); {mended}, or correct the poses"
            )
        yield from self._wrong_speeds(name)

    def _way(self) -> int | None:
        """The likeliest way in which points fit, if as they are they do not; a radar's are too few to say."""
        first = self._alike(TIES)[0]
        won, lost = self._won[:, first]
        is_found = self._hits[first] >= max(FOUND * self._compared, MORE * self._hits[0]) and not self._looks
        return first if first and is_found and won >= max(LEAST_PAIRS, TO_ONE * lost) else None

    def _alike(self, share: float) -> list[int]:
        """Ways in which points fit about as well as in the best; with the ground below if there are such."""
        alike = np.flatnonzero(self._hits >= self._hits.max() - share * self._compared)
        below = (self._T_sensor_rig[2, :3] @ WAYS[alike] @ self._toward) < 0
        return [0] if 0 in alike else (alike[below] if below.any() else alike).tolist()

    def _mended(self, way: Floats) -> str:
        if np.linalg.det(way) < 0:
            return "such axes are left-handed: correct its driver"
        at = self._T_sensor_rig
        xyzw, xyz_m = (
            (part + 0.0).tolist() for part in (quaternion_of(at[:3, :3] @ way).round(5), at[:3, 3].round(3))
        )
        return f"if it is mounted so, give topics.{self.entry} xyz_m: {xyz_m}, rotation_xyzw: {xyzw}"

    def _wrong_speeds(self, name: str) -> Iterator[str]:
        count, fits, as_sent = self._returns, self._fits[:, 0], float(self._fits[0, 0])
        if self._looks < LEAST_LOOKS or count < LEAST_RETURNS:
            return
        if self._zeros >= 0.99 * count:
            yield f"the speeds of {name} are 0, though the rig drives: its driver does not send them"
            return
        best = int(fits[: MIRRORED.start].argmax())
        most, *toward = self._fits[best].tolist()
        is_back = bool(YAWS[best, 0] == math.pi)
        if (
            most < FITS * count
            or most < LEAST_RETURNS / 2
            or as_sent > HARDLY * most
            or (math.hypot(*toward) > WIDE * most and not is_back)
        ):
            return
        share = f"{most / count:.0%} of the returns of {name} stand still if"
        rest = f", {as_sent / count:.0%} as they are"
        if FACTORS[best, 0] == KMH:
            yield f"{share} speeds are in km/h{' and reversed' * is_back}{rest}; have its driver send m/s"
        elif is_back and self._hits[BACK] <= ALONG * self._hits[0]:
            is_told = str(not all(self.receding.values())).lower()
            mended = " and ".join(f"set {option}: {is_told}" for option in self.receding)
            yield (
                f"{share} speeds are reversed{rest}; {mended or 'have its driver reverse them'}, or turn its "
                "mount if it looks the other way"
            )
        else:
            c, s = math.cos(YAWS[best, 0]), math.sin(YAWS[best, 0])
            way = np.array(((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)))
            about = round(math.degrees(math.atan2(s, c)))
            others = ", else correct its driver" * bool(fits[MIRRORED].max() > (1 - HARDLY / 2) * most)
            yield (
                f"{share} it is turned by about {about}°{' or its y reversed' if others else ''}{rest}; "
                f"{self._mended(way)}{others}"
            )


def _cells(points: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The number of each point's cell, that of none if it is too far."""
    # A flat scan is in the middle of its cells.
    cells = np.rint(np.clip(points, -CELLS, CELLS) / CELL_M).astype(np.int64) + CELLS // 2
    inside = ((cells >= 0) & (cells < CELLS)).all(axis=-1)
    return np.where(inside, cells @ np.array((CELLS * CELLS, CELLS, 1)), CELLS**3)


class Ranges:
    """Judges the lidars and radars of a sequence as poses come, in order of time.

    Args:
        config: whole.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        formats = [each for each in config.chosen_formats if each.receding]
        options = {f"{each.name}.{each.receding}": (config.options(each), each.receding) for each in formats}
        self._receding = {name: bool(getattr(*option)) for name, option in options.items()}
        self._topics: dict[str, Ranging] = {}
        """By configured entry."""
        self._poses: deque[EgoPose] = deque(maxlen=256)

    def look(self, entry: str, measurement: Measurement, transforms: Mapping[str, Transform]) -> None:
        """Look at a message, if one is due; what is on a mount that moves is not judged."""
        role = self._config.topics[entry].role
        if role not in RANGING or measurement.mounted:
            return
        if (ranging := self._topics.get(entry)) is None:
            ranging = self._topics[entry] = Ranging(measurement.topic, entry, self._receding)
        if measurement.time_ns < ranging.next_ns or ranging.moved >= MOST_LOOKS:
            return
        ranging.next_ns = measurement.time_ns + LOOK_NS
        place = frame_in_base(transforms, measurement.frame_id, self._config.rig_frame)
        if (look := look_at(measurement, place, radar=role is Role.RADAR_TARGETS)) is not None:
            ranging.add(look)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """What contradicts the way driven, by entry."""
        for entry, ranging in self._topics.items():
            yield from ((entry, text) for text in ranging.contradictions())

    def pose(self, pose: EgoPose) -> None:
        """Take a pose, and judge what waited for it."""
        is_placed = pose.position_m is not None and pose.rotation_xyzw is not None
        if not is_placed or PoseBasis.ASSUMED in {pose.position_basis, pose.rotation_basis}:
            return
        if self._poses and self._poses[-1].origin != pose.origin:
            self._poses.clear()
        self._poses.append(pose)
        for ranging in self._topics.values():
            while ranging.waiting and ranging.waiting[0].time_ns <= pose.time_ns - AROUND_NS:
                look = ranging.waiting.popleft()
                if (motion := self._motion(look.time_ns)) is not None:
                    ranging.place(look, *motion)

    def _motion(self, time_ns: int) -> tuple[Floats, Floats, Floats] | None:
        """Where the rig was, its velocity and rate in its axes; None if poses are too far apart."""
        places = [
            bisect(self._poses, time_ns + off, key=lambda each: each.time_ns)
            for off in (-AROUND_NS, 0, AROUND_NS)
        ]
        ends = [self._poses[max(0, places[0] - 1)], self._poses[max(0, places[2] - 1)]]
        if not 0 < places[1] < len(self._poses) or any(
            abs(each.time_ns - time_ns - off) > APART_NS
            for each, off in zip(ends, (-AROUND_NS, AROUND_NS), strict=True)
        ):
            return None
        first, second = self._poses[places[1] - 1], self._poses[places[1]]
        if second.time_ns - first.time_ns > APART_NS:
            return None
        share = (time_ns - first.time_ns) / (second.time_ns - first.time_ns)
        turns = [np.array(each.rotation_xyzw) for each in (first, second, *ends)]
        spots = [np.array(each.position_m) for each in (first, second, *ends)]
        at = matrix_of(between(turns[0], turns[1], share))
        x, y, z = ((1 - share) * spots[0] + share * spots[1]).tolist()
        apart_s = (ends[1].time_ns - ends[0].time_ns) / 1e9
        bent = matrix_of(turns[2]).T @ matrix_of(turns[3])
        rate = (
            np.array((bent[2, 1] - bent[1, 2], bent[0, 2] - bent[2, 0], bent[1, 0] - bent[0, 1]))
            / 2
            / apart_s
        )
        return rigid(at, (x, y, z)), at.T @ (spots[3] - spots[2]) / apart_s, rate
