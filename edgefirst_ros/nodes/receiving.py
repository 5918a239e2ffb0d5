"""How messages are received: in order of receipt, with which time, and whether buffers can hold a burst."""

from __future__ import annotations

import heapq
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes.diagnostics import Diagnostic

MOST = 10_000
"""The most messages of a topic that are delivered at once; then timers run. Few QoS histories are longer."""

Taken = tuple[bytes, Mapping[str, int]]
"""A message's bytes, and what the middleware says about it (rclpy's message info)."""


class Inlet(NamedTuple):
    """Where the messages of one subscription come from and where they go."""

    take: Callable[[], Taken | None]
    """Returns the next message that has arrived, None if there is none."""
    deliver: Callable[[bytes, Mapping[str, int]], None]


def deliver_arrived(inlets: Iterable[Inlet]) -> None:
    """Deliver what has arrived on several subscriptions in one order; each topic keeps its own.

    After the node stood still, seconds of all topics wait. Were the topics delivered one by one, or in turns,
    a slow one would be far ahead of a fast one, most of which would come too late for the pipeline. The order
    is that of the middleware's receive times. Cyclone DDS gives the time when a message is taken; then it is
    that of the publish times, and the time of receipt is that of delivery.
    """
    begin_ns = time.time_ns()

    def arriving(number: int, inlet: Inlet) -> Iterator[tuple[int, int, int, Inlet, Taken]]:
        for turn in range(MOST):
            if (taken := inlet.take()) is None:
                return
            data, info = taken
            order_ns, published_ns = info["received_timestamp"], info.get("source_timestamp", 0)
            if published_ns and order_ns >= begin_ns:
                order_ns, info = published_ns, {**info, "received_timestamp": 0}
            yield order_ns, turn, number, inlet, (data, info)

    # Takes the next message of a topic when the one before has been delivered.
    for *_, inlet, taken in heapq.merge(*(arriving(number, inlet) for number, inlet in enumerate(inlets))):
        inlet.deliver(*taken)


SANE_NS = 60_000_000_000
"""A receive time this far from the wall clock is of another clock, and replaced by the wall clock's."""
WAITING_MESSAGES, WAITING_BYTES = 2000, 64_000_000
"""The most messages, and bytes, that wait for a simulation to begin."""
TOO_EARLY = "came before /clock began (use_sim_time)"

Put = Callable[[RawMessage], None]


@dataclass(eq=False)
class ReceiveClock:
    """Gives messages their receive and publish times, and delivers them in order.

    In simulated time both are the time on ``/clock`` when the message arrives, because publish times are of
    the wall clock then. Messages that arrive before the first ``/clock`` wait for it, since a robot often
    sends its description once, at the start; if there are too many, the oldest are delivered with a fault, so
    that the ledger counts them as refused.

    Attributes:
        simulated_ns: returns the time on ``/clock``, 0 before the first, None if time is not simulated.
        wall_ns: returns the wall clock's time.
    """

    simulated_ns: Callable[[], int | None]
    wall_ns: Callable[[], int] = time.time_ns
    _waiting: deque[tuple[RawMessage, Put]] = field(default_factory=deque)
    _bytes: int = 0

    def deliver(self, message: RawMessage, put: Put) -> None:
        """Pass a message to ``put``, now or once the simulation begins.

        The message has the middleware's own times, 0 where it has none.
        """
        now_ns = self.simulated_ns()
        if now_ns is None:
            wall_ns = self.wall_ns()
            receive_ns = message.receive_ns if 0 <= wall_ns - message.receive_ns < SANE_NS else wall_ns
            put(message._replace(receive_ns=receive_ns, publish_ns=message.publish_ns or receive_ns))
            return
        self._waiting.append((message, put))
        self._bytes += len(message.data)
        if now_ns:
            self.release(now_ns)
        else:
            self.release(0, WAITING_MESSAGES, WAITING_BYTES)

    def release(self, now_ns: int, keep: int = 0, keep_bytes: int = 0) -> None:
        """Deliver the oldest of what waits, but for so much: as received now, with a fault at 0."""
        while len(self._waiting) > keep or self._bytes > keep_bytes:
            message, put = self._waiting.popleft()
            self._bytes -= len(message.data)
            message = message._replace(receive_ns=now_ns, publish_ns=now_ns)
            put(message if now_ns else message._replace(fault=TOO_EARLY))


WANTED_BYTES = 8 * 1024 * 1024
"""An uncompressed 1080p picture (6 MB), or a radar cube and a cloud, arrive as one burst of packets. This is
also what ``min="16MB"`` requires: Linux doubles the requested size, and Cyclone compares with the double."""
ALLOW = "sudo sysctl -w net.core.rmem_max=33554432"
NAME = "receive buffer"
_SHIPPED = "file://$(ros2 pkg prefix --share edgefirst_ros)/config/cyclonedds.xml"
_CURES = {
    "rmw_cyclonedds_cpp": f"{ALLOW}, then start with CYCLONEDDS_URI=$CYCLONEDDS_URI,{_SHIPPED}",
    # It requests no size by itself, so it gets the kernel's default.
    "rmw_fastrtps_cpp": f"{ALLOW} net.core.rmem_default=16777216",
}
"""What to do, by middleware that sends messages as UDP packets; the others wait for slow receivers."""
_OPEN = Path("/proc/self/fd")


def granted_bytes() -> int | None:
    """The largest receive buffer of this process's UDP sockets in bytes; None without such, or off Linux.

    This is what the middleware requested as far as the kernel granted it.
    """
    sizes = []
    for entry in list(_OPEN.iterdir()) if _OPEN.is_dir() else []:
        with suppress(OSError):  # closed meanwhile
            if str(entry.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry.name))) as one:
                    if one.type == socket.SOCK_DGRAM and one.family in {socket.AF_INET, socket.AF_INET6}:
                        sizes.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2)
    return max(sizes, default=None)


def receive_buffer(middleware: str, granted: int | None) -> list[Diagnostic]:
    """One diagnostic on the receive buffer, none where it does not matter.

    Args:
        middleware: rclpy's identifier.
        granted: bytes, see ``granted_bytes``.
    """
    if middleware not in _CURES or granted is None:
        return []
    got, wanted = f"{granted / 1e6:.1f} MB", f"{WANTED_BYTES / 1e6:.1f} MB"
    if granted >= WANTED_BYTES:
        return [Diagnostic(Severity.NOTE, NAME, got)]
    lost = f"{got}; bursts of large messages may be lost below {wanted}"
    return [Diagnostic(Severity.WARNING, NAME, f"{lost}: {_CURES[middleware]}")]
