"""Reads ROS 1 bags."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO

from edgefirst_ros.errors import RecordingError
from edgefirst_ros.messages.definitions import short_name
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.ros1 import Ros1Type
from edgefirst_ros.naming import displayed
from edgefirst_ros.sources.chunked import ChunkedRecording
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.recording import InFull
from edgefirst_ros.sources.records import IndexedChunk, RecordReader
from edgefirst_ros.sources.ros1records import BAG_MAGIC, BagReader, index_position
from edgefirst_ros.sources.window import TimeWindow


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
