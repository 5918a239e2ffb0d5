"""Reads ROS 1 bags through the library rosbags (extra ``ros1``), within bounds that it has not.

The library makes code of definitions. It is given only what our parser made of them: names and numbers.
"""

from __future__ import annotations

import bz2
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import lz4.frame
from rosbags.interfaces import Connection
from rosbags.rosbag1 import Reader, ReaderError
from rosbags.rosbag1.reader import Chunk
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from edgefirst_ros.model.definitions import short_name
from edgefirst_ros.model.dynamic import CODES, MAX_DEPTH, Field, parse_definition
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import displayed, reason_of, refusing
from edgefirst_ros.sources.location import Location, StoredFile, stored_file
from edgefirst_ros.sources.recording import InFull, Recording, TimeWindow, TopicInfo
from edgefirst_ros.sources.records import MAX_CHUNK_BYTES, MAX_RATIO, OLD_NAMES, RecordingFault, add_fault

MAGIC = b"#ROSBAG V2.0\n"
MAX_STEPS = 10_000
"""Most fields of a type, those of its parts counted each time; the largest of common_interfaces has 100."""
FREE_BYTES = 1 << 30
"""A bag unpacks to so much, and to ``MAX_RATIO`` times what it has: those that overlap are unpacked again."""
KEPT_CHUNKS, KEPT_BYTES = 64, 256 << 20
_HEADER = "std_msgs/Header"
_BUILT_IN = {"time": "builtin_interfaces/Time", "duration": "builtin_interfaces/Duration", "Header": _HEADER}
_RULE = f"\n{'=' * 80}\n"


class Ros1Type:
    """A type of ROS 1 messages, which become CDR.

    Attributes:
        definition: the same type as a ``ros2msg`` schema of MCAP, see ``definitions.definition``.

    Raises:
        ValueError: the text is no definition, lacks a type, or defines what no message is: types in
            themselves, arrays of nothing, too much.
    """

    def __init__(self, schema: str, text: str) -> None:
        layouts = parse_definition(schema, text.replace("roslib/Header", _HEADER))  # as bags of 2010 call it
        self._layouts = {name: _as_ros2(fields, layouts) for name, fields in layouts.items()}
        if self._layouts.get(_HEADER, ())[:1] == (Field("seq", "uint32", None),):
            self._layouts[_HEADER] = self._layouts[_HEADER][1:]  # the library skips it in messages
        self._steps: dict[str, int] = {}
        self._count(schema, MAX_DEPTH)
        texts = {name: _text(self._layouts[name]) for name in self._steps}
        main = texts.pop(schema)
        self.definition = main + "".join(f"{_RULE[1:]}MSG: {n}\n{each}" for n, each in texts.items())
        self._name = schema.replace("/", "/msg/")
        self._store = get_typestore(Stores.EMPTY)
        for name, each in {schema: main, **texts}.items():
            self._store.register(get_types_from_msg(each, name.replace("/", "/msg/")))

    def to_cdr(self, data: bytes) -> bytes:
        """A message as little-endian CDR.

        Raises:
            ValueError: it is shorter or longer than its type says.
        """
        try:
            return bytes(self._store.ros1_to_cdr(data, self._name))
        except Exception as error:
            raise ValueError(reason_of(error)) from error

    def _count(self, schema: str, depth: int) -> int:
        """How many fields a message of a type has in all."""
        if not depth:
            raise ValueError("types nested without end")
        if schema not in self._layouts:
            raise ValueError(f"its definition lacks {schema}")
        if schema not in self._steps:
            # A type within itself is met again before its fields are counted, and ends by the depth.
            fields = self._layouts[schema]
            count = 1 + sum(self._of_field(field, depth) for field in fields)
            if count > MAX_STEPS:
                raise ValueError(f"its definition has more than {MAX_STEPS:,} fields")
            self._steps[schema] = count
        return self._steps[schema]

    def _of_field(self, field: Field, depth: int) -> int:
        if field.type in CODES:
            return 1
        inside = 1 if field.type == "string" else self._count(field.type, depth - 1)
        if field.size is not None and field.type != "string" and not self._layouts[field.type]:
            raise ValueError(f"its field {field.name} is an array of nothing")
        return inside * max(1, field.size or 1)


