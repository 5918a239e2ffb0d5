"""Finds steps of the clocks that stamp: all topics of one come later, or sooner, by the same amount."""

from __future__ import annotations

from collections.abc import Sequence

from edgefirst_ros.timing.finding import MessageTimes, seconds
from edgefirst_ros.timing.pace import LEAST_STEP_NS, Watched
from edgefirst_ros.timing.scene import SURE, SURE_OF_WALL, GroupMove, Late, Scene, Step, listed

EVIDENCE_NS, DEADLINE_NS = 800_000_000, 1_600_000_000
"""A step is judged once it is so old; what cannot be told by the deadline is none."""
AGAIN_NS = 100_000_000
MOST_BACK_NS = 1_000_000_000
"""A receiver's clock that was set back by more needs no proof, and all clocks are learnt anew."""


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
        self._topics: dict[str, Watched] = {}
        self._since: dict[str, int] = {}
        """Topics that have been odd without a break, and since when."""
        self._back: dict[str, tuple[int, int]] = {}
        """Topics whose receipt ran backwards: when, and by how much."""
        self._asked_ns = 0

    def join(self, topic: str, group: int, offset_ns: int) -> None:
        """Watch a topic from now on, or go on with another offset; what is usual for it stays so."""
        known = self._topics.setdefault(topic, Watched(topic, group, offset_ns))
        known.take(group, offset_ns)

    @property
    def is_pending(self) -> bool:
        """Whether a step is possible."""
        return bool(self._since or self._back)

    def is_judging(self, group: int) -> bool:
        """Whether a clock's step is possible."""
        return any(self._topics[name].group == group for name in self._since)

    def look(self, times: MessageTimes, *, stands: bool = False) -> bool:
        """Take a message in, in order of receipt: whether it is out of line.

        ``stands`` if its topic said that stamp before, so that only its receipt says something.
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
        else:
            self._since.pop(times.topic, None)
        return odd or back

    def again(self) -> None:
        """Messages that were looked at come once more."""
        self.calm()
        for topic in self._topics.values():
            topic.newest_ns = None

    def learn(self, times: MessageTimes) -> None:
        """A message that is usual, or is taken for it."""
        topic = self._topics.get(times.topic)
        if topic is not None:
            topic.learn(times.stamp_ns, times.receive_ns)

    def calm(self) -> None:
        """No step after all."""
        self._since.clear()
        self._back.clear()

    def judge(self, held: Sequence[MessageTimes], now_ns: int) -> Step | Late | None:
        """What all held messages together show, once it is sure; to be asked anew with every message."""
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
        """What it means that receive times ran backwards."""
        alive = scene.heard()
        by = sorted(ns - self._topics[name].pace().period_ns for name, (_, ns) in self._back.items())
        back_ns = scene.stamps_back_ns()
        by_ns = by[len(by) // 2] if back_ns is None else back_ns
        # A topic that is slower than the step is long shows it by its latency alone.
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
        return Late({}, f"{text}: no time changes")

    def _late(self, scene: Scene, moves: Sequence[GroupMove]) -> Late | None:
        """All topics of some clocks come later, with their stamps at their pace, and others do not."""
        late = [move for move in moves if move.by_ns > 0 and move.jumped <= -SURE and move.all_of_it]
        if not late or not all(scene.is_usual_elsewhere(late, move.by_ns) for move in late):
            return None
        moved_ns = {name: move.by_ns for move in late for name in move.topics}
        for name in moved_ns:
            self._topics[name].forget()
            self._since.pop(name, None)
        text = f"{listed(late[0].topics)} come {late[0].by_ns / 1e6:.1f} ms later than before, at once"
        return Late(moved_ns, f"{text}: their latency changed, not their clock")
