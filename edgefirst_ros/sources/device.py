"""A recording that one of a rig's devices made by itself: its topics below its name, its times moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.recording import InFull, Recording, TimeWindow, TopicInfo


@dataclass(frozen=True, slots=True)
class Shift:
    """A device's clock is ``ahead_ns`` ahead of the rig's when it shows ``at_ns``, and gains by ``drift``."""

    ahead_ns: int = 0
    at_ns: int = 0
    drift: float = 0.0

    def of(self, time_ns: int) -> int:
        """Add this to a time of the device for that of the rig."""
        return -self.ahead_ns - round(self.drift * (time_ns - self.at_ns))

    def to_device(self, time_ns: int) -> int:
        """The time of the device at a time of the rig."""
        return time_ns - self.of(time_ns + self.ahead_ns)


class DeviceRecording(Recording):
    """A recording of the device ``name``, whose topics begin with that in place of ``prefix``.

    Args:
        recording: as the device made it.
        name: of the device.
        prefix: of its own topics.

    Attributes:
        shift: by what its times are moved.
        joined: for the report, how it was joined with the others.
    """

    def __init__(self, recording: Recording, name: str, prefix: str = "") -> None:
        super().__init__(recording.path)
        self.name, self.size = name, recording.size
        self.shift = Shift()
        self.joined: Mapping[str, Any] = {}
        self._inner, self._prefix = recording, prefix
        self._names: dict[str, str] = {}

    @property
    def host(self) -> str:
        """The device's name."""
        return self.name

    @property
    def sequence_name(self) -> str | None:
        """None: it is part of a sequence of several."""
        return None

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Log times of its sections, on the rig's clock."""
        return [
            (first + self.shift.of(first), last + self.shift.of(last)) for first, last in self._inner.spans
        ]

    def topics(self) -> list[TopicInfo]:
        """Every topic, by its name on the rig."""
        return [TopicInfo(self.named(info.topic), info.schema) for info in self._inner.topics()]

    def messages(
        self, arrival: int = 0, window: TimeWindow | None = None, in_full: InFull | None = None
    ) -> Iterator[RawMessage]:
        """All messages, or those of a window, as ``Recording.messages``."""
        own = window and TimeWindow(*map(self.shift.to_device, (window.begin_ns, window.end_ns)))
        asked = in_full and (lambda topic, schema: in_full(self.named(topic), schema))
        try:
            for message in self._inner.messages(arrival, own, asked):
                self.position = self._inner.position
                yield self._moved(message)
        finally:
            self._end()

    def latched(self, topics: Collection[str], before_ns: int) -> Iterator[RawMessage]:
        """Messages of these topics with earlier log times, as ``Recording.latched``."""
        own = {info.topic for info in self._inner.topics() if self.named(info.topic) in topics}
        yield from map(self._moved, self._inner.latched(own, self.shift.to_device(before_ns)))

    def keep(self) -> None:
        """It is read twice."""
        self._inner.keep()

    def _moved(self, message: RawMessage) -> RawMessage:
        by_ns = self.shift.of(message.receive_ns)
        return message._replace(
            topic=self.named(message.topic),
            receive_ns=message.receive_ns + by_ns,
            publish_ns=message.publish_ns + by_ns,
            shift_ns=by_ns,
        )

    def named(self, topic: str) -> str:
        """The name on the rig of a topic of the device."""
        found = self._names.get(topic)
        if found is None:
            bare, under = topic.strip("/"), f"{self._prefix}/"
            found = f"/{self.name}/{bare.removeprefix(under) if self._prefix else bare}"
            self._names[topic] = found
        return found

    def _end(self) -> None:
        """Take over what reading has found out."""
        inner = self._inner
        self.position, self.next_arrival, self.unread_bytes = (
            inner.position,
            inner.next_arrival,
            inner.unread_bytes,
        )
        self.faults, self.note, self.is_sorted = inner.faults, inner.note, inner.is_sorted
        self.displaced = {self.named(topic): each for topic, each in inner.displaced.items()}
        outside = inner.outside.items()
        self.outside = Counter({TopicInfo(self.named(info.topic), info.schema): n for info, n in outside})
