"""A recording at its own pace, or a multiple of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from edgefirst_ros.messages.measurement import RawMessage

LONGEST_PAUSE_NS = 5_000_000_000
"""Longer pauses, and steps of the recording's clock, are not waited for."""


class Pacer:
    """Waits before each message until it is due; a ``stop`` that is set ends the waiting.

    Args:
        rate: 1 is the recording's own pace, 2 twice as fast.
        stop: set when there is no more time to wait.
        now_s: a clock that only goes forward.
    """

    def __init__(
        self, rate: float, stop: threading.Event, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._stop = stop
        self._now_s = now_s
        self._start: tuple[float, int] | None = None
        self._last_ns = 0

    def __call__(self, message: RawMessage) -> None:
        """Wait until the message is due."""
        step_ns = message.receive_ns - self._last_ns
        self._last_ns = message.receive_ns
        if self._start is None or not -LONGEST_PAUSE_NS <= step_ns <= LONGEST_PAUSE_NS:
            self._start = self._now_s(), message.receive_ns
        start_s, start_ns = self._start
        due_s = start_s + (message.receive_ns - start_ns) / 1e9 / self._rate
        wait_s = due_s - self._now_s()
        if wait_s > 0:
            self._stop.wait(wait_s)
