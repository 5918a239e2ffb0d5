"""Position and velocity of an object over time, from its sightings."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

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

    Args:
        window_ns: length of that window; 0 takes the sightings next to the time.
    """

    def __init__(self, window_ns: int) -> None:
        self._half_ns = window_ns // 2
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
        low, high = bisect_left(times, time_ns - self._half_ns), bisect_right(times, time_ns + self._half_ns)
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
