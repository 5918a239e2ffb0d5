"""The records of an MCAP file: their sections, their messages, and what cannot be read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from io import SEEK_CUR
from typing import BinaryIO, NamedTuple, Self

import lz4.frame
from mcap.opcode import Opcode

from edgefirst_ros.model.dynamic import MAX_TEXT
from edgefirst_ros.model.untrusted import displayed, read_at_most, reason_of
from edgefirst_ros.model.zlib_backend import crc32

FAULT = "edgefirst_ros.fault"
"""Key in a channel's metadata, written by live capture: why its messages are refused."""
OLD_NAMES = {"tf/tfMessage": "tf2_msgs/TFMessage", "tf/msg/tfMessage": "tf2_msgs/msg/TFMessage"}
"""Types that ROS 1 had before they were called so."""
MAGIC = b"\x89MCAP0\r\n"
_ZSTD = b"\x28\xb5\x2f\xfd"
"""Begins what rosbag2 compresses message by message; CDR begins with zero."""
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
_CHUNK = struct.Struct("<QQQII")
_INDEX = struct.Struct("<QQQQI")
_PAIR = struct.Struct("<HQ")
_PLACE = struct.Struct("<QQ")
_SCHEMA = struct.Struct("<H")
_CHANNEL = struct.Struct("<HH")
_LENGTH = struct.Struct("<I")
_STATISTICS = struct.Struct("<QHIIIIQQI")
_LONGEST_NAME = 16
_LEADING = frozenset({Opcode.HEADER, Opcode.METADATA})
_IN_DATA = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE})
_RUN_BYTES = 1 << 20
_KEPT_BYTES = 4 << 20
"""Largest chunk, as stored, whose memory is used again; recorders' are of 1 MB, or 4 MB."""
MAX_CHUNK_BYTES = 128 << 20
"""Largest section of a file that is read, decompressed."""
MAX_RATIO = 1000
"""Plausible size of a chunk over that of its compressed bytes; zeros alone reach 30,000."""
FREE_BYTES = 32 << 20
"""What all chunks of a file may hold in addition to that."""
FREE_RECORDS = 100_000
"""Records that all chunks of a file may hold in addition to one for each byte of their compressed data; every
message has a time of its own, and honest ones take three bytes at least."""
MAX_LISTED = 100_000
"""Messages of a section that are listed in memory; if there are more, they are parsed whenever needed."""
MAX_DECLARATION_BYTES = 4 << 20
"""Largest record of a schema, a channel or metadata that is read."""
MAX_DEFINITION_BYTES = 8 << 20
"""Text of all definitions of a file that are kept; those of all public ROS packages together are smaller."""
MAX_DEFINITIONS = 16
"""Different definitions of one type that are kept; a file has one, or two if the robot was updated."""
MAX_CHANNELS = 20_000
"""Most channels of a file, since each is compared with the configuration; the largest robots have 2,000."""
MAX_DECLARED = 5 * MAX_CHANNELS
"""Most schemas and channels that say something new. Nobody changes them often, and reading millions of them,
which may compress to nothing, takes longer than anybody waits for a refusal."""
MAX_INDEXED = 400_000
"""Most chunks that a summary may list; at 768 KiB, rosbag2's default, they make a file of 300 GB."""
MAX_FAULTS = 1000
"""Faults of a file that are kept one by one."""
MAX_TIME_NS = 1 << 62
"""No clock shows a later time, which is in the year 2116; arithmetic with later ones would overflow."""
CHECKSUM = "damaged chunk (its checksum does not match)"
BAD_TIME = "its log time is after the year 2116"
TOO_LARGE = f"a chunk or record of more than {MAX_CHUNK_BYTES >> 20} MiB is not read; write smaller chunks"
IMPLAUSIBLE = "a chunk claims to hold more than its compressed size allows, and is not read"
TOO_MANY_RECORDS = "a chunk holds more messages than its compressed size allows, and is not read"
TOO_MANY_CHANNELS = f"there are more than {MAX_CHANNELS:,} topics or types; those beyond are not read"
TOO_MANY_DECLARED = f"topics or types are declared anew more than {MAX_DECLARED:,} times, as no recorder does"
TOO_MANY_CHUNKS = f"the summary lists more than {MAX_INDEXED:,} chunks, and is not used; write larger chunks"
TOO_MUCH_TEXT = "definitions of messages that are too long, or too many, are left out"
NOT_THERE = "the summary lists a chunk that is not there"
FURTHER = "further damage, counted together"


