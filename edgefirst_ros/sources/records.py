"""The records of an MCAP file: their sections, their messages, and what cannot be read."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, NamedTuple

import lz4.frame
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Metadata, MetadataIndex, Schema

FAULT = "edgefirst_ros.fault"
"""Key in a channel's metadata, written by live capture: why its messages are refused."""
MAGIC = b"\x89MCAP0\r\n"
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
_CHUNK = struct.Struct("<QQQII")
_SPAN = struct.Struct("<QQQ")
_LEADING = frozenset({Opcode.HEADER, Opcode.METADATA})
_IN_DATA = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE})
_RUN_BYTES = 1 << 20
CHECKSUM = "damaged chunk (its checksum does not match)"


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


class MessageRecord(NamedTuple):
    """A message of a section: its times, its channel, and the position of its data in the section."""

    log_ns: int
    channel: int
    publish_ns: int
    start: int
    end: int
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A section's decompressed records, and its messages in file order."""

    plain: bytes
    messages: list[MessageRecord]
    fault: str = ""
    """Why all of its messages are refused; empty if they are not."""


class RecordReader:
    """Reads a file section by section, and collects its channels.

    Attributes:
        channels: topic, schema name and definition, by channel id.
        channel_faults: why a channel's messages are refused according to the recorder, by channel id.
        faults: parts that could not be read.
        ended: whether the end of the data was found.
        spans: log times (first, last) of the file's chunks in file order, if its summary lists them.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, tuple[str, str, str]] = {}
        self.channel_faults: dict[int, str] = {}
        self.faults: list[RecordingFault] = []
        self.ended = False
        self.spans: list[tuple[int, int]] = []

    def read_summary(self, file: BinaryIO, size: int) -> None:
        """Read channels and the chunks' log times from the summary, if there is one."""
        start = footer(file, size)
        if start is None or not 0 < start < size:
            return
        file.seek(start)
        spans: list[tuple[int, tuple[int, int]]] = []
        while len(head := file.read(_RECORD.size)) == _RECORD.size:
            opcode, length = _RECORD.unpack(head)
            if opcode in {Opcode.DATA_END, Opcode.FOOTER} or length > size - file.tell():
                break
            body = file.read(length)
            if opcode in {Opcode.SCHEMA, Opcode.CHANNEL}:
                self._declared(opcode, body)
            elif opcode == Opcode.CHUNK_INDEX and length >= _SPAN.size:
                first_ns, last_ns, offset = _SPAN.unpack_from(body)
                spans.append((offset, (first_ns, last_ns)))
        self.spans = [span for _, span in sorted(spans)]

    def walk(self, file: BinaryIO, size: int) -> Iterator[FileSection]:
        """All sections, from the beginning of the file to the end of its data."""
        at = start = len(MAGIC)
        while True:
            file.seek(at)
            head = file.read(_RECORD.size)
            opcode, length = _RECORD.unpack(head) if len(head) == _RECORD.size else (0, 0)
            left = size - at - _RECORD.size
            whole = length <= left
            if start < at and (opcode not in _IN_DATA or not whole or at - start >= _RUN_BYTES):
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
        file.seek(section.offset)
        body = file.read(section.bytes)
        if not section.is_chunk:
            return Loaded(body, self._messages(body)[0])
        body = body[_RECORD.size :]
        if len(body) < _CHUNK.size:
            self._note(section.offset, len(body), "the recording ends in the middle of a record")
            return Loaded(b"", [])
        _, _, plain_size, crc, name_length = _CHUNK.unpack_from(body)
        name_end = _CHUNK.size + name_length
        compression = body[_CHUNK.size : name_end].decode("ascii", "replace")
        packed = body[name_end + 8 :]
        try:
            plain = _decompress(compression, packed, plain_size, whole=section.whole)
        except (RuntimeError, ValueError, MemoryError) as error:
            text = f"a chunk does not decompress ({compression or 'plain'}): {error}"
            self._note(section.offset, len(body), text)
            return Loaded(b"", [])
        messages, read = self._messages(plain)
        if not section.whole:
            # In bytes of the file, as everywhere; the size of the whole chunk is unknown.
            lost = len(body) * (len(plain) - read) // len(plain) if plain else len(body)
            self._note(section.offset, lost, "the recording ends in the middle of a chunk")
            return Loaded(plain, messages)
        if read < len(plain):
            self._note(section.offset, len(plain) - read, "a chunk ends in the middle of a record")
        sound = crc == 0 or zlib.crc32(plain) == crc
        return Loaded(plain, messages, "" if sound else CHECKSUM)

    def span(self, file: BinaryIO, section: FileSection) -> tuple[int, int] | None:
        """First and last log time of a section, None without messages; chunks are not decompressed."""
        if not section.is_chunk:
            times = [message.log_ns for message in self.load(file, section).messages]
            return (min(times), max(times)) if times else None
        file.seek(section.offset + _RECORD.size)
        head = file.read(16)
        first_ns, last_ns = struct.unpack("<QQ", head) if len(head) == 16 else (0, 0)
        return (first_ns, last_ns) if last_ns else None

    def topics(self) -> set[tuple[str, str]]:
        """Topic and schema name of every channel so far."""
        return {(topic, schema) for topic, schema, _ in self.channels.values()}

    def _messages(self, plain: bytes) -> tuple[list[MessageRecord], int]:
        """The messages of successive records, and the offset after the last complete record."""
        at, messages = 0, []
        while at + _RECORD.size <= len(plain):
            opcode, length = _RECORD.unpack_from(plain, at)
            start = at + _RECORD.size
            end = start + length
            if end > len(plain):
                break
            if opcode == Opcode.MESSAGE and length >= _MESSAGE.size:
                channel, sequence, log_ns, publish_ns = _MESSAGE.unpack_from(plain, start)
                messages.append(
                    MessageRecord(log_ns, channel, publish_ns, start + _MESSAGE.size, end, sequence)
                )
            elif opcode in {Opcode.SCHEMA, Opcode.CHANNEL}:
                self._declared(opcode, plain[start:end])
            at = end
        return messages, at

    def _declared(self, opcode: int, body: bytes) -> None:
        try:
            if opcode == Opcode.SCHEMA:
                schema = Schema.read(ReadDataStream(BytesIO(body)))
                self.schemas[schema.id] = schema
            elif opcode == Opcode.CHANNEL:
                channel = Channel.read(ReadDataStream(BytesIO(body)))
                known = self.schemas.get(channel.schema_id)
                name = known.name if known is not None else ""
                text = known.data.decode("utf-8", "replace") if known is not None else ""
                self.channels[channel.id] = (channel.topic, name, text)
                if FAULT in channel.metadata:
                    self.channel_faults[channel.id] = channel.metadata[FAULT]
        except Exception as error:  # noqa: BLE001 - damaged bytes make the parser raise whatever they hit
            self._note(0, len(body), f"a damaged {Opcode(opcode).name.lower()} record: {error}")

    def _note(self, offset: int, size: int, text: str) -> None:
        self.faults.append(RecordingFault(offset, size, text))


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
    """
    start = footer(file, size)
    for opcode, at, length in _records(file, size, len(MAGIC) if start is None else start):
        if opcode == Opcode.METADATA_INDEX and start is not None:
            file.seek(at)
            index = MetadataIndex.read(ReadDataStream(BytesIO(file.read(length))))
            found = next(_records(file, size, index.offset), None) if index.name == name else None
        else:
            found = (opcode, at, length) if opcode == Opcode.METADATA else None
            if start is None and opcode not in _LEADING:
                return None
        if found is not None and found[0] == Opcode.METADATA:
            file.seek(found[1])
            record = Metadata.read(ReadDataStream(BytesIO(file.read(found[2]))))
            if record.name == name:
                return dict(record.metadata)
    return None


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


def _decompress(compression: str, packed: bytes, plain_size: int, *, whole: bool) -> bytes:
    """A chunk's decompressed records; of a truncated chunk what its complete blocks hold."""
    if compression == "":
        return packed
    if compression == "lz4":
        plain: bytes = lz4.frame.LZ4FrameDecompressor().decompress(packed)
        return plain
    if compression == "zstd":
        import zstandard  # noqa: PLC0415 - takes a moment, and EdgeFirst's recorder uses lz4

        try:
            if whole:
                return zstandard.ZstdDecompressor().decompress(packed, max_output_size=plain_size)
            return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    raise ValueError(f"compression {compression!r} is not known; expected none, lz4 or zstd")
