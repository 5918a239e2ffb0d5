"""What every kind of recording offers, and which module reads which."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.naming import readable
from edgefirst_ros.sources.disorder import Displaced
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.records import RecordingFault
from edgefirst_ros.sources.session import RecordedSession
from edgefirst_ros.sources.window import TimeWindow

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
