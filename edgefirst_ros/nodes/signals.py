"""Signals that ask a node to finish, and a second one that does not ask."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgefirst_ros.live.signals import asked_to_finish

TWIN_S = 1.0
"""A terminal and a launcher may both pass on one Ctrl-C; what comes this soon after is the same one."""
UNFINISHED = 4
"""Exit code of a node that was ended before its session was complete."""


@contextmanager
def finishing(stop: threading.Event, say: Callable[[str], None]) -> Iterator[None]:
    """Set ``stop`` at the first SIGINT, SIGTERM or SIGHUP; end the process at once at a second.

    A process that ends at once leaves ``.part`` files, which ``edgefirst-ros recover`` finishes.
    """

    def end(_: int) -> None:
        say("a second signal: ending at once; `edgefirst-ros recover` finishes what is in .part files")
        os._exit(UNFINISHED)

    with asked_to_finish(stop.set, end, twin_s=TWIN_S, last=True):
        yield
