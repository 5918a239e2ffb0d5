"""Finds steps of the clocks that stamp: all topics of one come later or sooner by the same amount, at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgefirst_ros.timing.finding import Times, seconds

LEAST_STEP_NS = 20_000_000
"""Steps below this are left to the watch for drift."""
AGREE_NS = 5_000_000
"""Topics of one clock agree so well on its step, their own jitter apart."""
EVIDENCE_NS, DEADLINE_NS = 800_000_000, 1_600_000_000
"""A step is judged once it is so old; what cannot be told by the deadline is none."""
AGAIN_NS = 100_000_000
MEMORY, MEMORY_NS = 1024, 20_000_000_000
"""A topic's usual latency and pace are those of so many messages, none older than this."""
LEARN, LEARN_NS = 8, 1_000_000_000
"""Messages, and their span, before a topic is watched."""
TAIL = 95
"""Percentile of the latency that is its usual upper end: single messages are late for many reasons."""
LEAST_SIGMA_NS = 2_000_000
UNLIKELIEST = 10.0
LOST, LOST_MORE = 2.0, 0.5
"""How unlikely it is, as -log p, that messages are missing in an interval: one, and each one more."""
SURE = 4.0
"""Log likelihood ratio at which stamps are taken to have jumped, instead of the receipt."""
IN_FLIGHT_NS = 500_000_000
"""What was on its way when a clock was stepped is received so long after at most."""
EARLY = 4
"""So much less likely than a message later than usual is one that is earlier than ever."""

Span = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """A clock was stepped.

    Attributes:
        moved_ns: by topic of the clock, what is to be added to its offset from now on.
        uncertainty_ns: how far off that may be.
        is_new: by message held, whether it was stamped or received after the step.
        reason: for people.
    """

    moved_ns: Mapping[str, int]
    uncertainty_ns: int
    is_new: Sequence[bool]
    reason: str


@dataclass(frozen=True, slots=True)
class _Move:
    """By how much a topic's least latency changed, and how well that is known."""

    by_ns: int
    sure_ns: int

    def agrees(self, other_ns: int, other_sure_ns: int = 0) -> bool:
        return abs(self.by_ns - other_ns) <= AGREE_NS + self.sure_ns + other_sure_ns


