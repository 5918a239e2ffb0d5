"""Receive times of messages: the middleware's, or simulated ones."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from edgefirst_ros.messages.measurement import RawMessage

SANE_NS = 60_000_000_000
"""A receive time this far from the wall clock is of another clock, and replaced by the wall clock's."""
MOST, MOST_BYTES = 2000, 64_000_000
"""The most messages, and bytes, that wait for a simulation to begin."""
TOO_EARLY = "came before /clock began (use_sim_time)"

Put = Callable[[RawMessage], None]


class ReceiveClock:
    """Gives messages their receive and publish times, and delivers them in order.

    In simulated time both are the time on ``/clock`` when the message arrives, because publish times are of
    the wall clock then. Messages that arrive before the first ``/clock`` wait for it, since a robot often
    sends its description once, at the start; if there are too many, the oldest are delivered with a fault, so
    that the ledger counts them as refused.

    Args:
        simulated_ns: returns the time on ``/clock``, 0 before the first, None if time is not simulated.
        wall_ns: returns the wall clock's time.
    """

    def __init__(
        self, simulated_ns: Callable[[], int | None], wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._simulated_ns = simulated_ns
        self._wall_ns = wall_ns
        self._waiting: deque[tuple[RawMessage, Put]] = deque()
        self._bytes = 0

    @property
    def waiting(self) -> int:
        """Number of messages that wait for a simulation to begin."""
        return len(self._waiting)

    def deliver(self, message: RawMessage, put: Put) -> None:
        """Pass a message to ``put``, now or once the simulation begins.

        The message has the middleware's own times, 0 where it has none.
        """
        simulated_ns = self._simulated_ns()
        if simulated_ns is None:
            now_ns = self._wall_ns()
            receive_ns = message.receive_ns if 0 <= now_ns - message.receive_ns < SANE_NS else now_ns
            self.deliver_waiting(receive_ns)
            put(_at(message, receive_ns, message.publish_ns or receive_ns))
            return
        if simulated_ns > 0:
            self.deliver_waiting(simulated_ns)
            put(_at(message, simulated_ns, simulated_ns))
            return
        self._waiting.append((_at(message, 0, 0), put))
        self._bytes += len(message.data)
        while len(self._waiting) > MOST or self._bytes > MOST_BYTES:
            self._refuse()

    def deliver_waiting(self, now_ns: int) -> None:
        """Deliver what waited for the simulation, as received at ``now_ns``."""
        while self._waiting:
            message, put = self._waiting.popleft()
            put(_at(message, now_ns, now_ns))
        self._bytes = 0

    def close(self) -> None:
        """Deliver what still waits as refused."""
        while self._waiting:
            self._refuse()

    def _refuse(self) -> None:
        message, put = self._waiting.popleft()
        self._bytes -= len(message.data)
        put(message._replace(fault=TOO_EARLY))


def _at(message: RawMessage, receive_ns: int, publish_ns: int) -> RawMessage:
    return message._replace(receive_ns=receive_ns, publish_ns=publish_ns)