@dataclass(frozen=True, slots=True)
class RecordingFault:
    """A part of the file that cannot be read."""

    offset: int
    bytes: int
    text: str


class FileSection(NamedTuple):
    """A part of the file that is read at once: a chunk, or successive records outside of chunks.

    ``offset`` is that of its first record, ``bytes`` its size as far as the file has it.
    """

    offset: int
    bytes: int
    is_chunk: bool
    whole: bool

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.bytes


class IndexedChunk(NamedTuple):
    """A chunk according to the summary: its place in the file, its log times, and whose messages it holds."""

    offset: int
    length: int
    first_ns: int
    last_ns: int
    offsets: bytes
    """Map of channel to the offset of its message index, as stored; empty without message indexes."""

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.length

    @property
    def channels(self) -> frozenset[int]:
        """Channels with messages in it; empty if that is not known."""
        return frozenset(channel for channel, _ in _pairs(self.offsets))


class MessageRecord(NamedTuple):
    """A message of a section: its times, its channel, and the position of its data in the section."""

    log_ns: int
    channel: int
    publish_ns: int
    start: int
    end: int
    sequence: int = 0
    fault: str = ""
    """Why it is refused, empty if it is not; its times are made up then."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A section's decompressed records, and its messages in file order."""

    plain: bytes
    messages: Iterable[MessageRecord]
    """A list unless there are more than ``MAX_LISTED``."""
    fault: str = ""
    """Why all of its messages are refused; empty if they are not."""
    checksummed: bool = False
    """A checksum covers it."""


_NOTHING = Loaded(b"", [])


@dataclass(frozen=True, slots=True)
class Unlisted:
    """The messages of a section, parsed anew in every iteration."""

    parse: Callable[[], Iterator[MessageRecord]]

    def __iter__(self) -> Iterator[MessageRecord]:
        return self.parse()


def _messages_of(plain: bytes, latest_ns: int) -> Iterator[MessageRecord]:
    """The messages of successive records."""
    at = 0
    while at + _RECORD.size <= len(plain):
        opcode, length = _RECORD.unpack_from(plain, at)
        start = at + _RECORD.size
        at = start + length
        if opcode == Opcode.MESSAGE and length >= _MESSAGE.size and at <= len(plain):
            message = _message(plain, start, at, latest_ns)
            latest_ns = message.log_ns
            yield message


def _message(plain: bytes, start: int, end: int, latest_ns: int) -> MessageRecord:
    """The message whose record begins at ``start``; without a sane time it gets that of the one before."""
    channel, sequence, log_ns, publish_ns = _MESSAGE.unpack_from(plain, start)
    fault = ""
    if log_ns > MAX_TIME_NS:
        log_ns, fault = latest_ns, BAD_TIME
    if publish_ns > MAX_TIME_NS:
        publish_ns = log_ns
    return MessageRecord(log_ns, channel, publish_ns, start + _MESSAGE.size, end, sequence, fault)


