"""Recordings of simulators that ran slower or faster than real time: ``/clock`` is their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.registry import decoder
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.recording import Recording

CLOCK = "/clock"
TYPES = frozenset({"rosgraph_msgs/msg/Clock", "rosgraph_msgs/Clock"})
REAL_TIME = 0.02
"""A simulator that is no further from real time is received as sensors are; no oscillator is as far off."""
_END_NS = 1 << 63


class SimulatedTime:
    """How a simulator's clock goes: it showed ``clock_ns`` at ``receive_ns``, and runs at ``rate``.

    Where the rate is 0 time stands still until the next ``tick``, as ROS's nodes have it.
    """

    def __init__(self, receive_ns: int, clock_ns: int, rate: float = 0.0) -> None:
        self._at_ns, self._shown_ns = receive_ns, clock_ns
        self._lead_ns, self._step_ns = receive_ns - clock_ns, _END_NS
        self.rate = rate

    @property
    def text(self) -> str:
        """For the user."""
        return f"{CLOCK} ran at {self.rate:.2f} of real time: its time is used in place of receipt"

    def shown_ns(self, receive_ns: int) -> float:
        """What the clock showed then, at its mean rate."""
        return self._shown_ns + (receive_ns - self._at_ns) * self.rate

    def tick(self, receive_ns: int, shown_ns: int) -> None:
        """The clock was received."""
        self._step_ns, self._at_ns, self._shown_ns = max(0, shown_ns - self._shown_ns), receive_ns, shown_ns

    def time_ns(self, receive_ns: int) -> int:
        """When a recorder with ``use_sim_time`` had received, had it begun at the same moment."""
        # A simulator that stands still sends no time.
        since_ns = min(round((receive_ns - self._at_ns) * self.rate), self._step_ns)
        return max(0, self._lead_ns + self._shown_ns + since_ns)

    def retimed(self, messages: Iterable[RawMessage]) -> Iterator[RawMessage]:
        """Messages as received by such a recorder."""
        for message in messages:
            if message.topic == CLOCK and message.schema in TYPES:
                self.tick(message.receive_ns, clock_of(message.data))
            time_ns = self.time_ns(message.receive_ns)
            yield message._replace(receive_ns=time_ns, publish_ns=time_ns)


def clock_of(data: bytes) -> int:
    """The time that a rosgraph_msgs/Clock shows, in nanoseconds."""
    order = "little" if data[1:2] == b"\x01" else "big"
    second, nanosecond = (int.from_bytes(data[at : at + 4], order) for at in (4, 8))  # type: ignore[arg-type]
    return second * 1_000_000_000 + nanosecond


def simulated(parts: Sequence[Recording]) -> SimulatedTime | None:
    """How a drive's simulator went; None without one, in real time, or if stamps do not follow it.

    Args:
        parts: the first and last files of its recorders; their first and last messages are read.
    """
    infos = {info for part in parts for info in part.topics()}
    if not any(info.topic == CLOCK and info.schema in TYPES for info in infos):
        return None
    topics = {info.topic for info in infos}
    ends = [*chain.from_iterable(part.latched(topics, _END_NS) for part in parts)]
    shown = sorted((m.receive_ns, clock_of(m.data)) for m in ends if m.topic == CLOCK and not m.fault)
    if not shown or (span_ns := shown[-1][0] - shown[0][0]) <= 0:
        return None
    rate = (shown[-1][1] - shown[0][1]) / span_ns
    if rate <= 0 or abs(rate - 1) < REAL_TIME:
        return None
    clock = SimulatedTime(*shown[0], rate)
    stamped: dict[str, list[tuple[int, int]]] = {}
    for message in ends:
        if message.topic != CLOCK and (stamp_ns := _stamp_ns(message)):
            stamped.setdefault(message.topic, []).append((message.receive_ns, stamp_ns))
    # What stamps once and for all, as calibrations do, tells of no clock.
    last = [max(each) for each in stamped.values() if len({stamp for _, stamp in each}) > 1]
    follows = (abs(stamp - clock.shown_ns(receive)) < abs(stamp - receive) for receive, stamp in last)
    return clock if last and all(follows) else None


def _stamp_ns(message: RawMessage) -> int:
    """Its stamp; 0 if it has none, or cannot be decoded."""
    try:
        return 0 if message.fault else int(decoder(message.schema)(message.data, message.definition).stamp_ns)
    except DecodeError:
        return 0
