"""Detects steps of the clocks that stamp messages: all topics of a clock shift by the same amount at once."""

from __future__ import annotations

from collections.abc import Sequence

from edgefirst_ros.timing.finding import MessageTimes, seconds
from edgefirst_ros.timing.pace import LEAST_STEP_NS, Watched
from edgefirst_ros.timing.scene import SURE, SURE_OF_WALL, GroupMove, Late, Scene, Step, listed

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
        if not late or not all(scene.is_usual_elsewhere(groups, move.by_ns) for move in late):
            return None
        moved_ns = {name: move.by_ns for move in late for name in move.topics}
        for name in moved_ns:
            self._topics[name].forget()
            self._since.pop(name, None)
        text = f"{listed(late[0].topics)} come {late[0].by_ns / 1e6:.1f} ms later than before"
        return Late(moved_ns, f"{text}, suddenly: their latency changed, not their clock")
