"""All that is held while a step is possible: which topics moved, how far, and what jumped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgefirst_ros.timing.finding import MessageTimes, seconds
from edgefirst_ros.timing.pace import LEAST_SIGMA_NS, LEAST_STEP_NS, UNLIKELIEST, Move, Watched

SURE = 4.0
"""Log likelihood ratio at which stamps are taken to have jumped, instead of the receipt."""
SURE_OF_WALL = 8.0
"""The same, where a jump is looked for among several messages."""
SLACK_NS = 1_000_000
"""An offset is not known better."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """A clock was stepped.

    Attributes:
        moved_ns: by topic of the clock, what is to be added to its offset from now on.
        uncertainty_ns: how far off that may be.
        is_new: by message held, whether it was stamped or received after the step.
        reason: for people.
        alone: it was one topic's stamps that jumped, and no other's of its clock: that sensor's affair.
    """

    moved_ns: Mapping[str, int]
    uncertainty_ns: int
    is_new: Sequence[bool]
    reason: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Late:
    """No clock was stepped, yet latencies changed for good: by topic, how much; all if none is named."""

    moved_ns: Mapping[str, int]
    text: str


@dataclass(frozen=True, slots=True)
class GroupMove:
    """Topics of a group that moved together."""

    group: int
    topics: tuple[str, ...]
    best: str
    all_of_it: bool
    by_ns: int
    sure_ns: int
    jumped: float
    """How much likelier it is that its stamps jumped than that its receipt did."""
    wall: bool
    """Whether it was the wall clock that jumped, instead of these topics' stamps."""

    @property
    def is_step(self) -> bool:
        """Whether a clock was stepped."""
        return self.wall or self.jumped >= SURE

    @property
    def is_alone(self) -> bool:
        """Whether one topic moved and others of its clock did not."""
        return len(self.topics) == 1 and not self.all_of_it


