"""Detects steps of the clocks that stamp messages: all topics of a clock shift by the same amount at once.

Evidence of a suspected step: which topics' latencies changed, how far, and which clock jumped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgefirst_ros.timing.finding import (
    LEAST_SIGMA_NS,
    LEAST_STEP_NS,
    UNLIKELIEST,
    MessageTimes,
    Move,
    Watched,
    seconds,
)

SURE = 4.0
"""Log likelihood ratio above which stamps are judged to have jumped, not times of receipt."""
SURE_OF_WALL = 8.0
"""The same threshold where the jump may be at any of several messages."""
SLACK_NS = 1_000_000
"""Tolerance for the uncertainty of offsets."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """A clock was stepped.

    Attributes:
        moved_ns: by topic of the clock, what to add to its offset from now on.
        uncertainty_ns: of that amount.
        is_new: for each held message, whether it was stamped or received after the step.
        reason: sentence for the user.
        alone: the stamps of a single topic jumped, and no others of its clock: a fault of that sensor.
    """

    moved_ns: Mapping[str, int]
    uncertainty_ns: int
    is_new: Sequence[bool]
    reason: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Late:
    """Latencies changed for good without a step of a clock: by how much per topic, empty for all topics.

    ``is_all`` says that no other clock was heard, whose stamps may have jumped with the receiver's.
    """

    moved_ns: Mapping[str, int]
    text: str
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class GroupMove:
    """Topics of one clock whose latencies changed by the same amount."""

    group: int
    topics: tuple[str, ...]
    best: str
    all_of_it: bool
    by_ns: int
    sure_ns: int
    jumped: float
    """Log likelihood ratio of a jump of the stamps against one of the times of receipt."""
    wall: bool
    """Whether the wall clock jumped, and not these topics' stamps."""
    impossible: bool = False
    """Whether it cannot be a latency, as these messages would come before they were measured."""

    @property
    def is_step(self) -> bool:
        """Whether a clock was stepped."""
        return self.wall or self.impossible or self.jumped >= SURE


