"""Reads the messages of a file in order of receipt, if the file has them in another order.

A recorder writes messages as they arrive, so the order of its file is the order of receipt, even across a
step of its wall clock, where log_time runs backwards. Other programs write one topic after the other, or
append one recording to another. ``Disorder`` tells these apart by topic: within one topic log_time runs
backwards only if the clock was set back, while messages that lie behind later ones of other topics only were
written late. ``Setbacks`` finds clocks set back by less than a second, but only in files that are otherwise
in order, because writing threads may also swap messages of one topic.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, NamedTuple, TypeVar

from edgefirst_ros.sources.records import FileSection, Loaded, MessageRecord, RecordReader

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


MAX_OPEN_BYTES = 192 << 20
"""Limit of the memory that decompressed data take while a file is put in order."""
RECORD_BYTES = 600
"""Memory that a message takes there in addition to its data."""


_Key = TypeVar("_Key")
_Spans = dict[_Key, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A section with messages: their first and last key (time base, log time), and the memory that it takes.

    ``before`` holds, by channel, the time base at the beginning of the section and the latest log time in it;
    only if the clock was set back.
    """

    section: FileSection
    first: tuple[int, int]
    last: tuple[int, int]
    bytes: int
    before: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FileSurvey:
    """The result of reading a file once: its pieces in file order, and what is in disorder."""

    pieces: Sequence[Piece]
    displaced: Mapping[int, Displaced]
    bases: Mapping[tuple[int, int], int]
    """See ``Disorder.time_bases``."""
    as_received: bool = False
    """Whether the file is in order of receipt, with a clock that was set back by less than a second."""

    @property
    def open_bytes(self) -> int:
        """Largest amount of decompressed data that putting the file in order has to hold."""
        edges = sorted(edge for p in self.pieces for edge in ((p.first, 0, p.bytes), (p.last, 1, -p.bytes)))
        most = held = 0
        for _, _, change in edges:
            held += change
            most = max(most, held)
        return most


def is_suspect(spans: Iterable[tuple[int, int]]) -> bool:
    """Whether a file whose chunks have these log times, in file order, may be in disorder."""
    latest_ns: int | None = None
    for first_ns, last_ns in spans:
        if latest_ns is not None and first_ns < latest_ns - DISORDER_NS:
            return True
        latest_ns = last_ns if latest_ns is None else max(latest_ns, last_ns)
    return False


def survey(reader: RecordReader, file: BinaryIO, sections: Iterable[FileSection]) -> FileSurvey:
    """Read sections of a file to find their disorder."""
    disorder, setbacks = Disorder(), Setbacks()
    found: list[tuple[FileSection, _Spans[int], int, _Spans[tuple[int, int]]]] = []
    for section in sections:
        loaded = reader.load(file, section)
        before: dict[int, tuple[int, int] | None] = {}
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        count = 0
        for message in loaded.messages:
            count += 1
            channel = message.channel
            if channel not in before:
                own = disorder.bases.get(channel)
                before[channel] = None if own is None else (len(own) - 1, own[-1][1])
            key = channel, disorder.add(channel, message.log_ns)
            beginning = loaded.plain[message.start : min(message.end, message.start + BEGINNING)]
            setbacks.add(message.channel, message.log_ns, beginning)
            first_ns, last_ns = spans.get(key, (message.log_ns, message.log_ns))
            spans[key] = min(first_ns, message.log_ns), max(last_ns, message.log_ns)
        if not spans:
            continue
        stepped = any(base for _, base in spans)
        known = {channel: latest for channel, latest in before.items() if latest is not None}
        memory = len(loaded.plain) + RECORD_BYTES * count
        found.append((section, known if stepped else {}, memory, spans))
    bases = disorder.time_bases()
    pieces = [
        Piece(
            section,
            min((bases.get(key, 0), first_ns) for key, (first_ns, _) in spans.items()),
            max((bases.get(key, 0), last_ns) for key, (_, last_ns) in spans.items()),
            memory,
            before,
        )
        for section, before, memory, spans in found
    ]
    if setbacks.explain:
        return FileSurvey(pieces, {}, {}, as_received=True)
    return FileSurvey(pieces, disorder.displaced(), bases)


def merged(
    reader: RecordReader, file: BinaryIO, found: FileSurvey, reading: Callable[[FileSection], None]
) -> Iterator[tuple[Loaded, MessageRecord]]:
    """All messages by time base and log time.

    A section is read, and passed to ``reading``, when its first message is due.
    """
    waiting = sorted(found.pieces, key=lambda piece: (piece.first, piece.section.offset), reverse=True)
    due: list[tuple[tuple[int, int], int, int, int, MessageRecord]] = []
    opened: dict[int, tuple[Loaded, Iterator[tuple[tuple[int, int], int, MessageRecord]]]] = {}

    def advance(offset: int) -> None:
        following = next(opened[offset][1], None)
        if following is None:
            del opened[offset]
        else:
            key, number, message = following
            heapq.heappush(due, (key, message.channel, offset, number, message))

    while due or waiting:
        while waiting and (not due or waiting[-1].first <= due[0][0]):
            piece = waiting.pop()
            reading(piece.section)
            loaded = reader.load(file, piece.section)
            opened[piece.section.offset] = loaded, iter(_keyed(loaded.messages, piece.before, found.bases))
            advance(piece.section.offset)
        if due:
            _, _, offset, _, message = heapq.heappop(due)
            yield opened[offset][0], message
            advance(offset)


def within(loaded: Loaded) -> Iterable[MessageRecord]:
    """The messages of one section in order of receipt; very many stay as they lie."""
    messages = loaded.messages
    if not isinstance(messages, list) or all(a.log_ns <= b.log_ns for a, b in pairwise(messages)):
        return messages
    disorder = Disorder()
    for message in messages:
        disorder.add(message.channel, message.log_ns)
    if not disorder.displaced():
        return messages
    return [message for _, _, message in _keyed(messages, {}, disorder.time_bases())]


def _keyed(
    messages: Iterable[MessageRecord],
    before: Mapping[int, tuple[int, int]],
    bases: Mapping[tuple[int, int], int],
) -> list[tuple[tuple[int, int], int, MessageRecord]]:
    """The messages sorted by (time base, log time), channel and position."""
    if not bases:
        keyed = [((0, message.log_ns), number, message) for number, message in enumerate(messages)]
    else:
        own = dict(before)
        keyed = []
        for number, message in enumerate(messages):
            base, latest_ns = own.get(message.channel, (0, message.log_ns))
            if message.log_ns < latest_ns - STEP_NS:
                base, latest_ns = base + 1, message.log_ns
            own[message.channel] = base, max(latest_ns, message.log_ns)
            keyed.append(((bases.get((message.channel, base), base), message.log_ns), number, message))
    return sorted(keyed, key=lambda k: (k[0], k[2].channel, k[1]))
