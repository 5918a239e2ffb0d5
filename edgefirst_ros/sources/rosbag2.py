"""Reads rosbag2 recordings in SQLite (``.db3``)."""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import displayed, readable, reason_of, refusing
from edgefirst_ros.sources.location import Location, Url, stored_file
from edgefirst_ros.sources.recording import InFull, Recording, TimeWindow, TopicInfo
from edgefirst_ros.sources.records import (
    MAX_CHANNELS,
    MAX_CHUNK_BYTES,
    MAX_TIME_NS,
    TOO_MUCH_TEXT,
    Definitions,
    RecordingFault,
    add_fault,
    unpacked,
)
from edgefirst_ros.sources.scratch import COPY, local_copy

_MOST_TEXT_BYTES = 1 << 20
"""Longest name or definition."""
_MOST_COLUMNS = 64
_BLOCK = 10_000
_STEPS = 1_000
_MOST_SCHEMA_STEPS = 20_000
"""Instructions of SQLite for reading the schema, some 20 for each of rosbag2's five tables."""
_PLAIN = ("CREATE TABLE ", "CREATE INDEX ", "CREATE UNIQUE INDEX ")
"""How SQLite stores the only things that a recording may hold: views and virtual tables are programs."""
_NAMES_OF_ROWS = frozenset({"rowid", "oid", "_rowid_"})
_BAD_TIME = "its time stamp is not one of the years 1970 to 2116"
_NO_BYTES = "its data are not bytes"
_ADVICE = "; sqlite3 FILE .recover saves what is left"


class _Rows(NamedTuple):
    """All messages by time: rowids, numbers of topics (-1 is none), times, and whether these were sane."""

    ids: npt.NDArray[np.int64]
    topics: npt.NDArray[np.int32]
    times_ns: npt.NDArray[np.int64]
    are_sane: npt.NDArray[np.bool_]


class _Topic(NamedTuple):
    info: TopicInfo
    definition: str


