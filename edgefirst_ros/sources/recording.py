"""What every kind of recording offers, and which module reads which.

A part of a recording by time: ``--start`` and ``--end``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from edgefirst_ros.model.errors import ConfigError, RecordingError, extra
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import open_regular, readable
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.order import Displaced
from edgefirst_ros.sources.records import RecordingFault
from edgefirst_ros.sources.scratch import COPY, PACKED, Scratch, local_copy
from edgefirst_ros.sources.session import RecordedSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_S = 1e9
_EXPECTED = "expected seconds from the recording's start, or a time in UTC like 2026-03-14T10:20:30"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The log times ``begin_ns <= time < end_ns``, in nanoseconds since 1970."""

    begin_ns: int
    end_ns: int

    def has(self, time_ns: int) -> bool:
        """Whether a time is in it."""
        return self.begin_ns <= time_ns < self.end_ns

    def overlaps(self, first_ns: int, last_ns: int) -> bool:
        """Whether any of the times from the first to the last one may be in it."""
        return first_ns < self.end_ns and last_ns >= self.begin_ns


@dataclass(frozen=True, slots=True)
class _Limit:
    """Nanoseconds from the recording's start, or since 1970."""

    time_ns: int
    is_relative: bool


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of every recording that is wanted; None is no limit."""

    start: _Limit | None = None
    end: _Limit | None = None

    def window(self, spans: Iterable[tuple[int, int]]) -> TimeWindow:
        """The times wanted of a recording whose sections have these log times; it starts at the earliest."""
        first_ns = min((first for first, _ in spans), default=0)

        def absolute(limit: _Limit | None, default_ns: int) -> int:
            if limit is None:
                return default_ns
            return limit.time_ns + (first_ns if limit.is_relative else 0)

        return TimeWindow(absolute(self.start, 0), absolute(self.end, 1 << 64))


def excerpt_of(start: str | None, end: str | None) -> Excerpt | None:
    """The part between two times as a user gives them; None if both are None.

    Raises:
        ConfigError: not a time, or the end is not after the start.
    """
    if start is None and end is None:
        return None
    faults: list[str] = []
    first, last = _limit("--start", start, faults), _limit("--end", end, faults)
    if first and last and first.is_relative == last.is_relative and last.time_ns <= first.time_ns:
        faults.append(f"--end {end}: is not after --start {start}")
    if faults:
        raise ConfigError(faults)
    return Excerpt(first, last)


def _limit(option: str, text: str | None, faults: list[str]) -> _Limit | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return _time(option, text, faults)
    if not 0 <= seconds <= _LATEST_S:  # which is also false for what is no number
        faults.append(f"{option} {text}: {_EXPECTED}")
        return None
    return _Limit(round(seconds * 1e9), is_relative=True)


def _time(option: str, text: str, faults: list[str]) -> _Limit | None:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        faults.append(f"{option} {text}: {_EXPECTED}")
        return None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH
    return _Limit(since // timedelta(microseconds=1) * 1000, is_relative=False)


_NAME = re.compile(r"(?P<host>.+)_(?P<when>\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d)")


InFull = Callable[[str, str], bool]
"""Whether the data of a topic's next message, by topic and schema, are wanted in full: of others their first
``BEGINNING`` bytes are enough."""


class TopicInfo(NamedTuple):
    """A topic of a recording: name and ``pkg/msg/Type``."""

    topic: str
    schema: str


class Recording(ABC):
    """One file of messages, in order of receipt; after ``messages``, ``faults`` lists what is damaged."""

    def __init__(self, path: Location) -> None:
        self.path = path
        """Of the file; of one that was packed as it was called before."""
        self.copy: Scratch | None = None
        """What it was unpacked to, which goes with this."""
        self.size = 0
        """Bytes of the file."""
        self.faults: list[RecordingFault] = []
        self.note = ""
        """A defect of the file that costs no message; known after ``messages``."""
        self.position = 0
        """Bytes read so far, for progress."""
        self.next_arrival = 0
        """Number of the message that follows the last one read."""
        self.displaced: Mapping[str, Displaced] = {}
        """By topic, messages that lie behind later ones; known after the first of ``messages``."""
        self.is_sorted = True
        """Whether displaced messages were put in order; False if that takes too much memory."""
        self.outside: Counter[TopicInfo] = Counter()
        """Messages outside of the window, as far as they can be counted; known after ``messages``."""
        self.unread_bytes = 0
        """What did not have to be read because it is outside of the window; known after ``messages``."""

    @property
    def host(self) -> str:
        """Host of the live session, else from the file name, else the file's stem.

        Devices name files ``{host}_%Y_%m_%d_%H_%M_%S.mcap``.
        """
        if self.session is not None:
            return self.session.host
        return readable(device_host(self.path.stem) or self.path.stem)

    @property
    def sequence_name(self) -> str | None:
        """Sequence of the live session; else the file's stem if it is ``host_date_time``; else None."""
        if self.session is not None:
            return self.session.sequence
        return None if device_host(self.path.stem) is None else self.path.stem

    @property
    def session(self) -> RecordedSession | None:
        """The live session that this is a recording of, None if another program recorded it."""
        return None

    @property
    def goes_on(self) -> bool:
        """Whether another session continues the one recorded here."""
        return False

    @property
    @abstractmethod
    def spans(self) -> list[tuple[int, int]]:
        """Log times (first, last) of every section with messages, in file order."""

    @abstractmethod
    def topics(self) -> list[TopicInfo]:
        """Every topic that messages may be of."""

    @abstractmethod
    def messages(
        self, arrival: int = 0, window: TimeWindow | None = None, in_full: InFull | None = None
    ) -> Iterator[RawMessage]:
        """All messages, or those of a window, numbered from ``arrival`` on; damaged ones have a ``fault``.

        ``in_full`` is asked right before each message is made; None is all in full.
        """

    @abstractmethod
    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """Messages of these topics with earlier log times, as far as it is cheap to read them.

        At least each topic's first ones and its last ones before that time are among them.
        """

    def keep(self) -> None:  # noqa: B027 - for local files there is nothing to do
        """What is read from now on is read twice: keep a local copy if it is remote."""


