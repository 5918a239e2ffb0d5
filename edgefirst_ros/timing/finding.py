"""Finds each topic's clock from its first messages, and chooses which of its times to use.

Estimates another clock's offset from the promptest messages of its topics and their usual latencies.

The usual latency of a topic, and the usual intervals between its stamps and between its receipts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from typing import Literal

import numpy as np
import numpy.typing as npt

SPREAD = 0.5
LEAST_SPREAD_NS = 2_000_000
"""A usual latency is trusted to within half of itself, but never to better than this."""
SPARE = 3
"""The minimum of a sample is as certain as the next this many values are close to it."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that stamps: add ``offset_ns`` to its stamps for the recording's time.

    ``uncertainty_ns`` is the offset's uncertainty. It is None if no latency of the clock's topics is known;
    then the offset is too large by the least latency. ``device`` is whose clock it is, as configured.
    """

    offset_ns: int
    uncertainty_ns: int | None
    device: str = ""


RECORDINGS_OWN = Clock(0, 0)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Receive − stamp of a topic's messages, and the topic's usual least latency, None if not known."""

    receive_minus_stamp_ns: npt.NDArray[np.int64]
    latency_ns: int | None

    @property
    def least_ns(self) -> int:
        """Receive − stamp of the promptest message."""
        return int(self.receive_minus_stamp_ns.min())

    @property
    def spread_ns(self) -> int:
        """Uncertainty of the usual latency on this device."""
        return max(LEAST_SPREAD_NS, round(SPREAD * (self.latency_ns or 0)))

    def offset(self) -> tuple[int, float] | None:
        """Offset and uncertainty in ns as estimated from this topic alone; None without a usual latency.

        A sample's minimum exceeds the true minimum by about its distance to the second smallest value
        (Robson and Whitlock's estimator of an end point).
        """
        if self.latency_ns is None:
            return None
        lowest = np.sort(self.receive_minus_stamp_ns)[: SPARE + 1]
        count = len(self.receive_minus_stamp_ns)
        step = float(lowest[1] - lowest[0]) * (count - 1) / count if count > 1 else 0.0
        offset_ns = int(lowest[0]) - round(min(step, self.spread_ns)) - self.latency_ns
        return offset_ns, float(np.hypot(max(self.spread_ns, self.unsteady_ns), lowest[-1] - lowest[0]))

    @property
    def unsteady_ns(self) -> int:
        """By how much even the promptest message may be later than usual, as most are later by twice that.

        The least latency of a bad wireless link is not that of a cable, which the usual one is of.
        """
        return int(np.median(self.receive_minus_stamp_ns) - self.receive_minus_stamp_ns.min()) // 2

    def apart_ns(self, clock: Clock) -> int:
        """How much farther than the usual latency is certain the messages come from that by a clock."""
        told = self.offset()
        return 0 if told is None else max(0, abs(told[0] - clock.offset_ns) - round(told[1]))


def estimate(topics: Sequence[Arrivals], own: Sequence[Arrivals] = ()) -> Clock:
    """Estimate the clock that stamps these topics.

    Each topic with a usual latency gives an offset. These are averaged with inverse-variance weights, so the
    promptest sensor dominates. As all are of one device, the average is not taken to be more certain than
    the best of them. The offset never exceeds what the promptest message allows, since nothing is received
    before it was acquired.

    Args:
        topics: of this clock, at least one.
        own: topics of the recording's own clock, whose latencies can be measured. If all of them differ from
            their usual latency, the receiver may be late or its clock be another, and the uncertainty grows.
    """
    latest_ns = min(each.least_ns for each in topics)
    told = [offset for each in topics if (offset := each.offset()) is not None]
    if not told:
        return Clock(latest_ns, None)
    # Relative to the first: nanoseconds since 1970 have no place in a float.
    about = np.array([float(offset_ns - told[0][0]) for offset_ns, _ in told])
    sigmas = np.array([sigma_ns for _, sigma_ns in told])
    weights = sigmas**-2.0
    mean = float(np.average(about, weights=weights))
    scatter = float(np.sqrt(np.average((about - mean) ** 2, weights=weights)))
    seen = [each.least_ns - each.latency_ns for each in own if each.latency_ns is not None]
    apart_ns = min(seen, key=abs) if seen else 0
    return Clock(
        min(latest_ns, told[0][0] + round(mean)),
        round(float(np.hypot(max(float(sigmas.min()), scatter), apart_ns))),
    )


