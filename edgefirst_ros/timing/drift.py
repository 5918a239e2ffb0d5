"""Tells a clock that runs away from topics that become late: a clock moves all of its topics alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from edgefirst_ros.timing.finding import seconds

DRIFT_NS = 20_000_000
WINDOW_NS = 5_000_000_000
MESSAGES = 40
"""Least latencies are taken over windows of at least so many messages: a minimum of few is noise."""
LOWEST = 4
"""How far the lowest so many latencies of a window lie apart is how well its least is known."""
AGREE_NS = 5_000_000
"""Topics of one clock that moved are to agree so well, their own noise apart."""
LOOK_BACK = 4
FASTEST_NS = 15_000_000
"""No clock runs away by more within so many windows (750 ppm; a quartz does 100); a queue that fills does."""
CONFIRM = 2
"""So many windows in a row have to say the same."""
IMPOSSIBLE_NS = 5_000_000
"""A message is not received so much before it was acquired."""


@dataclass(slots=True)
class _Series:
    """One topic's least latency, window by window."""

    group: int
    earliest_ns: int
    """The least latency that is possible: below it the offset is wrong."""
    joined: bool
    baseline_ns: int | None = None
    lowest: list[int] = field(default_factory=list)
    count: int = 0
    heard: bool = False
    windows: int = 1
    """Windows that the present count spans: slow topics need several."""
    span: int = 0
    """Windows of the measurement that has just been completed, 0 if none has."""
    least_ns: int = 0
    noise_ns: int = 0
    moves: deque[int] = field(default_factory=lambda: deque([0], maxlen=LOOK_BACK + 1))
    """Least latency less the baseline, measurement by measurement."""
    apart: int = 0
    """Measurements in a row in which it moved and its clock did not."""
    early: int = 0

    @property
    def move_ns(self) -> int:
        return self.moves[-1]

    @property
    def is_fast(self) -> bool:
        """Whether it moved faster than a clock can."""
        return abs(self.moves[-1] - self.moves[0]) > FASTEST_NS * self.span

    def add(self, latency_ns: int) -> None:
        self.count += 1
        self.heard = True
        if len(self.lowest) < LOWEST or latency_ns < self.lowest[-1]:
            self.lowest = sorted([*self.lowest, latency_ns])[:LOWEST]

    def complete(self, clock_move_ns: int) -> None:
        """A window ends. A topic that was silent in it starts afresh; one heard seldom goes on counting."""
        self.span = 0
        if self.heard and self.count < MESSAGES:
            self.windows += 1
        else:
            if self.heard:
                self.span = self.windows
                self.least_ns, self.noise_ns = self.lowest[0], self.lowest[-1] - self.lowest[0]
                if self.baseline_ns is None:
                    self.baseline_ns = self.least_ns - clock_move_ns
                    self.moves = deque([clock_move_ns], maxlen=LOOK_BACK + 1)
                else:
                    self.moves.append(self.least_ns - self.baseline_ns)
            self.lowest, self.count, self.windows = [], 0, 1
        self.heard = False

    def rebase(self, by_ns: int) -> None:
        """From now on this latency is the usual one."""
        self.baseline_ns = (self.baseline_ns or 0) + by_ns
        self.moves = deque([self.move_ns - by_ns], maxlen=LOOK_BACK + 1)
        self.apart = 0


