"""One recording on disk: an MCAP file as rosbag2 writes it, and the latched messages that begin it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import CONTEXT_ROLES, OFTEN_OTHER, TYPES, full_type
from edgefirst_ros.formats.crashsafe.sync import LOST, is_in_place, sync_file, sync_path
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import DecodeError, WriteError
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.transform import Transforms
from edgefirst_ros.sources.records import FAULT
from edgefirst_ros.sources.session import END, SESSION, RecordedSession

PROFILE = "ros2"
CHUNK_BYTES = 4 << 20
"""The chunk index stays in memory until the end; large chunks keep it small."""
QOS = "offered_qos_profiles"
_FOREVER = "{sec: 9223372036, nsec: 854775807}"
_SEQUENCES = 1 << 32
_INDEX_BYTES, _OFFSET_BYTES, _CHANNEL_BYTES = 128, 16, 1024
"""At least what the end of a file holds of a chunk, of a channel in a chunk, and of a channel."""
MAX_CHANNELS = 4096
MAX_KEPT = 256
"""Limit of latched messages: more than the topics and frames of any rig."""
_LATCHED_TYPES = frozenset(kind for role in CONTEXT_ROLES for kind in TYPES[role])
_Key = tuple[str, str, tuple[str, ...]]


def qos_text(*, depth: int = 10, reliable: bool = True, latched: bool = False, keep_all: bool = False) -> str:
    """A publisher's QoS as rosbag2 stores it (``rosbag2_storage/qos``, policies as numbers)."""
    return (
        f"- history: {2 if keep_all else 1}\n  depth: {depth}\n  reliability: {1 if reliable else 2}\n"
        f"  durability: {1 if latched else 2}\n  deadline: {_FOREVER}\n  lifespan: {_FOREVER}\n"
        f"  liveliness: 1\n  liveliness_lease_duration: {_FOREVER}\n"
        "  avoid_ros_namespace_conventions: false"
    )


