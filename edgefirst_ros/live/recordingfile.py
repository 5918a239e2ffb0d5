"""One recording on disk: an MCAP in the form of rosbag2's, durable up to a second ago at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from edgefirst_ros.formats.crashsafe.sync import sync_file, sync_path
from edgefirst_ros.messages.definitions import definition
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.sources.records import FAULT
from edgefirst_ros.sources.session import END, SESSION, STRING, RecordedSession
from edgefirst_ros.topics import full_type

PROFILE = "ros2"
CHUNK_BYTES = 4 << 20
"""The index of chunks stays in memory until the end: larger ones keep it small."""
QOS = "offered_qos_profiles"
_FOREVER = "{sec: 9223372036, nsec: 854775807}"
_SEQUENCES = 1 << 32


def qos_text(*, depth: int = 10, reliable: bool = True, latched: bool = False, keep_all: bool = False) -> str:
    """A publisher's quality of service as rosbag2 writes it (``rosbag2_storage/qos``, policies by number)."""
    return (
        f"- history: {2 if keep_all else 1}\n  depth: {depth}\n  reliability: {1 if reliable else 2}\n"
        f"  durability: {1 if latched else 2}\n  deadline: {_FOREVER}\n  lifespan: {_FOREVER}\n"
        f"  liveliness: 1\n  liveliness_lease_duration: {_FOREVER}\n"
        "  avoid_ros_namespace_conventions: false"
    )


class RecordingFile:
    """Writes messages as they come; what was synced can be read whatever happens then.

    Args:
        path: a file that is not there yet; its folder is made.
        session: what it is of.
        offered: quality of service that topics are published with, by topic, where it is known.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path, session: RecordedSession, offered: Mapping[str, str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.messages = 0
        self._offered = offered
        self._schemas: dict[tuple[str, str], int] = {}
        self._channels: dict[tuple[str, str, str, str], int] = {}
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
        """What has been written of it."""
        return self._file.tell()

    def write(self, message: RawMessage, number: int, log_ns: int) -> None:
        """Add a message with its place in the order of receipt.

        Raises:
            OSError: it cannot be written.
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

    def sync(self) -> None:
        """Have everything written so far survive a power cut.

        Raises:
            OSError: it cannot be written.
        """
        self._writer.flush()  # type: ignore[no-untyped-call]
        sync_file(self._file.fileno())

    def finish(self, values: Mapping[str, str]) -> None:
        """Write the index, and what is to be said of the end.

        Raises:
            OSError: it cannot be written.
        """
        try:
            self._writer.flush()  # type: ignore[no-untyped-call]
            self._writer.add_metadata(END, dict(values))
            self._writer.finish()  # type: ignore[no-untyped-call]
            self._file.flush()
            sync_file(self._file.fileno())
        finally:
            self.close()

    def close(self) -> None:
        """Let go of it as it is."""
        # What is still buffered may be what cannot be written.
        try:
            self._file.close()
        except OSError:
            self._file.raw.close()

    def _channel(self, message: RawMessage) -> int:
        schema = full_type(message.schema)
        key = message.topic, schema, message.definition, message.fault
        channel = self._channels.get(key)
        if channel is None:
            offered = self._offered.get(message.topic) or qos_text(
                latched=message.topic.endswith("tf_static")
            )
            about = {QOS: offered} | ({FAULT: message.fault} if message.fault else {})
            channel = self._channels[key] = self._writer.register_channel(
                message.topic, MessageEncoding.CDR, self._schema(schema, message.definition), about
            )
        return channel

    def _schema(self, schema: str, text: str) -> int:
        if not schema:
            return 0
        text = text or _own_definition(schema)
        if (schema, text) not in self._schemas:
            encoding = SchemaEncoding.ROS2 if text else ""
            self._schemas[schema, text] = self._writer.register_schema(schema, encoding, text.encode())
        return self._schemas[schema, text]


def _own_definition(schema: str) -> str:
    if schema == STRING:
        return "string data\n"
    try:
        return definition(schema)
    except KeyError:
        return ""
