"""Statistics of one topic: messages that never arrived, by the gaps that they leave; pauses; latencies."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

FACTOR = 3
"""A pause is longer than so many usual intervals ..."""
UNEVEN_FACTOR = 8
"""... or mean intervals, of a topic that has no usual one ..."""
LEAST_NS = 100_000_000
"""... and than this ..."""
FEW, FEW_NS = 3, 2_000_000_000
"""... or than this, if there are fewer other intervals."""
LEAST_MESSAGES = 8
KEPT = 32
MOST_OPEN = 256
"""Intervals that are kept until it is known whether they are pauses: the longest ones."""


class Pauses:
    """Pauses of one topic: how many, how long in all, and when the longest were; times come in order.

    What is usual is not known at the beginning: long intervals are kept until it is, and judged again then,
    or at the end by the mean of all others.

    Attributes:
        limit_ns: what is longer is worth a call of ``judge``.
        count: number of pauses.
        total_ns: their sum.
    """

    def __init__(self) -> None:
        self.limit_ns = LEAST_NS
        self.count = 0
        self.total_ns = 0
        self._longest: list[tuple[int, int]] = []
        """Length and begin, as a heap."""
        self._open: list[tuple[int, int]] = []
        """The same of intervals that may turn out to be pauses."""

    def judge(self, begin_ns: int, end_ns: int, usual_ns: int | None, mean_ns: int, messages: int) -> None:
        """Count an interval between two messages if it is a pause.

        Args:
            begin_ns: time of the message before.
            end_ns: time of the message after it.
            usual_ns: the topic's usual interval, None if it has none.
            mean_ns: its mean interval so far.
            messages: number of messages so far.
        """
        length = end_ns - begin_ns
        if usual_ns is not None:
            self.limit_ns = max(LEAST_NS, FACTOR * usual_ns)
            self._settle()
            if length > self.limit_ns:
                self._count(length, begin_ns)
            return
        self.limit_ns = LEAST_NS
        if messages >= LEAST_MESSAGES and length > max(LEAST_NS, UNEVEN_FACTOR * mean_ns):
            self._count(length, begin_ns)
        elif length > LEAST_NS:
            heapq.heappush(self._open, (length, begin_ns))
            if len(self._open) > MOST_OPEN:
                heapq.heappop(self._open)

    def ended(self, usual_ns: int | None, span_ns: int, messages: int) -> Pauses:
        """The pauses if nothing follows; these stay as they are.

        Args:
            usual_ns: the topic's usual interval, None if it has none.
            span_ns: time from its first message to its last.
            messages: their number.
        """
        found = Pauses()
        found.count, found.total_ns, found.limit_ns = self.count, self.total_ns, self.limit_ns
        found._longest, found._open = list(self._longest), list(self._open)
        if usual_ns is not None:
            found.limit_ns = max(LEAST_NS, FACTOR * usual_ns)
            found._settle()
            return found
        for length, begin_ns in sorted(self._open, reverse=True):
            others = messages - 1 - found.count - 1
            least_ns = LEAST_NS if others >= FEW else FEW_NS
            if others < 1:
                break
            mean_ns = (span_ns - found.total_ns - length) // others
            if length <= max(least_ns, UNEVEN_FACTOR * mean_ns):
                break
            found._count(length, begin_ns)
        return found

    def _settle(self) -> None:
        """Judge again what came before the usual interval was known."""
        for length, begin_ns in self._open:
            if length > self.limit_ns:
                self._count(length, begin_ns)
        self._open = []

    def _count(self, length: int, begin_ns: int) -> None:
        self.count += 1
        self.total_ns += length
        heapq.heappush(self._longest, (length, begin_ns))
        if len(self._longest) > KEPT:
            heapq.heappop(self._longest)

    @property
    def longest(self) -> list[tuple[int, int]]:
        """Begin and end of the longest ones, in order of time."""
        return sorted((begin, begin + length) for length, begin in self._longest)


LEAST = 8
"""Intervals before a rate is known."""
EVEN, MANY = 0.15, 64
"""With more jitter than this the first fit takes so many messages: of fewer it would be too far off."""
MEMORY = 128
"""Messages that period and phase are fitted to."""
UNSTEADY = 0.6
"""Jitter (standard deviation, in periods) above which a topic sends as it pleases. Stamps anywhere within
80 % of a period around their place have 0.46."""
LEAST_JITTER = 0.02
FAR = 0.1
"""While the next place is known no better than this (in periods), nothing is counted."""
SURE = 20.0
"""Log likelihood ratio at which a loss is believed: by chance once in 10^8 messages."""
RECENT, OFTEN = 32, 16
"""Holes before more of the recent messages than this are another rate, not losses."""
SETTLED = 16
"""What is missing for so many messages, of which none made up for anything, does not come any more."""
LATENCIES_MS = (-1_000, 10_000)
"""Latencies beyond these are counted with the nearest."""
REFRESH = 64
"""After so many messages it is looked anew what a pause is."""
UNSUSPICIOUS = 0.5
"""So many periods off, a message is likelier to be in its place than in the next one."""


class _Fit(NamedTuple):
    """Where messages are expected: ``next_ns + n · period_ns``; the line of least squares, recursively.

    ``jitter`` is the standard deviation of stamps about their places, in periods.
    """

    next_ns: float
    period_ns: float
    jitter: float
    messages: int

    @classmethod
    def of(cls, times_ns: list[int]) -> _Fit | None:
        """Through the first few times; None if they have no period."""
        count, origin_ns = len(times_ns), times_ns[0]
        middle = (count - 1) / 2
        mean_ns = sum(t - origin_ns for t in times_ns) / count
        spread = sum((n - middle) ** 2 for n in range(count))
        slope = sum((n - middle) * (t - origin_ns - mean_ns) for n, t in enumerate(times_ns)) / spread
        if slope <= 0:
            return None
        off = [t - origin_ns - mean_ns - slope * (n - middle) for n, t in enumerate(times_ns)]
        jitter = math.sqrt(sum(each**2 for each in off) / (count - 2)) / slope
        return cls(origin_ns + mean_ns + slope * (count - middle), slope, jitter, count)

    def off(self, time_ns: int) -> float:
        """How far a time lies behind the expected one, in periods."""
        return (time_ns - self.next_ns) / self.period_ns

    def went_on(self, time_ns: int, missing: int) -> _Fit:
        """After a message before which this many are missing."""
        expected_ns, before_ns, jitter, messages = self
        count = messages + 1 if messages < MEMORY else MEMORY
        off = (time_ns - expected_ns) / before_ns - missing
        terms, variance = count * (count + 1), jitter**2
        phase, slope = 2 * (2 * count - 1) / terms, 6 / terms
        # One that is far off tells of a loss to come, not of the jitter.
        variance += (min(abs(off), 1.0) ** 2 - variance) / count
        period_ns = before_ns * (1 + slope * off)
        next_ns = expected_ns + (missing + phase * off) * before_ns + period_ns
        return _Fit(next_ns, period_ns, math.sqrt(variance), count)

    @property
    def is_sure(self) -> bool:
        """Whether the next place is known well enough to miss a message there."""
        return 2 * self.jitter / math.sqrt(self.messages) < FAR


class GapCounter:
    """Counts losses of one topic that sends at a steady rate; times come in order.

    DDS overwrites and network losses raise no event, so holes in the times are all there is to see. But a
    hole alone is no loss: where stamps jitter, a bunch follows and makes up for it. A loss moves all that
    follows by a period, and is counted once that is likelier than jitter by far (a CUSUM test): with even
    stamps at once, with stamps that jitter by 80 % of the period after some ten messages. What comes in a
    bunch thereafter, as after a stall, was not lost, and is taken from the count again. Topics that send
    in bursts or as they please give no count worth having, so none is made. A sensor that was switched to
    another rate is learnt anew.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._fit: _Fit | None = None
        self._first: list[int] = []
        self._holes: deque[bool] = deque(maxlen=RECENT)
        self._owed: deque[tuple[int, int]] = deque()
        """Losses that a bunch may still make up for: after how many messages, and how many."""
        self._number = self._made_up = 0
        """Messages so far, and when the last that made up for something came."""
        self._late, self._early = _CALM_LATE, _CALM_EARLY
        self._newest_ns: int | None = None
        self._after_hole_ns = 0
        """So much time passes yet until what comes is not a bunch after a hole any more."""

    @property
    def usual_ns(self) -> int | None:
        """The usual interval, None while it is not known or there is none."""
        fit = self._fit
        return None if fit is None or fit.jitter > UNSTEADY else round(fit.period_ns)

    def add(self, time_ns: int) -> int:
        """Take the next time in; how many messages more, or fewer, are known to be missing."""
        fit = self._fit
        self._number += 1
        passed_ns, self._newest_ns = time_ns - (self._newest_ns or time_ns), time_ns
        self._after_hole_ns = max(self._after_hole_ns - passed_ns, passed_ns)
        while self._owed and self._number - max(self._owed[0][0], self._made_up) > RECENT:
            self._owed.popleft()
        if fit is None:
            self._learn(time_ns)
            return 0
        self._fit = fit.went_on(time_ns, 0)
        self._holes.append(False)
        if fit.jitter > UNSTEADY:
            return self._forget()
        if not fit.is_sure:
            self._calm()
            return 0
        if self._late.since is None and self._early.since is None and abs(fit.off(time_ns)) <= UNSUSPICIOUS:
            return 0
        variance = max(fit.jitter, LEAST_JITTER) ** 2
        self._late = self._late.grown(fit, time_ns, variance)
        self._early = self._early.grown(fit, time_ns, variance)
        for suspicion in (self._late, self._early):
            if suspicion.weight > SURE and suspicion.since is not None:
                return self._moved(suspicion.since, suspicion.times_ns)
        return 0

    def _learn(self, time_ns: int) -> None:
        """Look for a period in the first messages, and in more of them if they are uneven."""
        self._first.append(time_ns)
        if len(self._first) == LEAST + 1 or len(self._first) == MANY:
            fit = _Fit.of(self._first)
            if self._first[-1] - self._first[0] < self._after_hole_ns:
                fit = None  # the pace at which what had waited was taken is no rate
            if fit is not None and fit.jitter <= (EVEN if len(self._first) < MANY else UNSTEADY):
                self._fit, self._first = fit, []
            elif len(self._first) == MANY:
                self._first = []

    def _forget(self) -> int:
        """The rate changed, perhaps at what looked like losses; by how many fewer are missing."""
        self._fit = None
        self._holes.clear()
        self._calm()
        return self._count(-self._take_back(self.lost, RECENT))

    def _take_back(self, count: int, within: int) -> int:
        """How many losses, ``count`` at most, of so many messages were none."""
        left = count
        while left and self._owed and self._number - max(self._owed[-1][0], self._made_up) <= within:
            at, owed = self._owed.pop()
            if owed > left:
                self._owed.append((at, owed - left))
            left -= min(owed, left)
        self._made_up = self._number
        return count - left

    def _moved(self, fit: _Fit, times_ns: tuple[int, ...]) -> int:
        """Everything since ``fit`` lies later, or earlier, by whole periods: count that, and go on."""
        late = [fit.off(t) - n for n, t in enumerate(times_ns)]
        missing = round(sum(late) / len(late))
        self._calm()
        if missing > 0:
            self._holes[-1] = True
        if missing > 0:
            self._owed.append((self._number, missing))
        taken = self._take_back(-missing, SETTLED) if missing < 0 else 0
        if taken < -missing:  # it is sent at a higher rate now
            self._owed.clear()
        if sum(self._holes) > OFTEN or taken < -missing:
            return self._count(max(missing, -taken)) + self._forget()
        for number, time_ns in enumerate(times_ns):
            fit = fit.went_on(time_ns, missing if number == 0 else 0)
        self._fit = fit
        return self._count(missing)

    def _count(self, missing: int) -> int:
        before, self.lost = self.lost, max(0, self.lost + missing)
        return self.lost - before

    def _calm(self) -> None:
        self._late, self._early = _CALM_LATE, _CALM_EARLY