class Definitions:
    """Texts of message definitions: each is kept once, and no more of them than a recording has."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, str]] = {}
        self._room_bytes = MAX_DEFINITION_BYTES

    def keep(self, schema: str, text: str) -> str | None:
        """The text as it is kept, None if there is no room for it."""
        if not text:
            return text
        of_type = self._kept.setdefault(schema, {})
        known = of_type.get(text)
        if known is None and len(text) <= min(MAX_TEXT, self._room_bytes) and len(of_type) < MAX_DEFINITIONS:
            self._room_bytes -= len(text)
            known = of_type[text] = text
        return known


class RecordReader:
    """Reads a file section by section, and collects its channels.

    Attributes:
        channels: topic, schema name and definition, by channel id.
        channel_faults: why a channel's messages are refused according to the recorder, by channel id.
        encodings: of channels whose messages are in another encoding than CDR.
        faults: parts that could not be read.
        ended: whether the end of the data was found.
        has_summary: whether the file was finished.
        limits: texts of faults that are said once, however often they occur.
        chunks: the file's chunks in file order, if its summary lists them.
        counts: messages by channel, None if the summary does not have them; chunk_count likewise.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, tuple[str, str]] = {}
        """Name and definition by id."""
        self.channels: dict[int, tuple[str, str, str]] = {}
        self.channel_faults: dict[int, str] = {}
        self.encodings: dict[int, str] = {}
        self.faults: list[RecordingFault] = []
        self.ended = self.has_summary = False
        self.limits: set[str] = set()
        self.chunks: list[IndexedChunk] = []
        self.counts: dict[int, int] | None = None
        self.chunk_count: int | None = None
        self.declared: dict[tuple[int, int], int] = {}
        """Hashes of what schemas and channels say, by opcode and id; most records say the same again."""
        self._definitions = Definitions()
        self._room_bytes = FREE_BYTES
        self._room_records = FREE_RECORDS
        self._changes = 0
        self._latest_ns = 0
        """Log time of the last message."""
        self.memory = bytearray()
        """Of the chunk that was read last, as stored."""
        self._sound: set[int] = set()
        """Offsets of chunks whose checksum was right; all readers of a file share it, so that what is read
        twice is summed once. Of more chunks than ``MAX_INDEXED`` the further ones are summed again."""

    def anew(self) -> Self:
        """A reader that knows what this one read of the summary, and has the same room."""
        other = copy(self)
        other.schemas, other.channels = dict(self.schemas), dict(self.channels)
        other.declared = dict(self.declared)
        other.channel_faults, other.limits = dict(self.channel_faults), set(self.limits)
        other.encodings = dict(self.encodings)
        other.memory = bytearray()
        other.faults = [fault for fault in self.faults if fault.text in self.limits]
        return other

    def read_summary(self, file: BinaryIO, size: int) -> None:
        """Read channels and the chunks' log times from the summary, if there is one."""
        start = footer(file, size)
        self.has_summary = start is not None
        if start is None or not 0 < start < size:
            return
        file.seek(start)
        chunks: dict[int, IndexedChunk] = {}
        listed, at = 0, start
        while len(head := file.read(_RECORD.size)) == _RECORD.size:
            opcode, length = _RECORD.unpack(head)
            at += _RECORD.size + length
            if opcode in {Opcode.DATA_END, Opcode.FOOTER} or at > size:
                break
            if length > MAX_DECLARATION_BYTES:
                file.seek(length, SEEK_CUR)
                continue
            body = file.read(length)
            if opcode in {Opcode.SCHEMA, Opcode.CHANNEL}:
                self._declared(opcode, body)
            elif opcode == Opcode.CHUNK_INDEX and length >= _INDEX.size:
                first_ns, last_ns, offset, stored, map_bytes = _INDEX.unpack_from(body)
                offsets = body[_INDEX.size : _INDEX.size + map_bytes]
                listed += 1
                if listed <= MAX_INDEXED:
                    chunks[offset] = IndexedChunk(offset, stored, first_ns, last_ns, offsets)
            elif opcode == Opcode.STATISTICS and length >= _STATISTICS.size:
                *_, self.chunk_count, _, _, map_bytes = _STATISTICS.unpack_from(body)
                end = min(length, _STATISTICS.size + map_bytes)
                self.counts = dict(_pairs(body[_STATISTICS.size : end]))
        if listed > MAX_INDEXED:
            self._note_once(TOO_MANY_CHUNKS, start, size - start)
            chunks.clear()
        self.chunks = [chunks[offset] for offset in sorted(chunks)]

    def indexed(self, file: BinaryIO, size: int, chunks: Iterable[IndexedChunk]) -> Iterator[FileSection]:
        """The sections of some of ``chunks``; what the file has in the place of a chunk is a fault."""
        for chunk in chunks:
            if chunk.length >= _RECORD.size and chunk.end <= size:
                file.seek(chunk.offset)
                opcode, length = _RECORD.unpack(file.read(_RECORD.size))
                if opcode == Opcode.CHUNK and length + _RECORD.size == chunk.length:
                    yield FileSection(chunk.offset, chunk.length, is_chunk=True, whole=True)
                    continue
            self._note(chunk.offset, min(chunk.length, size), NOT_THERE)

    def walk(self, file: BinaryIO, size: int) -> Iterator[FileSection]:
        """All sections, from the beginning of the file to the end of its data."""
        at = start = len(MAGIC)
        while True:
            file.seek(at)
            head = file.read(_RECORD.size)
            opcode, length = _RECORD.unpack(head) if len(head) == _RECORD.size else (0, 0)
            left = size - at - _RECORD.size
            whole = length <= left
            full = max(at - start, length) >= _RUN_BYTES
            if start < at and (opcode not in _IN_DATA or not whole or full):
                yield FileSection(start, at - start, is_chunk=False, whole=True)
                start = at
            if len(head) < _RECORD.size:
                self._note(at, size - at, "the recording ends without a footer")
                return
            if opcode in {Opcode.DATA_END, Opcode.FOOTER}:
                self.ended = True
                return
            if opcode == 0 or opcode > Opcode.DATA_END:
                self._note(at, size - at, f"record type {opcode} does not exist; reading stops here")
                return
            end = at + _RECORD.size + min(length, left)
            if opcode == Opcode.CHUNK:
                yield FileSection(at, end - at, is_chunk=True, whole=whole)
            elif not whole:
                self._note(at, size - at, "the recording ends in the middle of a record")
            if not whole:
                return
            at = end
            if opcode not in _IN_DATA:
                start = at

    def load(self, file: BinaryIO, section: FileSection) -> Loaded:
        """Read a section: its messages, its channels and its faults."""
        if not section.is_chunk:
            if section.bytes > MAX_CHUNK_BYTES:
                self._note(section.offset, section.bytes, TOO_LARGE)
                return _NOTHING
            file.seek(section.offset)
            body = file.read(section.bytes)
            return Loaded(body, self._messages(body)[0])
        return self._chunk(file, section)

    def _chunk(self, file: BinaryIO, section: FileSection) -> Loaded:
        start, stored = section.offset + _RECORD.size, section.bytes - _RECORD.size
        file.seek(start)
        head = file.read(min(_CHUNK.size, max(0, stored)))
        if len(head) < _CHUNK.size:
            self._note(section.offset, len(head), "the recording ends in the middle of a record")
            return _NOTHING
        _, _, plain_size, crc, name_length = _CHUNK.unpack(head)
        compression = file.read(min(name_length, _LONGEST_NAME)).decode("ascii", "replace")
        place = start + _CHUNK.size + name_length + 8
        packed_bytes = max(0, section.end - place)
        if packed_bytes > MAX_CHUNK_BYTES:
            return self._refused(section, TOO_LARGE)
        file.seek(place)
        packed = self._packed(file, packed_bytes) if compression else file.read(packed_bytes)
        return self._decompressed(section, compression, packed, plain_size, crc)

    def _packed(self, file: BinaryIO, size: int) -> bytes | bytearray:
        """The next bytes of a file, up to the next call.

        They lie in the same memory again: new memory for each chunk takes as long as decompressing it.
        """
        if size > _KEPT_BYTES:
            return file.read(size)
        memory = self.memory
        del memory[size:]
        memory.extend(bytes(size - len(memory)))
        with memoryview(memory) as view:
            read = file.readinto(view)  # type: ignore[attr-defined]
        del memory[read:]
        return memory

    def _refused(self, section: FileSection, text: str) -> Loaded:
        self._note(section.offset, section.bytes - _RECORD.size, text)
        return _NOTHING

    def _decompressed(
        self, section: FileSection, compression: str, packed: bytes | bytearray, plain_size: int, crc: int = 0
    ) -> Loaded:
        """The content of a chunk, as far as it is not more than its compressed bytes allow."""
        most = min(MAX_CHUNK_BYTES, self._room_bytes + MAX_RATIO * len(packed))
        plain, fault = _unpacked(compression, packed, plain_size, most, section.whole)
        if fault:
            self._room_bytes = 0  # as much may have been decompressed in vain
            return self._refused(section, fault)
        self._room_bytes += MAX_RATIO * len(packed) - len(plain)
        self._room_records += len(packed)
        messages, read = self._messages(plain, self._room_records)
        if self._room_records < 0:
            return self._refused(section, TOO_MANY_RECORDS)
        stored = section.bytes - _RECORD.size
        if not section.whole:
            # In bytes of the file, as everywhere; the size of the whole chunk is unknown.
            lost = stored * (len(plain) - read) // len(plain) if plain else stored
            self._note(section.offset, lost, "the recording ends in the middle of a chunk")
            return Loaded(plain, messages)
        if read < len(plain):
            self._note(section.offset, len(plain) - read, "a chunk ends in the middle of a record")
        sound = self._is_sound(section.offset, plain, crc)
        if not sound:
            self._note(section.offset, stored, CHECKSUM)
        return Loaded(plain, messages, "" if sound else CHECKSUM, checksummed=sound and crc != 0)

    def _is_sound(self, offset: int, plain: bytes, crc: int) -> bool:
        """Whether a chunk's content is what its checksum says; 0 stands for none."""
        if crc == 0 or offset in self._sound:
            return True
        if crc32(plain) != crc:
            return False
        if len(self._sound) < MAX_INDEXED:
            self._sound.add(offset)
        return True

    def topics(self) -> set[tuple[str, str]]:
        """Topic and schema name of every channel so far."""
        return {(topic, schema) for topic, schema, _ in self.channels.values()}

    def _messages(self, plain: bytes, most: int | None = None) -> tuple[Iterable[MessageRecord], int]:
        """The messages of successive records, and the offset after the last complete record.

        Of a chunk no more than ``most`` records are read; their number is taken from the room for them.
        """
        messages: list[MessageRecord] = []
        is_long, before_ns, count = False, self._latest_ns, 0
        limit = len(plain) if most is None else most
        at, size, unpacked, header = 0, len(plain), _RECORD.unpack_from, _RECORD.size
        message_opcode = int(Opcode.MESSAGE)
        while at + header <= size and count <= limit:
            opcode, length = unpacked(plain, at)
            start = at + header
            end = start + length
            if end > size or not opcode:  # there is no record of type 0, but there are runs of zeros
                break
            count += 1
            if opcode == message_opcode and length >= _MESSAGE.size:
                if len(messages) < MAX_LISTED:
                    message = _message(plain, start, end, self._latest_ns)
                    self._latest_ns = message[0]
                    messages.append(message)
                else:
                    is_long = True
            elif opcode in {Opcode.SCHEMA, Opcode.CHANNEL}:
                self._declared(opcode, plain[start : min(end, start + MAX_DECLARATION_BYTES + 1)])
            at = end
        if most is not None:
            self._room_records -= count
        return Unlisted(partial(_messages_of, plain, before_ns)) if is_long else messages, at

    def _declared(self, opcode: int, body: bytes) -> None:
        key = opcode, body[0] + 256 * body[1] if len(body) > 1 else -1
        if not self._is_new(key, hash(body)):
            return
        if len(body) > MAX_DECLARATION_BYTES:
            self._note(0, len(body), f"a {Opcode(opcode).name.lower()} record of absurd size")
            return
        try:
            if opcode == Opcode.SCHEMA:
                self._schema(body)
            else:
                self._channel(body)
        except (struct.error, ValueError) as error:
            self._note(0, len(body), f"a damaged {Opcode(opcode).name.lower()} record: {error}")

    def _is_new(self, key: tuple[int, int], said: int) -> bool:
        """Whether the record with this hash says something else than the one before with its key.

        Raises:
            ValueError: the file has more of these than any recording.
        """
        if self.declared.get(key) == said:
            return False
        self._changes += 1
        if self._changes > MAX_DECLARED:
            raise ValueError(TOO_MANY_DECLARED)
        self.declared[key] = said
        return True

    def _schema(self, body: bytes) -> None:
        (number,) = _SCHEMA.unpack_from(body)
        name, at = _string(body, _SCHEMA.size)
        _, at = _string(body, at)
        length, at = _length(body, at)
        text = body[at : at + length].decode("utf-8", "replace")
        name = OLD_NAMES.get(name, displayed(name))
        if number not in self.schemas and len(self.schemas) >= MAX_CHANNELS:
            self._note_once(TOO_MANY_CHANNELS)
            return
        kept = self._definitions.keep(name, text)
        if kept is None:
            self._note_once(TOO_MUCH_TEXT)
        if number in self.schemas:
            self.declared.clear()  # channels that say the same again mean the new one
        self.schemas[number] = name, kept or ""

    def _channel(self, body: bytes) -> None:
        number, schema = _CHANNEL.unpack_from(body)
        topic, at = _string(body, _CHANNEL.size)
        encoding, at = _string(body, at)
        values = _string_map(body, at)
        if number not in self.channels and len(self.channels) >= MAX_CHANNELS:
            self._note_once(TOO_MANY_CHANNELS)
            return
        name, text = self.schemas.get(schema, ("", ""))
        self.channels[number] = displayed(topic), name, text
        if encoding == "ros1":
            self.encodings[number] = encoding
        elif encoding not in {"", "cdr"}:
            self.channel_faults[number] = (
                f"it is in {displayed(encoding)[:20]}, which is not read: record it from ROS 2, as CDR"
            )
        if FAULT in values:
            self.channel_faults[number] = displayed(values[FAULT])

    def _note_once(self, text: str, offset: int = 0, size: int = 0) -> None:
        if text not in self.limits:
            self.limits.add(text)
            self._note(offset, size, text)

    def _note(self, offset: int, size: int, text: str) -> None:
        add_fault(self.faults, RecordingFault(offset, size, text))


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A length, and the offset of what has it.

    Raises:
        ValueError: the record is shorter.
        struct.error: likewise.
    """
    (length,) = _LENGTH.unpack_from(body, at)
    at += _LENGTH.size
    if length > len(body) - at:
        raise ValueError(f"{length:,} bytes in the place of {len(body) - at:,}")
    return length, at


def _string(body: bytes, at: int) -> tuple[str, int]:
    """A string, and the offset of its end; raises as ``_length`` does."""
    length, at = _length(body, at)
    return body[at : at + length].decode(), at + length


def _string_map(body: bytes, at: int) -> dict[str, str]:
    """A map of strings; raises as ``_length`` does."""
    length, at = _length(body, at)
    end = at + length
    values: dict[str, str] = {}
    while at < end:
        key, at = _string(body, at)
        values[key], at = _string(body, at)
    return values


def _pairs(stored: bytes) -> Iterator[tuple[int, int]]:
    """The entries of a map from channel to number."""
    return _PAIR.iter_unpack(stored[: len(stored) // _PAIR.size * _PAIR.size])


def add_fault(faults: list[RecordingFault], fault: RecordingFault) -> None:
    """Append a fault; beyond ``MAX_FAULTS`` they are one, whose bytes grow."""
    if len(faults) < MAX_FAULTS:
        faults.append(fault)
    elif len(faults) == MAX_FAULTS:
        faults.append(replace(fault, text=FURTHER))
    else:
        faults[-1] = replace(faults[-1], bytes=faults[-1].bytes + fault.bytes)


def footer(file: BinaryIO, size: int) -> int | None:
    """The offset of the summary according to the footer, None without a footer."""
    tail = _RECORD.size + 20 + len(MAGIC)
    if size < len(MAGIC) + tail:
        return None
    file.seek(size - tail)
    end = file.read(tail)
    opcode, length = _RECORD.unpack_from(end)
    if not end.endswith(MAGIC) or opcode != Opcode.FOOTER or length != 20:
        return None
    return int(struct.unpack_from("<Q", end, _RECORD.size)[0])


def metadata(file: BinaryIO, size: int, name: str) -> dict[str, str] | None:
    """The values of the first metadata record of this name, None if there is none.

    Without a summary, only the records at the beginning of the file are searched.

    Raises:
        ValueError: it is damaged.
        struct.error: likewise.
    """
    start = footer(file, size)
    wanted = _LENGTH.pack(len(name.encode())) + name.encode()
    for opcode, at, length in _records(file, size, len(MAGIC) if start is None else start):
        if opcode == Opcode.METADATA_INDEX and start is not None:
            if not _PLACE.size + _LENGTH.size <= length <= MAX_DECLARATION_BYTES:
                continue
            file.seek(at)
            body = file.read(length)
            if not body.startswith(wanted, _PLACE.size):
                continue
            # The first one counts, so that a million of them cost nothing.
            found = next(_records(file, size, _PLACE.unpack_from(body)[0]), (0, 0, 0))
            return _metadata(file, *found[1:], wanted) if found[0] == Opcode.METADATA else None
        if opcode == Opcode.METADATA and (values := _metadata(file, at, length, wanted)) is not None:
            return values
        if start is None and opcode not in _LEADING:
            return None
    return None


def _metadata(file: BinaryIO, at: int, length: int, wanted: bytes) -> dict[str, str] | None:
    """The values of a metadata record, None if it has another name."""
    if length > MAX_DECLARATION_BYTES:
        return None
    file.seek(at)
    if file.read(len(wanted)) != wanted:
        return None
    return _string_map(file.read(length - len(wanted)), 0)


def _records(file: BinaryIO, size: int, start: int) -> Iterator[tuple[int, int, int]]:
    """Type, offset and length of the bodies of complete records from an offset on."""
    at = start
    while 0 < at <= size - _RECORD.size:
        file.seek(at)
        opcode, length = _RECORD.unpack(file.read(_RECORD.size))
        at += _RECORD.size
        if length > size - at:
            return
        yield opcode, at, length
        at += length


def _unpacked(
    compression: str, packed: bytes | bytearray, plain_size: int, most: int, whole: bool
) -> tuple[bytes, str]:
    """A chunk's decompressed records, or why there are none; little more than ``most`` is decompressed."""
    try:
        plain = _decompress(compression, packed, plain_size, most, whole)
    except Exception as error:  # noqa: BLE001 - what a library says of foreign bytes is the fault's text
        return b"", f"a chunk does not decompress ({displayed(compression) or 'plain'}): {reason_of(error)}"
    if plain is None or len(plain) > most:
        return b"", TOO_LARGE if most == MAX_CHUNK_BYTES else IMPLAUSIBLE
    return plain, ""


