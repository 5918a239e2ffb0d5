"""Tells a drifting clock, which is followed, from late topics: drift affects all topics of a clock alike.

The rate of a clock: a line through what its topics show of it, and a correction that follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, sqrt
from statistics import median
from typing import NamedTuple

from edgefirst_ros.timing.finding import seconds

FASTEST_PPB = 750_000
"""No clock drifts faster (a quartz has 100 ppm, a virtual machine's a few hundred); queues fill faster."""
POINTS = 24
"""A line is fitted to as many points: over two minutes the temperature of a quartz hardly changes."""
LONGEST = 8
"""Measurements that make a point at most, where latencies are too noisy to show drift in two minutes."""
FEWEST = 3
LEAST_NS = 1_000_000
"""Drift that has not added up to this is not corrected: stamps keep their precision where there is none."""
SURE = 3.0
"""Drift is corrected once it exceeds its uncertainty so many times."""
KNOTS = 16
TURN_PPB = 2_000_000
"""A correction changes no faster, so that times stay in order and intervals true to 0.2 %."""
BILLION = 1_000_000_000


class _Point(NamedTuple):
    """Of some consecutive measurements the mean time, level and noise, and how many they are."""

    time_ns: float
    level_ns: float
    noise_ns: float
    many: int

    def joined(self, other: _Point) -> _Point:
        many = self.many + other.many
        mean = [(a * self.many + b * other.many) / many for a, b in zip(self[:3], other[:3], strict=True)]
        return _Point(mean[0], mean[1], mean[2], many)


class Level:
    """How a clock's least latency changes in time, without sudden changes, which are no clock's.

    As long as no drift is clear, the points of its line reach farther and farther back.
    """

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=POINTS)
        self._each = 1
        """Measurements that make a point."""
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
        new = _Point(time_ns, level_ns - self._sudden_ns, noise_ns, 1)
        if self._points and self._points[-1].many < self._each:
            new = self._points.pop().joined(new)
        elif len(self._points) == POINTS and self._each < LONGEST and not self.is_clear:
            older = list(self._points)
            self._points.clear()
            self._points.extend(a.joined(b) for a, b in zip(older[::2], older[1::2], strict=True))
            self._each *= 2
        self._points.append(new)
        self._line = self._fitted()

    def _fitted(self) -> tuple[int, float, float]:
        first_ns, count = self._points[0].time_ns, sum(point.many for point in self._points)
        middle = sum((p.time_ns - first_ns) * p.many for p in self._points) / count
        mean = sum(p.level_ns * p.many for p in self._points) / count
        spread = sum((p.time_ns - first_ns - middle) ** 2 * p.many for p in self._points)
        slope = 0.0
        if len(self._points) >= FEWEST and spread:
            slope = (
                sum((p.time_ns - first_ns - middle) * (p.level_ns - mean) * p.many for p in self._points)
                / spread
            )
        elif len(self._points) < FEWEST:
            mean = self._points[-1].level_ns
        return round(first_ns + middle), mean, slope

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
        # The last point may have fewer measurements than the others, which changes no median.
        told = median(point.noise_ns for point in self._points) / sqrt(self._each)
        scatter = median(abs(p.level_ns - self.at_ns(round(p.time_ns))) for p in self._points)
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
        risen_ns = abs(self._line[2]) * (self._points[-1].time_ns - self._points[0].time_ns)
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


DRIFT_NS = 20_000_000
WINDOW_NS = 5_000_000_000
MESSAGES = 40
"""Least number of messages for a least latency; the minimum of fewer is too noisy."""
LOWEST = 4
"""The spread of this many lowest latencies of a window is the uncertainty of its least."""
AGREE_NS = 5_000_000
"""Topics of one clock agree on its drift to within this, plus their own noise."""
LOOK_BACK = 4
FASTEST_NS = LOOK_BACK * WINDOW_NS * FASTEST_PPB // 1_000_000_000
"""Most that a clock drifts in ``LOOK_BACK`` windows; queues fill faster."""
CONFIRM = 2
"""Number of consecutive windows that must agree."""
IMPOSSIBLE_NS = 5_000_000
"""A message received this long before its acquisition time proves the offset wrong."""


