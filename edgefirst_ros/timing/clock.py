"""Gives every message its time on the recording's clock, and watches for steps and drift."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from edgefirst_ros.timing.drift import DRIFT_NS, DriftWatch
from edgefirst_ros.timing.finding import Evidence, Finding, MessageTimes, Rule, find_clocks, seconds
from edgefirst_ros.timing.offset import RECORDINGS_OWN, Clock
from edgefirst_ros.timing.scene import Late, Step
from edgefirst_ros.timing.steps import StepWatch

OUTLIER_NS = 1_000_000_000
"""A message this much later or earlier than its topic's usual latency is out of line."""
CONFIRM, CONFIRM_NS = 5, 500_000_000
"""This many messages off by the same amount over this time are a step; late messages catch up instead."""
CONFIRM_FEW_NS = 2_000_000_000
"""For slow topics, two messages this far apart and off by the same amount are a step as well."""
QUARANTINE_NS = 3_000_000_000
BACKWARDS_NS = 1_000_000_000
PAUSE_NS = 60_000_000_000
HEARD_NS = 3_000_000_000
"""Topics heard this shortly before a step belong to the sequence after it."""
FUTURE = "stamp is in the future"
NO_TIME = "time before 1970 or after 2116"
LATEST_NS = 1 << 62
MOST_HELD_BYTES = 256 << 20
"""Messages of more than this are not held: clocks are chosen, and doubts settled, with what has come."""
STAMPS = 16
"""Stamps remembered per topic: static transforms may have several that alternate."""
STEPPED = "; the clock was stepped: "

_NO_CLOCK, _BACKWARDS, _PAUSE = -1, -2, -3
"""Stand for the clock of a suspect message where that is none of the clocks found."""

Message = TypeVar("Message", bound=MessageTimes)


@dataclass(frozen=True, slots=True)
class Boundary:
    """The time base broke here: what follows is a new sequence."""

    reason: str


@dataclass(slots=True)
class _Topic:
    rule: Rule
    usual_ns: int = 0
    """Median of receive − time while its clock was being found."""
    times: list[MessageTimes] = field(default_factory=list)
    since_ns: int = 0
    heard_ns: int = 0
    finding: Finding | None = None
    told: bool = False
    """Whether the finding has been told in the sequence under way."""

    def off_ns(self, message: MessageTimes) -> int:
        """How much later than usual a message is, by its stamp; 0 if that is unused or always trusted."""
        finding = self.finding
        if finding is None or finding.group is None or self.rule.choice != "auto":
            return 0
        return message.receive_ns - message.stamp_ns - finding.offset_ns - self.usual_ns