@dataclass(slots=True)
class _Topic:
    """One topic's usual latency and pace."""

    name: str
    group: int
    offset_ns: int
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MEMORY))
    """(stamp, receive) of messages, in order of receipt."""
    low_ns: int = 0
    high_ns: int = 0
    known: bool = False
    due_ns: int = 0

    def latency_ns(self, stamp_ns: int, receive_ns: int) -> int:
        return receive_ns - stamp_ns - self.offset_ns

    def is_odd(self, latency_ns: int) -> bool:
        """Whether a message is out of what is usual."""
        return not self.low_ns - LEAST_STEP_NS <= latency_ns <= self.high_ns + LEAST_STEP_NS

    def learn(self, stamp_ns: int, receive_ns: int) -> None:
        """Take a message for usual."""
        self.recent.append((stamp_ns, receive_ns))
        latency_ns = self.latency_ns(stamp_ns, receive_ns)
        self.low_ns = min(self.low_ns, latency_ns)
        if not 0 <= self.due_ns - receive_ns <= LEARN_NS:
            self.due_ns = receive_ns + LEARN_NS
            while receive_ns - self.recent[0][1] > MEMORY_NS and len(self.recent) > LEARN:
                self.recent.popleft()
            span_ns = receive_ns - self.recent[0][1]
            self.known = len(self.recent) >= LEARN and span_ns >= LEARN_NS // 2
            latencies = self.latencies()
            self.low_ns, self.high_ns = int(latencies.min()), int(np.percentile(latencies, TAIL))

    def take(self, group: int, offset_ns: int) -> None:
        """Go on with another offset: its latency stays what it was."""
        by_ns = offset_ns - self.offset_ns
        self.group, self.offset_ns = group, offset_ns
        self.recent = deque(((s - by_ns, r) for s, r in self.recent), maxlen=MEMORY)

    def forget(self) -> None:
        """Its latency is another from now on."""
        self.recent.clear()
        self.known, self.due_ns = False, 0

    def latencies(self) -> Span:
        """Of the messages that are usual."""
        both = np.array(self.recent, dtype=np.int64)
        return np.asarray(both[:, 1] - both[:, 0] - self.offset_ns)

    def moved(self, latencies: Sequence[int]) -> _Move:
        """The least of these against the least of as many before, so that both are as far from the least possible."""
        usual = self.latencies()
        count = max(1, min(len(latencies), len(usual) // 4))
        blocks = usual[len(usual) % count :].reshape(-1, count).min(axis=1)
        sure_ns = int(np.ptp(blocks)) if len(blocks) > 1 else int(np.ptp(usual))
        return _Move(min(latencies) - int(np.median(blocks)), max(LEAST_SIGMA_NS, sure_ns))

    def pace(self) -> _Pace:
        """Of its stamps and of its receipt."""
        return _Pace(np.diff(np.array(self.recent, dtype=np.int64), axis=0))


class _Pace:
    """How likely an interval between two messages is, by those between messages before."""

    def __init__(self, intervals: Span) -> None:
        self._usual = np.maximum(1.0, np.median(intervals, axis=0))
        off = np.abs(intervals - self._usual)
        self._sigma = np.maximum(LEAST_SIGMA_NS, 1.5 * np.median(off, axis=0))

    def unlikely(self, interval_ns: int, *, received: bool = False) -> float:
        """-log p of an interval between stamps, or receipts; messages may be missing in it."""
        usual, sigma = float(self._usual[int(received)]), float(self._sigma[int(received)])
        count = max(1, round(interval_ns / usual))
        lost = LOST + LOST_MORE * (count - 1) if count > 1 else 0.0
        return min(UNLIKELIEST, ((interval_ns - count * usual) / sigma) ** 2 / 2 + lost)


class StepWatch:
    """Watches receive − stamp of every topic whose stamps are set to the recording's clock.

    A clock that is stepped shows in two ways: from one message to the next all of its topics come later, or
    sooner than ever, by the same amount; and its stamps leave their pace there. A network that stalls, a
    receiver that is busy or a receiver's clock that is stepped leave the stamps' pace as it is. Where the
    recording's own stamps and the receipt jump together, the wall clock was stepped, and it is the
    other clocks that seem to move. One topic that jumps alone is that sensor's affair.

    Feed every message to ``look``. While ``is_pending`` messages are to be held and ``judge`` to be asked;
    those that turn out to be usual, or are to be taken for it, go to ``learn``.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """All clocks are learnt anew."""
        self._topics: dict[str, _Topic] = {}
        self._since: dict[str, int] = {}
        """Topics that have been odd without a break, and since when."""
        self._asked_ns = 0

    def join(self, topic: str, group: int, offset_ns: int) -> None:
        """Watch a topic from now on, or go on with another offset; what is usual for it stays so."""
        known = self._topics.setdefault(topic, _Topic(topic, group, offset_ns))
        known.take(group, offset_ns)

    @property
    def is_pending(self) -> bool:
        """Whether a step is possible."""
        return bool(self._since)

    def is_judging(self, group: int) -> bool:
        """Whether a clock's step is possible."""
        return any(self._topics[name].group == group for name in self._since)

    def look(self, times: Times) -> bool:
        """Take a message in, in order of receipt: whether it is out of line."""
        topic = self._topics.get(times.topic)
        if topic is None or not topic.known:
            return False
        odd = topic.is_odd(topic.latency_ns(times.stamp_ns, times.receive_ns))
        if odd:
            self._since.setdefault(times.topic, times.receive_ns)
        else:
            self._since.pop(times.topic, None)
        return odd

    def learn(self, times: Times) -> None:
        """A message that is usual, or is taken for it."""
        topic = self._topics.get(times.topic)
        if topic is not None:
            topic.learn(times.stamp_ns, times.receive_ns)

    def calm(self) -> None:
        """No step after all."""
        self._since.clear()

    def judge(self, held: Sequence[Times], now_ns: int) -> Step | None:
        """The step that all held messages together show, once it is sure; asked anew with every message."""
        if abs(now_ns - self._asked_ns) < AGAIN_NS:
            return None
        oldest_ns = min(self._since.values())
        if now_ns - oldest_ns < EVIDENCE_NS:
            return None
        self._asked_ns = now_ns
        final = now_ns - oldest_ns >= DEADLINE_NS
        groups = sorted({self._topics[name].group for name in self._since})
        ages = {g: now_ns - min(self._since[n] for n in self._of(g)) for g in groups}
        if not final and min(ages.values()) < EVIDENCE_NS:
            return None
        scene = _Scene(self._topics, self._since, held)
        moves = [move for group in groups if (move := scene.group_moved(group)) is not None]
        if moves:
            return scene.step(moves)
        if final:
            for name in list(self._since):
                if now_ns - self._since[name] >= EVIDENCE_NS:
                    self._topics[name].forget()
                    del self._since[name]
        return None

    def _of(self, group: int) -> list[str]:
        return [name for name in self._since if self._topics[name].group == group]


@dataclass(frozen=True, slots=True)
class _GroupMove:
    """Topics of a group that moved together."""

    group: int
    topics: tuple[str, ...]
    all_of_it: bool
    by_ns: int
    sure_ns: int
    wall: bool
    """Whether it was the wall clock that jumped, instead of these topics' stamps."""


class _Scene:
    """All that is held while a step is possible."""

    def __init__(self, topics: Mapping[str, _Topic], since: Mapping[str, int], held: Sequence[Times]) -> None:
        self._topics = topics
        self._since = since
        self._held = held
        self._by_topic: dict[str, list[Times]] = {}
        for times in held:
            if times.topic in topics:
                self._by_topic.setdefault(times.topic, []).append(times)
        # What was measured before the first odd message was tells nothing of the time after.
        self._from_ns = min(ns - max(0, topics[name].low_ns) for name, ns in since.items())

    def group_moved(self, group: int) -> _GroupMove | None:
        """What moved of a group, None if that is no step."""
        moves = {
            name: topic.moved(latencies)
            for name, topic in self._topics.items()
            if topic.group == group and topic.known and (latencies := self._latencies(topic))
        }
        odd = [name for name in moves if name in self._since]
        if not odd:
            return None
        best = min(odd, key=lambda name: (moves[name].sure_ns, name))
        by, sure_ns = moves[best].by_ns, moves[best].sure_ns
        if abs(by) < LEAST_STEP_NS:
            return None
        along = [n for n, m in moves.items() if m.agrees(by, sure_ns) and not m.agrees(0)]
        behind = [n for n, m in moves.items() if m.agrees(0) and not m.agrees(by, sure_ns)]
        if best not in along or (len(along) < 2 and behind) or not self._is_steady(best):
            return None
        # Odd in another way: late for a reason of its own, or damaged.
        weights = np.array([moves[n].sure_ns for n in along], dtype=np.float64) ** -2
        by_ns = by + round(float(np.average([float(moves[n].by_ns - by) for n in along], weights=weights)))
        jumped = sum(self._stamps_jumped(self._topics[n]) for n in along if n in self._since)
        wall = jumped < SURE and self._wall_jumped(group, by_ns) >= SURE
        if jumped < SURE and not wall:
            return None
        return _GroupMove(group, tuple(sorted(along)), not behind, by_ns, sure_ns, wall)

    def step(self, moves: Sequence[_GroupMove]) -> Step:
        """What groups of topics that moved are together."""
        moved_ns = {
            name: move.by_ns
            for move in moves
            for name, topic in self._topics.items()
            if name in move.topics or (move.all_of_it and topic.group == move.group)
        }
        wall = all(move.wall for move in moves)
        first = moves[0]
        if wall:
            reason = f"the wall clock was stepped by {seconds(first.by_ns)}"
            new = self._after_wall(moved_ns, first.by_ns)
        else:
            named = next(move for move in moves if not move.wall)
            reason = f"the clock of {_listed(named.topics)} was stepped by {seconds(-named.by_ns)}"
            new = self._after(moved_ns)
        return Step(moved_ns, max(move.sure_ns for move in moves), new, reason)

    def _latencies(self, topic: _Topic) -> list[int]:
        """Of a topic's messages since the step that is possible."""
        since_ns = self._since.get(topic.name)
        latencies = [
            (t.receive_ns, topic.latency_ns(t.stamp_ns, t.receive_ns))
            for t in self._by_topic.get(topic.name, ())
        ]
        if since_ns is not None:
            return [late_ns for receive_ns, late_ns in latencies if receive_ns >= since_ns]
        return [late_ns for receive_ns, late_ns in latencies if receive_ns - late_ns >= self._from_ns]

    def _is_steady(self, name: str) -> bool:
        """Whether a topic stays where it is; what comes after a stall is late by less and less."""
        latencies, topic = self._latencies(self._topics[name]), self._topics[name]
        middle = len(latencies) // 2
        if not middle:
            return False
        first, second = topic.moved(latencies[:middle]), topic.moved(latencies[middle:])
        return first.agrees(second.by_ns, second.sure_ns)

    def _stamps_jumped(self, topic: _Topic) -> float:
        """How much likelier it is that a topic's stamps left their pace than that its receipt did."""
        own = [(t.stamp_ns, t.receive_ns) for t in self._by_topic[topic.name]]
        first = next(n for n, (_, receive_ns) in enumerate(own) if receive_ns >= self._since[topic.name])
        stamp_ns, receive_ns = own[first - 1] if first else topic.recent[-1]
        pace = topic.pace()
        return pace.unlikely(own[first][0] - stamp_ns) - pace.unlikely(
            own[first][1] - receive_ns, received=True
        )

    def _wall_jumped(self, group: int, by_ns: int) -> float:
        """How much likelier stamps of the other groups are, if the wall clock jumped by this."""
        others = [t for t in self._topics.values() if t.group != group and t.known]
        return sum(self._best_jump(topic, by_ns)[0] for topic in others if topic.name not in self._since)

    def _best_jump(self, topic: _Topic, by_ns: int) -> tuple[float, int]:
        """Between which two of a topic's messages its stamps jumped likeliest, by how much likelier than not."""
        stamps = [topic.recent[-1][0], *(t.stamp_ns for t in self._by_topic.get(topic.name, ()))]
        pace, until_ns = topic.pace(), min(self._since.values()) + IN_FLIGHT_NS
        best = (0.0, 0)
        for number, times in enumerate(self._by_topic.get(topic.name, ())):
            interval_ns = stamps[number + 1] - stamps[number]
            gain = pace.unlikely(interval_ns) - pace.unlikely(interval_ns - by_ns)
            if gain > best[0] and times.receive_ns <= until_ns:
                best = (gain, number)
        return best

    def _after(self, moved_ns: Mapping[str, int]) -> list[bool]:
        """Which of the messages held were measured after stamps jumped."""
        switch = {name: self._switch(self._topics[name], by_ns) for name, by_ns in moved_ns.items()}
        seen: dict[str, int] = {}
        sides: list[bool | None] = []
        firsts: list[int] = []
        for times in self._held:
            number = seen[times.topic] = seen.get(times.topic, -1) + 1
            if times.topic not in moved_ns:
                sides.append(None)
                continue
            new = number >= switch[times.topic]
            sides.append(new)
            if new:
                firsts.append(self._time_ns(times) + moved_ns[times.topic])
        first_ns = min(firsts, default=0)
        return [
            self._time_ns(times) >= first_ns if side is None else side
            for side, times in zip(sides, self._held, strict=True)
        ]

    def _time_ns(self, times: Times) -> int:
        topic = self._topics.get(times.topic)
        return times.receive_ns if topic is None else times.stamp_ns + topic.offset_ns

    def _switch(self, topic: _Topic, by_ns: int) -> int:
        """How many of a topic's messages held were stamped before its clock was stepped, as is likeliest."""
        held = self._by_topic.get(topic.name, ())
        late = np.array(
            [topic.latency_ns(t.stamp_ns, t.receive_ns) - topic.low_ns for t in held], dtype=np.float64
        )
        before = np.concatenate(([0.0], np.cumsum(_cost(late))))
        after = np.concatenate(([0.0], np.cumsum(_cost(late - by_ns))))
        return int(np.argmin(before + after[-1] - after))

    def _after_wall(self, moved_ns: Mapping[str, int], by_ns: int) -> list[bool]:
        """Which of the messages held were measured after the wall clock was stepped."""
        jump_ns = min(self._since.values())
        switch: dict[str, int] = {}
        for name in self._by_topic.keys() - moved_ns.keys():
            gain, number = self._best_jump(self._topics[name], by_ns)
            switch[name] = number if gain >= LOST else 0
        seen: dict[str, int] = {}
        sides = []
        for times in self._held:
            number = seen[times.topic] = seen.get(times.topic, -1) + 1
            if times.topic in moved_ns:
                sides.append(self._time_ns(times) >= jump_ns - by_ns)
            else:
                sides.append(number >= switch.get(times.topic, 0))
        return sides


def _cost(late_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(late_ns >= 0, late_ns, -EARLY * late_ns)


def _listed(topics: Iterable[str]) -> str:
    first, *others = topics
    if not others:
        return first
    return f"{first} and {others[0]}" if len(others) == 1 else f"{first} and {len(others)} more topics"
