"""Whether the order of a file is the order of receipt.

A recorder writes messages as they arrive, so the order of its file is the order of receipt, even across a
step of its wall clock, where log_time runs backwards. Other programs write one topic after the other, or
append one recording to another. ``Disorder`` tells these apart by topic: within one topic log_time runs
backwards only if the clock was set back, while messages that lie behind later ones of other topics only were
written late. ``Setbacks`` finds clocks set back by less than a second, but only in files that are otherwise
in order, because writing threads may also swap messages of one topic.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

DISORDER_NS = 100_000_000
"""Recorders with several threads write messages late by less than this."""
STEP_NS = 1_000_000_000
"""Largest setback for ``Setbacks``; a larger one shows within every topic."""
AGAIN_NS = 2_000_000_000
"""Shortest time between two setbacks; what runs backwards more often is in disorder."""
BEGINNING = 64
"""Bytes of a message that identify it: they hold its stamp."""
MIN_BACKWARD_TOPICS = 2
"""Smallest number of topics that must run backwards within themselves."""
RETURNS = 0.3
"""Of the steps back of all topics; after a true one a topic leaps forth only if it paused meanwhile."""
SMALL_NS = 2_000_000_000
"""Steps back by less, among at least as many still smaller ones, are disorder as those are."""
MAX_PENDING = 1000
MAX_RECENT = 200_000
"""Messages of about a second; no recorder takes more."""
AT_STEP_NS = 1_000_000_000
"""Topics show the same step of the clock within this time."""

_Content = tuple[int, bytes]
"""Channel and first bytes of a message."""


class Setbacks:
    """Finds setbacks of the recorder's clock by less than a second, from messages in file order.

    At such a setback all topics run backwards at one place of the file, are in order before and after it, and
    the same log times occur a second time. A topic or chunk that was only written late runs backwards alone,
    or into log times that did not occur before. In an appended recording of the same messages their contents
    occur a second time as well.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        """Log time of the newest message by channel."""
        self._latest_ns: int | None = None
        """Latest log time of the current time base."""
        self._before_ns: int | None = None
        """Latest log time of the previous time base."""
        self._joined: set[int] = set()
        """Channels that have reached the current time base."""
        self._recent: deque[tuple[int, _Content]] = deque()
        """Recent log times and messages."""
        self._before_step_messages: set[_Content] = set()
        """Messages before the step, at log times that occur a second time after it."""
        self._overlap = self._repeated = 0
        self._stepped_ns = 0
        self._fell = 0
        self._count = 0
        self._broken = False

    @property
    def explain(self) -> bool:
        """Whether log_time runs backwards at such setbacks only."""
        return not self._broken and self._count > 0 and self._is_sure

    @property
    def _is_sure(self) -> bool:
        """Whether the last one certainly was a setback."""
        return self._fell >= MIN_BACKWARD_TOPICS and 2 * self._repeated <= self._overlap

    def add(self, channel: int, log_ns: int, data: bytes) -> None:
        """Add the next message, with at least the first ``BEGINNING`` bytes of its data."""
        if self._broken:
            return
        last_ns, self._last[channel] = self._last.get(channel), log_ns
        if self._latest_ns is None:
            self._latest_ns = log_ns
        fell = last_ns is not None and log_ns < last_ns
        if self._before_ns is not None and channel not in self._joined:
            if not fell and self._latest_ns + DISORDER_NS < log_ns <= self._before_ns + DISORDER_NS:
                return  # from before the step, but written after the first message from after it
            self._joined.add(channel)
            self._fell += fell
        if self._latest_ns - log_ns > DISORDER_NS:
            self._step(channel, log_ns, fell=fell)
        self._latest_ns = max(self._latest_ns, log_ns)
        content = channel, data
        if self._before_ns is not None and log_ns <= self._before_ns:
            self._overlap += 1
            self._repeated += content in self._before_step_messages
        self._recent.append((log_ns, content))
        if len(self._recent) > MAX_RECENT:
            self._broken = True
            self._recent.clear()
            return
        while self._recent[0][0] < self._latest_ns - STEP_NS - DISORDER_NS:
            self._recent.popleft()

    def _step(self, channel: int, log_ns: int, *, fell: bool) -> None:
        """The clock was set back here, or messages are in disorder."""
        before_ns = log_ns if self._latest_ns is None else self._latest_ns
        by_ns = before_ns - log_ns
        again = self._count > 0 and (not self._is_sure or before_ns - self._stepped_ns < AGAIN_NS)
        has_been = any(log_ns < ns < log_ns + by_ns // 4 for ns, _ in self._recent)
        if by_ns > STEP_NS + DISORDER_NS or again or not has_been:
            self._broken = True
            return
        self._count += 1
        self._before_ns, self._latest_ns, self._stepped_ns = before_ns, log_ns, log_ns
        self._joined, self._fell = {channel}, int(fell)
        self._before_step_messages = {content for ns, content in self._recent if ns >= log_ns - DISORDER_NS}
        self._overlap = self._repeated = 0
        self._recent.clear()


class Displaced(NamedTuple):
    """Messages of a topic that lie behind later ones in the file: their number, and the largest delay."""

    messages: int
    worst_ns: int


class Disorder:
    """Finds messages in disorder, and steps of the clock, from channels and log times in file order."""

    def __init__(self) -> None:
        self.bases: dict[int, list[tuple[int, int]]] = {}
        """By channel, the spans of log time between its steps back; one if it has no step."""
        self.messages: Counter[int] = Counter()
        self._before_step: dict[int, int] | None = None
        self._behind: dict[int, Displaced] = {}
        """What is displaced if log_time runs backwards for another reason than a step."""
        self._latest_ns: int | None = None
        self._behind_in_base: dict[int, Displaced] = {}
        self._latest_in_base_ns = 0
        self._steps = self._backs = self._returns = self._small = self._worst_ns = 0
        self._pending: list[tuple[int, int, int]] = []

    def add(self, channel: int, log_ns: int) -> int:
        """Add the next message; returns the number of its channel's time base, from 0."""
        spans = self.bases.setdefault(channel, [(log_ns, log_ns)])
        back = log_ns < spans[-1][1] - STEP_NS
        if back:
            spans.append((log_ns, log_ns))
            self._before_step = self._before_step or dict(self.messages)
            self._backs += 1
            self._worst_ns = max(self._worst_ns, spans[-2][1] - log_ns)
        else:
            self._small += log_ns < spans[-1][1] - DISORDER_NS
            self._returns += len(spans) > 1 and spans[-1][1] + STEP_NS < log_ns <= spans[-2][1] + STEP_NS
            spans[-1] = (spans[-1][0], max(spans[-1][1], log_ns))
        self.messages[channel] += 1
        if self._latest_ns is None:
            self._latest_ns = self._latest_in_base_ns = log_ns
        _count(self._behind, channel, self._latest_ns - log_ns)
        self._latest_ns = max(self._latest_ns, log_ns)
        self._add_to_base(channel, log_ns, back=back)
        return len(spans) - 1

    def displaced(self) -> dict[int, Displaced]:
        """By channel, the messages behind later ones that no step of the clock explains."""
        # Topics that were written one after the other each show a step: more steps than any single topic has.
        if self._returns_at_once or not self._is_step() or self._steps >= max(map(len, self.bases.values())):
            return self._behind
        self._commit()
        return self._behind_in_base

    def time_bases(self) -> dict[tuple[int, int], int]:
        """Maps (channel, the channel's time base) to the file's time bases; empty without steps of the clock.

        The file has as many time bases as the channels with most of the messages. Channels that show all of
        them tell when they were; a time base of another channel is mapped to the one that it overlaps most.
        """
        if self._returns_at_once:
            return {}
        count, passed = 1, 0
        for channel in sorted(self.bases, key=lambda c: len(self.bases[c])):
            passed += self.messages[channel]
            if 2 * passed >= self.messages.total():
                count = len(self.bases[channel])
                break
        if count == 1:
            return {}
        whole = [spans for spans in self.bases.values() if len(spans) == count]
        edges = [(min(own[k][0] for own in whole), max(own[k][1] for own in whole)) for k in range(count)]
        found: dict[tuple[int, int], int] = {}
        for channel, spans in self.bases.items():
            base = 0
            for number, span in enumerate(spans):
                base = number if len(spans) == count else _nearest(span, edges, base)
                found[channel, number] = base
        return found

    @property
    def _returns_at_once(self) -> bool:
        """Whether topics run back and leap forth: a clock that was set back has to run through that time."""
        is_small = self._worst_ns < SMALL_NS and self._backs <= self._small
        return self._backs > 0 and (is_small or RETURNS * self._backs <= self._returns)

    def _is_step(self) -> bool:
        """Whether log_time ran backwards in most of the earlier channels, as at a step of the clock."""
        before = self._before_step or {}
        shown = sum(count for channel, count in before.items() if len(self.bases[channel]) > 1)
        return 2 * shown >= sum(before.values()) > 0

    def _add_to_base(self, channel: int, log_ns: int, *, back: bool) -> None:
        behind_ns = self._latest_in_base_ns - log_ns
        if behind_ns <= DISORDER_NS:
            self._commit()
        elif back:
            # Topics that do not show the step themselves may have messages of the new time base just before
            # it.
            times = [time_ns for _, time_ns, _ in self._pending]
            if times and max(times) - min(times) > AT_STEP_NS:
                self._commit()
            self._pending.clear()
            self._steps += 1
            self._latest_in_base_ns = log_ns
        else:
            self._pending.append((channel, log_ns, behind_ns))
            if len(self._pending) > MAX_PENDING:
                self._commit()
        self._latest_in_base_ns = max(self._latest_in_base_ns, log_ns)

    def _commit(self) -> None:
        for channel, _, behind_ns in self._pending:
            _count(self._behind_in_base, channel, behind_ns)
        self._pending.clear()


def _count(found: dict[int, Displaced], channel: int, behind_ns: int) -> None:
    if behind_ns > DISORDER_NS:
        messages, worst_ns = found.get(channel, (0, 0))
        found[channel] = Displaced(messages + 1, max(worst_ns, behind_ns))


def _nearest(span: tuple[int, int], edges: Sequence[tuple[int, int]], least: int) -> int:
    """The time base, from ``least`` on, that the span overlaps most."""
    shared = [min(span[1], edge[1]) - max(span[0], edge[0]) for edge in edges]
    return max(range(least, len(edges)), key=lambda k: (shared[k], -k))
