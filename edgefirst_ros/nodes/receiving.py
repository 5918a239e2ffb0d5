"""How messages are received: in order of receipt, with which time, and whether buffers can hold a burst."""

from __future__ import annotations

import heapq
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes.diagnostics import Diagnostic, Level

BATCH_MESSAGES, BATCH_BYTES = 1000, 64_000_000
"""So many messages, or bytes, are delivered at once, in some hundredths of a second; then timers run."""

Taken = tuple[bytes, Mapping[str, int]]
"""A message's bytes, and what the middleware says about it (rclpy's message info)."""


class Inlet(NamedTuple):
    """Where the messages of one subscription come from and where they go."""

    take: Callable[[], Taken | None]
    """Returns the next message that has arrived, None if there is none."""
    deliver: Callable[[bytes, Mapping[str, int]], None]


class Arrivals:
    """Delivers what has arrived on several subscriptions in one order; each topic keeps its own.

    After the node stood still, seconds of all topics wait. Were the topics delivered one by one, or in turns,
    a slow one would be far ahead of a fast one, most of which would come too late for the pipeline. The order
    is that of the middleware's receive times. Cyclone DDS gives the time when a message is taken; then it is
    that of the publish times, and the time of receipt is that of delivery.
    """

    def __init__(self) -> None:
        self._next: dict[Inlet, tuple[int, Taken]] = {}
        """What has been taken and not delivered, as others come first, and what it is ordered by."""

    def deliver(self, inlets: Iterable[Inlet]) -> None:
        """Deliver what has arrived, up to a limit."""
        begin_ns = time.time_ns()
        heap: list[tuple[int, int, int, Inlet, Taken]] = []
        for number, inlet in enumerate(inlets):
            first = self._next.pop(inlet, None) or _take(inlet, begin_ns)
            if first is not None:
                heap.append((first[0], 0, number, inlet, first[1]))
        heapq.heapify(heap)
        count = size = 0
        while heap and count < BATCH_MESSAGES and size <= BATCH_BYTES:
            _, turn, number, inlet, taken = heap[0]
            inlet.deliver(*taken)
            count, size = count + 1, size + len(taken[0])
            following = _take(inlet, begin_ns)
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (following[0], turn + 1, number, inlet, following[1]))
        self._next = {inlet: (order, taken) for order, _, _, inlet, taken in heap}

    def end(self, inlet: Inlet) -> None:
        """Deliver what has been taken of a subscription that ends."""
        if inlet in self._next:
            inlet.deliver(*self._next.pop(inlet)[1])


def _take(inlet: Inlet, begin_ns: int) -> tuple[int, Taken] | None:
    """The next message and what it is ordered by."""
    taken = inlet.take()
    if taken is None:
        return None
    data, info = taken
    received_ns, published_ns = info["received_timestamp"], info.get("source_timestamp", 0)
    if published_ns and received_ns >= begin_ns:
        return published_ns, (data, {**info, "received_timestamp": 0})
    return received_ns, taken


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

    def __post_init__(self) -> None:
        self._waiting: deque[tuple[RawMessage, Put]] = deque()
        self._bytes = 0

    def deliver(self, message: RawMessage, put: Put) -> None:
        """Pass a message to ``put``, now or once the simulation begins.

        The message has the middleware's own times, 0 where it has none.
        """
        now_ns = self.simulated_ns()
        publish_ns = now_ns
        if now_ns is None:
            wall_ns = self.wall_ns()
            now_ns = message.receive_ns if 0 <= wall_ns - message.receive_ns < SANE_NS else wall_ns
            publish_ns = message.publish_ns
        if now_ns > 0:
            self.deliver_waiting(now_ns)
            put(message._replace(receive_ns=now_ns, publish_ns=publish_ns or now_ns))
            return
        self._waiting.append((message._replace(receive_ns=0, publish_ns=0), put))
        self._bytes += len(message.data)
        while len(self._waiting) > WAITING_MESSAGES or self._bytes > WAITING_BYTES:
            self._refuse()

    def deliver_waiting(self, now_ns: int) -> None:
        """Deliver what waited for the simulation, as received at ``now_ns``."""
        while self._waiting:
            message, put = self._waiting.popleft()
            put(message._replace(receive_ns=now_ns, publish_ns=now_ns))
        self._bytes = 0

    def close(self) -> None:
        """Deliver what still waits as refused."""
        while self._waiting:
            self._refuse()

    def _refuse(self) -> None:
        message, put = self._waiting.popleft()
        self._bytes -= len(message.data)
        put(message._replace(fault=TOO_EARLY))


