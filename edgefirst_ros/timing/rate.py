"""The rate of a clock: a line through what its topics show of it, and a correction that follows it."""

from __future__ import annotations

from collections import deque
from math import sqrt
from statistics import median

FASTEST_PPB = 750_000
"""No clock drifts faster (a quartz has 100 ppm, a virtual machine's a few hundred); queues fill faster."""
POINTS = 24
"""A line is fitted to as many measurements: over two minutes the temperature of a quartz hardly changes."""
FEWEST = 3
LEAST_NS = 1_000_000
"""Drift that has not added up to this is not corrected: stamps keep their precision where there is none."""
SURE = 3.0
"""Drift is corrected once it exceeds its uncertainty so many times."""
KNOTS = 16
TURN_PPB = 2_000_000
"""A correction changes no faster, so that times stay in order and intervals true to 0.2 %."""
BILLION = 1_000_000_000


class Level:
    """How a clock's least latency changes in time, without sudden changes, which are no clock's."""

    def __init__(self) -> None:
        self._points: deque[tuple[int, int, int]] = deque(maxlen=POINTS)
        """Time, level and noise of each measurement."""
        self._sudden_ns = 0
        self._line = 0, 0.0, 0.0
        """Time of its middle, its level there, and its slope."""
        self.count = 0
        self.raw_ns = 0
        """The newest measurement, as it came."""

    def add(self, time_ns: int, level_ns: int, noise_ns: int, span_ns: int) -> None:
        """Add what was measured over ``span_ns``; a change too fast for a clock moves the line as a whole."""
        self.count += 1
        self.raw_ns = level_ns
        if self._points:
            expected_ns = self.at_ns(time_ns)
            most_ns = span_ns * FASTEST_PPB // BILLION
            by_ns = level_ns - self._sudden_ns - expected_ns
            if abs(by_ns) > most_ns + SURE * max(noise_ns, self.noise_ns):
                self._sudden_ns += by_ns
                return
        self._points.append((time_ns, level_ns - self._sudden_ns, noise_ns))
        self._line = self._fitted()

    def _fitted(self) -> tuple[int, float, float]:
        first_ns, count = self._points[0][0], len(self._points)
        middle = sum(t - first_ns for t, _, _ in self._points) / count
        mean = sum(level for _, level, _ in self._points) / count
        spread = sum((t - first_ns - middle) ** 2 for t, _, _ in self._points)
        slope = 0.0
        if count >= FEWEST and spread:
            slope = sum((t - first_ns - middle) * (level - mean) for t, level, _ in self._points) / spread
        elif count < FEWEST:
            mean = self._points[-1][1]
        return first_ns + round(middle), mean, slope

    def at_ns(self, time_ns: int) -> int:
        """The level at a time, by the line."""
        middle_ns, mean, slope = self._line
        return round(mean + slope * (time_ns - middle_ns))

    @property
    def ppb(self) -> int:
        """The slope of the line."""
        return round(self._line[2] * BILLION)

    @property
    def noise_ns(self) -> int:
        """Usual noise of a measurement: by the messages, or the scatter about the line if that is more."""
        if not self._points:
            return 0
        told = median(noise for _, _, noise in self._points)
        scatter = median(abs(level - self.at_ns(t)) for t, level, _ in self._points)
        return round(max(told, 1.5 * scatter))

    @property
    def sure_ns(self) -> int:
        """Uncertainty of the line at its end."""
        return round(2 * self.noise_ns / sqrt(max(1, len(self._points))))

    @property
    def is_clear(self) -> bool:
        """Whether it certainly changes: drift, and not only noise."""
        if len(self._points) < FEWEST:
            return False
        risen_ns = abs(self._line[2]) * (self._points[-1][0] - self._points[0][0])
        # The rise of a fitted line is 1.7 times as uncertain as its end.
        return risen_ns > max(LEAST_NS, 2 * SURE * self.sure_ns)


class Correction:
    """What is added to a clock's offset for its drift: lines that join, by stamp."""

    def __init__(self) -> None:
        self._knots: deque[tuple[int, int, int]] = deque(maxlen=KNOTS)
        """Stamp, correction there, and slope from there on in parts per billion; the newest first."""

    @property
    def is_used(self) -> bool:
        """Whether it corrects anything."""
        return bool(self._knots)

    def at_ns(self, stamp_ns: int) -> int:
        """The correction of a stamp."""
        for start_ns, corrected_ns, ppb in self._knots:
            if stamp_ns >= start_ns:
                return corrected_ns + (stamp_ns - start_ns) * ppb // BILLION
        return self._knots[-1][1] if self._knots else 0

    def follow(self, level: Level, stamp_ns: int, now_ns: int, ahead_ns: int) -> int:
        """Go on from the newest stamp so that the level is reached after ``ahead_ns``.

        Returns:
            How far the correction is off now, with the level's uncertainty.
        """
        corrected_ns = self.at_ns(stamp_ns)
        error_ns = abs(level.at_ns(now_ns) - corrected_ns)
        if self._knots or (level.is_clear and error_ns > LEAST_NS):
            ppb = (level.at_ns(now_ns + ahead_ns) - corrected_ns) * BILLION // ahead_ns
            self._knots.appendleft((stamp_ns, corrected_ns, max(-TURN_PPB, min(TURN_PPB, ppb))))
        return error_ns + level.sure_ns
