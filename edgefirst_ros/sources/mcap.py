"""MCAP recordings: whole, without footer, cut in the middle of a chunk, or with a damaged chunk."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mcap.exceptions import EndOfFile

from edgefirst_ros.errors import RecordingError, RecordingNotFound
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable
from edgefirst_ros.sources.order import MAX_OPEN_BYTES, Displaced, is_suspect, merged, survey, within
from edgefirst_ros.sources.records import MAGIC, Entry, Extent, Fault, Loaded, RecordReader, footer, metadata
from edgefirst_ros.sources.session import END, REPEATED, SESSION, RecordedSession, from_metadata

_NAME = re.compile(r"(?P<host>.+)_(?P<when>\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d)")
NO_SUMMARY = "the recording is cut behind its data: its summary is lost, every message is there"


class TopicInfo(NamedTuple):
    """A topic of a recording: name and ``pkg/msg/Type``."""

    topic: str
    schema: str


class McapRecording:
    """One MCAP file, read in the order in which its messages arrived.

    That is the file's own, around a step of the wall clock too, where readers that go by log_time shuffle the
    messages; but for files written in another order, as ``sources.order`` has it. After iterating
    ``messages``, ``faults`` says what could not be read.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not an MCAP file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.note = ""
        """What is wrong with the file though every message is there; known once ``messages`` is through."""
        self.position = 0
        """Bytes read so far, for progress."""
        self.displaced: Mapping[str, Displaced] = {}
        """By topic, messages that lie behind later ones; known once ``messages`` has begun."""
        self.is_sorted = True
        """Whether what is displaced was put in order: not if too much would have to be held for it."""
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
        """Of the session that was recorded live; else from the file name, or the whole stem.

        Devices name files ``{host}_%Y_%m_%d_%H_%M_%S.mcap``.
        """
        if self.session is not None:
            return self.session.host
        found = _NAME.fullmatch(self.path.stem)
        return readable(found["host"] if found else self.path.stem)

    @property
    def sequence_name(self) -> str | None:
        """Of the session that was recorded live; else ``host_date_time`` if that is how the file is named."""
        if self.session is not None:
            return self.session.sequence
        return self.path.stem if _NAME.fullmatch(self.path.stem) else None

    @cached_property
    def session(self) -> RecordedSession | None:
        """The session whose live capture recorded this, None if it is of another recorder."""
        return from_metadata(self._metadata(SESSION))

    @cached_property
    def goes_on(self) -> bool:
        """Whether another session went on from the one recorded here, which that one's file tells."""
        return self._metadata(END).get("goes_on") == "true"

    def _metadata(self, name: str) -> dict[str, str]:
        with self.path.open("rb") as file:
            try:
                return metadata(file, self.size, name) or {}
            except (EndOfFile, struct.error, UnicodeDecodeError, ValueError):
                return {}  # damaged: what can be read of it is found when it is read

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Log times (first, last) of every chunk in file order; of runs of messages outside of chunks."""
        reader = RecordReader()
        with self.path.open("rb") as file:
            reader.read_summary(file, self.size)
            if not reader.spans:
                found = (reader.span(file, extent) for extent in reader.walk(file, self.size))
                reader.spans = [span for span in found if span is not None]
        # A chunk without messages says 0 to 0.
        return [span for span in reader.spans if span[1]]

    def topics(self) -> list[TopicInfo]:
        """Every topic with at least a channel; reads the whole file where it has no summary."""
        reader = RecordReader()
        with self.path.open("rb") as file:
            reader.read_summary(file, self.size)
            # A writer may leave channels out of the summary; then only the data section has them.
            if not reader.channels:
                for extent in reader.walk(file, self.size):
                    reader.load(file, extent)
        return sorted(TopicInfo(*names) for names in reader.topics())

    def messages(self, arrival: int = 0) -> Iterator[RawMessage]:
        """All messages, counted from ``arrival`` on; those of a damaged chunk carry a ``fault``."""
        reader = RecordReader()
        with self.path.open("rb") as file:
            # Channels are declared in the first chunk that uses them, which may be the damaged one.
            reader.read_summary(file, self.size)
            self.faults = reader.faults = []
            self.position = 0
            for loaded, entry in self._in_order(reader, file):
                channel = reader.channels.get(entry.channel)
                size = entry.end - entry.start
                if channel is None:
                    text = f"message of no channel {entry.channel}"
                    self.faults.append(Fault(self.position, size, text))
                    continue
                topic, schema, definition = channel
                data = loaded.plain[entry.start : entry.end]
                yield RawMessage(
                    topic,
                    schema,
                    data,
                    entry.log_ns,
                    entry.publish_ns,
                    arrival,
                    definition,
                    loaded.fault or reader.faults_told.get(entry.channel, ""),
                    repeated=self.session is not None and entry.sequence == REPEATED,
                )
                arrival += 1
            if reader.ended and footer(file, self.size) is None:
                self.note = NO_SUMMARY
        self.position = self.size

    def _in_order(self, reader: RecordReader, file: BinaryIO) -> Iterator[tuple[Loaded, Entry]]:
        if self.session is not None:
            # It lies as it was received, whatever its times say.
            for extent in reader.walk(file, self.size):
                loaded = reader.load(file, extent)
                self.position = extent.end
                for entry in loaded.entries:
                    yield loaded, entry
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
                # What is damaged was found already, and is found again when it is read.
                self.faults, reader.faults = looking.faults, []
                reader.channels, reader.ended = topics, looking.ended
                yield from merged(reader, file, found, self._reading)
                return
        for extent in reader.walk(file, self.size):
            loaded = reader.load(file, extent)
            self.position = extent.end
            entries = within(loaded) if self.is_sorted and not as_received else loaded.entries
            if entries is not loaded.entries and as_received is None:
                # Whether the clock was set back in here only the messages around can tell.
                with self.path.open("rb") as again:
                    as_received = survey(RecordReader(), again, self.size).as_received
                entries = loaded.entries if as_received else entries
            for entry in entries:
                yield loaded, entry

    def _reading(self, extent: Extent) -> None:
        self.position += extent.bytes
