"""Reads ROS 1 bags: their chunks, connections and messages.

A bag is a line of text and records of two parts, header and data; the header is a list of fields NAME=VALUE.
Chunks hold connections and messages; after each lie its message indexes, which are not needed. Behind all
chunks connections are repeated, and each chunk is described: that is the summary.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from edgefirst_ros.model.definitions import short_name
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.ros1 import Ros1Type
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import displayed
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.mcap import ChunkedRecording
from edgefirst_ros.sources.recording import InFull, TimeWindow
from edgefirst_ros.sources.records import (
    MAX_CHANNELS,
    MAX_CHUNK_BYTES,
    MAX_INDEXED,
    MAX_LISTED,
    NOT_THERE,
    TOO_LARGE,
    TOO_MANY_CHANNELS,
    TOO_MANY_CHUNKS,
    TOO_MUCH_TEXT,
    FileSection,
    IndexedChunk,
    Loaded,
    MessageRecord,
    RecordReader,
    Unlisted,
)

BAG_MAGIC = b"#ROSBAG V2.0\n"
MAX_HEADER_BYTES = 64 << 10
"""Longest header of a record: its longest field is a topic."""
MAX_CONNECTION_BYTES = 4 << 20
_UINT32 = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")
_TIME = struct.Struct("<II")
_COUNT = struct.Struct("<II")
_PAIR = struct.Struct("<HQ")
_MESSAGE, _BAG, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = b"\2", b"\3", b"\4", b"\5", b"\6", b"\7"
_OPCODES = frozenset({_MESSAGE, _BAG, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION})
DAMAGED = "damaged: what should be a record is none"

Header = Mapping[bytes, bytes]


class _Record(NamedTuple):
    """A record: its header, and where its data are."""

    header: Header
    start: int
    end: int

    @property
    def opcode(self) -> bytes:
        """What kind of record it is."""
        return self.header.get(b"op", b"")


class BagReader(RecordReader):
    """Reads a ROS 1 bag; a channel is a connection, whose definition is in the words of ROS 1."""

    def read_summary(self, file: BinaryIO, size: int) -> None:
        """Read connections, and the times of chunks, from behind the chunks."""
        start = index_position(file, size)
        self.has_summary = start > 0
        counts: dict[int, int] = {}
        chunks: dict[int, tuple[int, int, bytes]] = {}
        listed, at = 0, start
        while 0 < at < size and (record := _read_record(file, at, size)) is not None and record.end <= size:
            at = record.end
            if record.opcode == _CONNECTION:
                self._connection(record.header, _data(file, record, MAX_CONNECTION_BYTES))
            elif record.opcode == _CHUNK_INFO:
                listed += 1
                if listed <= MAX_INDEXED:
                    self._chunk_info(
                        record.header, _data(file, record, _COUNT.size * MAX_CHANNELS), chunks, counts
                    )
        if listed > MAX_INDEXED:
            self._note_once(TOO_MANY_CHUNKS, start, size - start)
            chunks.clear()
        if chunks:
            self.counts = counts
            # A chunk ends before its indexes, which a reader passes over.
            edges = pairwise([*sorted(at for at in chunks if at < start), start])
            self.chunks = [IndexedChunk(at, end - at, *chunks[at]) for at, end in edges]

    def _chunk_info(
        self,
        header: Header,
        data: bytes,
        chunks: dict[int, tuple[int, int, bytes]],
        counts: dict[int, int],
    ) -> None:
        """What the summary says of a chunk: its first and last time, and its messages by connection."""
        try:
            (at,) = _UINT64.unpack(header[b"chunk_pos"])
            first_ns, last_ns = _time_ns(header[b"start_time"]), _time_ns(header[b"end_time"])
        except (KeyError, struct.error):
            return
        known = b""
        for connection, count in _COUNT.iter_unpack(data[: len(data) // _COUNT.size * _COUNT.size]):
            if connection < MAX_CHANNELS:
                counts[connection] = counts.get(connection, 0) + count
                known += _PAIR.pack(connection, 0)
        chunks[at] = first_ns, last_ns, known

    def indexed(self, file: BinaryIO, size: int, chunks: Iterable[IndexedChunk]) -> Iterator[FileSection]:
        """The sections of some of ``chunks``; what the file has in the place of a chunk is a fault."""
        for chunk in chunks:
            record = _read_record(file, chunk.offset, size)
            if record is not None and record.opcode == _CHUNK and record.end <= chunk.end:
                yield FileSection(chunk.offset, record.end - chunk.offset, is_chunk=True, whole=True)
            else:
                self._note(chunk.offset, chunk.length, NOT_THERE)

    def walk(self, file: BinaryIO, size: int) -> Iterator[FileSection]:
        """All chunks, from the beginning of the file to the summary; damage ends where that lists one."""
        at, places = len(BAG_MAGIC), [chunk.offset for chunk in self.chunks]
        while at < size:
            record = _read_record(file, at, size)
            if record is None:
                following = bisect_right(places, at)
                end = places[following] if following < len(places) else size
                self._note(at, end - at, DAMAGED)
                at = end
                continue
            if record.opcode in {_CONNECTION, _CHUNK_INFO}:
                break
            end = min(record.end, size)
            if record.opcode == _CHUNK:
                yield FileSection(at, end - at, is_chunk=True, whole=record.end <= size)
            elif record.end > size:
                self._note(at, size - at, "the recording ends in the middle of a record")
            if record.end > size:
                return
            at = end
        self.ended = True

    def _chunk(self, file: BinaryIO, section: FileSection) -> Loaded:
        record = _read_record(file, section.offset, section.end)
        if record is None:
            return self._refused(section, DAMAGED)
        packed_bytes = section.end - record.start
        if packed_bytes > MAX_CHUNK_BYTES:
            return self._refused(section, TOO_LARGE)
        file.seek(record.start)
        packed = file.read(packed_bytes)
        name = record.header.get(b"compression", b"").decode("ascii", "replace")
        size = _UINT32.unpack_from(record.header.get(b"size", b"").ljust(_UINT32.size, b"\0"))[0]
        return self._decompressed(section, "" if name == "none" else name, packed, size)

    def _messages(self, plain: bytes, most: int | None = None) -> tuple[Iterable[MessageRecord], int]:
        messages: list[MessageRecord] = []
        is_long, count = False, 0
        limit = len(plain) if most is None else most
        at = 0
        while at < len(plain) and count <= limit:
            record = _record(plain, at)
            if record is None or record.end > len(plain):
                break
            count += 1
            at = record.end
            if record.opcode == _CONNECTION:
                self._connection(
                    record.header, plain[record.start : min(at, record.start + MAX_CONNECTION_BYTES + 1)]
                )
            elif record.opcode == _MESSAGE and len(messages) >= MAX_LISTED:
                is_long = True
            elif (message := _message(record)) is not None:
                messages.append(message)
        if most is not None:
            self._room_records -= count
        return Unlisted(partial(_messages_of, plain)) if is_long else messages, at

    def _connection(self, header: Header, data: bytes) -> None:
        """What a connection says of its topic."""
        if len(data) > MAX_CONNECTION_BYTES:
            self._note(0, len(data), "a connection of absurd size")
            return
        try:
            (number,) = _UINT32.unpack(header[b"conn"])
            topic = header[b"topic"].decode()
        except (KeyError, struct.error, UnicodeDecodeError) as error:
            self._note(0, len(data), f"a damaged connection: {type(error).__name__}")
            return
        if not self._is_new((0, number), hash((header[b"topic"], data))):
            return
        if number >= MAX_CHANNELS:
            self._note_once(TOO_MANY_CHANNELS)
            return
        fields = _fields(data, 0, len(data)) or {}
        schema = displayed(ros2_name(fields.get(b"type", b"").decode("utf-8", "replace")))
        text = fields.get(b"message_definition", b"").decode("utf-8", "replace")
        kept = self._definitions.keep(schema, text)
        if kept is None:
            self._note_once(TOO_MUCH_TEXT)
        self.channels[number] = displayed(topic), schema, kept or ""


def ros2_name(kind: str) -> str:
    """``pkg/msg/Type`` for ``pkg/Type``."""
    package, slash, name = kind.partition("/")
    return f"{package}/msg/{name}" if slash and "/" not in name else kind


def index_position(file: BinaryIO, size: int) -> int:
    """Where the summary is according to the first record; 0 if the recorder did not finish."""
    record = _read_record(file, len(BAG_MAGIC), size)
    if record is None or record.opcode != _BAG or len(value := record.header.get(b"index_pos", b"")) != 8:
        return 0
    at = int(_UINT64.unpack(value)[0])
    return at if record.end <= at < size else 0


def _read_record(file: BinaryIO, at: int, size: int) -> _Record | None:
    """The record at an offset of a file, which may end before it does; None if there is none."""
    file.seek(at)
    head = file.read(_UINT32.size)
    if len(head) < _UINT32.size or _UINT32.unpack(head)[0] > min(MAX_HEADER_BYTES, size - at):
        return None
    length = _UINT32.unpack(head)[0]
    rest = file.read(length + _UINT32.size)
    header = _fields(rest, 0, length) if len(rest) == length + _UINT32.size else None
    if header is None or header.get(b"op") not in _OPCODES:
        return None
    start = at + _UINT32.size + len(rest)
    return _Record(header, start, start + _UINT32.unpack_from(rest, length)[0])


def _record(plain: bytes, at: int) -> _Record | None:
    """The record at an offset of a chunk; None if there is none."""
    if at + _UINT32.size > len(plain):
        return None
    start = at + _UINT32.size
    end = start + _UINT32.unpack_from(plain, at)[0]
    if end + _UINT32.size > len(plain) or end - start > MAX_HEADER_BYTES:
        return None
    header = _fields(plain, start, end)
    data = end + _UINT32.size
    return None if header is None else _Record(header, data, data + _UINT32.unpack_from(plain, end)[0])


def _fields(data: bytes, at: int, end: int) -> dict[bytes, bytes] | None:
    """The fields of a header, None if it is none."""
    found: dict[bytes, bytes] = {}
    while at + _UINT32.size <= end:
        start = at + _UINT32.size
        at = start + _UINT32.unpack_from(data, at)[0]
        name, equals, value = data[start:at].partition(b"=")
        if at > end or not equals:
            return None
        found[name] = value
    return found if at == end else None


def _data(file: BinaryIO, record: _Record, most: int) -> bytes:
    file.seek(record.start)
    return file.read(min(record.end - record.start, most + 1))


def _message(record: _Record) -> MessageRecord | None:
    header = record.header
    if record.opcode != _MESSAGE or len(header.get(b"conn", b"")) != 4 or len(header.get(b"time", b"")) != 8:
        return None
    time_ns = _time_ns(header[b"time"])
    return MessageRecord(time_ns, _UINT32.unpack(header[b"conn"])[0], time_ns, record.start, record.end)


def _messages_of(plain: bytes) -> Iterator[MessageRecord]:
    """The messages of successive records."""
    at = 0
    while (record := _record(plain, at)) is not None and record.end <= len(plain):
        at = record.end
        if (message := _message(record)) is not None:
            yield message


def _time_ns(value: bytes) -> int:
    seconds, rest = _TIME.unpack(value)
    return int(seconds) * 1_000_000_000 + int(rest)


class Ros1Recording(ChunkedRecording):
    """One ``.bag`` file, whose messages are converted to CDR; see ``ChunkedRecording``."""

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._types: dict[tuple[str, str], Ros1Type | str] = {}
        """What converts messages, by their type and its text; else why nothing does."""

    def _begin(self, file: BinaryIO) -> int:
        magic = file.read(len(BAG_MAGIC))
        if magic != BAG_MAGIC:
            found = "is empty" if not magic else f"begins with {magic!r}"
            raise RecordingError(f"{self.path}: {found}, not with {BAG_MAGIC!r}; is it a bag of ROS 1?")
        return index_position(file, self.size)

    def _reader(self) -> RecordReader:
        return BagReader()

    def _read(
        self,
        arrival: int,
        window: TimeWindow | None,
        chunks: Sequence[IndexedChunk] | None,
        in_full: InFull | None = None,  # noqa: ARG002 - what is not in full cannot be converted
    ) -> Iterator[RawMessage]:
        return map(self._converted, super()._read(arrival, window, chunks))

    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """See ``Recording.latched``."""
        return map(self._converted, super().latched(topics, before_ns))

    def _converted(self, message: RawMessage) -> RawMessage:
        """The message in CDR; one that cannot be converted has a fault."""
        key = message.schema, message.definition
        kind = self._types.get(key)
        if kind is None:
            kind = self._types[key] = _ros1_type(*key)
        if isinstance(kind, str):
            return message._replace(definition="", fault=message.fault or kind)
        try:
            data, fault = kind.to_cdr(message.data), ""
        except ValueError as error:
            data, fault = b"", f"cannot be converted from ROS 1: {error}"
        return message._replace(data=data, definition=kind.definition, fault=message.fault or fault)


def _ros1_type(schema: str, text: str) -> Ros1Type | str:
    if not text:
        return "cannot be converted from ROS 1: its definition is missing, or too long"
    try:
        return Ros1Type(short_name(schema), text)
    except ValueError as error:
        return f"cannot be converted from ROS 1: {displayed(str(error))}"