def device_host(stem: str) -> str | None:
    """The host in a name of host, date and time, as the device gives to its files; None for other names."""
    found = _NAME.fullmatch(stem)
    return None if found is None else found["host"]


BAGS = (".db3", ".bag")
SUFFIXES = (".mcap", *BAGS)
"""Endings of the names of recordings: MCAP, rosbag2 in SQLite, ROS 1."""
_LFS_POINTER = b"version https://git-lfs"
"""What a file in a repository begins with until its content is fetched."""


def open_recording(location: Location) -> Recording:
    """The recording in a file; MCAP unless its name says otherwise.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not a recording, or unreadable.
        ExtraNotInstalled: the library that reads it is missing.
    """
    _refuse_pointer(location)
    if location.suffix.lower() != PACKED:
        return _opened(location, location.suffix.lower())
    plain, copy = location.with_name(location.stem), local_copy(location)
    try:
        recording = _opened(copy.path / COPY, plain.suffix.lower())
    except RecordingError as error:
        raise RecordingError(str(error).replace(str(copy.path / COPY), str(location))) from error
    recording.path, recording.copy = plain, copy
    return recording


def _opened(location: Location, suffix: str) -> Recording:
    match suffix:
        case ".db3":
            from edgefirst_ros.sources.rosbag2 import Rosbag2Recording  # noqa: PLC0415 - only where one is given

            return Rosbag2Recording(location)
        case ".bag":
            with extra("ros1"):
                from edgefirst_ros.sources.ros1bag import Ros1Recording  # noqa: PLC0415 - likewise

            return Ros1Recording(location)
    from edgefirst_ros.sources.mcap import McapRecording  # noqa: PLC0415 - which needs this module

    return McapRecording(location)


def _refuse_pointer(location: Location) -> None:
    if not isinstance(location, Path):
        return
    with suppress(OSError), open_regular(location, holes=True) as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise RecordingError(
                f"{location}: is a pointer of Git LFS, not the recording itself; `git lfs pull` in its "
                "repository fetches it"
            )
