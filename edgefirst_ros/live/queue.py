"""The bounded queue between callbacks, which must not block, and the pipeline; it accounts for its drops."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edgefirst_ros.config.topics import full_type
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.video.headers import can_start

VIDEO = "foxglove_msgs/msg/CompressedVideo"
OVERHEAD_BYTES = 512
"""Counted for every message in addition to its data, so that many small ones are bounded as well."""
LARGE_BYTES = 2048
"""Messages of this size in the mean are pictures, clouds and cubes, which take nearly all the time. Clocks,
poses and boxes rest on smaller ones."""
SPARED = 16
"""So many small messages of a topic cost nothing, and may have been sent only once (tf_static)."""

Action = Callable[[], None]
Arrived = Callable[[RawMessage], None]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class DroppedMessages:
    """Messages of one topic that were dropped for one reason since the last query."""

    topic: str
    schema: str
    reason: Reason
    messages: int
    bytes: int
    receive_ns: int = field(default=0, compare=False)
    """Of the newest of them."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages received on one topic, including dropped ones; times are of the monotonic clock."""

    messages: int
    newest_s: float
    first_s: float = 0.0
    waiting_bytes: int = 0
    """Bytes of the topic in the queue."""


@dataclass(slots=True)
class _Lane:
    """One topic's messages in the queue."""

    arrivals: deque[int]
    bytes: int = 0
    broken: Reason | None = None
    """Why a video packet was dropped: nothing is taken until decoding can start again."""
    messages: int = 0
    newest_s: float = 0.0
    first_s: float = 0.0


_Drops = dict[tuple[str, str, Reason], tuple[int, int, int]]