class Scene:
    """All that is held while a step is possible."""

    def __init__(
        self,
        topics: Mapping[str, Watched],
        since: Mapping[str, int],
        held: Sequence[MessageTimes],
        start_ns: int,
    ) -> None:
        self._topics = topics
        self._start_ns = start_ns
        self._since = since
        self._held = held
        self._by_topic: dict[str, list[MessageTimes]] = {}
        for times in held:
            if times.topic in topics:
                self._by_topic.setdefault(times.topic, []).append(times)
        # What was measured before the first odd message was tells nothing of the time after.
        measured = [ns - max(0, topics[name].low_ns) for name, ns in since.items()]
        self._from_ns = min(measured, default=start_ns)

    def group_moved(self, group: int) -> GroupMove | None:
        """What moved of a group, None if that is no step."""
        own = [t for t in self._topics.values() if t.group == group and t.known and t.name in self._by_topic]
        odd = {t.name: t.moved(self._latencies(t, self._since[t.name])) for t in own if t.name in self._since}
        if not odd:
            return None
        best = min(odd, key=lambda name: (odd[name].sure_ns, name))
        by, sure_ns = odd[best].by_ns, odd[best].sure_ns
        moves = {t.name: m for t in own if (m := odd[best] if t.name == best else self._moved(t, by))}
        if abs(by) < LEAST_STEP_NS:
            return None
        along = [n for n, m in moves.items() if m.agrees(by, sure_ns) and not m.agrees(0)]
        behind = [n for n, m in moves.items() if m.agrees(0) and not m.agrees(by, sure_ns)]
        if best not in along or not self._is_steady(best):
            return None
        # Odd in another way: late for a reason of its own, or damaged.
        weights = np.array([moves[n].sure_ns for n in along], dtype=np.float64) ** -2
        by_ns = by + round(float(np.average([float(moves[n].by_ns - by) for n in along], weights=weights)))
        jumped = sum(self._stamps_jumped(self._topics[n], by_ns) for n in along if n in self._since)
        wall = jumped < SURE and not behind and self._wall_jumped(group, by_ns) >= SURE_OF_WALL
        return GroupMove(group, tuple(sorted(along)), best, not behind, by_ns, sure_ns, jumped, wall)

    def is_usual_elsewhere(self, late: Sequence[GroupMove], by_ns: int) -> bool:
        """Whether topics of other clocks are there, none of them so late as these."""
        groups = {move.group for move in late}
        others = [
            move
            for topic in self.heard()
            if topic.group not in groups and (move := self._moved(topic, by_ns)) is not None
        ]
        return any(m.agrees(0) and not m.agrees(by_ns) for m in others) and all(m.agrees(0) for m in others)

    def step(self, moves: Sequence[GroupMove]) -> Step:
        """What groups of topics that moved are together."""
        moved_ns = {
            name: move.by_ns
            for move in moves
            for name, topic in self._topics.items()
            if name in move.topics or (move.all_of_it and topic.group == move.group)
        }
        sure_ns = max(move.sure_ns for move in moves)
        jumped = [move for move in moves if not move.wall]
        if not jumped:
            return self.wall_step(moved_ns, moves[0].by_ns, sure_ns)
        named = jumped[0]
        alone = all(move.is_alone for move in moves)
        if alone:
            by = seconds(-named.by_ns)
            reason = f"the stamps of {named.topics[0]} jumped by {by}, no other's of its clock"
        else:
            reason = f"the clock of {listed(named.topics)} was stepped by {seconds(-named.by_ns)}"
        return Step(moved_ns, sure_ns, self._after(jumped, moved_ns), reason, alone)

    def wall_step(self, moved_ns: Mapping[str, int], by_ns: int, sure_ns: int) -> Step:
        """The wall clock was stepped, and the receiver's with it."""
        reason = f"the wall clock was stepped by {seconds(by_ns)}"
        return Step(moved_ns, sure_ns, self._after_wall(moved_ns, by_ns), reason)

    def heard(self) -> list[Watched]:
        """Topics that are held."""
        return [topic for name, topic in self._topics.items() if topic.known and name in self._by_topic]

    def stamps_back_ns(self) -> int | None:
        """By how much stamps ran backwards, of the topic that tells best; None if none did."""
        found = []
        for topic in self.heard():
            stamps = [topic.recent[-1][0], *(t.stamp_ns for t in self._by_topic[topic.name])]
            least_ns = min(np.diff(stamps).tolist())
            if least_ns < 0:
                found.append((topic.pace().sigma_ns, least_ns - topic.pace().period_ns))
        return min(found)[1] if found else None

    def _latencies(self, topic: Watched, since_ns: int) -> list[int]:
        """Of a topic's messages held that were received since then."""
        held = self._by_topic[topic.name]
        return [topic.latency_ns(t.stamp_ns, t.receive_ns) for t in held if t.receive_ns >= since_ns]

    def _moved(self, topic: Watched, by_ns: int) -> Move | None:
        """What became of a topic's latency, whether its clock moved by this or not; None if nothing came."""
        latencies = self._latencies(topic, 0)
        times = [t.receive_ns - late for t, late in zip(self._by_topic[topic.name], latencies, strict=True)]
        measured = [late for late, ns in zip(latencies, times, strict=True) if ns >= self._from_ns]
        after = latencies[self._switch(topic, by_ns) :]
        chosen = after if 2 * len(after) > len(measured) else measured
        return topic.moved(chosen) if chosen else None

    def _is_steady(self, name: str) -> bool:
        """Whether a topic stays where it is; what comes after a stall is late by less and less."""
        topic = self._topics[name]
        latencies = self._latencies(topic, self._since[name])
        middle = len(latencies) // 2
        if not middle:
            return False
        first, second = topic.moved(latencies[:middle]), topic.moved(latencies[middle:])
        return first.agrees(second.by_ns, second.sure_ns)

    def _stamps_jumped(self, topic: Watched, by_ns: int) -> float:
        """How much likelier it is that a topic's stamps left their pace than that its receipt did."""
        own = [(t.stamp_ns, t.receive_ns) for t in self._by_topic[topic.name]]
        first = min(self._switch(topic, by_ns), len(own) - 1)
        stamp_ns, receive_ns = own[first - 1] if first else topic.recent[-1]
        pace = topic.pace()
        return pace.unlikely(own[first][0] - stamp_ns) - pace.unlikely(
            own[first][1] - receive_ns, received=True
        )

    def _wall_jumped(self, group: int, by_ns: int) -> float:
        """How much likelier stamps of the other groups are, if the wall clock jumped by this."""
        others = [t for t in self._topics.values() if t.group != group and t.known]
        gains = [self.best_jump(topic, by_ns) for topic in others if topic.name not in self._since]
        return sum(gain for gain, _ in gains)

    def best_jump(self, topic: Watched, by_ns: int) -> tuple[float, int]:
        """Log likelihood ratio of a jump in a topic's stamps about now, and the message after it."""
        held = self._by_topic.get(topic.name, ())
        stamps = [topic.recent[-1][0], *(t.stamp_ns for t in held)]
        pace, start_ns = topic.pace(), self._start_ns
        until_ns = start_ns + topic.high_ns + pace.period_ns + LEAST_STEP_NS
        gains = [
            (pace.unlikely(interval_ns) - pace.unlikely(interval_ns - by_ns), number)
            for number, (times, interval_ns) in enumerate(zip(held, np.diff(stamps).tolist(), strict=True))
            if start_ns - abs(by_ns) <= times.receive_ns <= until_ns
        ]
        gain, number = max(gains, default=(0.0, 0))
        return (gain - math.log(len(gains)), number) if gains else (0.0, 0)

    def _after(self, moves: Sequence[GroupMove], moved_ns: Mapping[str, int]) -> list[bool]:
        """Which of the messages held were measured after stamps jumped."""
        spans = [self._between_ns(move) for move in moves]
        between_ns = min(before for before, _ in spans), max(after for _, after in spans)
        switch = {
            name: self._switch(self._topics[name], by_ns, between_ns) for name, by_ns in moved_ns.items()
        }
        seen: dict[str, int] = {}
        sides = []
        for times in self._held:
            number = seen[times.topic] = seen.get(times.topic, -1) + 1
            if times.topic in moved_ns:
                sides.append(number >= switch[times.topic])
            else:
                sides.append(self._time_ns(times) >= between_ns[1])
        return sides

    def _between_ns(self, move: GroupMove) -> tuple[int, int]:
        """Times of the last message before a step and the first after it, of the topic that shows it best."""
        topic, held = self._topics[move.best], self._by_topic[move.best]
        first = min(self._switch(topic, move.by_ns), len(held) - 1)
        before_ns = self._time_ns(held[first - 1]) if first else topic.recent[-1][0] + topic.offset_ns
        return before_ns, self._time_ns(held[first]) + move.by_ns

    def _time_ns(self, times: MessageTimes) -> int:
        topic = self._topics.get(times.topic)
        return times.receive_ns if topic is None else times.stamp_ns + topic.offset_ns

    def _switch(self, topic: Watched, by_ns: int, between_ns: tuple[int, int] | None = None) -> int:
        """How many of a topic's messages held were stamped before its clock was stepped, as is likeliest.

        ``between_ns`` are the times between which that was, where they are known.
        """
        held = self._by_topic.get(topic.name, ())
        if not topic.recent:
            return sum(t.receive_ns <= between_ns[0] for t in held) if between_ns else 0
        before, after = _unlikely(topic, held, by_ns)
        if between_ns is not None:
            times_ns = np.array([self._time_ns(t) for t in held], dtype=np.int64)
            before += UNLIKELIEST * (times_ns > between_ns[1] + SLACK_NS)
            after += UNLIKELIEST * (times_ns + by_ns < between_ns[0] - SLACK_NS)
        return int(np.argmin(_costs(before, after)))

    def _after_wall(self, moved_ns: Mapping[str, int], by_ns: int) -> list[bool]:
        """Which of the messages held were measured after the wall clock was stepped."""
        switch = {
            name: self._wall_switch(self._topics[name], by_ns)
            for name in self._by_topic.keys() - moved_ns.keys()
        }
        seen: dict[str, int] = {}
        sides = []
        for times in self._held:
            number = seen[times.topic] = seen.get(times.topic, -1) + 1
            if times.topic in moved_ns:
                sides.append(self._time_ns(times) >= self._start_ns - by_ns)
            else:
                sides.append(number >= switch.get(times.topic, 0))
        return sides

    def _wall_switch(self, topic: Watched, by_ns: int) -> int:
        """How many of a topic's messages held were stamped before the wall clock was stepped.

        Those on their way then were received after it, so they are off by it, and those after them are not.
        """
        if len(topic.recent) < 2:
            return 0
        held, pace = self._by_topic[topic.name], topic.pace()
        after, off_ns = _unlikely(topic, held, by_ns)
        before = np.minimum(after, off_ns)
        intervals = np.diff([topic.recent[-1][0], *(t.stamp_ns for t in held)]).tolist()
        gains = [pace.unlikely(ns) - pace.unlikely(ns - by_ns) for ns in intervals]
        return int(np.argmin(_costs(before, after) - np.array([*gains, 0.0])))


def _unlikely(topic: Watched, held: Sequence[MessageTimes], by_ns: int) -> tuple[Floats, Floats]:
    """How unlikely the latency of each message held is: as it came, and with its stamp later by so much."""
    usual = topic.latencies()
    middle = float(np.median(usual))
    sigma = max(LEAST_SIGMA_NS, 1.5 * float(np.median(np.abs(usual - middle))))
    late = np.array([topic.latency_ns(t.stamp_ns, t.receive_ns) for t in held], dtype=np.float64) - middle
    return (
        np.minimum(UNLIKELIEST, (late / sigma) ** 2 / 2),
        np.minimum(UNLIKELIEST, ((late - by_ns) / sigma) ** 2 / 2),
    )


def _costs(before: Floats, after: Floats) -> Floats:
    """What a step costs after none of the messages, after the first, ... after all."""
    costs: Floats = np.concatenate(([0.0], np.cumsum(before))) + np.append(np.cumsum(after[::-1])[::-1], 0.0)
    return costs


def listed(topics: Iterable[str]) -> str:
    """Topics for people."""
    first, *others = topics
    if not others:
        return first
    return f"{first} and {others[0]}" if len(others) == 1 else f"{first} and {len(others)} more topics"
