"""MCAP recordings: whole, without footer, cut in the middle of a chunk, or with a damaged chunk."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Schema

from edgefirst_ros.errors import RecordingError, RecordingNotFound
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable

MAGIC = b"\x89MCAP0\r\n"
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
_CHUNK = struct.Struct("<QQQII")
_NAME = re.compile(r"(?P<host>.+)_(?P<when>\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d)")
_IN_DATA = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE})
NO_SUMMARY = "the recording is cut behind its data: its summary is lost, every message is there"
CHECKSUM = "damaged chunk (its checksum does not match)"


class TopicInfo(NamedTuple):
    """A topic of a recording: name and ``pkg/msg/Type``."""

    topic: str
    schema: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of the file that could not be read."""

    offset: int
    bytes: int
    text: str


class McapRecording:
    """One MCAP file, read once in file order, which is the order in which the messages arrived.

    Reading in order of log_time, as readers do by default, would shuffle the messages around a step of
    the wall clock. After iterating ``messages``, ``faults`` says what could not be read.

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
        """Host name in the file name ``{host}_%Y_%m_%d_%H_%M_%S.mcap``, else the whole stem."""
        found = _NAME.fullmatch(self.path.stem)
        return readable(found["host"] if found else self.path.stem)

    @property
    def sequence_name(self) -> str | None:
        """``host_date_time`` if that is how the file is named."""
        return self.path.stem if _NAME.fullmatch(self.path.stem) else None

    def topics(self) -> list[TopicInfo]:
        """Every topic with at least a channel; reads the whole file where it has no summary."""
        reader = _Reader()
        with self.path.open("rb") as file:
            self._read_summary(reader, file)
            # A writer may leave channels out of the summary; then only the data section has them.
            if reader.channels:
                return reader.topics()
            file.seek(len(MAGIC))
            for _ in reader.records(file, self.size):
                pass
        return reader.topics()

    def messages(self) -> Iterator[RawMessage]:
        """All messages in file order; those of a damaged chunk carry a ``fault``."""
        reader = _Reader()
        arrival = 0
        with self.path.open("rb") as file:
            # Channels are declared in the first chunk that uses them, which may be the damaged one.
            self._read_summary(reader, file)
            self.faults = reader.faults = []
            file.seek(len(MAGIC))
            for channel_id, log_ns, publish_ns, data, fault in reader.records(file, self.size):
                self.position = reader.position
                channel = reader.channels.get(channel_id)
                if channel is None:
                    text = f"message of no channel {channel_id}"
                    reader.faults.append(Fault(reader.position, len(data), text))
                    continue
                topic, schema, definition = channel
                yield RawMessage(topic, schema, data, log_ns, publish_ns, arrival, definition, fault)
                arrival += 1
            if reader.ended and _footer(file, self.size) is None:
                self.note = NO_SUMMARY
        self.position = self.size

    def _read_summary(self, reader: _Reader, file: BinaryIO) -> None:
        start = _summary_start(file, self.size)
        if start is not None:
            file.seek(start)
            for _ in reader.records(file, self.size):
                pass


class _Reader:
    """Records of one file: channels as they come, messages out."""

    def __init__(self) -> None:
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, tuple[str, str, str]] = {}
        self.faults: list[Fault] = []
        self.position = 0
        """Behind the record last read; asking the file itself for every message costs more than reading."""
        self.ended = False
        """Whether the data section came to its own end."""

    def topics(self) -> list[TopicInfo]:
        return sorted({TopicInfo(topic, schema) for topic, schema, _ in self.channels.values()})

    def records(self, file: BinaryIO, size: int) -> Iterator[tuple[int, int, int, bytes, str]]:
        """(channel, log time, publish time, data, fault) of every message up to the data section's end."""
        self.position = file.tell()
        while True:
            start = self.position
            head = file.read(_RECORD.size)
            if len(head) < _RECORD.size:
                self._note(start, size - start, "the recording ends without a footer")
                return
            opcode, length = _RECORD.unpack(head)
            if opcode in {Opcode.DATA_END, Opcode.FOOTER}:
                self.ended = True
                return
            if opcode == 0 or opcode > Opcode.DATA_END:
                self._note(start, size - start, f"record type {opcode} does not exist; reading stops here")
                return
            left = size - start - _RECORD.size
            whole = length <= left
            self.position = start + _RECORD.size + min(length, left)
            if opcode == Opcode.CHUNK:
                yield from self._chunk(file.read(min(length, left)), start, whole=whole)
            elif not whole:
                self._note(start, size - start, "the recording ends in the middle of a record")
            elif opcode in _IN_DATA:
                yield from self._record(opcode, file.read(length), "")
            else:
                file.seek(length, 1)
            if not whole:
                return

    def _chunk(self, body: bytes, start: int, *, whole: bool) -> Iterator[tuple[int, int, int, bytes, str]]:
        if len(body) < _CHUNK.size:
            self._note(start, len(body), "the recording ends in the middle of a record")
            return
        _, _, plain_size, crc, name_length = _CHUNK.unpack_from(body)
        name_end = _CHUNK.size + name_length
        compression = body[_CHUNK.size : name_end].decode("ascii", "replace")
        packed = body[name_end + 8 :]
        try:
            plain = _decompress(compression, packed, plain_size, whole=whole)
        except (RuntimeError, ValueError, zstandard.ZstdError, MemoryError) as error:
            self._note(start, len(body), f"a chunk does not decompress ({compression or 'plain'}): {error}")
            return
        sound = not whole or crc == 0 or zlib.crc32(plain) == crc
        at = 0
        while at + _RECORD.size <= len(plain):
            opcode, length = _RECORD.unpack_from(plain, at)
            end = at + _RECORD.size + length
            if end > len(plain):
                break
            yield from self._record(opcode, plain[at + _RECORD.size : end], "" if sound else CHECKSUM)
            at = end
        if not whole:
            # In bytes of the file, as everywhere; the chunk's size when it is whole is not known.
            lost = len(body) * (len(plain) - at) // len(plain) if plain else len(body)
            self._note(start, lost, "the recording ends in the middle of a chunk")
        elif at < len(plain):
            self._note(start, len(plain) - at, "a chunk ends in the middle of a record")

    def _record(self, opcode: int, body: bytes, fault: str) -> Iterator[tuple[int, int, int, bytes, str]]:
        if opcode == Opcode.MESSAGE and len(body) >= _MESSAGE.size:
            channel, _, log_ns, publish_ns = _MESSAGE.unpack_from(body)
            yield channel, log_ns, publish_ns, body[_MESSAGE.size :], fault
            return
        try:
            if opcode == Opcode.SCHEMA:
                schema = Schema.read(ReadDataStream(BytesIO(body)))
                self.schemas[schema.id] = schema
            elif opcode == Opcode.CHANNEL:
                self._channel(Channel.read(ReadDataStream(BytesIO(body))))
        except Exception as error:  # noqa: BLE001 - damaged bytes make the parser raise whatever they hit
            self._note(0, len(body), f"a damaged {Opcode(opcode).name.lower()} record: {error}")

    def _channel(self, channel: Channel) -> None:
        schema = self.schemas.get(channel.schema_id)
        name = schema.name if schema is not None else ""
        text = schema.data.decode("utf-8", "replace") if schema is not None else ""
        self.channels[channel.id] = (channel.topic, name, text)

    def _note(self, offset: int, size: int, text: str) -> None:
        self.faults.append(Fault(offset, size, text))


