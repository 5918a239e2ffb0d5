"""Heading and size of one object from all its sightings: the tracker of every format that has tracks.

Position and velocity of an object over time, from its sightings.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.tracks import sizes

MOVING_M_S = 1.0
"""Slower motion gives no heading: positions drift as slowly as that with the rig's own pose."""
WINDOW_NS = 500_000_000
"""Motion is measured over this time, some five sightings at a detector's 10 Hz."""
HALF_NS = WINDOW_NS // 2
AWAY_NS = 2_000_000_000
"""A track that was not seen for longer starts anew: its old motion says nothing of the new one."""
_WIDER = (0.5, 1, 2, 4, 8)
"""Multiples of the window that are tried, until the heading is good: what is slow needs a longer way."""
_GOOD_RAD, _MOST_RAD = 0.05, 0.1
"""Standard deviations of a heading from motion: good enough, and the most that is taken. The way is then ten
times as long as it is uncertain, so noise alone, of any length of track, does not make a heading."""
_STRAIGHT = 2.0
"""Times the noise that positions may be off the line of a longer window: else it has a curve or a stop."""
_TURNS = 3.0
"""Standard deviations by which two headings differ where an object turned in between."""
_LEAST_SIGMA_M, _UNKNOWN_SIGMA_M = 0.03, 0.1
"""Of a position: at least, and where there are too few sightings to tell."""
_ENOUGH = 8

Times = npt.NDArray[np.int64]


