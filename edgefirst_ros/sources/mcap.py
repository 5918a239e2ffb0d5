"""Reads MCAP recordings, also without footer, cut in the middle of a chunk, or with damaged chunks."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mcap.exceptions import EndOfFile

from edgefirst_ros.errors import RecordingError, RecordingNotFound
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable
from edgefirst_ros.sources.disorder import Displaced
from edgefirst_ros.sources.order import MAX_OPEN_BYTES, is_suspect, merged, survey, within
from edgefirst_ros.sources.records import (
    MAGIC,
    FileSection,
    Loaded,
    MessageRecord,
    RecordingFault,
    RecordReader,
    add_fault,
    footer,
    metadata,
)
from edgefirst_ros.sources.session import END, REPEATED, SESSION, RecordedSession, from_metadata

_NAME = re.compile(r"(?P<host>.+)_(?P<when>\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d)")
NO_SUMMARY = "the recording is cut off after its data: the summary is lost, but no message is"


class TopicInfo(NamedTuple):
    """A topic of a recording: name and ``pkg/msg/Type``."""

    topic: str
    schema: str


class McapRecording:
    """One MCAP file, read in order of receipt.

    That is the order of the file, also at steps of the wall clock, where readers that sort by log_time
    shuffle messages. Files that were written in another order are put back into it, see ``sources.disorder``.
    After ``messages``, ``faults`` lists what could not be read.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not an MCAP file, or unreadable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[RecordingFault] = []
        self.note = ""
        """A defect of the file that costs no message; known after ``messages``."""
        self.position = 0
        """Bytes read so far, for progress."""
        self.next_arrival = 0
        """Number of the message that follows the last one read."""
        self.displaced: Mapping[str, Displaced] = {}
        """By topic, messages that lie behind later ones; known after the first of ``messages``."""
        self.is_sorted = True
        """Whether displaced messages were put in order; False if that takes too much memory."""
        if not path.is_file():
            raise RecordingNotFound(f"{path}: no such recording")
        try:
            self.size = path.stat().st_size
            with path.open("rb") as file:
                magic = file.read(len(MAGIC))
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
        if magic != MAGIC:
            found = "is empty" if not magic else f"begins with {magic!r}"
            raise RecordingError(f"{path}: {found}, not with the MCAP magic; is it an MCAP recording?")

    @property
    def host(self) -> str:
        """Host of the live session, else from the file name, else the file's stem.

        Devices name files ``{host}_%Y_%m_%d_%H_%M_%S.mcap``.
        """
        if self.session is not None:
            return self.session.host
        found = _NAME.fullmatch(self.path.stem)
        return readable(found["host"] if found else self.path.stem)

    @property
    def sequence_name(self) -> str | None:
        """Sequence of the live session; else the file's stem if it is ``host_date_time``; else None."""
        if self.session is not None:
            return self.session.sequence
        return self.path.stem if _NAME.fullmatch(self.path.stem) else None

    @cached_property
    def session(self) -> RecordedSession | None:
        """The live session that this is a recording of, None if another program recorded it."""
        return from_metadata(self._metadata(SESSION))

    @cached_property
    def goes_on(self) -> bool:
        """Whether another session continues the one recorded here."""
        return self._metadata(END).get("goes_on") == "true"

    def _metadata(self, name: str) -> dict[str, str]:
        with self.path.open("rb") as file:
            try:
                return metadata(file, self.size, name) or {}
            except (EndOfFile, struct.error, UnicodeDecodeError, ValueError):
                return {}  # damaged; found again when the messages are read

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Log times (first, last) of every section in file order."""
        reader = RecordReader()
        with self.path.open("rb") as file:
            reader.read_summary(file, self.size)
            if not reader.spans:
                found = (reader.span(file, section) for section in reader.walk(file, self.size))
                reader.spans = [span for span in found if span is not None]
        # A chunk without messages has 0 to 0.
        return [span for span in reader.spans if span[1]]

    def topics(self) -> list[TopicInfo]:
        """Every topic that has a channel; reads the whole file if it has no summary."""
        reader = RecordReader()
        with self.path.open("rb") as file:
            reader.read_summary(file, self.size)
            # A writer may leave channels out of the summary; then only the data section has them.
            if not reader.channels:
                for section in reader.walk(file, self.size):
                    reader.load(file, section)
        return sorted(TopicInfo(*names) for names in reader.topics())

    def messages(self, arrival: int = 0) -> Iterator[RawMessage]:
        """All messages, numbered from ``arrival`` on; those of a damaged chunk have a ``fault``."""
        reader = RecordReader()
        with self.path.open("rb") as file:
            # Channels are declared in the first chunk that uses them, which may be the damaged one.
            reader.read_summary(file, self.size)
            self.faults = reader.faults = []
            self.position, self.next_arrival = 0, arrival
            has_session = self.session is not None
            for loaded, messages in self._in_order(reader, file):
                plain, damage = loaded.plain, loaded.fault
                for log_ns, number, publish_ns, start, end, sequence, bad_time in messages:
                    channel = reader.channels.get(number)
                    if channel is None:
                        text = f"message of unknown channel {number}"
                        add_fault(self.faults, RecordingFault(self.position, end - start, text))
                        continue
                    topic, schema, definition = channel
                    fault = damage or bad_time or reader.channel_faults.get(number, "")
                    is_repeated = has_session and sequence == REPEATED
                    data, times = plain[start:end], (log_ns, publish_ns)
                    yield RawMessage(topic, schema, data, *times, arrival, definition, fault, is_repeated)
                    arrival += 1
                    self.next_arrival = arrival
                del loaded, messages, plain  # one section at a time is in memory
            if reader.ended and footer(file, self.size) is None:
                self.note = NO_SUMMARY
        self.position = self.size

    def _in_order(
        self, reader: RecordReader, file: BinaryIO
    ) -> Iterator[tuple[Loaded, Iterable[MessageRecord]]]:
        if self.session is not None:
            # Live recordings are in order of receipt, whatever their times are.
            for section in reader.walk(file, self.size):
                loaded = reader.load(file, section)
                self.position = section.end
                yield loaded, loaded.messages
                del loaded
            return
        as_received: bool | None = None
        if is_suspect(self.spans):
            looking = RecordReader()
            found = survey(looking, file, self.size)
            as_received = found.as_received
            topics = looking.channels
            self.displaced = {topics[c][0]: d for c, d in sorted(found.displaced.items()) if c in topics}
            self.is_sorted = found.open_bytes <= MAX_OPEN_BYTES
            if self.displaced and self.is_sorted:
                # The survey has found the same faults as reading will.
                self.faults, reader.faults = looking.faults, []
                reader.channels, reader.ended = topics, looking.ended
                for loaded, message in merged(reader, file, found, self._reading):
                    yield loaded, (message,)
                return
        for section in reader.walk(file, self.size):
            loaded = reader.load(file, section)
            messages = within(loaded) if self.is_sorted and not as_received else loaded.messages
            if messages is not loaded.messages and as_received is None:
                # Only with the messages around them one can tell whether the clock was set back here.
                with self.path.open("rb") as again:
                    as_received = survey(RecordReader(), again, self.size).as_received
                messages = loaded.messages if as_received else messages
            self.position = section.end
            yield loaded, messages
            del loaded, messages

    def _reading(self, section: FileSection) -> None:
        self.position += section.bytes