WANTED_BYTES = 8 * 1024 * 1024
"""An uncompressed 1080p picture (6 MB), or a radar cube and a cloud, arrive as one burst of packets. This is
also what ``min="16MB"`` requires: Linux doubles the requested size, and Cyclone compares with the double."""
ALLOW = "sudo sysctl -w net.core.rmem_max=33554432"
SHIPPED = "file://$(ros2 pkg prefix --share edgefirst_ros)/config/cyclonedds.xml"
NAME = "receive buffer"
_LIMIT = Path("/proc/sys/net/core/rmem_max")
_OPEN = Path("/proc/self/fd")
_DATAGRAMS = {"rmw_cyclonedds_cpp": "Cyclone DDS", "rmw_fastrtps_cpp": "Fast DDS"}
"""Middlewares that send messages as UDP packets; the others wait for slow receivers."""


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


def allowed_bytes() -> int | None:
    """The kernel's limit in bytes (net.core.rmem_max), None where it cannot be read."""
    try:
        return int(_LIMIT.read_text())
    except (OSError, ValueError):
        return None


def receive_buffer(
    middleware: str, granted: int | None, allowed: int | None, environment: Mapping[str, str]
) -> list[Diagnostic]:
    """One diagnostic on the receive buffer, none where it does not matter.

    Args:
        middleware: rclpy's identifier.
        granted: bytes, see ``granted_bytes``.
        allowed: bytes, see ``allowed_bytes``.
        environment: the process's environment variables.
    """
    name = _DATAGRAMS.get(middleware)
    if name is None or granted is None:
        return []
    limit = "unknown" if allowed is None else _mb(allowed)
    values = {"granted": _mb(granted), "wanted": _mb(WANTED_BYTES), "net.core.rmem_max": limit}
    if granted >= WANTED_BYTES:
        return [Diagnostic(Level.OK, NAME, _mb(granted), values)]
    is_short = allowed is None or allowed < WANTED_BYTES
    cure = _cure(name, environment.get("CYCLONEDDS_URI", ""), is_short=is_short)
    text = f"{_mb(granted)}; bursts of large messages may be lost below {_mb(WANTED_BYTES)}: {cure}"
    return [Diagnostic(Level.WARN, NAME, text, values)]


def start_failure_help(middleware: str, allowed: int | None, environment: Mapping[str, str]) -> str:
    """What may help if the middleware does not start; it prints the reason itself."""
    given = environment.get("CYCLONEDDS_URI", "")
    if _DATAGRAMS.get(middleware) != "Cyclone DDS" or not given:
        return "the middleware did not start; its own message is above"
    limit = "" if allowed is None else f" ({_mb(allowed)} by net.core.rmem_max)"
    return (
        f"Cyclone DDS did not start with CYCLONEDDS_URI={given}; its own message is above. If it demands a "
        f"larger socket receive buffer than the kernel allows{limit}: {ALLOW}"
    )


def _cure(name: str, uri: str, *, is_short: bool) -> str:
    """What to do; ``uri`` is CYCLONEDDS_URI, ``is_short`` whether the kernel's limit is too low."""
    if name == "Fast DDS":
        # It requests no size by itself, so it gets the kernel's default.
        return f"{ALLOW} net.core.rmem_default=16777216, or give its UDP transport a receiveBufferSize"
    steps = [ALLOW] * is_short
    if "SocketReceiveBufferSize" not in uri:
        steps.append(f"start with CYCLONEDDS_URI={'$CYCLONEDDS_URI,' if uri else ''}{SHIPPED}")
    return ", then ".join(steps) or "increase SocketReceiveBufferSize in CYCLONEDDS_URI"


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
