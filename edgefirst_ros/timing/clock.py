"""Gives every message its time on the recording's clock, and watches for steps and drift."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import hypot
from typing import Generic, TypeVar

import numpy as np

from edgefirst_ros.timing.drift import DRIFT_NS, Correction, DriftWatch
from edgefirst_ros.timing.finding import (
    AGREE_NS,
    LEAST_SIGMA_NS,
    RECORDINGS_OWN,
    STEPPED,
    Clock,
    Evidence,
    MessageTimes,
    Rule,
    TopicClock,
    find_clocks,
    plausible_latency_ns,
    seconds,
)
from edgefirst_ros.timing.steps import Late, Step, StepWatch, alone_reason

WINDOW_NS = 3_000_000_000
"""So long clocks are watched before one is chosen."""
OUTLIER_NS = 1_000_000_000
"""A message this much later or earlier than its topic's usual latency is out of line."""
CONFIRM, CONFIRM_NS = 5, 500_000_000
"""This many messages off by the same amount over this time are a step; late messages catch up instead."""
CONFIRM_FEW_NS = 1_900_000_000
"""For topics of 1 Hz and less, two messages this far apart, off by the same amount, are a step as well."""
QUARANTINE_NS = 3_000_000_000
BACKWARDS_NS = 1_000_000_000
PAUSE_NS = 60_000_000_000
HEARD_NS = 3_000_000_000
"""Topics heard this shortly before a step belong to the sequence after it."""
FUTURE = "stamp is in the future"
NO_TIME = "time of zero, before 1970 or after 2116"
LATEST_NS = 1 << 62
MOST_HELD_BYTES = 256 << 20
"""Messages of more than this are not held: clocks are chosen, and doubts settled, with what has come."""
STAMPS = 16
"""Stamps remembered per topic: static transforms may have several that alternate."""


class _Kind(IntEnum):
    """What a message says about the clocks; as a number, for a plain member takes long to look up."""

    USUAL = 0
    NOTHING = 1
    """It repeats its stamp, as calibration does."""
    OFF = 2
    """Its stamp is far off."""
    BACKWARDS = 3
    PAUSE = 4


_STAMPED, _CALM = {_Kind.USUAL, _Kind.OFF}, {_Kind.USUAL, _Kind.NOTHING}
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
    jitter_ns: int = 0
    """Median of its deviations from that."""
    times: list[MessageTimes] = field(default_factory=list)
    since_ns: int = 0
    heard_ns: int = 0
    finding: TopicClock | None = None
    told: bool = False
    """Whether the finding has been told in the sequence under way."""
    correction: Correction | None = None
    """For the drift of its clock; None if its stamps are not used, or always trusted."""

    def off_ns(self, message: MessageTimes) -> int:
        """How much later than usual a message is, by its stamp; 0 if that is unused or always trusted."""
        finding, correction = self.finding, self.correction
        if finding is None or correction is None:
            return 0
        time_ns = message.stamp_ns + finding.offset_ns + correction.at_ns(message.stamp_ns)
        return message.receive_ns - time_ns - self.usual_ns

    def time_ns(self, message: MessageTimes, finding: TopicClock) -> int:
        """Time of a message on the recording's clock, from the source that was chosen for its topic."""
        if finding.source == "stamp":
            stamp_ns, correction = message.stamp_ns, self.correction
            return stamp_ns + finding.offset_ns + (0 if correction is None else correction.at_ns(stamp_ns))
        chosen_ns = message.receive_ns if finding.source == "receive" else message.publish_ns
        return chosen_ns + finding.offset_ns

    def date(self, message: MessageTimes, finding: TopicClock) -> None:
        """Give a message its time, or refuse it if no recording can be of that time."""
        message.time_ns = self.time_ns(message, finding)
        if not 0 < message.time_ns < LATEST_NS:
            message.refusal = NO_TIME


