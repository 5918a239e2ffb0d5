"""Reads MCAP: also cut, damaged, or without summary."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from edgefirst_ros.model.errors import RecordingError, extra
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.sources.location import ByteRange, Location, Url, stored_file
from edgefirst_ros.sources.order import (
    BEGINNING,
    MAX_OPEN_BYTES,
    FileSurvey,
    is_suspect,
    merged,
    survey,
    within,
)
from edgefirst_ros.sources.recording import InFull, Recording, TimeWindow, TopicInfo
from edgefirst_ros.sources.records import (
    MAGIC,
    FileSection,
    IndexedChunk,
    Loaded,
    MessageRecord,
    RecordingFault,
    RecordReader,
    add_fault,
    footer,
    metadata,
    unpacked,
)
from edgefirst_ros.sources.session import END, REPEATED, SESSION, RecordedSession, from_metadata

if TYPE_CHECKING:
    from edgefirst_ros.sources.ros1bag import Ros1Types

NO_SUMMARY = "the recording is cut off after its data: the summary is lost, but no message is"
MAX_SUMMARY_BYTES = 64 << 20
"""What of a remote file's summary is kept in memory."""
FEW_CHUNKS = 4
"""A topic that is in no more chunks than this is read in all of them where its latest state is wanted."""


class McapRecording(Recording):
    """One MCAP file, read in order of receipt: also cut, damaged, or without summary.

    That is the order of the file, also at steps of the wall clock, where readers that sort by log_time
    shuffle messages. Files that were written in another order are put back into it, see ``sources.order``.
    After ``messages``, ``faults`` lists what could not be read.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not such a file, or unreadable.
        ExtraNotInstalled: the library that reads URLs is missing.
    """

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._stored = stored_file(path)
        self._ros1: Ros1Types | None = None
        self._looked: tuple[Sequence[IndexedChunk] | None, RecordReader, FileSurvey] | None = None
        self.size = self._stored.size
        with self._opened([]) as file:
            start = self._begin(file)
        if 0 < start < self.size:
            self._stored.pin(start, min(self.size, start + MAX_SUMMARY_BYTES))

    @contextmanager
    def _opened(self, ranges: Sequence[ByteRange] | None = None) -> Iterator[BinaryIO]:
        """The file, open; see ``StoredFile.open``. Whatever reading it raises is a RecordingError."""
        with refusing(self.path, RecordingError), self._stored.open(ranges) as file:
            yield file

    def _begin(self, file: BinaryIO) -> int:
        """See whether the file is MCAP; returns the offset of its summary, 0 if it has none."""
        start = footer(file, self.size)
        file.seek(0)
        magic = MAGIC if start is not None and isinstance(self.path, Url) else file.read(len(MAGIC))
        if magic != MAGIC:
            found = "is empty" if not magic else f"begins with {magic!r}"
            raise RecordingError(f"{self.path}: {found}, not with the MCAP magic; is it an MCAP recording?")
        return start or 0

    @cached_property
    def summary(self) -> RecordReader:
        """What the summary says; empty without one."""
        reader = RecordReader()
        with self._opened([]) as file:
            reader.read_summary(file, self.size)
        return reader

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Log times (first, last) of every section in file order."""
        if self.summary.chunks:
            # A chunk without messages has 0 to 0.
            return [(chunk.first_ns, chunk.last_ns) for chunk in self.summary.chunks if chunk.last_ns]
        return self._walked[1]

    def topics(self) -> list[TopicInfo]:
        """Every topic that has a channel; reads the whole file if it has no summary."""
        # A writer may leave channels out of the summary; then only the data section has them.
        reader = self.summary if self.summary.channels else self._walked[0]
        return sorted(TopicInfo(*names) for names in reader.topics())

    @cached_property
    def _walked(self) -> tuple[RecordReader, list[tuple[int, int]]]:
        """The whole file, read once: its channels, and the first and last log time of every section."""
        reader, spans = self.summary.anew(), []
        with self._opened() as file:
            for section in reader.walk(file, self.size):
                messages = reader.load(file, section).messages
                if (last := max(messages, default=None)) is not None:
                    spans.append((min(messages).log_ns, last.log_ns))
        return reader, spans

    def keep(self) -> None:
        """Keep a local copy of what is read from now on, if it is remote."""
        self._stored.keep()

    def messages(
        self, arrival: int = 0, window: TimeWindow | None = None, in_full: InFull | None = None
    ) -> Iterator[RawMessage]:
        """All messages, numbered from ``arrival`` on; those of a damaged chunk have a ``fault``.

        With a window, only the chunks that may have messages of it are read, if the file has a summary.
        """
        return self._read(arrival, window, None if window is None else self._chunks_in(window), in_full)

    def _read(
        self,
        arrival: int,
        window: TimeWindow | None,
        chunks: Sequence[IndexedChunk] | None,
        in_full: InFull | None = None,
    ) -> Iterator[RawMessage]:
        """The messages of a window and of chunks; None is no limit."""
        # Channels are declared in the first chunk that uses them, which may be the damaged one.
        reader = self.summary.anew()
        with self._opened(None if chunks is None else [(c.offset, c.end) for c in chunks]) as file:
            self.faults = reader.faults
            self.position, self.next_arrival = 0, arrival
            has_session = self.session is not None
            tally = _Tally(window)
            for loaded, read in self._in_order(reader, file, chunks):
                plain, damage = loaded.plain, loaded.fault
                messages = read if window is None else tally.inside(read)
                for log_ns, number, publish_ns, start, end, sequence, bad_time in messages:
                    channel = reader.channels.get(number)
                    if channel is None:
                        text = f"message of unknown channel {number}"
                        add_fault(self.faults, RecordingFault(self.position, end - start, text))
                        continue
                    topic, schema, _ = channel
                    fault = damage or bad_time or reader.channel_faults.get(number, "")
                    is_repeated = has_session and sequence == REPEATED
                    if in_full is not None and end - start > BEGINNING and not in_full(topic, schema):
                        end = start + BEGINNING  # noqa: PLW2901 - of the data, as far as they are wanted
                    data, definition, wrong = self._as_cdr(reader, number, plain[start:end])
                    about = log_ns, publish_ns, arrival, definition, fault or wrong
                    yield RawMessage(topic, schema, data, *about, is_repeated, loaded.checksummed)
                    arrival += 1
                    self.next_arrival = arrival
                del loaded, messages, read, plain  # one section at a time is in memory
            if window is not None:
                self._count_outside(reader, tally, chunks)
            elif reader.ended and not reader.has_summary:
                self.note = NO_SUMMARY
        self.position = self.size

    def beginning(self, most_bytes: int) -> Iterator[RawMessage]:
        """The messages of the first chunks, as far as these fit; a remote file's are read by one request."""
        chunks = [chunk for chunk in self.summary.chunks if chunk.end <= self.size]
        fitting = [chunk for chunk in chunks if chunk.end - chunks[0].offset <= most_bytes]
        if fitting:
            self._stored.pin(fitting[0].offset, fitting[-1].end)
        return self._read(0, None, fitting)

    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """Messages of these topics with earlier log times, of the first and the last chunk that has some."""
        reader = self.summary.anew()
        chunks = self._latched_chunks(topics, before_ns) if self._is_indexed else None
        with self._opened(None if chunks is None else [(c.offset, c.end) for c in chunks]) as file:
            for section in self._sections(reader, file, chunks):
                loaded = reader.load(file, section)
                for message in loaded.messages:
                    channel = reader.channels.get(message.channel)
                    if channel is None or channel[0] not in topics or message.log_ns >= before_ns:
                        continue
                    fault = loaded.fault or message.fault or reader.channel_faults.get(message.channel, "")
                    data = loaded.plain[message.start : message.end]
                    data, definition, wrong = self._as_cdr(reader, message.channel, data)
                    about = message.log_ns, message.publish_ns, 0, definition, fault or wrong
                    yield RawMessage(channel[0], channel[1], data, *about)

    def _as_cdr(self, reader: RecordReader, number: int, data: bytes) -> tuple[bytes, str, str]:
        """A message's data in CDR, their definition, and why there are none."""
        _, schema, definition = reader.channels[number]
        data, fault = unpacked(data)
        if fault or number not in reader.encodings:
            return data, definition, fault
        with extra("ros1"):
            from edgefirst_ros.sources.ros1bag import Ros1Types  # noqa: PLC0415 - few have such messages

        self._ros1 = self._ros1 or Ros1Types()
        return self._ros1.as_cdr(schema, definition, data)

    def _latched_chunks(self, topics: Collection[str], before_ns: int) -> list[IndexedChunk]:
        """Where such messages are: where they come again and again, the first and the last chunk."""
        early = [chunk for chunk in self.summary.chunks if chunk.last_ns and chunk.first_ns < before_ns]
        wanted = {channel for channel, (topic, *_) in self.summary.channels.items() if topic in topics}
        unknown = [chunk for chunk in early if not chunk.offsets]
        having: dict[int, list[IndexedChunk]] = {channel: [] for channel in wanted}
        for chunk in early:
            for channel in chunk.channels & wanted:
                having[channel].append(chunk)
        chosen: set[IndexedChunk] = set()
        for own in having.values():
            if len(own) + len(unknown) <= FEW_CHUNKS:
                chosen.update(own, unknown)
            else:
                ends = (*own[:1], *own[-1:], *unknown[:1], *unknown[-1:])
                chosen.update((min(ends), max(ends)))
        return sorted(chosen)

    def _chunks_in(self, window: TimeWindow) -> list[IndexedChunk] | None:
        """The chunks with times in the window, None if the file does not say."""
        if not self._is_indexed:
            return None
        return [c for c in self.summary.chunks if c.last_ns and window.overlaps(c.first_ns, c.last_ns)]

    @property
    def _is_indexed(self) -> bool:
        """Whether the summary lists the chunks, and all of them as far as it says."""
        listed, counted = len(self.summary.chunks), self.summary.chunk_count
        return listed > 0 and counted in {None, listed}

    def _count_outside(
        self, reader: RecordReader, tally: _Tally, chunks: Sequence[IndexedChunk] | None
    ) -> None:
        """What the window leaves out: by the summary's counts, else what was read of it."""
        counts = reader.counts
        outside = tally.outside
        if counts is not None:
            outside = Counter({channel: n - tally.within[channel] for channel, n in counts.items()})
        topics = {channel: TopicInfo(*about[:2]) for channel, about in reader.channels.items()}
        self.outside = Counter()
        for channel, count in outside.items():
            if channel in topics and count > 0:
                self.outside[topics[channel]] += count
        if chunks is not None:
            read = sum(chunk.length for chunk in chunks)
            self.unread_bytes = sum(chunk.length for chunk in self.summary.chunks) - read

    def _sections(
        self, reader: RecordReader, file: BinaryIO, chunks: Sequence[IndexedChunk] | None
    ) -> Iterator[FileSection]:
        return reader.walk(file, self.size) if chunks is None else reader.indexed(file, self.size, chunks)

    def _in_order(
        self, reader: RecordReader, file: BinaryIO, chunks: Sequence[IndexedChunk] | None
    ) -> Iterator[tuple[Loaded, Iterable[MessageRecord]]]:
        if self.session is not None:
            # Live recordings are in order of receipt, whatever their times are.
            for section in self._sections(reader, file, chunks):
                loaded = reader.load(file, section)
                self.position = section.end
                yield loaded, loaded.messages
                del loaded
            return
        as_received: bool | None = None
        if is_suspect(self.spans if chunks is None else [(c.first_ns, c.last_ns) for c in chunks]):
            looking, found = self._look(file, chunks)
            as_received = found.as_received
            topics = {**reader.channels, **looking.channels}
            self.displaced = {topics[c][0]: d for c, d in sorted(found.displaced.items()) if c in topics}
            self.is_sorted = found.open_bytes <= MAX_OPEN_BYTES
            if self.displaced and self.is_sorted:
                # The survey has found the same faults as reading will.
                self.faults = list(dict.fromkeys([*self.faults, *looking.faults]))
                reader.faults = []
                reader.channels, reader.ended = topics, looking.ended
                for loaded, message in merged(reader, file, found, self._reading):
                    yield loaded, (message,)
                return
        for section in self._sections(reader, file, chunks):
            loaded = reader.load(file, section)
            messages = within(loaded) if self.is_sorted and not as_received else loaded.messages
            if messages is not loaded.messages and as_received is None:
                # Only with the messages around them one can tell whether the clock was set back here.
                with self._opened() as again:
                    as_received = self._look(again, chunks)[1].as_received
                messages = loaded.messages if as_received else messages
            self.position = section.end
            yield loaded, messages
            del loaded, messages

    def _look(self, file: BinaryIO, chunks: Sequence[IndexedChunk] | None) -> tuple[RecordReader, FileSurvey]:
        """What is in disorder, and what read that; it is found out once, however often these are read."""
        if self._looked is None or self._looked[0] != chunks:
            looking = self.summary.anew()
            self._looked = chunks, looking, survey(looking, file, self._sections(looking, file, chunks))
        return self._looked[1:]

    def _reading(self, section: FileSection) -> None:
        self.position += section.bytes

    @cached_property
    def session(self) -> RecordedSession | None:
        """The live session that this is a recording of, None if another program recorded it."""
        return from_metadata(self._metadata(SESSION))

    @cached_property
    def goes_on(self) -> bool:
        """Whether another session continues the one recorded here."""
        return self._metadata(END).get("goes_on") == "true"

    def _metadata(self, name: str) -> dict[str, str]:
        with self._opened([]) as file:
            try:
                return metadata(file, self.size, name) or {}
            except (struct.error, ValueError):
                return {}  # damaged; found again when the messages are read


class _Tally:
    """Counts messages by channel, inside and outside of a window."""

    def __init__(self, window: TimeWindow | None) -> None:
        self._window = window
        self.within: Counter[int] = Counter()
        self.outside: Counter[int] = Counter()

    def inside(self, messages: Iterable[MessageRecord]) -> Iterator[MessageRecord]:
        """Those of the window."""
        for message in messages:
            if self._window is None or self._window.has(message.log_ns):
                self.within[message.channel] += 1
                yield message
            else:
                self.outside[message.channel] += 1
