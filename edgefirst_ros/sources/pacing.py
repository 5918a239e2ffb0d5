"""Reading a recording in real time, or at a multiple of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from edgefirst_ros.messages.measurement import RawMessage

LONGEST_PAUSE_NS = 5_000_000_000
"""Longest pause in a preview."""


class PlaybackClock:
    """Computes when each message is due; the first one is due at once.

    Args:
        rate: 1 is real time, 2 twice as fast.
        longest_ns: longer gaps, as at a step of the recorder's clock, are skipped.
        now_s: returns a monotonic clock.
    """

    def __init__(self, rate: float, longest_ns: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._longest_ns = longest_ns
        self._now_s = now_s
        self._start_s = 0.0
        self._last_ns: int | None = None
        self._passed_ns = 0

    @property
    def passed_s(self) -> float:
        """Recording time passed so far."""
        return self._passed_ns / 1e9

    def wait_s(self, log_ns: int) -> float:
        """Time until a message is due, negative if it is late."""
        if self._last_ns is None:
            self._start_s, self._last_ns = self._now_s(), log_ns
        if abs(log_ns - self._last_ns) > self._longest_ns:
            self._last_ns = log_ns
        self._passed_ns += max(0, log_ns - self._last_ns)
        self._last_ns = max(self._last_ns, log_ns)
        return self._start_s + self._passed_ns / 1e9 / self._rate - self._now_s()


class Pacer:
    """Waits before each message until it is due, or ``stop`` is set.

    Args:
        rate: see ``PlaybackClock``.
        stop: ends all waiting.
        now_s: see ``PlaybackClock``.
    """

    def __init__(
        self, rate: float, stop: threading.Event, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = PlaybackClock(rate, LONGEST_PAUSE_NS, now_s)
        self._stop = stop

    def __call__(self, message: RawMessage) -> None:
        """Wait until the message is due."""
        wait_s = self._clock.wait_s(message.receive_ns)
        if wait_s > 0:
            self._stop.wait(wait_s)