class RecordingFile:
    """Writes messages in order; what was synced can be read even if the file is never completed.

    Args:
        path: a file that must not exist; its folder is created.
        session: the session that is recorded.
        offered: QoS of the publishers by topic, where known.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, path: Path, session: RecordedSession, offered: Mapping[str, str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.messages = 0
        self._offered = offered
        self._schemas: dict[tuple[str, str], int] = {}
        self._channels: dict[tuple[str, str, str, str], int] = {}
        self._schema_bytes = self._syncs = self._size = 0
        self._file = path.open("xb")
        try:
            self._writer = Writer(self._file, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
            self._writer.start(PROFILE, library="edgefirst_ros")
            self._writer.add_metadata(SESSION, session.to_metadata())
            self.sync()
            sync_path(path.parent)
        except BaseException:
            self._file.close()
            raise

    @property
    def bytes(self) -> int:
        """Size of the file so far."""
        return self._file.tell()

    @property
    def finish_bytes(self) -> int:
        """By how many bytes, at most, ``finish`` makes grow what is on the disk by now; any thread.

        A chunk that waits in memory, and what lies at the end: channels, schemas, and an index of the chunks,
        of which there is one each time the file was synced, and one each time that one was full.
        """
        chunks, channels = self._syncs + self._size // CHUNK_BYTES + 1, len(self._channels)
        index = chunks * (_INDEX_BYTES + _OFFSET_BYTES * channels)
        return CHUNK_BYTES + index + channels * _CHANNEL_BYTES + self._schema_bytes

    def write(self, message: RawMessage, number: int, log_ns: int) -> None:
        """Write a message; ``number`` is its position in order of receipt.

        Raises:
            OSError: the file cannot be written.
        """
        self._writer.add_message(
            self._channel(message),
            # MCAP has no time before 1970.
            log_time=max(0, log_ns),
            data=message.data,
            publish_time=max(0, message.publish_ns),
            sequence=number % _SEQUENCES,
        )
        self.messages += 1
        self._size += len(message.data)

    def has_room(self, message: RawMessage) -> bool:
        """Whether its topic is in the file, or fits; MCAP has room for 65,535, of which each takes memory."""
        return len(self._channels) < MAX_CHANNELS or self._key(message) in self._channels

    def sync(self) -> None:
        """Make everything written so far survive a power cut.

        Raises:
            OSError: the file cannot be written.
            WriteError: it no longer has its name, so that what is written to it is lost.
        """
        self._writer.flush()  # type: ignore[no-untyped-call]
        sync_file(self._file.fileno())
        self._syncs += 1
        self._refuse_lost()

    def finish(self, values: Mapping[str, str]) -> int:
        """Write the end metadata and the index, and close the file; its size.

        Raises:
            OSError: the file cannot be written.
            WriteError: it no longer has its name.
        """
        try:
            self._writer.flush()  # type: ignore[no-untyped-call]
            self._writer.add_metadata(END, dict(values))
            self._writer.finish()  # type: ignore[no-untyped-call]
            self._file.flush()
            sync_file(self._file.fileno())
            self._refuse_lost()
            return self.bytes
        finally:
            self.close()

    def close(self) -> None:
        """Close the file without completing it."""
        # Flushing the buffer may be what fails.
        try:
            self._file.close()
        except OSError:
            self._file.raw.close()

    def _refuse_lost(self) -> None:
        if not is_in_place(self._file.fileno(), self.path):
            raise WriteError(f"{self.path} {LOST}; the datasets go on")

    def _channel(self, message: RawMessage) -> int:
        key = self._key(message)
        schema = key[1]
        channel = self._channels.get(key)
        if channel is None:
            offered = self._offered.get(message.topic) or qos_text(
                latched=message.topic.endswith(tuple(end for _, end in OFTEN_OTHER.values()))
            )
            about = {QOS: offered} | ({FAULT: message.fault} if message.fault else {})
            channel = self._channels[key] = self._writer.register_channel(
                message.topic, MessageEncoding.CDR, self._schema(schema, message.definition), about
            )
        return channel

    @staticmethod
    def _key(message: RawMessage) -> tuple[str, str, str, str]:
        return message.topic, full_type(message.schema), message.definition, message.fault

    def _schema(self, schema: str, text: str) -> int:
        if not schema:
            return 0
        text = text or _own_definition(schema)
        if (schema, text) not in self._schemas:
            encoding = SchemaEncoding.ROS2 if text else ""
            self._schema_bytes += len(text) + _CHANNEL_BYTES
            self._schemas[schema, text] = self._writer.register_schema(schema, encoding, text.encode())
        return self._schemas[schema, text]


def _own_definition(schema: str) -> str:
    try:
        return definition(schema)
    except KeyError:
        return ""


class Latched:
    """Keeps the last message of every topic that is sent once; of transforms one for every set of frames."""

    def __init__(self, config: Config) -> None:
        rules = config.topics.values()
        roles = {role for role, _ in OFTEN_OTHER.values()}
        static = [name for rule in rules if rule.role in roles for name in rule.plain_names]
        self._static = {f"/{name.strip('/')}" for name in static}
        self._kept: dict[_Key, RawMessage] = {}

    def remember(self, message: RawMessage) -> None:
        """Keep a message if it is of such a topic."""
        kind = full_type(message.schema)
        if message.fault or not self._is_latched(message.topic, kind):
            return
        key = message.topic, kind, _frames(message)
        if key not in self._kept and len(self._kept) >= MAX_KEPT:
            return
        # The newest is last.
        self._kept.pop(key, None)
        self._kept[key] = message

    def messages(self) -> list[RawMessage]:
        """The messages kept, in order of arrival."""
        return list(self._kept.values())

    def _is_latched(self, topic: str, kind: str) -> bool:
        if kind in OFTEN_OTHER:
            return topic.endswith(OFTEN_OTHER[kind][1]) or topic in self._static
        return kind in _LATCHED_TYPES


def _frames(message: RawMessage) -> tuple[str, ...]:
    try:
        datum = decode(message).datum
    except DecodeError:
        return ()
    return tuple(each.child for each in datum.transforms) if isinstance(datum, Transforms) else ()