@dataclass(slots=True)
class _Series:
    """A topic's least latency, window by window."""

    group: int
    earliest_ns: int
    """A lower latency means that the offset is wrong."""
    joined: bool
    baseline_ns: int | None = None
    lowest: list[int] = field(default_factory=list)
    count: int = 0
    heard: bool = False
    windows: int = 1
    """Number of windows that the present count spans; slow topics need several."""
    span: int = 0
    """Number of windows of the measurement just completed, 0 if none was."""
    least_ns: int = 0
    noise_ns: int = 0
    moves: deque[int] = field(default_factory=lambda: deque([0], maxlen=LOOK_BACK + 1))
    """Least latency minus the baseline, for recent measurements."""
    rebased_ns: int = 0
    """By how much the baseline was moved in all."""
    apart: int = 0
    """Number of consecutive measurements in which it changed and its clock did not."""
    early: int = 0

    @property
    def move_ns(self) -> int:
        return self.moves[-1]

    @property
    def is_fast(self) -> bool:
        """Whether it changed faster than a clock can drift."""
        return abs(self.moves[-1] - self.moves[0]) > FASTEST_NS * self.span

    def add(self, latency_ns: int) -> None:
        self.count += 1
        self.heard = True
        if len(self.lowest) < LOWEST or latency_ns < self.lowest[-1]:
            self.lowest = sorted([*self.lowest, latency_ns])[:LOWEST]

    def complete(self, clock_move_ns: int) -> None:
        """End a window. After silence counting starts anew; a slow topic continues its count."""
        self.span = 0
        if self.heard and self.count < MESSAGES:
            self.windows += 1
        else:
            if self.heard:
                self.span = self.windows
                self.least_ns, self.noise_ns = self.lowest[0], self.lowest[-1] - self.lowest[0]
                if self.baseline_ns is None:
                    self.baseline_ns = self.least_ns - clock_move_ns
                    self.moves.clear()
                self.moves.append(self.least_ns - self.baseline_ns)
            self.lowest, self.count, self.windows = [], 0, 1
        self.heard = False

    def rebase(self, by_ns: int) -> None:
        """Move the baseline by this amount."""
        self.baseline_ns = (self.baseline_ns or 0) + by_ns
        self.rebased_ns += by_ns
        self.moves = deque([self.move_ns - by_ns], maxlen=self.moves.maxlen)
        self.apart = 0


@dataclass(slots=True)
class _Clock:
    """A clock's drift: what its topics show of it, and what is corrected."""

    level: Level = field(default_factory=Level)
    correction: Correction = field(default_factory=Correction)
    move_ns: int = 0
    """Change of its topics' latencies that correction leaves, as last measured."""
    off: int = 0
    """Number of consecutive windows in which it was far off."""
    error_ns: int = 0
    """Most that its times were off, as far as that was seen afterwards."""


