"""The queue between callbacks that must not wait and a pipeline that may: bounded, and honest about drops."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.video.annexb import is_keyframe

VIDEO = "foxglove_msgs/msg/CompressedVideo"


@dataclass(slots=True)
class _Lane:
    """What one topic has in the queue."""

    arrivals: deque[int]
    bytes: int = 0
    broken: bool = False
    """A video lost a packet: nothing is taken until the next key frame."""


class LiveQueue:
    """Messages by order of arrival, limited in bytes.

    ``put`` never waits: when the queue is full, the oldest whole measurement of the topic that holds most of
    it goes, for video everything up to the next key frame, because what follows a lost packet cannot be
    decoded. ``dropped`` is told of each, in the thread that called ``put``.
    """

    def __init__(self, limit_bytes: int, dropped: Callable[[RawMessage], None]) -> None:
        self._limit_bytes = limit_bytes
        self._dropped = dropped
        self._lock = threading.Condition()
        self._items: OrderedDict[int, RawMessage | Callable[[], None]] = OrderedDict()
        self._lanes: dict[str, _Lane] = {}
        self._arrival = 0
        self.bytes = 0

    @property
    def fill(self) -> float:
        """Share of the limit in use."""
        return self.bytes / self._limit_bytes

    def put(self, message: RawMessage) -> None:
        """Take a message; its ``arrival`` is set here."""
        gone: list[RawMessage] = []
        with self._lock:
            message = replace(message, arrival=self._arrival)
            self._arrival += 1
            lane = self._lanes.setdefault(message.topic, _Lane(deque()))
            if lane.broken and not _starts_gop(message):
                gone.append(message)
            else:
                lane.broken = False
                self._items[message.arrival] = message
                lane.arrivals.append(message.arrival)
                lane.bytes += len(message.data)
                self.bytes += len(message.data)
                while self.bytes > self._limit_bytes:
                    gone += self._make_room()
                self._lock.notify()
        for lost in gone:
            self._dropped(lost)

    def call(self, action: Callable[[], None]) -> None:
        """Have the reading thread run something in its place among the messages."""
        with self._lock:
            self._items[self._arrival] = action
            self._arrival += 1
            self._lock.notify()

    def get(self, timeout_s: float) -> RawMessage | Callable[[], None] | None:
        """The oldest message or action, None if nothing comes within the time."""
        with self._lock:
            if not self._items and not self._lock.wait_for(lambda: bool(self._items), timeout_s):
                return None
            _, item = self._items.popitem(last=False)
            if isinstance(item, RawMessage):
                lane = self._lanes[item.topic]
                lane.arrivals.popleft()
                lane.bytes -= len(item.data)
                self.bytes -= len(item.data)
            return item

    def drain(self) -> list[RawMessage]:
        """Everything still in the queue; it is empty afterwards."""
        with self._lock:
            rest = [item for item in self._items.values() if isinstance(item, RawMessage)]
            self._items.clear()
            self._lanes.clear()
            self.bytes = 0
        return rest

    def _make_room(self) -> list[RawMessage]:
        lane = max(self._lanes.values(), key=lambda each: each.bytes)
        gone = [self._remove(lane)]
        if gone[0].schema == VIDEO:
            while lane.arrivals and not _starts_gop(self._peek(lane)):
                gone.append(self._remove(lane))
            lane.broken = not lane.arrivals
        return gone

    def _peek(self, lane: _Lane) -> RawMessage:
        item = self._items[lane.arrivals[0]]
        if not isinstance(item, RawMessage):
            raise TypeError("a lane holds messages only")
        return item

    def _remove(self, lane: _Lane) -> RawMessage:
        message = self._peek(lane)
        del self._items[lane.arrivals.popleft()]
        lane.bytes -= len(message.data)
        self.bytes -= len(message.data)
        return message


def _starts_gop(message: RawMessage) -> bool:
    """Whether decoding can start at this message: a key frame, or anything that is no video."""
    if message.schema != VIDEO:
        return True
    try:
        datum = decode(message).datum
    except DecodeError:
        return False
    return isinstance(datum, VideoPacket) and is_keyframe(datum)