class ClockFinder(Generic[Message]):
    """Gives every message its time on the recording's clock.

    Messages are held until their topic's clock is known: ``WINDOW_NS`` at the start, ``late_ns`` for a
    topic that appears later. Stamps that are steadily far off belong to another clock; topics of the same
    clock are grouped and share one offset, so that the stamps keep their precision; it comes from the
    promptest messages and the latencies usual for their topics, and follows the clock's drift. A topic that
    stamps anew, as its publisher was restarted, gets a clock anew. A step of the wall clock or a pause yields
    a ``Boundary`` and everything is learnt anew.

    Args:
        late_ns: the same, for a topic that appears later.
        tell: called with sentences worth telling that change no time, once each.
    """

    def __init__(self, late_ns: int = 400_000_000, tell: Callable[[str], None] = lambda _: None) -> None:
        self._late_ns = late_ns
        self._rules: dict[str, Rule] = {}
        self._say = tell
        self._watch = DriftWatch(tell)
        self._steps = StepWatch()
        self.findings: list[TopicClock] = []
        self._reset()

    def _reset(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._held: list[Message] = []
        self._held_bytes = 0
        self._quarantine: list[Message] = []
        self._quarantine_bytes = 0
        self._suspects: dict[str | _Kind, list[tuple[int, int]]] = {}
        """Receipt and distance of messages that are off, by topic, or by what they have in common."""
        self._clocks: list[Clock] = [RECORDINGS_OWN]
        self._stamps: dict[str, deque[int]] = {}
        self._watch.reset()
        self._steps.reset()
        self._first_ns: int | None = None
        self._latest_ns = 0
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
        return None if topic is None or finding is None else topic.time_ns(message, finding)

    def feed(self, message: Message) -> Iterable[Message | Boundary]:
        """Take a message in order of arrival; those that have a time now, or a refusal.

        They must be taken before the next message is fed.
        """
        if self._first_ns is None:
            self._first_ns = self._latest_ns = message.receive_ns
        kind, off_ns = self._judge(message)
        stands = self._stands(message)
        if stands and kind in _STAMPED:
            kind = _Kind.NOTHING
        odd = self._steps.look(message, stands=stands)
        if kind in _CALM and not odd and not self._quarantine:
            return (message,) if self._is_usual(message, off_ns) else self._accept(message, off_ns)
        return self._suspect(message, kind, off_ns)

    def _is_usual(self, message: Message, off_ns: int) -> bool:
        """Give a message its time where nothing else follows from it, as is the case with nearly all."""
        topic = self._topics.get(message.topic)
        if topic is None or topic.finding is None or not topic.told or self._held or off_ns < -OUTLIER_NS:
            return False
        if self._suspects:
            self._suspects.pop(message.topic, None)
        receive_ns = message.receive_ns
        if self._watch.is_due(receive_ns):
            return False
        self._latest_ns = max(self._latest_ns, receive_ns)
        topic.heard_ns = receive_ns
        self._steps.learn(message)
        topic.date(message, topic.finding)
        late_ns = receive_ns - message.time_ns + topic.rule.offset_ns
        self._watch.add(message.topic, message.stamp_ns, receive_ns, late_ns)
        return True

    def _suspect(self, message: Message, kind: _Kind, off_ns: int) -> Iterator[Message | Boundary]:
        """Hold a message of whose clock a step is possible."""
        # While a step is possible everything waits: it belongs to one side of it or to the other.
        self._quarantine.append(message)
        self._quarantine_bytes += message.held_bytes
        if self._steps.is_pending and kind is not _Kind.PAUSE:
            step = self._steps.judge(self._quarantine, message.receive_ns)
            if isinstance(step, Step):
                yield from self._go_on(step)
                return
            if step is not None:
                self._excuse(step)
                kind = _Kind.NOTHING if step.is_all else kind
        if kind in _CALM:
            self._suspects.pop(_Kind.BACKWARDS, None)
            if kind is _Kind.USUAL:
                self._suspects.pop(message.topic, None)
        elif kind is _Kind.PAUSE or self._is_step(message, kind, off_ns):
            anew = self._jumped_alone(message.topic) if kind is _Kind.OFF else None
            if anew is not None:
                yield from self._go_on(anew)
                return
            yield from self._end_before(kind)
            yield from self._restart(_reason(kind, message, self._latest_ns))
            return
        start_ns = self._quarantine[0].receive_ns
        # After receipt went backwards its times are smaller than that of what was held before.
        lately = (isinstance(of, _Kind) or s[-1][0] >= start_ns for of, s in self._suspects.items())
        is_open = self._steps.is_pending or any(lately)
        is_full = self._quarantine_bytes > MOST_HELD_BYTES
        if not is_open or message.receive_ns - start_ns > QUARANTINE_NS or is_full:
            yield from self._forgive()

    def _is_step(self, message: MessageTimes, kind: _Kind, off_ns: int) -> bool:
        """Whether messages up to this one are off by the same amount for long enough to be of a step."""
        suspects = self._suspects.setdefault(message.topic if kind is _Kind.OFF else kind, [])
        # What a pause held up comes in a burst: it is late by less and less.
        if suspects and abs(off_ns - suspects[0][1]) > OUTLIER_NS // 10:
            suspects.clear()
        suspects.append((message.receive_ns, off_ns))
        del suspects[CONFIRM:-CONFIRM]
        span_ns = abs(suspects[-1][0] - suspects[0][0])
        is_long = (len(suspects) >= CONFIRM and span_ns >= CONFIRM_NS) or (
            len(suspects) >= 2 and span_ns >= CONFIRM_FEW_NS
        )
        return is_long and (kind is not _Kind.OFF or not self._steps.is_judging(message.topic))

    def _jumped_alone(self, name: str) -> Step | None:
        """The jump of a topic's stamps, None if its whole clock, or the wall clock, may have jumped."""
        topic, since_ns = self._topics[name], self._suspects[name][0][0]
        group = self._group(name)
        sound: dict[int, bool] = {}
        for message in self._quarantine:
            of = self._group(message.topic)
            if of is not None and message.topic != name and message.receive_ns >= since_ns:
                is_sound = abs(self._topics[message.topic].off_ns(message)) <= OUTLIER_NS
                sound[of] = sound.get(of, False) or is_sound
        # A step of the wall clock shows in all clocks but the recording's own.
        if not (sound[group] if group in sound else any(is_sound for of, is_sound in sound.items() if of)):
            return None
        offs_ns = [topic.off_ns(m) if m.topic == name else 0 for m in self._quarantine]
        jumped = [abs(off_ns) > OUTLIER_NS for off_ns in offs_ns]
        far_ns = [off_ns for off_ns, has in zip(offs_ns, jumped, strict=True) if has]
        by_ns = int(np.median(far_ns))
        sure_ns = max(LEAST_SIGMA_NS, round(3 * topic.jitter_ns / len(far_ns) ** 0.5))
        is_new = [
            has or (m.topic != name and m.receive_ns >= since_ns)
            for m, has in zip(self._quarantine, jumped, strict=True)
        ]
        return Step({name: by_ns}, sure_ns, is_new, alone_reason(name, by_ns), alone=True)

    def flush(self) -> Iterator[Message | Boundary]:
        """The source ends: choose clocks with what has come, and yield everything held."""
        yield from self._forgive()
        yield from self._release(self._latest_ns, final=True)

    def _accept(self, message: Message, off_ns: int) -> Iterator[Message | Boundary]:
        """Take a message of the current time base; its own stamp may be damaged."""
        if off_ns < -OUTLIER_NS:
            message.refusal = FUTURE
            yield message
            return
        self._latest_ns = max(self._latest_ns, message.receive_ns)
        topic = self._topics.get(message.topic)
        if topic is None:
            rule = self._rules.get(message.topic, Rule())
            topic = self._topics[message.topic] = _Topic(rule, since_ns=message.receive_ns)
        topic.heard_ns = message.receive_ns
        if self._settled and topic.finding is not None:
            self._tell(topic)
            self._steps.learn(message)
            topic.date(message, topic.finding)
            late_ns = message.receive_ns - message.time_ns + topic.rule.offset_ns
            is_due = self._watch.is_due(message.receive_ns)
            yield message
            broken = self._watch.add(message.topic, message.stamp_ns, message.receive_ns, late_ns)
            if broken is not None:
                yield from self._restart(broken)
            elif is_due:
                self._restate()
        else:
            topic.times.append(message)
            self._held.append(message)
            self._held_bytes += message.held_bytes
        yield from self._settle(message.receive_ns)

    def _settle(self, now_ns: int) -> Iterator[Message]:
        if self._first_ns is None or not self._held:
            return
        is_full = self._held_bytes > MOST_HELD_BYTES
        if self._settled or is_full or now_ns - self._first_ns >= WINDOW_NS:
            yield from self._release(now_ns, final=is_full)

    def _release(self, now_ns: int, *, final: bool) -> Iterator[Message]:
        first = not self._settled
        self._settled = True
        unknown = [(name, topic) for name, topic in self._topics.items() if topic.finding is None]
        due = [each for each in unknown if final or first or now_ns - each[1].since_ns >= self._late_ns]
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
                topic.date(message, topic.finding)
            yield message

    def _decide(self, due: Sequence[tuple[str, _Topic]]) -> None:
        """Choose a clock for each of the topics."""
        known = len(self._clocks)
        evidence = [Evidence(name, topic.rule, topic.times) for name, topic in due]
        findings = find_clocks(evidence, self._clocks)
        for (_, topic), finding in zip(due, findings, strict=True):
            usual = [t.receive_ns - t.stamp_ns - finding.offset_ns for t in topic.times]
            topic.usual_ns = int(np.median(usual))
            topic.jitter_ns = int(np.median(np.abs(np.array(usual) - topic.usual_ns)))
            topic.finding = finding
            topic.times = []
            self._join(topic, joined=finding.group is not None and finding.group < known)
            self._tell(topic)

    def _join(self, topic: _Topic, *, joined: bool) -> None:
        """Watch a topic's clock for steps and drift, unless the configuration says to trust it."""
        finding = topic.finding
        if finding is not None and finding.group is not None and topic.rule.choice == "auto":
            sure_ns = DRIFT_NS if finding.uncertainty_ns is None else finding.uncertainty_ns
            topic.correction = self._watch.join(finding.topic, finding.group, sure_ns, joined=joined)
            least_ns = plausible_latency_ns(topic.rule, finding)
            offset_ns = finding.offset_ns + self._watch.corrected_ns(finding.group)
            self._steps.join(finding.topic, finding.group, offset_ns, least_ns)

    def _tell(self, topic: _Topic) -> None:
        """Add a topic's finding to those of the sequence under way, once."""
        if topic.finding is not None and not topic.told:
            topic.told = True
            self.findings.append(topic.finding)

    def _group(self, name: str) -> int | None:
        """The clock that a topic is watched with."""
        topic = self._topics.get(name)
        is_watched = topic is not None and topic.correction is not None and topic.finding is not None
        return topic.finding.group if is_watched and topic and topic.finding else None

    def _restate(self) -> None:
        """Say in the findings how well the clocks are known, now that more has been seen of them."""
        for number, finding in enumerate(self.findings):
            topic, group = self._topics.get(finding.topic), finding.group
            if topic is None or topic.finding is None or topic.correction is None or not group:
                continue
            clock = self._clocks[group]
            ppm = self._watch.ppm(group)
            if topic.finding.offset_ns == finding.offset_ns:
                now = finding.judged(clock, self._watch.error_ns(group), ppm)
                self.findings[number] = topic.finding = now
            if ppm is not None:
                offset_ns = topic.finding.offset_ns + self._watch.corrected_ns(group)
                self._steps.join(finding.topic, group, offset_ns, plausible_latency_ns(topic.rule, finding))

    def _judge(self, message: MessageTimes) -> tuple[_Kind, int]:
        """What a message says about the clocks, and how far its stamp is off."""
        topic = self._topics.get(message.topic)
        off_ns = 0 if topic is None else topic.off_ns(message)
        since_ns = message.receive_ns - self._latest_ns
        if since_ns < -BACKWARDS_NS:
            return _Kind.BACKWARDS, 0
        if since_ns > PAUSE_NS:
            return _Kind.PAUSE, 0
        return (_Kind.OFF if abs(off_ns) > OUTLIER_NS else _Kind.USUAL), off_ns

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
        held, self._quarantine, self._quarantine_bytes = self._quarantine, [], 0
        # A slow topic's next message may confirm what the one before it shows.
        self._suspects = {name: s for name, s in self._suspects.items() if isinstance(name, str)}
        self._steps.calm()
        for message in held:
            kind, off_ns = self._judge(message)
            yield from self._accept(message, 0 if kind is _Kind.BACKWARDS else off_ns)

    def _end_before(self, kind: _Kind) -> Iterator[Message | Boundary]:
        """Take what was held for another reason before receipt broke off, as the time base ends there."""
        if kind not in {_Kind.BACKWARDS, _Kind.PAUSE}:
            return
        places = (n for n, message in enumerate(self._quarantine) if self._judge(message)[0] is kind)
        place = next(places, 0)
        after = self._quarantine[place:]
        self._quarantine = self._quarantine[:place]
        yield from self._forgive()
        self._quarantine = after
        self._quarantine_bytes = sum(message.held_bytes for message in after)

    def _restart(self, reason: str) -> Iterator[Message | Boundary]:
        held, self._quarantine, self._quarantine_bytes = self._quarantine, [], 0
        yield from self._release(self._latest_ns, final=True)
        self._reset()
        yield Boundary(reason)
        for message in held:
            yield from self.feed(message)

    def _go_on(self, step: Step) -> Iterator[Message | Boundary]:
        """A clock was stepped: change its offset, and keep everything else that is known of the clocks."""
        held, self._quarantine, self._suspects = self._quarantine, [], {}
        self._quarantine_bytes = 0
        self._steps.again()
        yield from self._release(self._latest_ns, final=True)
        later = []
        for message, is_new in zip(held, step.is_new, strict=True):
            topic = self._topics.get(message.topic)
            if is_new or topic is None or topic.finding is None:
                later.append(message)
                continue
            topic.heard_ns = message.receive_ns
            self._steps.learn(message)
            topic.date(message, topic.finding)
            yield message
        if step.alone:
            self._say(f"{step.reason}: from then on they are corrected by this")
        else:
            yield Boundary(step.reason)
            self._fold_corrections()
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
            self._topics[name].usual_ns += by_ns * late.is_all
        if not late.moved_ns:
            self._fold_corrections()
            for topic in self._topics.values():
                self._join(topic, joined=False)

    def _fold_corrections(self) -> None:
        """Begin to watch the drift anew, from where the clocks are."""
        by_ns = {group: self._watch.corrected_ns(group) for group in range(len(self._clocks))}
        self._clocks = [replace(c, offset_ns=c.offset_ns + by_ns[n]) for n, c in enumerate(self._clocks)]
        for topic in self._topics.values():
            finding = topic.finding
            if topic.correction is not None and finding is not None and finding.group is not None:
                topic.finding = replace(finding, offset_ns=finding.offset_ns + by_ns[finding.group])
        self._watch.reset()

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
                offset_ns=clock.offset_ns + topic.rule.offset_ns,
                group=numbers[finding.group],
                text=f"{finding.text.partition(STEPPED)[0]}{STEPPED}{seconds(clock.offset_ns)} is added now",
            ).judged(clock, 0, None)

    def _clock_after(self, group: int, by_ns: int, step: Step) -> int:
        """The number of a clock after its step: one of those known, if that is where it went."""
        old = self._clocks[group]
        by_ns += self._watch.corrected_ns(group)
        known_ns = old.uncertainty_ns
        sure_ns = None if known_ns is None else round(hypot(known_ns, step.uncertainty_ns))
        clock = Clock(old.offset_ns + by_ns, sure_ns)
        members = {
            name
            for name, topic in self._topics.items()
            if topic.correction is not None and topic.finding is not None and topic.finding.group == group
        }
        if not members - step.moved_ns.keys():
            self._clocks[group] = clock
            return group
        near_ns = step.uncertainty_ns + AGREE_NS
        for number, known in enumerate(self._clocks):
            if number != group and abs(known.offset_ns - clock.offset_ns) <= near_ns:
                return number
        self._clocks.append(clock)
        return len(self._clocks) - 1


def _reason(kind: _Kind, message: MessageTimes, latest_ns: int) -> str:
    """Why the time base broke, as a sentence for the user."""
    if kind is _Kind.PAUSE:
        return f"nothing received for {(message.receive_ns - latest_ns) / 1e9:,.0f} s"
    return "the receiver's clock was set back" if kind is _Kind.BACKWARDS else "the wall clock was stepped"
