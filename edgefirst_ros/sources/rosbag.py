"""Reads rosbag2 recordings in SQLite (``.db3``) and ROS 1 bags through the library rosbags."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from edgefirst_ros.errors import RecordingError, extra
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import displayed, readable
from edgefirst_ros.sources.location import Location, Url
from edgefirst_ros.sources.recording import Recording, TopicInfo
from edgefirst_ros.sources.records import RecordingFault
from edgefirst_ros.sources.storage import stored_file
from edgefirst_ros.sources.window import TimeWindow

if TYPE_CHECKING:
    from rosbags.interfaces import Connection
    from rosbags.interfaces.typing import Typesdict
    from rosbags.typesys.store import Typestore

EXTRA = "rosbag"
ROS1 = ".bag"
HEADER = "std_msgs/msg/Header"
_ADVICE = {
    "not indexed": "; rosbag reindex completes it",
    "malformed": "; sqlite3 FILE .recover saves what is left",
}
_COPY_BYTES = 4 << 20


class _Contents(NamedTuple):
    """What a bag holds: messages by topic, its first and last time, and definitions by type."""

    counts: Counter[TopicInfo]
    span: tuple[int, int]
    definitions: Mapping[str, str]


class RosbagRecording(Recording):
    """One ``.db3`` or ``.bag`` file, read in order of its time stamps, which are times of receipt.

    ROS 1 messages are converted to CDR. A remote file is copied to the local disk first.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not such a file, or unreadable.
        ExtraNotInstalled: rosbags is missing.
    """

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        with extra(EXTRA):
            import rosbags.interfaces  # noqa: F401, PLC0415 - only where a bag is given
        self._copy = _copied(path) if isinstance(path, Url) else None
        self._file = Path(str(path)) if self._copy is None else Path(self._copy.name)
        self._is_ros1 = path.suffix.lower() == ROS1
        self.size = stored_file(self._file).size
        if not self.size:
            raise RecordingError(f"{path}: is empty, and no bag")
        log = self._file.with_name(f"{self._file.name}-wal")
        if log.is_file() and log.stat().st_size:
            self.note = (
                f"its last messages are in {readable(log.name)}, which is not read; open it with sqlite3"
            )
        self._contents  # noqa: B018 - raises what is wrong

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last time; empty without messages."""
        return [self._contents.span] if self._contents.counts.total() else []

    def topics(self) -> list[TopicInfo]:
        """Every topic that messages may be of."""
        return sorted(self._contents.counts)

    def messages(self, arrival: int = 0, window: TimeWindow | None = None) -> Iterator[RawMessage]:
        """All messages, or those of a window, numbered from ``arrival`` on."""
        self.faults, self.position, self.next_arrival = [], 0, arrival
        self.outside = Counter() if window is None else self._contents.counts.copy()
        for message in self._read(arrival, window):
            if window is not None:
                self.outside[TopicInfo(message.topic, message.schema)] -= 1
            self.position = min(self.size, self.position + len(message.data))
            self.next_arrival = message.arrival + 1
            yield message
        self.outside = +self.outside
        self.position = self.size

    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """Messages of these topics with earlier times; their index finds them."""
        return self._read(0, TimeWindow(0, before_ns), topics)

    def _read(
        self, arrival: int, window: TimeWindow | None, topics: Collection[str] | None = None
    ) -> Iterator[RawMessage]:
        limits = (None, None) if window is None else (window.begin_ns, min(window.end_ns, (1 << 63) - 1))
        with self._opened() as bag:
            wanted = [c for c in bag.connections if topics is None or displayed(c.topic) in topics]
            read = bag.messages(wanted, *limits) if wanted else iter(())
            while True:
                try:
                    connection, time_ns, data = next(read)
                except StopIteration:
                    return
                except _damage() as error:
                    left = max(0, self.size - self.position)
                    self.faults.append(RecordingFault(self.position, left, f"damaged: {_reason(error)}"))
                    return
                topic, schema = _info(connection)
                cdr, fault = self._cdr(connection, data)
                definition = self._contents.definitions.get(schema, "")
                yield RawMessage(topic, schema, cdr, time_ns, time_ns, arrival, definition, fault)
                arrival += 1

    def _cdr(self, connection: Connection, data: bytes) -> tuple[bytes, str]:
        """A message as CDR, and why it cannot be, empty if it can."""
        if self._types is None:
            return data, ""
        try:
            return bytes(self._types.ros1_to_cdr(data, connection.msgtype)), ""
        except _damage() as error:
            return data, f"cannot be converted from ROS 1: {_reason(error)}"

    @cached_property
    def _types(self) -> Typestore | None:
        """The types of ROS 1 messages, as the bag declares them; None for rosbag2, whose messages are CDR."""
        if not self._is_ros1:
            return None
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore  # noqa: PLC0415

        store = get_typestore(Stores.EMPTY)
        types: Typesdict = {}
        with self._opened() as bag:
            for connection in bag.connections:
                types.update(get_types_from_msg(connection.msgdef.data, connection.msgtype))
        # ROS 2 has no sequence numbers; the conversion skips them where the type has none.
        if HEADER in types:
            constants, fields = types[HEADER]
            types[HEADER] = constants, [field for field in fields if field[0] != "seq"]
        store.register(types)
        return store

    @cached_property
    def _contents(self) -> _Contents:
        with self._opened() as bag:
            counts: Counter[TopicInfo] = Counter()
            for connection in bag.connections:
                counts[_info(connection)] += connection.msgcount
            definitions = {c.msgtype: c.msgdef.data for c in bag.connections if c.msgdef.format.name == "MSG"}
            known = bag if self._is_ros1 else bag.metadata
            span = known.start_time, known.end_time - 1
        if self._types is not None:
            definitions = {name: self._types.generate_msgdef(name, 2)[0] for name in definitions}
        return _Contents(counts, span, definitions)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The library's reader of the file, open.

        Raises:
            RecordingError: it is no bag, or its index is damaged.
        """
        from rosbags.rosbag1 import Reader  # noqa: PLC0415
        from rosbags.rosbag2.storage_sqlite3 import Sqlite3Reader  # noqa: PLC0415

        bag = Reader(self._file) if self._is_ros1 else Sqlite3Reader(self._file)
        try:
            bag.open()
        except _damage() as error:
            said = _reason(error).removeprefix(f"Cannot open database {self._file}: ")
            advice = next((text for word, text in _ADVICE.items() if word in said), "")
            raise RecordingError(f"{self.path}: cannot be read: {said}{advice}") from error
        try:
            yield bag
        finally:
            bag.close()


def _info(connection: Connection) -> TopicInfo:
    return TopicInfo(displayed(connection.topic), displayed(connection.msgtype))


def _damage() -> tuple[type[Exception], ...]:
    """What rosbags raises on damaged files and messages."""
    import apsw  # noqa: PLC0415 - comes with rosbags
    from rosbags.rosbag1 import ReaderError as Ros1Error  # noqa: PLC0415
    from rosbags.rosbag2 import ReaderError as Ros2Error  # noqa: PLC0415
    from rosbags.serde import SerdeError  # noqa: PLC0415
    from rosbags.typesys import TypesysError  # noqa: PLC0415

    own = (apsw.Error, Ros1Error, Ros2Error, SerdeError, TypesysError)
    return (*own, AssertionError, EOFError, LookupError, OSError, RuntimeError, ValueError, struct.error)


def _reason(error: Exception) -> str:
    return displayed(str(error) or type(error).__name__)


def _copied(url: Url) -> IO[bytes]:
    """A temporary copy, which goes when it is closed."""
    copy = tempfile.NamedTemporaryFile(suffix=url.suffix)  # noqa: SIM115 - closed with the recording
    try:
        with stored_file(url).open() as file:
            shutil.copyfileobj(file, copy, _COPY_BYTES)
        copy.flush()
    except BaseException as error:
        copy.close()
        if isinstance(error, OSError):
            raise RecordingError(
                f"{url}: cannot be copied to {tempfile.gettempdir()}: {error.strerror}"
            ) from error
        raise
    return copy
