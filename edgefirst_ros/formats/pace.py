"""Work that waits: between its parts it rests, so that a live capture goes on meanwhile.

A thread that computes without end keeps Python's lock for five milliseconds at a time, and every other thread
waits so long whenever it needs the lock, hundreds of times a second: what completes a sequence in one second
of computing would hold up a capture for several.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.25
"""Of one core's time, which work that waits takes."""
SLICE_S = 0.002
"""It computes for so long at once: less than the five milliseconds for which others would wait."""


class Pace:
    """The pace of one piece of work; ``hurry`` may be called from any thread."""

    def __init__(self) -> None:
        self._hurried = threading.Event()
        self._awaited_at: Pace | None = None
        self._rested_s = 0.0

    def hurry(self) -> None:
        """Somebody waits for it: it rests no more."""
        self._hurried.set()

    def awaited_at(self, pace: Pace | None) -> None:
        """Work at another pace waits for it, None for work that does not rest."""
        self._awaited_at = pace
        if pace is None:
            self.hurry()

    @property
    def is_hurried(self) -> bool:
        """Whether it rests no more."""
        return self._hurried.is_set() or (self._awaited_at is not None and self._awaited_at.is_hurried)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What this thread does in the block is at this pace, wherever it calls ``rest``."""
        before, self._rested_s = pace_here(), time.thread_time()
        _here.pace = self
        try:
            yield
        finally:
            _here.pace = before

    def rest(self) -> None:
        """Rest in proportion to what was computed since the last time, if that was enough."""
        worked_s = time.thread_time() - self._rested_s
        if worked_s >= SLICE_S and not self.is_hurried:
            self._hurried.wait(worked_s * (1 / SHARE - 1))
            self._rested_s = time.thread_time()


_here = threading.local()


def pace_here() -> Pace | None:
    """The pace of this thread's work; None where it does not wait."""
    pace: Pace | None = getattr(_here, "pace", None)
    return pace


def rest() -> None:
    """Called between parts of work that may have to wait; where it has not, it does nothing."""
    pace = pace_here()
    if pace is not None:
        pace.rest()
