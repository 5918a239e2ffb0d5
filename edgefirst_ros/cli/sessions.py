"""Tells of the sessions of a capture as they end, with their pages, without keeping the capture waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from edgefirst_ros.formats.pace import Pace

if TYPE_CHECKING:
    from edgefirst_ros.live.session import Finished

Made = tuple[Sequence[Path], str]
"""Pages, and what to say about them."""
LEFT = "the report page is left to `edgefirst-ros report`: there was no time for it"


class SessionReports:
    """Makes the page of each session, then tells of it: in a thread of its own, one after the other.

    A page reads a dataset, which takes as long as it is large; while sessions go on it is work that waits.

    Args:
        make: makes the pages of a session's files.
        tell: called with a session and its pages, one call at a time, by this thread or the one that closes.
    """

    def __init__(
        self, make: Callable[[Sequence[Path]], Made], tell: Callable[[Finished, Made], None]
    ) -> None:
        self._make = make
        self._tell = tell
        self._pace = Pace()
        self._sessions: SimpleQueue[Finished | None] = SimpleQueue()
        self._untold: list[Finished] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)
        self._thread.start()

    def add(self, finished: Finished) -> None:
        """A session has ended."""
        with self._lock:
            self._untold.append(finished)
        self._sessions.put(finished)

    @property
    def is_busy(self) -> bool:
        """Whether a page is being made that nobody waits for any more."""
        return self._thread.is_alive()

    def close(self, within_s: float | None) -> None:
        """Tell of what is left; pages that are not made within the time are left to ``report``."""
        self._pace.hurry()
        self._sessions.put(None)
        self._thread.join(within_s)
        with self._lock:
            left, self._untold = self._untold, []
        for finished in left:
            self._tell(finished, ((), LEFT))

    def _run(self) -> None:
        with self._pace.kept():
            while (finished := self._sessions.get()) is not None:
                made = self._make(finished.paths)
                with self._lock:
                    if finished not in self._untold:
                        return  # told of without its page, as the time was over
                    self._untold.remove(finished)
                    self._tell(finished, made)
