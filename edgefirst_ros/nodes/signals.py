"""Signals that ask a node to finish, and a second one that does not ask."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TWIN_S = 1.0
"""A terminal and a launcher may both pass on one Ctrl-C; what comes this soon after is the same one."""


@contextmanager
def finishing(stop: threading.Event, say: Callable[[str], None]) -> Iterator[None]:
    """Set ``stop`` at the first SIGINT, SIGTERM or SIGHUP; end the process at once at a second.

    After the block a process that was asked to end has nothing left to lose or to save: what comes late, when
    the launcher is slow to pass it on, is ignored, so that it ends with its own exit code.

    SIGHUP stays ignored where it is, as under nohup: who logs out does not mean to end the drive.
    A process that ends at once leaves ``.part`` files, which ``edgefirst-ros recover`` finishes.
    """
    first_s = 0.0

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal first_s
        if not stop.is_set():
            first_s = time.monotonic()
            stop.set()
        elif time.monotonic() - first_s > TWIN_S:
            say("a second signal: ending at once; `edgefirst-ros recover` finishes what is in .part files")
            os._exit(128 + number)

    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    previous = {number: signal.signal(number, handle) for number in ASKING if number not in ignored}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if stop.is_set() else handler)