LEAST_STEP_NS = 20_000_000
"""Smaller steps are left to ``DriftWatch``."""
AGREE_NS = 5_000_000
"""Topics of one clock agree on its step to within this, plus their own jitter."""
MEMORY, MEMORY_NS = 1024, 20_000_000_000
"""What is usual comes from at most this many messages, none older than this."""
LEARN, LEARN_NS = 8, 1_000_000_000
"""A topic is watched after this many messages, and half of this time."""
HIGH_PERCENT = 95
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
            self.low_ns, self.high_ns = int(latencies[0]), int(_percentile(latencies, HIGH_PERCENT))

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


NEAR_NS = (-50_000_000, 2_000_000_000)
"""Range of the median of receive − stamp for stamps of the recording's own clock."""
SKEW_NS = 500_000_000
"""If even the promptest topic is later than this, the sender's clock is behind the receiver's."""
STEADY_NS = 1_000_000_000
"""Spread of receive − stamp (10th to 90th percentile) above which stamps are useless."""
LEAST_SHARE = 4
"""No message comes in less than this part of its topic's usual least latency, on any device."""
NEVER_NS = -(1 << 62)
OTHER = "stamp of another clock, "
STEPPED = "; the clock was stepped: "
SAME_CLOCK_NS = 1_000_000_000
"""Topics share a clock if their least receive − stamp differ by less; latencies differ by less than this."""

Source = Literal["stamp", "publish", "receive"]
Choice = Literal["auto", "stamp", "publish", "receive"]


@dataclass(slots=True, eq=False)
class MessageTimes:
    """The three times of a message in nanoseconds, and the acquisition time that a ``ClockFinder`` sets.

    ``time_ns`` is the acquisition time on the recording's clock; ``refusal`` says why there is none.
    """

    topic: str
    stamp_ns: int
    publish_ns: int
    receive_ns: int
    time_ns: int = field(init=False, default=0)
    held_bytes: int = field(init=False, default=0)
    """Memory that the message takes while it waits."""
    refusal: str | None = field(init=False, default=None)


@dataclass(frozen=True, slots=True)
class TopicClock:
    """A topic's clock, and which of its times is used.

    ``offset_ns`` is added to the chosen time, as far as the clock does not drift; ``group`` numbers the clock
    among those found (0 is the recording's own), None where no stamp is used. ``uncertainty_ns`` is that of
    the times found, for as long as the finding holds, None if unknown; ``latency_ns`` is the least receive −
    time of the messages that the clock was found from. ``apart_ns`` is by how much more than it may the
    topic's own latency contradicts the clock's offset; ``drift_ppm`` is by how much the clock is slow, if
    that is corrected.
    """

    topic: str
    source: Source
    offset_ns: int
    group: int | None
    text: str
    uncertainty_ns: int | None = None
    latency_ns: int | None = None
    apart_ns: int = 0
    drift_ppm: float | None = None

    def judged(self, clock: Clock, error_ns: int, drift_ppm: float | None) -> TopicClock:
        """The finding once a clock's times were found to be off by up to ``error_ns``, by drift above all."""
        known_ns, ppm = clock.uncertainty_ns, None if drift_ppm is None else round(drift_ppm, 1)
        sure_ns = None if known_ns is None else round(hypot(max(known_ns, self.apart_ns), error_ns))
        if (sure_ns, ppm) == (self.uncertainty_ns, self.drift_ppm):
            return self
        text, stepped, by = self.text.partition(STEPPED)
        if text.startswith(OTHER):
            text = _other(replace(clock, uncertainty_ns=sure_ns), ppm)
        return replace(self, uncertainty_ns=sure_ns, drift_ppm=ppm, text=f"{text}{stepped}{by}")


