"""When a message was received: by the middleware's clock, or by the simulation's."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from edgefirst_ros.messages.measurement import RawMessage

SANE_NS = 60_000_000_000
"""A middleware whose receive time is this far off gives the time of another clock."""
MOST, MOST_BYTES = 2000, 64_000_000
"""So much waits at most for a simulation to begin."""
TOO_EARLY = "came before /clock began (use_sim_time)"

Put = Callable[[RawMessage], None]


class Receipt:
    """Gives messages their times of receipt and of publication, and hands them on in order.

    With simulated time both are the time on ``/clock`` when the message is taken: publishers' times are of
    the wall clock then. The node's clock stands at 0 until the first ``/clock`` comes: what arrives before
    waits for it, since a robot's description is often sent once and first; of more than there is room for the
    oldest are refused, and counted as such.

    Args:
        simulated_ns: the time on ``/clock``, 0 while none has come; None while time is not simulated.
        wall_ns: the wall clock.
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
        """Messages that wait for a simulation to begin."""
        return len(self._waiting)

    def take(self, message: RawMessage, put: Put) -> None:
        """A message with the middleware's own times, 0 where it has none, and who takes it."""
        simulated_ns = self._simulated_ns()
        if simulated_ns is None:
            now_ns = self._wall_ns()
            receive_ns = message.receive_ns if 0 <= now_ns - message.receive_ns < SANE_NS else now_ns
            self.release(receive_ns)
            put(_at(message, receive_ns, message.publish_ns or receive_ns))
            return
        if simulated_ns > 0:
            self.release(simulated_ns)
            put(_at(message, simulated_ns, simulated_ns))
            return
        self._waiting.append((_at(message, 0, 0), put))
        self._bytes += len(message.data)
        while len(self._waiting) > MOST or self._bytes > MOST_BYTES:
            self._refuse()

    def release(self, now_ns: int) -> None:
        """The simulation has begun: what waited was received now."""
        while self._waiting:
            message, put = self._waiting.popleft()
            put(_at(message, now_ns, now_ns))
        self._bytes = 0

    def close(self) -> None:
        """What waits has waited in vain."""
        while self._waiting:
            self._refuse()

    def _refuse(self) -> None:
        message, put = self._waiting.popleft()
        self._bytes -= len(message.data)
        put(replace(message, fault=TOO_EARLY))


def _at(message: RawMessage, receive_ns: int, publish_ns: int) -> RawMessage:
    return replace(message, receive_ns=receive_ns, publish_ns=publish_ns)
