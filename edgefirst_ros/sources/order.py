"""In which order a file's messages were received, where they lie in it in another.

A recorder writes what it receives as it comes, so its file's order is the order of receipt, even across a
step of its wall clock, where log_time runs backwards. Other programs write one topic after the other, or
append one recording to another. The two are told apart topic by topic: within one topic log_time runs
backwards only if the clock was set back; what lies behind later messages of other topics alone was merely
written later. A clock set back by less than a second is seen only where all else lies in order, as
``sources.setback`` has it: threads that write may have a topic's messages change places, too.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from edgefirst_ros.sources.records import Entry, Extent, Loaded, RecordReader
from edgefirst_ros.sources.setback import BEGINNING, DISORDER_NS, STEP_NS, Setbacks

MAX_PENDING = 1000
AT_STEP_NS = 1_000_000_000
"""Topics show a step of the clock within so long of each other."""
MAX_OPEN_BYTES = 512 << 20
"""So much of a file is held decompressed at most while it is put in order."""


class Displaced(NamedTuple):
    """Messages of a topic that lie in the file behind later ones: how many, and how far at most."""

    messages: int
    worst_ns: int


class Disorder:
    """Looks at channels and log times in file order."""

    def __init__(self) -> None:
        self.bases: dict[int, list[tuple[int, int]]] = {}
        """By channel, the spans of log time between its steps back: one if there is none."""
        self.messages: Counter[int] = Counter()
        self._before_step: dict[int, int] | None = None
        self._behind: dict[int, Displaced] = {}
        """What is displaced if log_time running backwards is no step."""
        self._latest_ns: int | None = None
        self._behind_in_base: dict[int, Displaced] = {}
        self._latest_in_base_ns = 0
        self._steps = 0
        self._pending: list[tuple[int, int, int]] = []

    def feed(self, channel: int, log_ns: int) -> int:
        """Take the next message; in which of its channel's time bases it lies, counted from 0."""
        spans = self.bases.setdefault(channel, [(log_ns, log_ns)])
        back = log_ns < spans[-1][1] - STEP_NS
        if back:
            spans.append((log_ns, log_ns))
            self._before_step = self._before_step or dict(self.messages)
        else:
            spans[-1] = (spans[-1][0], max(spans[-1][1], log_ns))
        self.messages[channel] += 1
        if self._latest_ns is None:
            self._latest_ns = self._latest_in_base_ns = log_ns
        _count(self._behind, channel, self._latest_ns - log_ns)
        self._latest_ns = max(self._latest_ns, log_ns)
        self._feed_base(channel, log_ns, back=back)
        return len(spans) - 1

    def displaced(self) -> dict[int, Displaced]:
        """By channel, what lies behind later messages that no step of the clock explains."""
        # Each topic that lies for itself shows a step for itself: there seem to be more than any of them has.
        if not self._is_step() or self._steps >= max(map(len, self.bases.values())):
            return self._behind
        self._commit()
        return self._behind_in_base

    def time_bases(self) -> dict[tuple[int, int], int]:
        """Which of the file's time bases each of a channel's is; empty if the clock was never set back.

        There are as many as the channels with most of the messages have. A channel that has all of them says
        when they were; of the others each goes where most of it lies.
        """
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

    def _is_step(self) -> bool:
        """Whether log_time ran backwards in most of what was there before, as a step of the clock has it."""
        before = self._before_step or {}
        shown = sum(count for channel, count in before.items() if len(self.bases[channel]) > 1)
        return 2 * shown >= sum(before.values()) > 0

    def _feed_base(self, channel: int, log_ns: int, *, back: bool) -> None:
        behind_ns = self._latest_in_base_ns - log_ns
        if behind_ns <= DISORDER_NS:
            self._commit()
        elif back:
            # What came just before from topics that cannot show the step is of the new time base, too.
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
    """The time base, from ``least`` on, that the span shares most with."""
    shared = [min(span[1], edge[1]) - max(span[0], edge[0]) for edge in edges]
    return max(range(least, len(edges)), key=lambda k: (shared[k], -k))


@dataclass(frozen=True, slots=True)
class Piece:
    """An extent that has messages: the least and greatest key among them, and its size decompressed.

    ``before`` is each channel's time base where the piece begins, and its latest log time in it; only where
    the clock was set back.
    """

    extent: Extent
    first: tuple[int, int]
    last: tuple[int, int]
    bytes: int
    before: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Survey:
    """A file that was looked through once: its pieces in file order, and what is out of order."""

    pieces: Sequence[Piece]
    displaced: Mapping[int, Displaced]
    bases: Mapping[tuple[int, int], int]
    """The file's time base by a channel's own; empty while the clock was never set back."""
    as_received: bool = False
    """Whether the file lies in the order of receipt, its clock having been set back a little."""

    @property
    def open_bytes(self) -> int:
        """The most that putting it in order has to hold decompressed at a time."""
        edges = sorted(edge for p in self.pieces for edge in ((p.first, 0, p.bytes), (p.last, 1, -p.bytes)))
        most = held = 0
        for _, _, change in edges:
            held += change
            most = max(most, held)
        return most


