"""The usual latency of a topic, and the usual intervals between its stamps and between its receipts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

LEAST_STEP_NS = 20_000_000
"""Smaller steps are left to ``DriftWatch``."""
AGREE_NS = 5_000_000
"""Topics of one clock agree on its step to within this, plus their own jitter."""
MEMORY, MEMORY_NS = 1024, 20_000_000_000
"""What is usual comes from at most this many messages, none older than this."""
LEARN, LEARN_NS = 8, 1_000_000_000
"""A topic is watched after this many messages, and half of this time."""
TAIL = 95
"""Percentile that counts as the upper end of the usual latency: single messages are late for many reasons."""
LEAST_SIGMA_NS = 2_000_000
UNLIKELIEST = 10.0
LOST, LOST_MORE = 3.0, 0.5
"""-log p of missing messages in an interval: of the first, and of each further one."""

Span = npt.NDArray[np.int64]


def percentile(values: Span, percent: int) -> float:
    """What np.percentile returns for integers (n,), without its imports and in a tenth of its time."""
    return _percentile(np.sort(values), percent)


def _percentile(ordered: Span, percent: int) -> float:
    at = (len(ordered) - 1) * (percent / 100)
    below = int(at)
    low, high = int(ordered[below]), int(ordered[min(below + 1, len(ordered) - 1)])
    share = at - below
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a topic's least latency, and its uncertainty."""

    by_ns: int
    sure_ns: int

    def agrees(self, other_ns: int, other_sure_ns: int = 0) -> bool:
        """Whether it equals another change within the uncertainties."""
        return abs(self.by_ns - other_ns) <= AGREE_NS + self.sure_ns + other_sure_ns


@dataclass(slots=True)
class Watched:
    """A topic's usual latency, learnt from its messages."""

    name: str
    group: int
    offset_ns: int
    least_ns: int
    """Least latency that is possible."""
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MEMORY))
    """(stamp, receive) of usual messages, in order of receipt."""
    _behind: deque[int] = field(default_factory=lambda: deque(maxlen=MEMORY), init=False)
    """Receive − stamp of each of them."""
    low_ns: int = 0
    high_ns: int = 0
    known: bool = False
    due_ns: int = 0
    newest_ns: int | None = None
    """Receipt of the newest message seen."""

    def latency_ns(self, stamp_ns: int, receive_ns: int) -> int:
        """Latency of one message, with the topic's offset added to its stamp."""
        return receive_ns - stamp_ns - self.offset_ns

    def is_odd(self, latency_ns: int) -> bool:
        """Whether a latency lies outside the usual range."""
        return not self.low_ns - LEAST_STEP_NS <= latency_ns <= self.high_ns + LEAST_STEP_NS

    def is_impossible(self, latency_ns: int) -> bool:
        """Whether no message can come as early as that; unless they did before, as two clocks differ."""
        return latency_ns < self.least_ns <= self.low_ns

    def learn(self, stamp_ns: int, receive_ns: int) -> None:
        """Add a message to those that define what is usual."""
        self.recent.append((stamp_ns, receive_ns))
        behind_ns = receive_ns - stamp_ns
        self._behind.append(behind_ns)
        self.low_ns = min(self.low_ns, behind_ns - self.offset_ns)
        if not 0 <= self.due_ns - receive_ns <= LEARN_NS:
            self.due_ns = receive_ns + LEARN_NS
            while receive_ns - self.recent[0][1] > MEMORY_NS and len(self.recent) > LEARN:
                self.recent.popleft()
                self._behind.popleft()
            span_ns = receive_ns - self.recent[0][1]
            self.known = len(self.recent) >= LEARN and span_ns >= LEARN_NS // 2
            latencies = np.sort(self.latencies())
            self.low_ns, self.high_ns = int(latencies[0]), int(_percentile(latencies, TAIL))

    def take(self, group: int, offset_ns: int, least_ns: int) -> None:
        """Continue with another offset; the usual latency stays the same."""
        by_ns = offset_ns - self.offset_ns
        self.group, self.offset_ns, self.least_ns = group, offset_ns, least_ns
        self.recent = deque(((s - by_ns, r) for s, r in self.recent), maxlen=MEMORY)
        self._behind = deque((ns + by_ns for ns in self._behind), maxlen=MEMORY)

    def forget(self) -> None:
        """The latency has changed: learn it anew."""
        self.recent.clear()
        self._behind.clear()
        self.known, self.due_ns = False, 0

    def latencies(self) -> Span:
        """Latencies of the usual messages, ns."""
        return np.fromiter(self._behind, np.int64, len(self._behind)) - self.offset_ns

    def moved(self, latencies: Sequence[int]) -> Move:
        """How far the minimum of these lies from the usual minimum of equally many messages."""
        usual = self.latencies()
        count = max(1, min(len(latencies), len(usual) // 4))
        blocks = usual[len(usual) % count :].reshape(-1, count).min(axis=1)
        sure_ns = int(np.ptp(blocks)) if len(blocks) > 1 else int(np.ptp(usual))
        return Move(min(latencies) - int(np.median(blocks)), max(LEAST_SIGMA_NS, sure_ns))

    def pace(self) -> Pace:
        """The usual intervals of its stamps and of its receipts."""
        both: Span = np.array(self.recent, dtype=np.int64)
        return Pace(both[1:] - both[:-1])


class Pace:
    """Rates intervals between two messages by the intervals before, of shape (messages - 1, 2)."""

    def __init__(self, intervals: Span) -> None:
        self._usual = np.maximum(1.0, np.median(intervals, axis=0))
        off = np.abs(intervals - self._usual)
        self._sigma = np.maximum(LEAST_SIGMA_NS, 1.5 * np.median(off, axis=0))

    @property
    def period_ns(self) -> int:
        """Usual interval between stamps."""
        return round(float(self._usual[0]))

    @property
    def sigma_ns(self) -> int:
        """Usual deviation from it."""
        return round(float(self._sigma[0]))

    def unlikely(self, interval_ns: int, *, received: bool = False) -> float:
        """-log p of an interval between stamps, or between receipts; messages may be missing in it."""
        usual, sigma = float(self._usual[int(received)]), float(self._sigma[int(received)])
        count = max(1, round(interval_ns / usual))
        lost = LOST + LOST_MORE * (count - 1) if count > 1 else 0.0
        return min(UNLIKELIEST, ((interval_ns - count * usual) / sigma) ** 2 / 2 + lost)