class Ros1Types:
    """The types of a recording's messages of ROS 1, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Ros1Type | str] = {}

    def as_cdr(self, schema: str, text: str, data: bytes) -> tuple[bytes, str, str]:
        """A message in CDR, its definition, and why it cannot be converted."""
        if (schema, text) not in self._known:
            try:
                self._known[schema, text] = Ros1Type(short_name(schema), text)
            except Exception as error:  # noqa: BLE001 - what the library raises on foreign text
                self._known[schema, text] = displayed(reason_of(error))
        kind = self._known[schema, text]
        if isinstance(kind, str):
            return data, "", f"cannot be converted from ROS 1: {kind}"
        try:
            return kind.to_cdr(data), kind.definition, ""
        except ValueError as error:
            return b"", kind.definition, f"cannot be converted from ROS 1: {error}"


def _as_ros2(fields: Sequence[Field], known: Mapping[str, object]) -> tuple[Field, ...]:
    """The fields with the names that ROS 2 has for built-in types; a char of ROS 1 has no sign."""
    kinds = (f.type if f.type in known else _BUILT_IN.get(f.type.rpartition("/")[2], f.type) for f in fields)
    return tuple(
        field._replace(type="uint8" if kind == "char" else kind)
        for field, kind in zip(fields, kinds, strict=True)
        if field.size != 0
    )


def _text(fields: Sequence[Field]) -> str:
    sizes = ("" if f.size is None else "[]" if f.size < 0 else f"[{f.size}]" for f in fields)
    return "".join(f"{f.type}{size} {f.name}\n" for f, size in zip(fields, sizes, strict=True))


class _Place:
    """What the library asks of a path."""

    def __init__(self, stored: StoredFile) -> None:
        self._stored = stored

    def exists(self) -> bool:
        return True

    def open(self, _mode: str) -> BinaryIO:
        return self._stored.open()


class _Bag(Reader):
    """The library's reader; what it unpacks is bounded, and kept for chunks that overlap in time."""

    def __init__(self, stored: StoredFile) -> None:
        super().__init__(cast("Path", _Place(stored)))
        self._room = FREE_BYTES + MAX_RATIO * stored.size
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def read_chunk(self) -> Chunk:
        chunk = super().read_chunk()
        unpack = {bz2.decompress: _unbz2, lz4.frame.decompress: _unlz4}.get(chunk.decompressor)
        return chunk if unpack is None else chunk._replace(decompressor=self._bounded(chunk.datapos, unpack))

    def _bounded(self, at: int, unpack: Callable[[bytes, int], bytes]) -> Callable[[bytes], bytes]:
        def bounded(packed: bytes) -> bytes:
            plain = self._kept.pop(at, None)
            if plain is None:
                plain = unpack(packed, MAX_CHUNK_BYTES + 1)
                self._room -= len(plain)
                if len(plain) > MAX_CHUNK_BYTES or self._room < 0:
                    raise ReaderError("it unpacks to more than any recorder writes, and is not read")
            self._kept[at] = plain
            while len(self._kept) > KEPT_CHUNKS or sum(map(len, self._kept.values())) > KEPT_BYTES:
                self._kept.popitem(last=False)
            return plain

        return bounded