@dataclass(frozen=True, slots=True)
class Rule:
    """The configuration of a topic's times.

    ``offset_ns`` is the user's correction; ``latency_ns`` is the usual least time from acquisition to
    receipt, None if not known. Topics of different devices share no clock.
    """

    choice: Choice = "auto"
    offset_ns: int = 0
    latency_ns: int | None = None
    device: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The messages and the configuration that a topic's clock is found from."""

    topic: str
    rule: Rule
    times: Sequence[MessageTimes]

    @property
    def late_ns(self) -> npt.NDArray[np.int64]:
        """Receive − stamp of every message."""
        return np.array([t.receive_ns - t.stamp_ns for t in self.times], dtype=np.int64)

    @property
    def plausible_ns(self) -> npt.NDArray[np.int64]:
        """Receive − stamp without stamps far ahead of the others, since a single one would set the offset."""
        late_ns = self.late_ns
        return late_ns[late_ns >= percentile(late_ns, 10) - STEADY_NS]

    def arrivals(self, own: Clock) -> Arrivals:
        """Receive − stamp with times of receipt on the recording's own clock, and the usual latency."""
        return Arrivals(self.plausible_ns - own.offset_ns, self.rule.latency_ns)

    @property
    def is_frozen(self) -> bool:
        """Whether all messages have the same stamp."""
        return len(self.times) > 1 and len({t.stamp_ns for t in self.times}) == 1

    def is_near(self, own: Clock) -> bool:
        """Whether the stamps can be of the recording's own clock."""
        late_ns = float(np.median(self.late_ns)) - own.offset_ns
        return not self.is_frozen and NEAR_NS[0] <= late_ns <= NEAR_NS[1]

    @property
    def is_steady(self) -> bool:
        """Whether the stamps keep a constant distance from the times of receipt, however large."""
        spread_ns = percentile(self.late_ns, 90) - percentile(self.late_ns, 10)
        return not self.is_frozen and len(self.times) > 1 and spread_ns <= STEADY_NS

    @property
    def publishes(self) -> bool:
        """Whether the publish times can be used: plausible, and all different."""
        near = all(NEAR_NS[0] <= t.receive_ns - t.publish_ns <= NEAR_NS[1] for t in self.times)
        return near and len({t.publish_ns for t in self.times}) == len(self.times)


def find_clocks(evidence: Sequence[Evidence], clocks: list[Clock]) -> list[TopicClock]:
    """Choose a time for every topic; those of one clock share its offset.

    ``clocks`` are those known so far, entry 0 being the recording's own; new ones are appended.
    """
    automatic = [e for e in evidence if e.rule.choice == "auto"]
    near = {e.topic for e in automatic if e.is_near(clocks[0])}
    if near and min(e.arrivals(clocks[0]).least_ns for e in automatic if e.topic in near) > SKEW_NS:
        near = set()
    # Where a device's clock is known not to be the recording's, it is not taken for that by what comes later;
    # a device may have another clock as well, which says nothing of that.
    near -= {
        e.topic
        for e in automatic
        if any(_can_be(c, e.rule.device, int(e.plausible_ns.min())) for c in clocks if c.device)
    }
    steady = [e for e in automatic if e.topic not in near and e.is_steady]
    groups: dict[str, int] = {}
    added: list[tuple[int, list[Evidence]]] = []
    for device, least_ns, each in sorted(
        ((e.rule.device, int(e.plausible_ns.min()), e) for e in steady), key=lambda p: (*p[:2], p[2].topic)
    ):
        known = (n for n, clock in enumerate(clocks) if n and _can_be(clock, device, least_ns))
        group = min(known, key=lambda n: abs(least_ns - clocks[n].offset_ns), default=None)
        if group is None:
            last = added[-1] if added else None
            if last is None or last[1][0].rule.device != device or least_ns - last[0] > SAME_CLOCK_NS:
                added.append((least_ns, []))
            added[-1][1].append(each)
            group = len(clocks) + len(added) - 1
        groups[each.topic] = group
    own = [e.arrivals(clocks[0]) for e in automatic if e.topic in near]
    for _, members in added:
        clock = estimate([e.arrivals(RECORDINGS_OWN) for e in members], own)
        clocks.append(replace(clock, device=members[0].rule.device))
    return [_choose(e, near, groups, clocks) for e in evidence]