class Rosbag2Recording(Recording):
    """One ``.db3`` file, read in order of its time stamps, which are times of receipt.

    Only plain tables are read, row by row without their indexes, and no more than the file can hold: trees
    of pages may be endless, and strings may share them. A remote file is copied to the local disk first.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not such a file, or unreadable.
    """

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._copy = local_copy(path) if isinstance(path, Url) else None
        self._file = Path(str(path)) if self._copy is None else self._copy.path / COPY
        try:
            self._look(path)
        except BaseException:
            if self._copy is not None:
                self._copy.remove()
            raise

    def _look(self, path: Location) -> None:
        """See what is in it, or that it cannot be read."""
        self.size = stored_file(self._file).size
        if not self.size:
            raise RecordingError(f"{path}: is empty, and no bag")
        log = self._file.with_name(f"{self._file.name}-wal")
        if log.is_file() and log.stat().st_size:
            self.note = (
                f"its last messages are in {readable(log.name)}, which is not read; open it with sqlite3"
            )
        self._rows  # noqa: B018 - raises what is wrong

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last time; empty without messages."""
        times = self._rows.times_ns
        return [(int(times[0]), int(times[-1]))] if len(times) else []

    def topics(self) -> list[TopicInfo]:
        """Every topic that messages may be of."""
        return sorted({topic.info for topic in self._topics.values()})

    def messages(
        self,
        arrival: int = 0,
        window: TimeWindow | None = None,
        in_full: InFull | None = None,  # noqa: ARG002 - SQLite reads rows in full
    ) -> Iterator[RawMessage]:
        """All messages, or those of a window, numbered from ``arrival`` on."""
        self.faults, self.position, self.next_arrival = [], 0, arrival
        self.outside = Counter()
        times = self._rows.times_ns
        chosen = np.arange(len(times))
        if window is not None:
            within = (times >= window.begin_ns) & (times < min(window.end_ns, MAX_TIME_NS + 1))
            chosen = np.flatnonzero(within)
            known = [topic.info for topic in self._topics.values()]
            for number in self._rows.topics[~within]:
                if number >= 0:
                    self.outside[known[number]] += 1
        for message in self._read(chosen, arrival):
            self.position = min(self.size, self.position + len(message.data))
            self.next_arrival = message.arrival + 1
            yield message
        self.position = self.size

    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """Messages of these topics with earlier times."""
        wanted = [n for n, topic in enumerate(self._topics.values()) if topic.info.topic in topics]
        rows = self._rows
        return self._read(np.flatnonzero(np.isin(rows.topics, wanted) & (rows.times_ns < before_ns)), 0)

    def _read(self, chosen: npt.NDArray[np.intp], arrival: int) -> Iterator[RawMessage]:
        """The messages of some rows."""
        known, given = list(self._topics.values()), 0
        with self._opened(MAX_CHUNK_BYTES) as database:
            for identity, number, time_ns, is_sane in self._chosen(chosen):
                if number < 0:
                    add_fault(self.faults, RecordingFault(0, 0, "a message of an unknown topic"))
                    continue
                data, fault = _data(database, identity)
                given += len(data)
                if given > self.size:
                    add_fault(self.faults, RecordingFault(0, 0, "damaged: messages share their bytes"))
                    return
                info, definition = known[number]
                data, wrong = unpacked(data)
                fault = fault or ("" if is_sane else _BAD_TIME) or wrong
                yield RawMessage(*info, data, time_ns, time_ns, arrival, definition, fault)
                arrival += 1

    def _chosen(self, chosen: npt.NDArray[np.intp]) -> Iterator[tuple[int, int, int, bool]]:
        """What is known of some rows."""
        for start in range(0, len(chosen), _BLOCK):
            block = chosen[start : start + _BLOCK]
            yield from zip(*(column[block].tolist() for column in self._rows), strict=True)

    @cached_property
    def _topics(self) -> dict[int, _Topic]:
        """The topics by their numbers in the file, with their definitions."""
        found: dict[int, _Topic] = {}
        with self._opened(_MOST_TEXT_BYTES) as database:
            self._check_schema(database)
            definitions = self._definitions(database)
            query = f"SELECT id, name, type FROM topics NOT INDEXED LIMIT {MAX_CHANNELS + 1}"
            for number, name, kind in self._bounded(database, query):
                if isinstance(number, int) and isinstance(name, str) and isinstance(kind, str):
                    schema = displayed(kind)
                    found[number] = _Topic(TopicInfo(displayed(name), schema), definitions.get(schema, ""))
        if len(found) > MAX_CHANNELS:
            raise RecordingError(f"{self.path}: has more than {MAX_CHANNELS:,} topics, and is not read")
        return found

    def _definitions(self, database: sqlite3.Connection) -> dict[str, str]:
        """Definitions by type; older versions of rosbag2 have none."""
        wanted = "topic_type", "encoding", "encoded_message_definition"
        if not {*wanted} <= _columns(database, "message_definitions"):
            return {}
        kept, found = Definitions(), {}
        query = f"SELECT {', '.join(wanted)} FROM message_definitions NOT INDEXED LIMIT {MAX_CHANNELS}"
        for kind, encoding, text in self._bounded(database, query):
            if encoding == "ros2msg" and isinstance(kind, str) and isinstance(text, str):
                definition = kept.keep(displayed(kind), text)
                if definition is None:
                    self.note = self.note or TOO_MUCH_TEXT
                found[displayed(kind)] = definition or ""
        return found

    def _bounded(self, database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of names, whose text is not more than the file has."""
        length = 0
        for row in database.execute(query):
            length += sum(len(value) for value in row if isinstance(value, str | bytes))
            if length > self.size:
                raise RecordingError(f"{self.path}: cannot be read: its texts are longer than the file")
            yield row

    @cached_property
    def _rows(self) -> _Rows:
        ids, topics, times, sane = array("q"), array("i"), array("q"), bytearray()
        numbers = {known: n for n, known in enumerate(self._topics)}
        latest_ns, before = 0, None
        with self._opened(_MOST_TEXT_BYTES) as database:
            # The order of rowids, since that is how a table lies on the disk.
            for identity, topic, time_ns in database.execute(
                "SELECT rowid, topic_id, timestamp FROM messages NOT INDEXED"
            ):
                if before is not None and identity <= before:
                    raise RecordingError(f"{self.path}: cannot be read: its messages go in circles{_ADVICE}")
                before = identity
                is_sane = isinstance(time_ns, int) and 0 <= time_ns <= MAX_TIME_NS
                latest_ns = time_ns if is_sane else latest_ns
                ids.append(identity)
                topics.append(numbers.get(topic, -1))
                times.append(latest_ns)
                sane.append(is_sane)
        times_ns = np.array(times, np.int64)
        order = np.argsort(times_ns, kind="stable")
        return _Rows(
            np.array(ids, np.int64)[order],
            np.array(topics, np.int32)[order],
            times_ns[order],
            np.array(sane, np.bool_)[order],
        )

    def _check_schema(self, database: sqlite3.Connection) -> None:
        """Refuse a database that is more than tables, or has not those of a recording."""
        left = _MOST_SCHEMA_STEPS // _STEPS

        def is_endless() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        database.set_progress_handler(is_endless, _STEPS)
        for kind, name, sql in database.execute("SELECT type, name, sql FROM sqlite_master"):
            if sql is not None and not str(sql).startswith(_PLAIN):
                what = displayed(f"{kind} {name}")
                raise RecordingError(f"{self.path}: holds the {what}; rosbag2 writes plain tables only")
        database.set_progress_handler(None, 0)
        for table, wanted in (
            ("messages", {"topic_id", "timestamp", "data"}),
            ("topics", {"id", "name", "type"}),
        ):
            columns = _columns(database, table)
            if not wanted <= columns or columns & _NAMES_OF_ROWS:
                raise RecordingError(
                    f"{self.path}: cannot be read: its table {table} should have the columns "
                    f"{', '.join(sorted(wanted))}; is it a recording of rosbag2?"
                )

    @contextmanager
    def _opened(self, most_bytes: int) -> Iterator[sqlite3.Connection]:
        """The database, from which no value longer than this can be read.

        Raises:
            RecordingError: it is none, or damaged.
        """
        place = f"{self._file.absolute().as_uri()}?mode=ro&immutable=1"
        with refusing(self.path, RecordingError):
            try:
                with closing(sqlite3.connect(place, uri=True, check_same_thread=False)) as database:
                    database.text_factory = _text
                    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most_bytes)
                    database.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MOST_TEXT_BYTES)
                    database.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MOST_COLUMNS)
                    yield database
            except sqlite3.DatabaseError as error:
                said = reason_of(error)
                advice = _ADVICE if "malformed" in said else ""
                raise RecordingError(f"{self.path}: cannot be read: {said}{advice}") from error


def _columns(database: sqlite3.Connection, table: str) -> frozenset[str]:
    """The names of a table's columns in lower case, without those that are computed."""
    return frozenset(
        str(row[1]).lower() for row in database.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0
    )


def _data(database: sqlite3.Connection, identity: int) -> tuple[bytes, str]:
    """A message's data, and what is wrong with them."""
    try:
        row = database.execute("SELECT data FROM messages WHERE rowid = ?", (identity,)).fetchone()
    except sqlite3.Error as error:
        return b"", f"damaged: {reason_of(error)}"
    data = None if row is None else row[0]
    return (data, "") if isinstance(data, bytes) else (b"", _NO_BYTES)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