class Heading(IntEnum):
    """What the heading of an object is derived from."""

    MOTION = 0
    """Its motion at that time."""
    HELD = 1
    """Its motion at another time, as it does not move, or not far enough, at this one."""
    VIEWS = 2
    """How wide it looked from several sides; which end is the front is not known."""
    ASSUMED = 3
    """Nothing: away from the sensor, or across that if it looks rather as long as its kind is."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """N sightings of one object in order of time.

    Attributes:
        times_ns: (N,) later each than the one before.
        places_m: (N, 2) in a level frame that does not move; NaN where its pose is not known.
        bearings_rad: (N,) in that frame, the direction that it was seen along.
        lateral_m: (N,) extent across that.
        height_m: (N,)
    """

    times_ns: Times
    places_m: sizes.Floats
    bearings_rad: sizes.Floats
    lateral_m: sizes.Floats
    height_m: sizes.Floats


@dataclass(frozen=True, slots=True)
class Solved:
    """What is known of an object.

    Attributes:
        headings_rad: (N,) in the frame of the places; NaN where nothing tells.
        basis: (N,) ``Heading``.
        across: where nothing tells: whether it lies across the direction it is seen along.
        size_m: length, width, height.
    """

    headings_rad: sizes.Floats
    basis: npt.NDArray[np.uint8]
    across: bool
    size_m: sizes.Size


def solved(seen: Sightings, prior: sizes.Prior) -> Solved:
    """Headings and size of an object over all its sightings.

    The heading is the direction of its motion, where the way is long against the noise of its positions.
    Where it is not, it is that of the nearest time at which it was; of an object that never moved, it is told
    by how wide it looked from several sides, if that is conclusive.

    Args:
        seen: at least one sighting.
        prior: of its kind.
    """
    count = len(seen.times_ns)
    times_s = (seen.times_ns - seen.times_ns[0]) / 1e9
    known = np.isfinite(seen.places_m).all(axis=1)
    headings, sigma = np.full(count, np.nan), np.full(count, np.nan)
    basis = np.full(count, Heading.ASSUMED, np.uint8)
    widths = sizes.scatter(seen.lateral_m, times_s) if count >= _ENOUGH else 0.0
    sigma_m = max(sizes.SIGMA_M, widths)
    standing = None
    if np.count_nonzero(known) > 1:
        found, error = motion(times_s[known], seen.places_m[known])
        headings[known], sigma[known] = found, error
        basis[known] = np.where(np.isfinite(found), Heading.MOTION, Heading.ASSUMED)
        moving = np.flatnonzero(np.isfinite(headings))
        if len(moving):
            source = moving[nearest(times_s[moving], times_s)]
            basis[known & np.isnan(headings)] = Heading.HELD
            held = basis == Heading.HELD
            headings[held], sigma[held] = headings[source][held], sigma[source][held]
        else:
            standing = sizes.still(seen.bearings_rad[known], seen.lateral_m[known], prior, sigma_m)
        if standing is not None and math.isfinite(standing.heading_rad):
            headings[known], sigma[known] = standing.heading_rad, standing.sigma_rad
            basis[known] = Heading.VIEWS
    turned = headings - seen.bearings_rad, sigma
    length, width, height = sizes.size_of((seen.lateral_m, seen.height_m), turned, prior, sigma_m)
    if standing is not None and Heading.VIEWS not in basis:
        length, width = standing.length_m, standing.width_m
    return Solved(headings, basis, sizes.lies_across(seen.lateral_m, prior), (length, width, height))


def nearest(times_s: sizes.Floats, wanted_s: sizes.Floats) -> npt.NDArray[np.intp]:
    """Index of the time that is nearest to each wanted one, of two the earlier."""
    after = np.searchsorted(times_s, wanted_s).clip(0, len(times_s) - 1)
    before = (after - 1).clip(0)
    found: npt.NDArray[np.intp] = np.where(
        np.abs(times_s[before] - wanted_s) <= np.abs(times_s[after] - wanted_s), before, after
    )
    return found


def noise_m(times_s: sizes.Floats, places_m: sizes.Floats) -> float:
    """Standard deviation of the positions (N, 2) about a smooth path, along one axis."""
    found = sizes.scatter(places_m, times_s)
    return max(found, _LEAST_SIGMA_M if len(times_s) >= _ENOUGH else _UNKNOWN_SIGMA_M)


def motion(times_s: sizes.Floats, places_m: sizes.Floats) -> tuple[sizes.Floats, sizes.Floats]:
    """Direction of motion at each sighting and its standard deviation (N,), NaN where there is no telling.

    A line is fitted to the positions in a window about each time, the shortest in which the direction is
    good, else the one of those tried in which it is best.
    """
    noise, mean_s = noise_m(times_s, places_m), times_s.mean()
    t, (x, y) = times_s - mean_s, (places_m - places_m.mean(axis=0)).T
    sums = np.zeros((9, len(t) + 1))
    np.cumsum([np.ones_like(t), t, t * t, x, y, t * x, t * y, x * x, y * y], axis=1, out=sums[:, 1:])
    # All windows at once, by row: for few sightings a call of numpy takes longer than what it computes.
    wider = np.array(_WIDER)[:, None]
    half_s = WINDOW_NS / 1e9 * wider / 2 + 1e-9
    low = np.searchsorted(times_s, times_s - half_s)
    high = np.searchsorted(times_s, times_s + half_s, "right")
    count, t, tt, x, y, tx, ty, xx, yy = sums[:, high] - sums[:, low]
    with np.errstate(divide="ignore", invalid="ignore"):  # of windows with one sighting
        spread = tt - t**2 / count
        east, north = (tx - t * x / count) / spread, (ty - t * y / count) / spread
        off_east, off_north = xx - x**2 / count - east**2 * spread, yy - y**2 / count - north**2 * spread
        # What does not lie on the line is no noise of one sighting, but a curve or a leap: as uncertain.
        rest = np.maximum(off_east + off_north, 0.0)
        off = np.sqrt(rest / np.maximum(2 * count - 4, 1.0)) * (count > 2)
        speed = np.hypot(east, north)
        error = np.maximum(noise, off) / np.sqrt(spread) / np.maximum(speed, 1e-9)
        is_good = (off <= _STRAIGHT * noise) | (wider <= 1)
        is_good &= (speed >= MOVING_M_S) & (error <= _MOST_RAD) & (count >= 2) & (spread > 0)
    heading, sigma = np.full(len(times_s), np.nan), np.full(len(times_s), np.inf)
    of_s = times_s.copy()
    for row, good in enumerate(is_good):
        better = good & (sigma > _GOOD_RAD) & (error[row] < sigma)
        heading[better] = np.arctan2(north[row, better], east[row, better])
        sigma[better] = error[row, better]
        of_s[better] = mean_s + t[row, better] / count[row, better]
    found = np.where(np.isfinite(heading), sigma, np.nan)
    return _turned_on(times_s, heading, found, of_s), found


def _turned_on(
    times_s: sizes.Floats, heading: sizes.Floats, sigma: sizes.Floats, of_s: sizes.Floats
) -> sizes.Floats:
    """Headings at the ends of a track, where the window lies on one side of the sighting.

    The line of a window has the direction of its middle. What turned by more than its noise from as far away
    to there is taken to turn on at that rate.
    """
    off_s = times_s - of_s
    other = nearest(times_s, of_s - 2 * off_s)
    apart_s = of_s - of_s[other]
    turn = (heading - heading[other] + math.pi) % (2 * math.pi) - math.pi
    turns = (np.abs(turn) > _TURNS * np.hypot(sigma, sigma[other])) & (np.abs(apart_s) > np.abs(off_s))
    rate = np.divide(turn, apart_s, out=np.zeros_like(turn), where=turns)
    return heading + rate * off_s


def interpolated(times_s: sizes.Floats, headings_rad: sizes.Floats, wanted_s: sizes.Floats) -> sizes.Floats:
    """Headings at other times, between those known; held beyond them."""
    return np.interp(wanted_s, times_s, np.unwrap(headings_rad)) % (2 * math.pi)


Place = tuple[float, float]
"""East and north, or x and y of any level frame, in metres."""


@dataclass(frozen=True, slots=True)
class Spot:
    """An interpolated position, and the indices of the two sightings around it, which may be the same."""

    place_m: Place
    before: int
    after: int


class TrackPath:
    """The sightings of one object in order of time.

    Positions are interpolated linearly between sightings. The velocity is the slope of a least-squares line
    through the sightings in a window around the given time, at least two.
    """

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        self.places_m: list[Place] = []

    def __len__(self) -> int:
        return len(self.times_ns)

    def add(self, time_ns: int, place_m: Place) -> bool:
        """Append a sighting and return True; False for one that is no later than the last."""
        if self.times_ns and time_ns <= self.times_ns[-1]:
            return False
        self.times_ns.append(time_ns)
        self.places_m.append(place_m)
        return True

    def forget(self, before_ns: int) -> int:
        """Drop sightings that no time from ``before_ns`` on needs; how many. The last two always stay."""
        count = max(min(bisect_left(self.times_ns, before_ns) - 1, len(self) - 2), 0)
        del self.times_ns[:count]
        del self.places_m[:count]
        return count

    def at(self, time_ns: int, *, gap_ns: int, reach_ns: int) -> Spot | None:
        """Its position; None if no sighting is near enough.

        Args:
            time_ns: when.
            gap_ns: sightings further apart are not interpolated between.
            reach_ns: how far the object is extrapolated beyond a sighting, with its velocity.
        """
        times = self.times_ns
        after = bisect_left(times, time_ns)
        if after < len(times) and times[after] == time_ns:
            return Spot(self.places_m[after], after, after)
        if 0 < after < len(times) and times[after] - times[after - 1] <= gap_ns:
            share = (time_ns - times[after - 1]) / (times[after] - times[after - 1])
            (x0, y0), (x1, y1) = self.places_m[after - 1], self.places_m[after]
            return Spot((x0 + share * (x1 - x0), y0 + share * (y1 - y0)), after - 1, after)
        near = [i for i in (after - 1, after) if 0 <= i < len(times) and abs(times[i] - time_ns) <= reach_ns]
        if not near:
            return None
        index = min(near, key=lambda i: abs(times[i] - time_ns))
        velocity = self.velocity(times[index]) or (0.0, 0.0)
        ahead_s = (time_ns - times[index]) / 1e9
        x, y = self.places_m[index]
        return Spot((x + velocity[0] * ahead_s, y + velocity[1] * ahead_s), index, index)

    def velocity(self, time_ns: int) -> tuple[float, float] | None:
        """m/s along both axes; None with fewer than two sightings."""
        times = self.times_ns
        if len(times) < 2:
            return None
        low, high = bisect_left(times, time_ns - HALF_NS), bisect_right(times, time_ns + HALF_NS)
        if high - low < 2:
            low = min(max(bisect_left(times, time_ns) - 1, 0), len(times) - 2)
            high = low + 2
        count = high - low
        seconds = [(t - time_ns) / 1e9 for t in times[low:high]]
        middle = sum(seconds) / count
        spread = sum((s - middle) ** 2 for s in seconds)
        east = sum((s - middle) * x for s, (x, _) in zip(seconds, self.places_m[low:high], strict=True))
        north = sum((s - middle) * y for s, (_, y) in zip(seconds, self.places_m[low:high], strict=True))
        return east / spread, north / spread