def _decompress(compression: str, packed: bytes, plain_size: int, *, whole: bool) -> bytes:
    """A chunk's records; of a cut chunk as much as its whole blocks hold."""
    if compression == "":
        return packed
    if compression == "lz4":
        plain: bytes = lz4.frame.LZ4FrameDecompressor().decompress(packed)
        return plain
    if compression == "zstd":
        if whole:
            return zstandard.ZstdDecompressor().decompress(packed, max_output_size=plain_size)
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    raise ValueError(f"compression {compression!r} is not known; expected none, lz4 or zstd")


def _summary_start(file: BinaryIO, size: int) -> int | None:
    """Where the summary section begins, None without a footer or summary."""
    start = _footer(file, size)
    return start if start is not None and 0 < start < size else None


def _footer(file: BinaryIO, size: int) -> int | None:
    """Where the footer says that the summary begins, None without a footer."""
    tail = _RECORD.size + 20 + len(MAGIC)
    if size < len(MAGIC) + tail:
        return None
    file.seek(size - tail)
    end = file.read(tail)
    opcode, length = _RECORD.unpack_from(end)
    if not end.endswith(MAGIC) or opcode != Opcode.FOOTER or length != 20:
        return None
    return int(struct.unpack_from("<Q", end, _RECORD.size)[0])