def is_suspect(spans: Iterable[tuple[int, int]]) -> bool:
    """Whether a file whose chunks have these log times, in file order, may be out of order."""
    latest_ns: int | None = None
    for first_ns, last_ns in spans:
        if latest_ns is not None and first_ns < latest_ns - DISORDER_NS:
            return True
        latest_ns = last_ns if latest_ns is None else max(latest_ns, last_ns)
    return False


def survey(reader: RecordReader, file: BinaryIO, size: int) -> Survey:
    """Look a file through, one extent at a time."""
    disorder, setbacks = Disorder(), Setbacks()
    found: list[tuple[Extent, dict[int, tuple[int, int]], int, dict[tuple[int, int], tuple[int, int]]]] = []
    for extent in reader.walk(file, size):
        loaded = reader.load(file, extent)
        if not loaded.entries:
            continue
        before = {c: (len(spans) - 1, spans[-1][1]) for c, spans in disorder.bases.items()}
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        for entry in loaded.entries:
            key = entry.channel, disorder.feed(entry.channel, entry.log_ns)
            beginning = loaded.plain[entry.start : min(entry.end, entry.start + BEGINNING)]
            setbacks.feed(entry.channel, entry.log_ns, beginning)
            first_ns, last_ns = spans.get(key, (entry.log_ns, entry.log_ns))
            spans[key] = min(first_ns, entry.log_ns), max(last_ns, entry.log_ns)
        stepped = any(base for base, _ in before.values()) or any(base for _, base in spans)
        found.append((extent, before if stepped else {}, len(loaded.plain), spans))
    bases = disorder.time_bases()
    pieces = [
        Piece(
            extent,
            min((bases.get(key, 0), first_ns) for key, (first_ns, _) in spans.items()),
            max((bases.get(key, 0), last_ns) for key, (_, last_ns) in spans.items()),
            plain_bytes,
            before,
        )
        for extent, before, plain_bytes, spans in found
    ]
    if setbacks.explain:
        return Survey(pieces, {}, {}, as_received=True)
    return Survey(pieces, disorder.displaced(), bases)


def merged(
    reader: RecordReader, file: BinaryIO, found: Survey, reading: Callable[[Extent], None]
) -> Iterator[tuple[Loaded, Entry]]:
    """All messages by time base and log time; an extent is read, and told, when its first message is due."""
    waiting = sorted(found.pieces, key=lambda piece: (piece.first, piece.extent.offset), reverse=True)
    due: list[tuple[tuple[int, int], int, int, int, Entry]] = []
    opened: dict[int, tuple[Loaded, Iterator[tuple[tuple[int, int], int, Entry]]]] = {}

    def advance(offset: int) -> None:
        following = next(opened[offset][1], None)
        if following is None:
            del opened[offset]
        else:
            key, number, entry = following
            heapq.heappush(due, (key, entry.channel, offset, number, entry))

    while due or waiting:
        while waiting and (not due or waiting[-1].first <= due[0][0]):
            piece = waiting.pop()
            reading(piece.extent)
            loaded = reader.load(file, piece.extent)
            opened[piece.extent.offset] = loaded, iter(_keyed(loaded.entries, piece.before, found.bases))
            advance(piece.extent.offset)
        if due:
            _, _, offset, _, entry = heapq.heappop(due)
            yield opened[offset][0], entry
            advance(offset)


def within(loaded: Loaded) -> list[Entry]:
    """The messages of one extent in the order of their receipt."""
    entries = loaded.entries
    if all(a.log_ns <= b.log_ns for a, b in pairwise(entries)):
        return entries
    disorder = Disorder()
    for entry in entries:
        disorder.feed(entry.channel, entry.log_ns)
    if not disorder.displaced():
        return entries
    return [entry for _, _, entry in _keyed(entries, {}, disorder.time_bases())]


def _keyed(
    entries: Sequence[Entry],
    before: Mapping[int, tuple[int, int]],
    bases: Mapping[tuple[int, int], int],
) -> list[tuple[tuple[int, int], int, Entry]]:
    """The entries by (time base, log time), channel and place."""
    if not bases:
        keyed = [((0, entry.log_ns), number, entry) for number, entry in enumerate(entries)]
    else:
        own = dict(before)
        keyed = []
        for number, entry in enumerate(entries):
            base, latest_ns = own.get(entry.channel, (0, entry.log_ns))
            if entry.log_ns < latest_ns - STEP_NS:
                base, latest_ns = base + 1, entry.log_ns
            own[entry.channel] = base, max(latest_ns, entry.log_ns)
            keyed.append(((bases.get((entry.channel, base), base), entry.log_ns), number, entry))
    return sorted(keyed, key=lambda k: (k[0], k[2].channel, k[1]))