class Scene:
    """Evaluates all messages held since a step was suspected.

    Args:
        topics: watched topics by name.
        since: by topic with unusual latency, when that began.
        held: messages in order of receipt.
        start_ns: receipt of the first unusual message.
    """

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
        # What was measured before the first unusual message is no evidence for the time after it.
        measured = [ns - max(0, topics[name].low_ns) for name, ns in since.items()]
        self._from_ns = min(measured, default=start_ns)

    def group_moved(self, group: int) -> GroupMove | None:
        """The common change of a clock's topics, None if it is not a step."""
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
        # Other topics are late for reasons of their own, or damaged.
        weights = np.array([moves[n].sure_ns for n in along], dtype=np.float64) ** -2
        by_ns = by + round(float(np.average([float(moves[n].by_ns - by) for n in along], weights=weights)))
        jumped = sum(self._stamps_jumped(self._topics[n], by_ns) for n in along if n in self._since)
        wall = jumped < SURE and not behind and self._wall_jumped(group, by_ns) >= SURE_OF_WALL
        topic, names = self._topics[best], tuple(sorted(along))
        # If everything came too early, the receiver's clock was set back.
        impossible = bool(behind) or self.is_usual_elsewhere({group}, by_ns)
        impossible &= topic.is_impossible(min(self._latencies(topic, self._since[best])))
        return GroupMove(group, names, best, not behind, by_ns, sure_ns, jumped, wall, impossible)

    def is_usual_elsewhere(self, groups: AbstractSet[int], by_ns: int) -> bool:
        """Whether topics of other clocks than these are present and none of them moved."""
        others = [
            move
            for topic in self.heard()
            if topic.group not in groups and (move := self._moved(topic, by_ns)) is not None
        ]
        return any(m.agrees(0) and not m.agrees(by_ns) for m in others) and all(m.agrees(0) for m in others)

    def step(self, moves: Sequence[GroupMove]) -> Step:
        """The step that the common changes of one or several clocks' topics amount to."""
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
        alone = all(self._is_alone(move) for move in jumped) and len(jumped) == len(moves)
        if alone:
            reason = alone_reason(named.topics[0], named.by_ns)
        else:
            reason = f"the clock of {listed(named.topics)} was stepped by {seconds(-named.by_ns)}"
        return Step(moved_ns, sure_ns, self._after(jumped, moved_ns), reason, alone)

    def _is_alone(self, move: GroupMove) -> bool:
        """Whether one topic changed and no others did, of its clock or of any."""
        is_one = len(move.topics) == 1
        return is_one and (not move.all_of_it or self.is_usual_elsewhere({move.group}, move.by_ns))

    def wall_step(self, moved_ns: Mapping[str, int], by_ns: int, sure_ns: int) -> Step:
        """A step of the wall clock, which the receiver uses as well."""
        reason = f"the wall clock was stepped by {seconds(by_ns)}"
        return Step(moved_ns, sure_ns, self._after_wall(moved_ns, by_ns), reason)

    def heard(self) -> list[Watched]:
        """Watched topics with held messages."""
        return [topic for name, topic in self._topics.items() if topic.known and name in self._by_topic]

    def stamps_back_ns(self) -> int | None:
        """By how much stamps went back, from the topic with the steadiest stamps; None if none did."""
        found = []
        for topic in self.heard():
            stamps = [topic.recent[-1][0], *(t.stamp_ns for t in self._by_topic[topic.name])]
            least_ns = min(np.diff(stamps).tolist())
            if least_ns < 0:
                found.append((topic.pace().sigma_ns, least_ns - topic.pace().period_ns))
        return min(found)[1] if found else None

    def _latencies(self, topic: Watched, since_ns: int) -> list[int]:
        """Latencies of a topic's held messages that were received since then."""
        held = self._by_topic[topic.name]
        return [topic.latency_ns(t.stamp_ns, t.receive_ns) for t in held if t.receive_ns >= since_ns]

    def _moved(self, topic: Watched, by_ns: int) -> Move | None:
        """Change of a topic's latency, allowing for a clock step of ``by_ns``; None without messages."""
        latencies = self._latencies(topic, 0)
        times = [t.receive_ns - late for t, late in zip(self._by_topic[topic.name], latencies, strict=True)]
        measured = [late for late, ns in zip(latencies, times, strict=True) if ns >= self._from_ns]
        after = latencies[self._switch(topic, by_ns) :]
        chosen = after if 2 * len(after) > len(measured) else measured
        return topic.moved(chosen) if chosen else None

    def _is_steady(self, name: str) -> bool:
        """Whether a topic's new latency is constant; after a stalled network it falls message by message."""
        topic = self._topics[name]
        latencies = self._latencies(topic, self._since[name])
        middle = len(latencies) // 2
        if not middle:
            return False
        first, second = topic.moved(latencies[:middle]), topic.moved(latencies[middle:])
        return first.agrees(second.by_ns, second.sure_ns)

    def _stamps_jumped(self, topic: Watched, by_ns: int) -> float:
        """Log likelihood ratio of an irregular stamp against an irregular time of receipt."""
        own = [(t.stamp_ns, t.receive_ns) for t in self._by_topic[topic.name]]
        first = min(self._switch(topic, by_ns), len(own) - 1)
        stamp_ns, receive_ns = own[first - 1] if first else topic.recent[-1]
        pace, interval_ns = topic.pace(), own[first][0] - stamp_ns
        if interval_ns < 0:
            return UNLIKELIEST  # however long nothing came: no latency makes stamps go back
        return pace.unlikely(interval_ns) - pace.unlikely(own[first][1] - receive_ns, received=True)

    def _wall_jumped(self, group: int, by_ns: int) -> float:
        """Log likelihood ratio, from the other clocks' stamps, of a wall clock step of ``by_ns``."""
        others = [t for t in self._topics.values() if t.group != group and t.known]
        gains = [self.best_jump(topic, by_ns) for topic in others if topic.name not in self._since]
        return sum(gain for gain, _ in gains)

    def best_jump(self, topic: Watched, by_ns: int) -> tuple[float, int]:
        """Log likelihood ratio of a jump in a topic's stamps, and the index of the held message after it."""
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
        """For each held message, whether it was measured after stamps jumped."""
        spans = [self._between_ns(move) for move in moves]
        between_ns = min(before for before, _ in spans), max(after for _, after in spans)
        switch = {
            name: self._switch(self._topics[name], by_ns, between_ns) for name, by_ns in moved_ns.items()
        }
        return [
            number >= switch[times.topic] if times.topic in switch else self._time_ns(times) >= between_ns[1]
            for number, times in self._numbered()
        ]

    def _numbered(self) -> Iterator[tuple[int, MessageTimes]]:
        """Every held message behind its number among those of its topic."""
        seen: Counter[str] = Counter()
        for times in self._held:
            yield seen[times.topic], times
            seen[times.topic] += 1

    def _between_ns(self, move: GroupMove) -> tuple[int, int]:
        """Times of the last message before a step and the first after it, from the clearest topic."""
        topic, held = self._topics[move.best], self._by_topic[move.best]
        first = min(self._switch(topic, move.by_ns), len(held) - 1)
        before_ns = self._time_ns(held[first - 1]) if first else topic.recent[-1][0] + topic.offset_ns
        return before_ns, self._time_ns(held[first]) + move.by_ns

    def _time_ns(self, times: MessageTimes) -> int:
        topic = self._topics.get(times.topic)
        return times.receive_ns if topic is None else times.stamp_ns + topic.offset_ns

    def _switch(self, topic: Watched, by_ns: int, between_ns: tuple[int, int] | None = None) -> int:
        """The most likely number of a topic's held messages that were stamped before its clock was stepped.

        ``between_ns`` is the interval that contains the step, if known.
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
        """For each held message, whether it was measured after the wall clock was stepped."""
        switch = {
            name: self._wall_switch(self._topics[name], by_ns)
            for name in self._by_topic.keys() - moved_ns.keys()
        }
        return [
            self._time_ns(times) >= self._start_ns - by_ns
            if times.topic in moved_ns
            else number >= switch.get(times.topic, 0)
            for number, times in self._numbered()
        ]

    def _wall_switch(self, topic: Watched, by_ns: int) -> int:
        """How many of a topic's held messages were stamped before the wall clock was stepped.

        Messages stamped before the step and received after it show its full amount, later ones do not.
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
    """-log p of each held message's latency: as received, and if its clock was stepped by ``by_ns``."""
    usual = topic.latencies()
    middle = float(np.median(usual))
    sigma = max(LEAST_SIGMA_NS, 1.5 * float(np.median(np.abs(usual - middle))))
    late = np.array([topic.latency_ns(t.stamp_ns, t.receive_ns) for t in held], dtype=np.float64) - middle
    return (
        np.minimum(UNLIKELIEST, (late / sigma) ** 2 / 2),
        np.minimum(UNLIKELIEST, ((late - by_ns) / sigma) ** 2 / 2),
    )