def _unbz2(packed: bytes, most: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(packed, most)


def _unlz4(packed: bytes, most: int) -> bytes:
    return bytes(lz4.frame.LZ4FrameDecompressor().decompress(packed, max_length=most))


class Ros1Recording(Recording):
    """One ``.bag`` file, whose messages are converted to CDR.

    Raises:
        RecordingError: no bag, or one without an index.
    """

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._stored = stored_file(path)
        self.size = self._stored.size
        self._types = Ros1Types()
        with refusing(path, RecordingError), self._stored.open() as file:
            magic = file.read(len(MAGIC))
        if magic != MAGIC:
            found = "is empty" if not magic else f"begins with {magic!r}"
            raise RecordingError(f"{path}: {found}, not with {MAGIC!r}; is it a bag of ROS 1?")
        with self._opened() as bag:
            self._connections = {each.id: _known(each) for each in bag.connections}
            self._counts = Counter({each.id: each.msgcount for each in bag.connections})
            self._spans = [(c.start_time, c.end_time - 1) for c in bag.chunk_infos if c.connection_counts]

    @contextmanager
    def _opened(self) -> Iterator[_Bag]:
        with refusing(self.path, RecordingError, "cannot be read; `rosbag reindex` may mend it"):
            bag = _Bag(self._stored)
            bag.open()
        try:
            yield bag
        finally:
            bag.close()

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Log times of every chunk."""
        return self._spans

    def topics(self) -> list[TopicInfo]:
        """Every topic."""
        return sorted({TopicInfo(topic, schema) for topic, schema, _ in self._connections.values()})

    def keep(self) -> None:
        """Keep a local copy of what is read from now on, if it is remote."""
        self._stored.keep()

    def messages(
        self,
        arrival: int = 0,
        window: TimeWindow | None = None,
        in_full: InFull | None = None,  # noqa: ARG002 - what is not in full cannot be converted
    ) -> Iterator[RawMessage]:
        """All messages in order of time, or those of a window, numbered from ``arrival`` on."""
        self.faults, self.position, self.next_arrival = [], 0, arrival
        left = Counter(self._counts)
        with self._opened() as bag:
            for number, time_ns, data in self._read(bag, window):
                left[number] -= 1
                self.position = max(self.position, min(self.size, bag.current_chunk[0]))
                yield self._converted(number, time_ns, data, arrival)
                arrival = self.next_arrival = arrival + 1
        self.outside = Counter()
        for number, count in left.items() if window is not None and not self.faults else ():
            self.outside[TopicInfo(*self._connections[number][:2])] += count
        self.position = self.size

    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """See ``Recording.latched``."""
        wanted = {number for number, (topic, *_) in self._connections.items() if topic in topics}
        with self._opened() as bag:
            for number, time_ns, data in self._read(bag, TimeWindow(0, before_ns), wanted) if wanted else ():
                yield self._converted(number, time_ns, data, 0)

    def _read(
        self, bag: _Bag, window: TimeWindow | None, wanted: Collection[int] = ()
    ) -> Iterator[tuple[int, int, bytes]]:
        """Connection, time and bytes of each message; where the bag is damaged they end, with a fault."""
        limits = (None, None) if window is None else (window.begin_ns, window.end_ns)
        found = bag.messages([each for each in bag.connections if each.id in wanted], *limits)
        while True:
            try:
                connection, time_ns, data = next(found)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - what the library raises on foreign bytes
                at = max(0, bag.current_chunk[0])
                text = f"damaged: {reason_of(error)}; what follows is not read"
                add_fault(self.faults, RecordingFault(at, self.size - at, text))
                return
            yield connection.id, time_ns, data

    def _converted(self, number: int, time_ns: int, data: bytes, arrival: int) -> RawMessage:
        """The message in CDR; one that cannot be converted has a fault."""
        topic, schema, text = self._connections[number]
        data, definition, fault = self._types.as_cdr(schema, text, data)
        return RawMessage(topic, schema, data, time_ns, time_ns, arrival, definition, fault)


def _known(connection: Connection) -> tuple[str, str, str]:
    """Topic, type and definition of a connection."""
    schema = OLD_NAMES.get(connection.msgtype, displayed(connection.msgtype))
    return displayed(connection.topic), schema, connection.msgdef.data