class LiveQueue:
    """Messages in order of arrival, limited in bytes, with actions in between.

    ``put`` never blocks: when the queue is full, the topic with the most bytes in it loses its oldest
    message; if it is video, everything up to the next key frame or recovery point, because packets after a
    lost one cannot be decoded. ``drop_waiting`` drops what waits too long. ``dropped`` returns the losses in
    their order among the actions. Any number of threads may put and call; one thread reads.

    Args:
        limit_bytes: limit of the messages that wait.
        arrived: called with every message in order of arrival, dropped or not; must be fast.
        clock: of ``flows``.
    """

    def __init__(
        self, limit_bytes: int, arrived: Arrived = lambda _: None, clock: Clock = time.monotonic
    ) -> None:
        self._limit_bytes = max(1, limit_bytes)
        self._arrived = arrived
        self._clock = clock
        self._lock = threading.Condition()
        self._items: OrderedDict[int, RawMessage | Action] = OrderedDict()
        self._came_s: dict[int, float] = {}
        self._lanes: dict[str, _Lane] = {}
        self._arrival = 0
        self._boundaries: deque[int] = deque()
        self._drops: deque[_Drops] = deque([{}])
        self._passed = False
        self.bytes = 0
        self.taken_s = 0.0
        """Time, on the monotonic clock, at which the message taken last was put in."""

    @property
    def fill(self) -> float:
        """Share of the limit in use."""
        return self.bytes / self._limit_bytes

    def put(self, message: RawMessage) -> None:
        """Queue a message and number it (``arrival``)."""
        with self._lock:
            message = message._replace(arrival=self._arrival)
            self._arrival += 1
            self._arrived(message)
            lane = self._lanes.setdefault(message.topic, _Lane(deque()))
            now_s = time.monotonic()
            lane.messages += 1
            lane.newest_s = self._clock()
            lane.first_s = lane.first_s or lane.newest_s
            if lane.broken is not None and not starts_gop(message):
                self._drop(message, lane.broken)
                return
            lane.broken = None
            self._items[message.arrival] = message
            self._came_s[message.arrival] = now_s
            lane.arrivals.append(message.arrival)
            self._count(lane, _size(message))
            while self.bytes > self._limit_bytes:
                largest = max(self._lanes.values(), key=lambda each: each.bytes)
                self._drop_oldest(largest, Reason.QUEUE_FULL)
            self._lock.notify()

    def call(self, action: Action) -> None:
        """Queue an action for the reading thread, in order among the messages."""
        with self._lock:
            self._items[self._arrival] = action
            self._boundaries.append(self._arrival)
            self._drops.append({})
            self._arrival += 1
            self._lock.notify()

    def get(self, timeout_s: float) -> RawMessage | Action | None:
        """The oldest message or action, None if there is none within the time."""
        with self._lock:
            if self._passed:
                self._passed = False
                self._drops.popleft()
            if not self._items and not self._lock.wait_for(lambda: bool(self._items), timeout_s):
                return None
            _, item = self._items.popitem(last=False)
            if isinstance(item, RawMessage):
                lane = self._lanes[item.topic]
                self.taken_s = self._came_s.pop(lane.arrivals.popleft())
                self._count(lane, -_size(item))
            else:
                self._boundaries.popleft()
                self._passed = True
            return item

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits; any thread."""
        return not self._items

    @property
    def waited_s(self) -> float:
        """How long the oldest message has waited, 0 if none waits; any thread."""
        with self._lock:
            now_s = time.monotonic()
            return now_s - next(iter(self._came_s.values()), now_s)

    def drop_waiting(self, longest_s: float) -> None:
        """Drop what has waited longer, video as if the queue were full, but a few small messages each."""
        with self._lock:
            before_s = time.monotonic() - longest_s
            for lane in filter(lambda each: each.arrivals, self._lanes.values()):
                is_large = lane.bytes >= LARGE_BYTES * len(lane.arrivals)
                spared = 0 if is_large or full_type(self._peek(lane).schema) == VIDEO else SPARED
                while len(lane.arrivals) > spared and self._came_s[lane.arrivals[0]] < before_s:
                    self._drop_oldest(lane, Reason.OUTRUN)

    def dropped(self) -> list[DroppedMessages]:
        """Messages dropped since the last call that lay before the next action.

        Right after ``get`` has returned an action, these are the last ones that lay before it.
        """
        with self._lock:
            drops, self._drops[0] = self._drops[0], {}
        return [DroppedMessages(*what, *count) for what, count in drops.items()]

    def drops_waiting(self) -> int:
        """Number of dropped messages that ``dropped`` has not returned yet."""
        with self._lock:
            return sum(messages for drops in self._drops for messages, *_ in drops.values())

    def flows(self) -> dict[str, Flow]:
        """Messages received since the queue was last cleared, by topic."""
        with self._lock:
            return {
                topic: Flow(lane.messages, lane.newest_s, lane.first_s, lane.bytes)
                for topic, lane in self._lanes.items()
            }

    def clear(self) -> None:
        """Discard everything, before a new session."""
        with self._lock:
            self._items.clear()
            self._came_s.clear()
            self._lanes.clear()
            self._boundaries.clear()
            self._drops, self._passed, self.bytes = deque([{}]), False, 0

    def _count(self, lane: _Lane, size: int) -> None:
        lane.bytes += size
        self.bytes += size

    def _drop_oldest(self, lane: _Lane, reason: Reason) -> None:
        first = self._remove(lane, reason)
        if full_type(first.schema) == VIDEO:
            while lane.arrivals and not starts_gop(self._peek(lane)):
                self._remove(lane, reason)
            lane.broken = None if lane.arrivals else reason

    def _peek(self, lane: _Lane) -> RawMessage:
        item = self._items[lane.arrivals[0]]
        if not isinstance(item, RawMessage):
            raise TypeError("a lane holds messages only")
        return item

    def _remove(self, lane: _Lane, reason: Reason) -> RawMessage:
        message = self._peek(lane)
        del self._items[message.arrival], self._came_s[lane.arrivals.popleft()]
        self._count(lane, -_size(message))
        self._drop(message, reason)
        return message

    def _drop(self, message: RawMessage, reason: Reason) -> None:
        drops = self._drops[bisect(self._boundaries, message.arrival) + self._passed]
        what = message.topic, full_type(message.schema), reason
        messages, size, newest_ns = drops.get(what, (0, 0, 0))
        drops[what] = messages + 1, size + len(message.data), max(newest_ns, message.receive_ns)


def _size(message: RawMessage) -> int:
    return len(message.data) + OVERHEAD_BYTES


def starts_gop(message: RawMessage) -> bool:
    """Whether decoding can start at this message: a key frame, a recovery point, or not video at all."""
    if full_type(message.schema) != VIDEO:
        return True
    try:
        datum = decode(message).datum
    except DecodeError:
        return False
    return isinstance(datum, VideoPacket) and can_start(datum)