def _can_be(clock: Clock, device: str, least_ns: int) -> bool:
    """Whether a device's topic of that least receive − stamp can be of a clock."""
    return clock.device == device and abs(least_ns - clock.offset_ns) <= SAME_CLOCK_NS


def _choose(
    found: Evidence, near: set[str], groups: Mapping[str, int], clocks: Sequence[Clock]
) -> TopicClock:
    topic, rule = found.topic, found.rule
    about = f"receive − stamp is {seconds(int(np.median(found.late_ns)))}"
    source: Source = "stamp"
    group: int | None = None
    clock, apart_ns = Clock(0, None), 0
    if rule.choice != "auto":
        source = rule.choice
        group = 0 if source == "stamp" else None
        text = f"{source} time, as configured; {about}"
    elif topic in near:
        group, clock = 0, clocks[0]
        text = f"stamp: the recording's own clock; {about}"
    elif topic in groups:
        group = groups[topic]
        clock = clocks[group]
        apart_ns = found.arrivals(RECORDINGS_OWN).apart_ns(clock)
        if clock.uncertainty_ns is not None:
            clock = replace(clock, uncertainty_ns=max(clock.uncertainty_ns, apart_ns))
        text = _other(clock, None)
    else:
        source = "publish" if found.publishes and not found.is_frozen else "receive"
        latency_ns = rule.latency_ns or 0 if source == "receive" else 0
        clock = Clock(-latency_ns, None)
        less = f" less the usual latency of {latency_ns / 1e6:g} ms" if latency_ns else ""
        text = f"{source} time{less}: {_useless(found, about)}"
    offset_ns = clock.offset_ns + rule.offset_ns
    late_ns: int = min(t.receive_ns - getattr(t, f"{source}_ns") for t in found.times) - offset_ns
    return TopicClock(topic, source, offset_ns, group, text, clock.uncertainty_ns, late_ns, apart_ns)


def plausible_latency_ns(rule: Rule, finding: TopicClock) -> int:
    """The least latency that a topic's messages can have by a clock as well known as this."""
    sure_ns = finding.uncertainty_ns
    return NEVER_NS if sure_ns is None else (rule.latency_ns or 0) // LEAST_SHARE - sure_ns


def _useless(found: Evidence, about: str) -> str:
    """Why a topic's stamps cannot be used."""
    if not any(t.stamp_ns for t in found.times):
        return "it has no stamp"
    if found.is_frozen:
        return f"the stamp never changes ({len(found.times)} messages, {about})"
    if len(found.times) == 1:
        return f"a single message whose stamp is far off ({about})"
    return f"the stamp is erratic ({about}, spread {seconds(int(np.ptp(found.late_ns)))})"


def moved(finding: TopicClock, clock: Clock, group: int, by_ns: int) -> TopicClock:
    """The finding with an offset that is larger by so much, that of another clock."""
    offset_ns, late_ns = finding.offset_ns + by_ns, finding.latency_ns
    return replace(
        finding,
        offset_ns=offset_ns,
        group=group,
        text=_other(clock, None),
        uncertainty_ns=clock.uncertainty_ns,
        latency_ns=None if late_ns is None else late_ns - by_ns,
        apart_ns=0,
    )


def _other(clock: Clock, ppm: float | None) -> str:
    drift = "" if ppm is None else f"; it is {abs(ppm):.0f} ppm {'slow' if ppm > 0 else 'fast'}: corrected"
    offset, way = _offset(clock).lstrip("+-"), "behind" if clock.offset_ns > 0 else "ahead of"
    return f"{OTHER}{offset} {way} the recording's; shared offset added{drift}"


def _offset(clock: Clock) -> str:
    """A clock's offset and its uncertainty, as text."""
    if clock.uncertainty_ns is None:
        return f"{seconds(clock.offset_ns)} (or less: no latency_ms of its topics is known)"
    return f"{seconds(clock.offset_ns)} ± {clock.uncertainty_ns / 1e6:.1f} ms"


def seconds(ns: int) -> str:
    """A signed duration as text: milliseconds below 2 s, else seconds."""
    return f"{ns / 1e6:+.1f} ms" if abs(ns) < 2_000_000_000 else f"{ns / 1e9:+,.3f} s"