class ClockFinder(Generic[Message]):
    """Gives every message its time on the recording's clock.

    Messages are held until their topic's clock is known: ``window_ns`` at the start, ``late_ns`` for a
    topic that appears later. Stamps that are steadily far off belong to another clock; topics of the same
    clock are grouped and share one offset, so that the stamps keep their precision; it comes from the
    promptest messages and the latencies usual for their topics. A step of the wall clock, a pause or a drift
    yields a ``Boundary`` and everything is learnt anew.

    Args:
        window_ns: how long clocks are watched before one is chosen.
        late_ns: the same, for a topic that appears later.
        tell: called with sentences worth telling that change no time, once each.
    """

    def __init__(
        self,
        window_ns: int = 3_000_000_000,
        late_ns: int = 400_000_000,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._window_ns = window_ns
        self._late_ns = late_ns
        self._rules: dict[str, Rule] = {}
        self._say = tell
        self._watch = DriftWatch(tell)
        self._steps = StepWatch()
        self.findings: list[Finding] = []
        self._reset()

    def _reset(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._held: list[Message] = []
        self._held_bytes = 0
        self._quarantine: list[Message] = []
        self._quarantine_bytes = 0
        self._suspects: dict[int, list[tuple[int, int]]] = {}
        self._clocks: list[Clock] = [RECORDINGS_OWN]
        self._stamps: dict[str, deque[int]] = {}
        self._watch.reset()
        self._steps.reset()
        self._first_ns: int | None = None
        self._latest_ns: int | None = None
        self._settled = False

    def rule(self, topic: str, rule: Rule) -> None:
        """Set what is configured for a topic's times, before its first message."""
        self._rules[topic] = rule

    @property
    def is_settled(self) -> bool:
        """Whether every message so far has its time."""
        return self._settled and not self._held and not self._quarantine

    def time_ns(self, message: MessageTimes) -> int | None:
        """The time that a message will have, None if its topic's clock is not known."""
        topic = self._topics.get(message.topic)
        finding = None if topic is None else topic.finding
        return None if finding is None else _time_ns(message, finding)

    def feed(self, message: Message) -> Iterable[Message | Boundary]:
        """Take a message in order of arrival; those that have a time now, or a refusal.

        They must be taken before the next message is fed.
        """
        if self._first_ns is None:
            self._first_ns = self._latest_ns = message.receive_ns
        group, off_ns, broken = self._judge(message)
        stands = self._stands(message)
        if stands and group >= 0:
            group, broken = _NO_CLOCK, None
        odd = self._steps.look(message, stands=stands)
        if broken is None and not odd and not self._quarantine:
            return (message,) if self._is_usual(message, off_ns) else self._accept(message, off_ns)
        return self._suspect(message, group, off_ns, broken)

    def _is_usual(self, message: Message, off_ns: int) -> bool:
        """Give a message its time where nothing else follows from it, as is the case with nearly all."""
        topic = self._topics.get(message.topic)
        if topic is None or topic.finding is None or not topic.told or self._held or off_ns < -OUTLIER_NS:
            return False
        receive_ns = message.receive_ns
        if self._watch.is_due(receive_ns):
            return False
        if self._latest_ns is None or receive_ns > self._latest_ns:
            self._latest_ns = receive_ns
        topic.heard_ns = receive_ns
        self._steps.learn(message)
        _date(message, topic.finding)
        self._watch.add(message.topic, receive_ns, receive_ns - message.time_ns + topic.rule.offset_ns)
        return True

    def _suspect(
        self, message: Message, group: int, off_ns: int, broken: str | None
    ) -> Iterator[Message | Boundary]:
        """Hold a message of whose clock a step is possible.

        Args:
            message: the message.
            group: its clock.
            off_ns: how far off it is.
            broken: the step that would explain that, None if it is not off.
        """
        # While a step is possible everything waits: it belongs to one side of it or to the other.
        self._quarantine.append(message)
        self._quarantine_bytes += message.held_bytes
        if self._steps.is_pending and group != _PAUSE:
            step = self._steps.judge(self._quarantine, message.receive_ns)
            if isinstance(step, Step):
                yield from self._go_on(step)
                return
            if step is not None:
                self._excuse(step)
        if broken is not None:
            suspects = self._suspects.setdefault(group, [])
            suspects.append((message.receive_ns, off_ns))
            if group == _PAUSE or (_is_step(suspects) and not self._steps.is_judging(group)):
                yield from self._end_before(group)
                yield from self._restart(broken)
                return
        else:
            self._suspects.pop(group, None)
            self._suspects.pop(_BACKWARDS, None)
        waited_ns = message.receive_ns - self._quarantine[0].receive_ns
        is_full = self._quarantine_bytes > MOST_HELD_BYTES
        if not (self._suspects or self._steps.is_pending) or waited_ns > QUARANTINE_NS or is_full:
            yield from self._forgive()

    def flush(self) -> Iterator[Message | Boundary]:
        """The source ends: choose clocks with what has come, and yield everything held."""
        yield from self._forgive()
        yield from self._release(self._latest_ns or 0, final=True)

    def _accept(self, message: Message, off_ns: int) -> Iterator[Message | Boundary]:
        """Take a message of the current time base; its own stamp may be damaged."""
        if off_ns < -OUTLIER_NS:
            message.refusal = FUTURE
            yield message
            return
        self._latest_ns = max(self._latest_ns or 0, message.receive_ns)
        topic = self._topics.get(message.topic)
        if topic is None:
            rule = self._rules.get(message.topic, Rule())
            topic = self._topics[message.topic] = _Topic(rule, since_ns=message.receive_ns)
        topic.heard_ns = message.receive_ns
        if self._settled and topic.finding is not None:
            self._tell(topic)
            self._steps.learn(message)
            _date(message, topic.finding)
            late_ns = message.receive_ns - message.time_ns + topic.rule.offset_ns
            yield message
            broken = self._watch.add(message.topic, message.receive_ns, late_ns)
            if broken is not None:
                yield from self._restart(broken)
        else:
            topic.times.append(message)
            self._held.append(message)
            self._held_bytes += message.held_bytes
        yield from self._settle(message.receive_ns)

    def _settle(self, now_ns: int) -> Iterator[Message]:
        if self._first_ns is None or not self._held:
            return
        is_full = self._held_bytes > MOST_HELD_BYTES
        if not (self._settled or is_full) and now_ns - self._first_ns < self._window_ns:
            return
        yield from self._release(now_ns, final=is_full)

    def _release(self, now_ns: int, *, final: bool) -> Iterator[Message]:
        first = not self._settled
        self._settled = True
        due = [
            (name, t)
            for name, t in self._topics.items()
            if t.finding is None and (final or first or now_ns - t.since_ns >= self._late_ns)
        ]
        if not due:
            return
        self._decide(due)
        held, self._held, self._held_bytes = self._held, [], 0
        for message in held:
            topic = self._topics[message.topic]
            if topic.finding is None:
                self._held.append(message)
                self._held_bytes += message.held_bytes
                continue
            if topic.off_ns(message) < -OUTLIER_NS:
                # As what is still under way when a simulation is reset, and comes first after it.
                message.refusal = FUTURE
            else:
                self._steps.learn(message)
                _date(message, topic.finding)
            yield message

    def _decide(self, due: Sequence[tuple[str, _Topic]]) -> None:
        """Choose a clock for each of the topics."""
        known = len(self._clocks)
        evidence = [Evidence(name, topic.rule, topic.times) for name, topic in due]
        for (_, topic), finding in zip(due, find_clocks(evidence, self._clocks), strict=True):
            usual = [t.receive_ns - t.stamp_ns - finding.offset_ns for t in topic.times]
            topic.usual_ns = int(np.median(usual))
            topic.finding = finding
            topic.times = []
            self._tell(topic)
            self._join(topic, joined=finding.group is not None and finding.group < known)

    def _join(self, topic: _Topic, *, joined: bool) -> None:
        """Watch a topic's clock for steps and drift, unless the configuration says to trust it."""
        finding = topic.finding
        if finding is not None and finding.group is not None and topic.rule.choice == "auto":
            sure_ns = DRIFT_NS if finding.uncertainty_ns is None else finding.uncertainty_ns
            self._watch.join(finding.topic, finding.group, sure_ns, joined=joined)
            self._steps.join(finding.topic, finding.group, finding.offset_ns)

    def _tell(self, topic: _Topic) -> None:
        """Add a topic's finding to those of the sequence under way, once."""
        if topic.finding is not None and not topic.told:
            topic.told = True
            self.findings.append(topic.finding)

    def _judge(self, message: MessageTimes) -> tuple[int, int, str | None]:
        """The clock of a message, how far off it is, and the step that would explain that."""
        topic = self._topics.get(message.topic)
        finding = topic.finding if topic is not None else None
        latest = self._latest_ns
        group = _NO_CLOCK if finding is None or finding.group is None else finding.group
        off_ns = 0 if topic is None or group == _NO_CLOCK else topic.off_ns(message)
        since_ns = 0 if latest is None else message.receive_ns - latest
        if since_ns < -BACKWARDS_NS:
            return _BACKWARDS, 0, "the receiver's clock was set back"
        if since_ns > PAUSE_NS:
            return _PAUSE, 0, f"nothing received for {since_ns / 1e9:,.0f} s"
        return group, off_ns, "the wall clock was stepped" if abs(off_ns) > OUTLIER_NS else None

    def _stands(self, message: MessageTimes) -> bool:
        """Whether a topic repeats its stamps, as calibration does, so that they say nothing about a clock."""
        lately = self._stamps.get(message.topic)
        if lately is None:
            lately = self._stamps[message.topic] = deque(maxlen=STAMPS)
        # After a step a clock may say a time once more, by chance; not the same one twice in a row.
        stands = bool(lately) and (lately[-1] == message.stamp_ns or lately.count(message.stamp_ns) > 1)
        lately.append(message.stamp_ns)
        return stands

    def _forgive(self) -> Iterator[Message | Boundary]:
        """There was no step: the messages held were damaged, or late and have caught up."""
        held, self._quarantine, self._suspects = self._quarantine, [], {}
        self._quarantine_bytes = 0
        self._steps.calm()
        for message in held:
            group, off_ns, _ = self._judge(message)
            yield from self._accept(message, 0 if group == _BACKWARDS else off_ns)

    def _end_before(self, group: int) -> Iterator[Message | Boundary]:
        """Take what was held for another reason before receipt broke off, as the time base ends there."""
        if group not in {_BACKWARDS, _PAUSE}:
            return
        places = (n for n, message in enumerate(self._quarantine) if self._judge(message)[0] == group)
        place = next(places, 0)
        after = self._quarantine[place:]
        self._quarantine = self._quarantine[:place]
        yield from self._forgive()
        self._quarantine = after
        self._quarantine_bytes = sum(message.held_bytes for message in after)

    def _restart(self, reason: str) -> Iterator[Message | Boundary]:
        held, self._quarantine, self._quarantine_bytes = self._quarantine, [], 0
        yield from self._release(self._latest_ns or 0, final=True)
        self._reset()
        yield Boundary(reason)
        for message in held:
            yield from self.feed(message)

    def _go_on(self, step: Step) -> Iterator[Message | Boundary]:
        """A clock was stepped: change its offset, and keep everything else that is known of the clocks."""
        held, self._quarantine, self._suspects = self._quarantine, [], {}
        self._quarantine_bytes = 0
        self._steps.again()
        yield from self._release(self._latest_ns or 0, final=True)
        later = []
        for message, is_new in zip(held, step.is_new, strict=True):
            topic = self._topics.get(message.topic)
            if is_new or topic is None or topic.finding is None:
                later.append(message)
                continue
            topic.heard_ns = message.receive_ns
            self._steps.learn(message)
            _date(message, topic.finding)
            yield message
        if step.alone:
            self._say(f"{step.reason}: from then on they are corrected by this")
        else:
            yield Boundary(step.reason)
            self._watch.reset()
        self._shift(step)
        self._latest_ns = later[0].receive_ns if later else self._latest_ns
        for name, topic in self._topics.items():
            if step.alone and name not in step.moved_ns:
                continue
            topic.told = False
            self._join(topic, joined=False)
            if topic.heard_ns >= held[0].receive_ns - HEARD_NS:
                self._tell(topic)
        for message in later:
            yield from self.feed(message)

    def _excuse(self, late: Late) -> None:
        """Latencies changed, not clocks: take the new latencies as usual."""
        self._say(late.text)
        for name, by_ns in late.moved_ns.items():
            self._watch.excuse(name, by_ns)
        if not late.moved_ns:
            self._watch.reset()
            for topic in self._topics.values():
                self._join(topic, joined=False)

    def _shift(self, step: Step) -> None:
        """Change the offsets of topics that were stepped; if only some of a clock, they get their own."""
        numbers: dict[int, int] = {}
        for name, by_ns in step.moved_ns.items():
            topic = self._topics[name]
            finding = topic.finding
            if finding is None or finding.group is None:
                continue
            if finding.group not in numbers:
                numbers[finding.group] = self._clock_after(finding.group, by_ns, step)
            clock = self._clocks[numbers[finding.group]]
            topic.finding = replace(
                finding,
                offset_ns=finding.offset_ns + by_ns,
                group=numbers[finding.group],
                uncertainty_ns=clock.uncertainty_ns,
                text=f"{finding.text.partition(STEPPED)[0]}{STEPPED}{seconds(clock.offset_ns)} is added now",
            )

    def _clock_after(self, group: int, by_ns: int, step: Step) -> int:
        """The number of a clock after its step."""
        old = self._clocks[group]
        members = {
            name
            for name, topic in self._topics.items()
            if topic.rule.choice == "auto" and topic.finding is not None and topic.finding.group == group
        }
        sure_ns = old.uncertainty_ns
        clock = Clock(old.offset_ns + by_ns, None if sure_ns is None else sure_ns + step.uncertainty_ns)
        if members - step.moved_ns.keys():
            self._clocks.append(clock)
            return len(self._clocks) - 1
        self._clocks[group] = clock
        return group


def _time_ns(message: MessageTimes, finding: Finding) -> int:
    """Time of a message on the recording's clock, from the source that was chosen for its topic."""
    if finding.source == "stamp":
        return message.stamp_ns + finding.offset_ns
    chosen_ns = message.receive_ns if finding.source == "receive" else message.publish_ns
    return chosen_ns + finding.offset_ns


def _date(message: MessageTimes, finding: Finding) -> None:
    """Give a message its time, or refuse it if no recording can be of that time."""
    message.time_ns = _time_ns(message, finding)
    if not 0 <= message.time_ns < LATEST_NS:
        message.refusal = NO_TIME


def _is_step(suspects: Sequence[tuple[int, int]]) -> bool:
    """Whether (receive time, distance) pairs are those of a step: off by the same amount for long enough."""
    (first_ns, first_off), (last_ns, last_off) = suspects[0], suspects[-1]
    if abs(last_off - first_off) > OUTLIER_NS // 4:
        return False
    span_ns = abs(last_ns - first_ns)
    return (len(suspects) >= CONFIRM and span_ns >= CONFIRM_NS) or (
        len(suspects) >= 2 and span_ns >= CONFIRM_FEW_NS
    )