class DriftWatch:
    """Watches receive − time of all topics whose stamps were set to the recording's clock.

    The least latency of every topic is compared with its own first one. A clock that runs away moves all of
    its topics that are alive by the same amount, slowly, or at once if it was stepped. A topic that becomes
    late by itself is congested; topics of all clocks that become late together say that the receiver is busy.
    Neither changes a time, so they are only told.

    Args:
        tell: called with a sentence, once for each topic, or for the receiver.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """The clocks are learnt anew."""
        self._series: dict[str, _Series] = {}
        self._start_ns: int | None = None
        self._moves: dict[int, int] = {}
        self._off: dict[int, int] = {}
        self._busy_ns = 0

    def join(self, topic: str, group: int, uncertainty_ns: int, *, joined: bool) -> None:
        """Watch a topic from now on; ``joined`` if its clock was found before it came."""
        self._series[topic] = _Series(group, -uncertainty_ns - IMPOSSIBLE_NS, joined)

    def excuse(self, topic: str, by_ns: int) -> None:
        """A topic's latency changed by so much, and that has been told."""
        series = self._series.get(topic)
        if series is not None and series.baseline_ns is not None:
            series.rebase(by_ns)
            series.lowest, series.count = [], 0

    def add(self, topic: str, receive_ns: int, latency_ns: int) -> str | None:
        """Take a message of any topic in, in order of receipt; what happened to a clock, once it is sure."""
        series = self._series.get(topic)
        if series is None:
            return None
        found = None
        if self._start_ns is None:
            self._start_ns = receive_ns
        elif receive_ns - self._start_ns >= WINDOW_NS:
            self._start_ns = receive_ns
            found = self._judge()
        series.add(latency_ns)
        return found

    def _judge(self) -> str | None:
        """A window is complete: what all topics say together."""
        alive = {series.group for series in self._series.values() if series.heard}
        measured: dict[int, list[str]] = {}
        for topic, series in self._series.items():
            series.complete(self._moves.get(series.group, 0))
            if series.span:
                measured.setdefault(series.group, []).append(topic)
        voters = {group: self._voters(topics) for group, topics in measured.items()}
        self._moves.update({group: _shared([s.move_ns for s in each]) for group, each in voters.items()})
        moves = {group: ns for group, ns in self._moves.items() if group in alive}
        self._busy_ns = self._late_together(moves, voters)
        relieved = bool(moves) and max(moves.values()) < -DRIFT_NS
        found = None
        for group, topics in measured.items():
            own_ns = moves[group] - self._busy_ns
            if not (relieved or _is_clock(voters[group])):
                own_ns = 0
            self._off[group] = self._off.get(group, 0) + 1 if abs(own_ns) > DRIFT_NS else 0
            if self._off[group] >= CONFIRM:
                found = found or f"{self._promptest(topics)}'s clock drifted by {seconds(own_ns)}"
            else:
                found = found or self._too_early(topics)
            if abs(self._busy_ns) <= DRIFT_NS:
                self._tell_congested(topics, own_ns + self._busy_ns)
        return found

    def _voters(self, topics: Sequence[str]) -> list[_Series]:
        """Those measured within this window; slow ones, whose measurement is older, only if alone."""
        measured = [self._series[topic] for topic in topics]
        return [s for s in measured if s.span == 1] or measured

    def _late_together(self, moves: Mapping[int, int], voters: Mapping[int, Sequence[_Series]]) -> int:
        """How much later everything comes because the receiver is busy."""
        if not moves:
            return self._busy_ns
        late_ns = max(0, min(moves.values()))
        if len(moves) == 1:
            ((group, move_ns),) = moves.items()
            if group == 0:
                return move_ns  # no other clock is set by the recording's own, so whatever it does is no harm
            # Nothing to compare with, so the pace decides.
            if not all(s.is_fast for s in voters.get(group, ())):
                late_ns = max(0, min(self._busy_ns, move_ns))
        if late_ns > DRIFT_NS:
            self._once("", f"everything comes {seconds(late_ns)} later than before: the receiver is busy")
        return late_ns

    def _too_early(self, topics: Sequence[str]) -> str | None:
        """A message that was received before it was acquired: the offset is too late, whoever moved."""
        for topic in topics:
            series = self._series[topic]
            # The few messages that a clock was found by may all have been slow: that alone is no reason.
            moved = series.joined or series.move_ns < -DRIFT_NS
            too_early = series.group != 0 and series.least_ns < series.earliest_ns and moved
            series.early = series.early + 1 if too_early else 0
            if series.early >= CONFIRM:
                early_ms = -series.least_ns / 1e6
                return f"{topic} came {early_ms:.1f} ms before its time, so its clock was found wrong"
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

    def _promptest(self, topics: Sequence[str]) -> str:
        return min(topics, key=lambda topic: (self._series[topic].least_ns, topic))

    def _once(self, key: str, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._tell(text)


def _shared(moves_ns: Sequence[int]) -> int:
    """What all moved by at least: congestion only ever adds to what their clock did."""
    if min(moves_ns) > 0:
        return min(moves_ns)
    return min(0, max(moves_ns))


def _is_clock(voters: Sequence[_Series]) -> bool:
    """Whether a clock can have made its topics move like this."""
    nearest, *others = sorted(voters, key=lambda s: abs(s.move_ns))
    if not others:
        return not nearest.is_fast
    apart_ns = abs(others[0].move_ns - nearest.move_ns)
    # What moved at once was seen by the watch for steps; here it is taken for one only if all agree well.
    fast = nearest.is_fast and others[0].is_fast
    return apart_ns <= AGREE_NS + (0 if fast else nearest.noise_ns + others[0].noise_ns)