class _Suspicion(NamedTuple):
    """How likely it is by now that messages since ``since`` come a period late (side 1) or early (-1)."""

    side: int
    weight: float = 0.0
    since: _Fit | None = None
    times_ns: tuple[int, ...] = ()

    def grown(self, fit: _Fit, time_ns: int, variance: float) -> _Suspicion:
        """With the next message, against what was expected before it began; none where that says no."""
        since = self.since or fit
        off = since.off(time_ns) - len(self.times_ns)
        weight = self.weight + (self.side * off - UNSUSPICIOUS) / variance
        if weight <= 0:
            return self if self.since is None else _Suspicion(self.side)
        return _Suspicion(self.side, weight, since, (*self.times_ns, time_ns))


_CALM_LATE, _CALM_EARLY = _Suspicion(1), _Suspicion(-1)


@dataclass(slots=True)
class StreamStats:
    """One topic's count, span, rate, latencies, gaps and pauses, for the report."""

    topic: str
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    latency_ns: int = 0
    """From acquisition to receipt, of the newest message."""
    gaps: GapCounter = field(default_factory=GapCounter)
    known_pauses: Pauses = field(default_factory=Pauses)
    """Those that are pauses whatever follows."""
    latencies: dict[int, int] = field(default_factory=dict)
    """Messages by latency in whole milliseconds."""
    frame_id: str = ""
    """Coordinate frame of the first message."""
    other_frame_id: str = ""
    """Of a later one, if it differs: two publishers share the topic."""
    role: str = ""
    """What the topic is to the dataset."""
    sensor: str = ""
    device: str = ""
    """Which sensor of which device it is of."""

    def add(self, time_ns: int, receive_ns: int, *, counts_gaps: bool) -> None:
        """Count one message, in order of time; ``counts_gaps`` unless its topic sends only now and then."""
        latency_ns = self.latency_ns = receive_ns - time_ns
        latency_ms, (least_ms, most_ms) = latency_ns // 1_000_000, LATENCIES_MS
        if not least_ms <= latency_ms <= most_ms:
            latency_ms = min(max(latency_ms, least_ms), most_ms)
        self.latencies[latency_ms] = self.latencies.get(latency_ms, 0) + 1
        if self.count == 0:
            self.first_ns = self.last_ns = time_ns
        before_ns, self.last_ns = self.last_ns, time_ns
        self.count += 1
        if counts_gaps:
            if time_ns - before_ns > self.known_pauses.limit_ns or self.count % REFRESH == 0:
                self._judge(before_ns)
            self.gaps.add(time_ns)

    def _judge(self, before_ns: int) -> None:
        mean_ns = (before_ns - self.first_ns) // max(1, self.count - 2)
        self.known_pauses.judge(before_ns, self.last_ns, self.gaps.usual_ns, mean_ns, self.count - 1)

    @property
    def pauses(self) -> Pauses:
        """The pauses so far, if nothing follows."""
        return self.known_pauses.ended(self.gaps.usual_ns, self.last_ns - self.first_ns, self.count)

    @property
    def rate_hz(self) -> float:
        """The mean rate between its pauses: a sensor may be switched to another one; 0 if unknown."""
        pauses = self.pauses
        intervals, sending_ns = self.count - 1 - pauses.count, self.last_ns - self.first_ns - pauses.total_ns
        return intervals * 1e9 / sending_ns if intervals > 0 and sending_ns > 0 else 0.0


def quantile(counts: Mapping[int, int], share: float) -> int | None:
    """The multiple of the unit below or at which this share of the counts lies; None without counts."""
    seen, total = 0, sum(counts.values())
    for number in sorted(counts):
        seen += counts[number]
        if seen >= share * total:
            return number
    return None