def _decompress(
    compression: str, packed: bytes | bytearray, plain_size: int, most: int, whole: bool
) -> bytes | None:
    """A chunk's records, of a truncated chunk what its complete blocks hold; None if more are declared."""
    if compression == "":
        return bytes(packed)
    if compression == "lz4":
        return _decompress_lz4(packed, min(plain_size, most), most)
    if compression == "zstd":
        import zstandard  # noqa: PLC0415 - takes a moment, and EdgeFirst's recorder uses lz4

        try:
            if not whole:
                with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                    return read_at_most(reader, most + 1)
            declared: int = zstandard.frame_content_size(packed)
            if (plain_size if declared < 0 else declared) > most:
                return None
            return zstandard.ZstdDecompressor().decompress(packed, max_output_size=plain_size)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    raise ValueError(f"compression {displayed(compression)!r} is not known; expected none, lz4 or zstd")


def unpacked(data: bytes) -> tuple[bytes, str]:
    """The data of a message that rosbag2 may have compressed, as far as they are there; and their fault."""
    if not data.startswith(_ZSTD):
        return data, ""
    import zstandard  # noqa: PLC0415 - as above

    most = min(MAX_CHUNK_BYTES, MAX_RATIO * len(data))
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            plain = read_at_most(reader, most + 1)
    except zstandard.ZstdError as error:
        return b"", f"its compressed data are damaged: {reason_of(error)}"
    return (plain, "") if len(plain) <= most else (b"", IMPLAUSIBLE)


def _decompress_lz4(packed: bytes | bytearray, declared: int, most: int) -> bytes:
    """What an LZ4 frame holds, or more than ``most`` of it; ``declared`` bytes of memory are taken first."""
    decompressor = lz4.frame.LZ4FrameDecompressor()
    plain: bytes = decompressor.decompress(packed, max_length=declared + 1)
    if declared < len(plain) <= most:
        plain += decompressor.decompress(b"", max_length=most + 1 - len(plain))
    return plain
