"""Distinguishes a drifting clock from late topics: drift affects all topics of a clock alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from edgefirst_ros.timing.finding import seconds

DRIFT_NS = 20_000_000
WINDOW_NS = 5_000_000_000
MESSAGES = 40
"""Least number of messages for a least latency; the minimum of fewer is too noisy."""
LOWEST = 4
"""The spread of this many lowest latencies of a window is the uncertainty of its least."""
AGREE_NS = 5_000_000
"""Topics of one clock agree on its drift to within this, plus their own noise."""
LOOK_BACK = 4
FASTEST_NS = 15_000_000
"""Most that a clock drifts in ``LOOK_BACK`` windows (750 ppm; a quartz has 100); queues fill faster."""
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
                    self.moves = deque([clock_move_ns], maxlen=LOOK_BACK + 1)
                else:
                    self.moves.append(self.least_ns - self.baseline_ns)
            self.lowest, self.count, self.windows = [], 0, 1
        self.heard = False

    def rebase(self, by_ns: int) -> None:
        """Move the baseline by this amount."""
        self.baseline_ns = (self.baseline_ns or 0) + by_ns
        self.moves = deque([self.move_ns - by_ns], maxlen=LOOK_BACK + 1)
        self.apart = 0


class DriftWatch:
    """Watches the latency, receive − time, of all topics whose stamps are set to the recording's clock.

    Every topic's least latency is compared with its first one. Drift of a clock changes all of its active
    topics by the same amount, slowly, or at once if it was stepped. A topic that becomes late alone is
    congested. If topics of all clocks become late together, the receiver is busy. The last two change no
    times and are only reported.

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
        self._moves: dict[int, int] = {}
        self._off: dict[int, int] = {}
        self._busy_ns = 0

    def join(self, topic: str, group: int, uncertainty_ns: int, *, joined: bool) -> None:
        """Start to watch a topic; ``joined`` if its clock was known before its first message."""
        self._series[topic] = _Series(group, -uncertainty_ns - IMPOSSIBLE_NS, joined)

    def excuse(self, topic: str, by_ns: int) -> None:
        """Accept a change of a topic's latency that has been reported already."""
        series = self._series.get(topic)
        if series is not None and series.baseline_ns is not None:
            series.rebase(by_ns)
            series.lowest, series.count = [], 0

    def is_due(self, receive_ns: int) -> bool:
        """Whether a message received then ends a window, at which something may be found."""
        return self._start_ns is not None and receive_ns - self._start_ns >= WINDOW_NS

    def add(self, topic: str, receive_ns: int, latency_ns: int) -> str | None:
        """Add a message, in order of receipt; what happened to a clock, None unless it is certain."""
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
        """Compare all topics at the end of a window; what happened to a clock, if anything."""
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
                promptest = min(topics, key=lambda topic: (self._series[topic].least_ns, topic))
                found = found or f"{promptest}'s clock drifted by {seconds(own_ns)}"
            else:
                found = found or self._too_early(topics)
            if abs(self._busy_ns) <= DRIFT_NS:
                self._tell_congested(topics, own_ns + self._busy_ns)
        return found

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


def _is_clock(voters: Sequence[_Series]) -> bool:
    """Whether drift of a clock can explain the changes of its topics."""
    nearest, *others = sorted(voters, key=lambda s: abs(s.move_ns))
    if not others:
        return not nearest.is_fast
    apart_ns = abs(others[0].move_ns - nearest.move_ns)
    # Sudden changes are StepWatch's task; here they count as drift only if the topics agree closely.
    fast = nearest.is_fast and others[0].is_fast
    return apart_ns <= AGREE_NS + (0 if fast else nearest.noise_ns + others[0].noise_ns)