def _costs(before: Floats, after: Floats) -> Floats:
    """Total -log p for a step after none of the messages, after the first, ... after all."""
    costs: Floats = np.concatenate(([0.0], np.cumsum(before))) + np.append(np.cumsum(after[::-1])[::-1], 0.0)
    return costs


def alone_reason(topic: str, by_ns: int) -> str:
    """What is said where the latency by a single topic's stamps changed by so much."""
    return f"the stamps of {topic} jumped by {seconds(-by_ns)}, those of others did not"


def listed(topics: Iterable[str]) -> str:
    """Names of topics as text."""
    first, *others = topics
    if not others:
        return first
    return f"{first} and {others[0]}" if len(others) == 1 else f"{first} and {len(others)} more topics"


EVIDENCE_NS, DEADLINE_NS = 800_000_000, 1_600_000_000
"""A suspected step is judged once it is this old; one that is still unclear at the deadline is dismissed."""
AGAIN_NS = 100_000_000
MOST_BACK_NS = 1_000_000_000
"""If the receiver's clock goes back by more, no evidence is needed: all clocks are learnt anew."""


class StepWatch:
    """Watches the latency, receive − stamp, of all topics whose stamps are set to the recording's clock.

    A step of a clock has two effects: the latency of all its topics changes by the same amount from one
    message to the next, and the interval between stamps is unusual there. A stalled network, a busy receiver
    or a step of the receiver's clock leave the intervals between stamps as they are. If the recording's own
    stamps and the times of receipt jump together, the wall clock was stepped, and only the other clocks seem
    to have moved. A topic that jumps alone is a fault of that sensor.

    Pass every message to ``look``. While ``is_pending``, hold messages and call ``judge``. Pass messages that
    are usual, or are accepted as usual, to ``learn``.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, as all clocks are learnt anew."""
        self._topics: dict[str, Watched] = {}
        self._since: dict[str, int] = {}
        """Since when a topic's latency has been unusual without interruption."""
        self._back: dict[str, tuple[int, int]] = {}
        """Topics whose times of receipt went back: when, and by how much."""
        self._asked_ns = 0

    def join(self, topic: str, group: int, offset_ns: int, least_ns: int) -> None:
        """Start to watch a topic, or change its offset and keep its usual latency.

        No message of it can come earlier than ``least_ns`` after its acquisition.
        """
        known = self._topics.setdefault(topic, Watched(topic, group, offset_ns, least_ns))
        known.take(group, offset_ns, least_ns)

    @property
    def is_pending(self) -> bool:
        """Whether a step is suspected."""
        return bool(self._since or self._back)

    def is_judging(self, topic: str) -> bool:
        """Whether a step of this topic's clock is suspected."""
        known = self._topics.get(topic)
        return known is not None and any(self._topics[name].group == known.group for name in self._since)

    def look(self, times: MessageTimes, *, stands: bool = False) -> bool:
        """Check a message, in order of receipt; returns whether it is unusual.

        ``stands`` means that the topic had that stamp before, so that only the time of receipt is checked.
        """
        topic = self._topics.get(times.topic)
        if topic is None or not topic.known:
            return False
        if stands:
            odd = times.topic in self._since
        else:
            odd = topic.is_odd(topic.latency_ns(times.stamp_ns, times.receive_ns))
        before_ns, topic.newest_ns = topic.newest_ns, times.receive_ns
        by_ns = 0 if before_ns is None else times.receive_ns - before_ns
        back = -MOST_BACK_NS < by_ns < -LEAST_STEP_NS
        if back:
            self._back[times.topic] = times.receive_ns, by_ns
        if odd:
            self._since.setdefault(times.topic, times.receive_ns)
        elif self._since:
            self._since.pop(times.topic, None)
        return odd or back

    def again(self) -> None:
        """Messages that were checked before are passed once more."""
        self.calm()
        for topic in self._topics.values():
            topic.newest_ns = None

    def learn(self, times: MessageTimes) -> None:
        """Learn from a message that is usual, or is accepted as usual."""
        topic = self._topics.get(times.topic)
        if topic is not None:
            topic.learn(times.stamp_ns, times.receive_ns)

    def calm(self) -> None:
        """Dismiss all suspicions."""
        self._since.clear()
        self._back.clear()

    def judge(self, held: Sequence[MessageTimes], now_ns: int) -> Step | Late | None:
        """What the held messages show, None while it is uncertain; to be called again with every message."""
        if 0 <= now_ns - self._asked_ns < AGAIN_NS:
            return None
        starts = [*self._since.values(), *(ns for ns, _ in self._back.values())]
        ages = [now_ns - ns for ns in starts]
        final = max(ages) >= DEADLINE_NS
        if max(ages) < EVIDENCE_NS or (min(ages) < EVIDENCE_NS and not final):
            return None
        self._asked_ns = now_ns
        scene = Scene(self._topics, self._since, held, min(starts))
        groups = sorted({self._topics[name].group for name in self._since})
        moves = [move for group in groups if (move := scene.group_moved(group)) is not None]
        steps = [move for move in moves if move.is_step]
        if steps:
            return scene.step(steps)
        if self._back and (found := self._set_back(scene, moves)) is not None:
            return found
        if not final:
            return None
        for name, ns in list(self._since.items()):
            if now_ns - ns >= EVIDENCE_NS:
                self._topics[name].forget()
                del self._since[name]
        self._back.clear()
        return self._late(scene, moves)

    def _set_back(self, scene: Scene, moves: Sequence[GroupMove]) -> Step | Late | None:
        """What explains times of receipt that went back; None if too few topics agree."""
        alive = scene.heard()
        by = sorted(ns - self._topics[name].pace().period_ns for name, (_, ns) in self._back.items())
        back_ns = scene.stamps_back_ns()
        by_ns = by[len(by) // 2] if back_ns is None else back_ns
        # A topic whose period exceeds the step shows it only in its latency.
        agreed = sum(abs(ns - by_ns) <= max(LEAST_STEP_NS, -by_ns // 2) for ns in by)
        agreed += sum(len(move.topics) for move in moves if abs(move.by_ns - by_ns) <= LEAST_STEP_NS)
        if agreed < min(2, len(alive)):
            return None
        if sum(scene.best_jump(topic, by_ns)[0] for topic in alive) >= SURE_OF_WALL:
            return scene.wall_step({}, by_ns, 0)
        for topic in alive:
            topic.forget()
        self.calm()
        text = f"the receiver's clock was stepped by {seconds(by_ns)}, and no stamp was"
        return Late({}, f"{text}: no time is changed")

    def _late(self, scene: Scene, moves: Sequence[GroupMove]) -> Late | None:
        """What happened where all topics of some clocks became late, but no stamps and no other clocks."""
        late = [move for move in moves if move.by_ns > 0 and move.jumped <= -SURE and move.all_of_it]
        groups = {move.group for move in late}
        is_far = bool(late) and min(move.by_ns for move in late) > MOST_BACK_NS  # else DriftWatch finds it
        is_all = is_far and {topic.group for topic in scene.heard()} <= groups
        if not late or not (is_all or all(scene.is_usual_elsewhere(groups, move.by_ns) for move in late)):
            return None
        moved_ns = {name: move.by_ns for move in late for name in move.topics}
        for name in moved_ns:
            self._topics[name].forget()
            self._since.pop(name, None)
        text = f"{listed(late[0].topics)} come {late[0].by_ns / 1e6:.1f} ms later than before"
        return Late(moved_ns, f"{text}, suddenly: their latency changed, not their clock", is_all)
