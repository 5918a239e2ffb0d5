"""Reads the messages of a file in order of receipt, if the file has them in another order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, TypeVar

from edgefirst_ros.sources.disorder import BEGINNING, DISORDER_NS, STEP_NS, Disorder, Displaced, Setbacks
from edgefirst_ros.sources.records import FileSection, Loaded, MessageRecord, RecordReader

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
