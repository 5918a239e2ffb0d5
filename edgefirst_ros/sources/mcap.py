"""Reads MCAP recordings."""

from __future__ import annotations

import struct
from functools import cached_property
from typing import BinaryIO

from edgefirst_ros.errors import RecordingError
from edgefirst_ros.sources.chunked import ChunkedRecording
from edgefirst_ros.sources.location import Url
from edgefirst_ros.sources.records import MAGIC, RecordReader, footer, metadata
from edgefirst_ros.sources.session import END, SESSION, RecordedSession, from_metadata


class McapRecording(ChunkedRecording):
    """One MCAP file; see ``ChunkedRecording``."""

    def _begin(self, file: BinaryIO) -> int:
        start = footer(file, self.size)
        file.seek(0)
        magic = MAGIC if start is not None and isinstance(self.path, Url) else file.read(len(MAGIC))
        if magic != MAGIC:
            found = "is empty" if not magic else f"begins with {magic!r}"
            raise RecordingError(f"{self.path}: {found}, not with the MCAP magic; is it an MCAP recording?")
        return start or 0

    def _reader(self) -> RecordReader:
        return RecordReader()

    @cached_property
    def session(self) -> RecordedSession | None:
        """The live session that this is a recording of, None if another program recorded it."""
        return from_metadata(self._metadata(SESSION))

    @cached_property
    def goes_on(self) -> bool:
        """Whether another session continues the one recorded here."""
        return self._metadata(END).get("goes_on") == "true"

    def _metadata(self, name: str) -> dict[str, str]:
        with self._opened([]) as file:
            try:
                return metadata(file, self.size, name) or {}
            except (struct.error, ValueError):
                return {}  # damaged; found again when the messages are read