class DriftWatch:
    """Watches the latency, receive − time, of all topics whose stamps are set to the recording's clock.

    Every topic's least latency is compared with its first one. Drift of a clock changes all of its active
    topics by the same amount, slowly, in relation to those of the recording's own clock: it is corrected, and
    the correction has no jumps. A topic that becomes late alone is congested. If topics of all clocks become
    late together, the receiver is busy, or its clock drifts. These change no times and are only reported.

    Args:
        tell: called with a sentence for the user, once for each topic and once for the receiver.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Forget everything, as the clocks are learnt anew."""
        self._series: dict[str, _Series] = {}
        self._start_ns: int | None = None
        self._clocks: dict[int, _Clock] = {}
        self._stamps: dict[int, int] = {}
        """Newest stamp by clock."""
        self._busy_ns = 0

    def join(self, topic: str, group: int, uncertainty_ns: int, *, joined: bool) -> Correction:
        """Start to watch a topic; ``joined`` if its clock was known before its first message.

        Returns:
            What is to be added to the offset of its clock, from now on as well.
        """
        self._series[topic] = _Series(group, -uncertainty_ns - IMPOSSIBLE_NS, joined)
        return self._clocks.setdefault(group, _Clock()).correction

    def excuse(self, topic: str, by_ns: int) -> None:
        """Accept a change of a topic's latency that has been reported already."""
        series = self._series.get(topic)
        if series is not None and series.baseline_ns is not None:
            series.rebase(by_ns)
            series.lowest, series.count = [], 0

    def is_due(self, receive_ns: int) -> bool:
        """Whether a message received then ends a window, at which something may be found."""
        return self._start_ns is not None and receive_ns - self._start_ns >= WINDOW_NS

    def error_ns(self, group: int) -> int:
        """Most that a clock's times were off by drift, or by the latency of what it was found from."""
        return self._clocks[group].error_ns if group in self._clocks else 0

    def ppm(self, group: int) -> float | None:
        """By how much a clock is slower than the recording's, None if that is too little to be corrected."""
        clock = self._clocks.get(group)
        return None if clock is None or not clock.correction.is_used else clock.level.ppb / 1000

    def corrected_ns(self, group: int) -> int:
        """What is added to a clock's offset at its newest stamp."""
        clock = self._clocks.get(group)
        return 0 if clock is None else clock.correction.at_ns(self._stamps.get(group, 0))

    def add(self, topic: str, stamp_ns: int, receive_ns: int, latency_ns: int) -> str | None:
        """Add a message, in order of receipt; what happened to a clock, None unless it is certain."""
        series = self._series.get(topic)
        if series is None:
            return None
        found = None
        if self._start_ns is None:
            self._start_ns = receive_ns
        elif receive_ns - self._start_ns >= WINDOW_NS:
            self._start_ns = receive_ns
            found = self._judge(receive_ns)
        series.add(latency_ns)
        if stamp_ns > self._stamps.get(series.group, stamp_ns - 1):
            self._stamps[series.group] = stamp_ns
        return found

    def _judge(self, now_ns: int) -> str | None:
        """Compare all topics at the end of a window; what happened to a clock, if anything."""
        alive = {series.group for series in self._series.values() if series.heard}
        measured: dict[int, list[str]] = {}
        for topic, series in self._series.items():
            series.complete(self._clocks[series.group].move_ns)
            if series.span:
                measured.setdefault(series.group, []).append(topic)
        voters = {group: self._voters(topics) for group, topics in measured.items()}
        for group, each in voters.items():
            self._clocks[group].move_ns = _shared([s.move_ns for s in each])
        receiver_ns = self._follow(now_ns, voters)
        moves = {group: self._clocks[group].move_ns - receiver_ns for group in alive}
        self._busy_ns = self._late_together(moves, voters)
        relieved = bool(moves) and max(moves.values()) < -DRIFT_NS
        found = None
        for group, topics in measured.items():
            clock, own_ns = self._clocks[group], moves[group] - self._busy_ns
            if not (relieved or _is_clock(voters[group])):
                own_ns = 0
            clock.off = clock.off + 1 if abs(own_ns) > DRIFT_NS else 0
            fallen_ns = receiver_ns - _shared([s.move_ns + s.rebased_ns for s in voters[group]])
            clock.error_ns = max(clock.error_ns, fallen_ns)
            if clock.off >= CONFIRM:
                promptest = min(topics, key=lambda topic: (self._series[topic].least_ns, topic))
                found = found or f"{promptest}'s clock drifted by {seconds(own_ns)}"
            else:
                found = found or self._too_early(topics)
            if abs(self._busy_ns) <= DRIFT_NS:
                self._tell_congested(topics, own_ns + self._busy_ns + receiver_ns)
        return found

    def _follow(self, now_ns: int, voters: Mapping[int, Sequence[_Series]]) -> int:
        """Correct clocks for their drift; by how much the receiver's has drifted from the recording's."""
        own = self._clocks.get(0)
        if own is not None and 0 in voters:
            own.level.add(now_ns, *_surest(voters[0]), voters[0][0].span * WINDOW_NS)
        receiver = None if own is None or not own.level.is_clear else own.level
        for group, each in voters.items():
            clock, stamp_ns = self._clocks[group], self._stamps.get(group)
            if group == 0 or stamp_ns is None or not _is_clock(each):
                continue
            move_ns, noise_ns = _surest(each)
            half_ns = each[0].span * WINDOW_NS // 2
            corrected_ns = clock.correction.at_ns(stamp_ns - half_ns)
            if own is not None and own.level.count:
                # What all latencies have in common is no matter of this clock.
                move_ns -= own.level.raw_ns
                noise_ns = round(hypot(noise_ns, own.level.noise_ns))
            clock.level.add(now_ns - half_ns, move_ns + corrected_ns, noise_ns, 2 * half_ns)
            error_ns = clock.correction.follow(clock.level, stamp_ns, now_ns, WINDOW_NS)
            clock.error_ns = max(clock.error_ns, error_ns)
        return 0 if receiver is None else receiver.at_ns(now_ns)

    def _voters(self, topics: Sequence[str]) -> list[_Series]:
        """Topics measured within this window; slow ones, which span several, only if there are no others."""
        measured = [self._series[topic] for topic in topics]
        return [s for s in measured if s.span == 1] or measured

    def _late_together(self, moves: Mapping[int, int], voters: Mapping[int, Sequence[_Series]]) -> int:
        """By how much everything is late because the receiver is busy."""
        if not moves:
            return self._busy_ns
        late_ns = max(0, min(moves.values()))
        if len(moves) == 1:
            ((group, move_ns),) = moves.items()
            if group == 0:
                return move_ns  # no clock is converted to the recording's own, so its drift does no harm
            # There is no other clock to compare with, so the speed of the change decides.
            if not all(s.is_fast for s in voters.get(group, ())):
                late_ns = max(0, min(self._busy_ns, move_ns))
        if late_ns > DRIFT_NS:
            self._once("", f"everything comes {seconds(late_ns)} later than before: the receiver is busy")
        return late_ns

    def _too_early(self, topics: Sequence[str]) -> str | None:
        """Why a clock's offset is wrong, as messages are received before their acquisition; else None."""
        for topic in topics:
            series = self._series[topic]
            # The few messages that a clock was found from may all have been late: that alone proves nothing.
            moved = series.joined or series.move_ns < -DRIFT_NS
            too_early = series.group != 0 and series.least_ns < series.earliest_ns and moved
            series.early = series.early + 1 if too_early else 0
            if series.early >= CONFIRM:
                early_ms = -series.least_ns / 1e6
                return f"{topic} came {early_ms:.1f} ms before its time, so its clock's offset was wrong"
        return None

    def _tell_congested(self, topics: Sequence[str], clock_ns: int) -> None:
        for topic in topics:
            series = self._series[topic]
            by_ns = series.move_ns - clock_ns
            series.apart = series.apart + 1 if abs(by_ns) > DRIFT_NS else 0
            if series.apart >= CONFIRM:
                series.rebase(by_ns)
                how = "later" if by_ns > 0 else "earlier"
                text = f"{topic} comes {abs(by_ns) / 1e6:.1f} ms {how} than before"
                self._once(topic + how, f"{text}: its latency changed, not its clock")

    def _once(self, key: str, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._tell(text)


def _shared(moves_ns: Sequence[int]) -> int:
    """The change common to all topics: congestion can only add to that of their clock."""
    if min(moves_ns) > 0:
        return min(moves_ns)
    return min(0, max(moves_ns))


def _surest(voters: Sequence[_Series]) -> tuple[int, int]:
    """The common change as the topic of least noise shows it, unless that is late alone; and its noise."""
    surest, shared_ns = min(voters, key=lambda s: s.noise_ns), _shared([s.move_ns for s in voters])
    agrees = abs(surest.move_ns - shared_ns) <= AGREE_NS + surest.noise_ns
    return (surest.move_ns if agrees else shared_ns), surest.noise_ns


def _is_clock(voters: Sequence[_Series]) -> bool:
    """Whether drift of a clock can explain the changes of its topics."""
    nearest, *others = sorted(voters, key=lambda s: abs(s.move_ns))
    if not others:
        return not nearest.is_fast
    apart_ns = abs(others[0].move_ns - nearest.move_ns)
    # Sudden changes are StepWatch's task; here they count as drift only if the topics agree closely.
    fast = nearest.is_fast and others[0].is_fast
    return apart_ns <= AGREE_NS + (0 if fast else nearest.noise_ns + others[0].noise_ns)
