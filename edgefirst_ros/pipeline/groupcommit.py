"""Group commit: what the writers have written is synced to the disk every so often, beside the writing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgefirst_ros.formats.base import CrashSafe, Writer
from edgefirst_ros.formats.crashsafe.sync import sync_together

_SLOW = 2
"""Times ``sync_s``: beyond, the disk takes longer than the time between two syncs, and is the bottleneck."""
_LEAST_S = 0.5
"""Shorter times of ``sync_s`` ask for what the disk can do; what it then takes is no surprise."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far writing has come.

    Attributes:
        samples: that every format has; one that takes fewer on purpose does not count.
        time_ns: acquisition time of the newest that all formats are done with; None before the first.
        bytes: written in all.
    """

    samples: int = 0
    time_ns: int | None = None
    bytes: int = 0


class GroupCommit:
    """Syncs what is written every ``sync_s`` seconds, in a thread of its own, so that no writer waits for it.

    What was written when a sync began is durable when it ends: it survives a power cut. All formats are
    synced together, with as few flushes of the disk as that takes. Formats that are not ``CrashSafe`` are
    durable only when they are complete.

    Args:
        writers: of all formats.
        sync_s: time from one sync to the next; 0 begins the next at once if there is anything new. Negative:
            nothing is synced before the output is complete.
        written: says how far writing has come; any thread.
        durable: called with each mark that has become durable, in the thread.

    Attributes:
        durable: the newest mark that is durable.
        failure: what ended the thread; nothing more becomes durable then.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        sync_s: float,
        written: Callable[[], Mark],
        durable: Callable[[Mark], None] | None = None,
    ) -> None:
        self.durable = Mark()
        self.failure: BaseException | None = None
        self._longest_s = 0.0
        self._since_s = time.monotonic()
        self._writers = [writer for writer in writers if isinstance(writer, CrashSafe)]
        self._sync_s = sync_s
        self._written = written
        self._tell = durable
        self._stopped = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        if sync_s >= 0 and self._writers:
            self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
            self._thread.start()

    @property
    def at_risk_s(self) -> float | None:
        """Of how many seconds of writing a power cut could have taken the data, at most, at any time so far.

        That is ``sync_s`` and as long as the disk takes. None where nothing is synced; any thread.
        """
        if self._thread is None:
            return None
        since_s = self._since_s
        return self._longest_s if self._is_durable else max(self._longest_s, time.monotonic() - since_s)

    @property
    def warning(self) -> str:
        """That the disk is too slow for ``sync_s``; empty if it is not. Any thread."""
        at_risk_s = self.at_risk_s
        if at_risk_s is None or at_risk_s <= _SLOW * max(self._sync_s, _LEAST_S):
            return ""
        return (
            f"the disk is slow: a power cut could have lost the last {at_risk_s:.1f} s at worst, with "
            f"sync_s {self._sync_s:g}"
        )

    def wrote(self) -> None:
        """Something was written; any thread. Matters where ``sync_s`` is 0."""
        if self._thread is not None and not self._sync_s:
            with self._wake:
                self._wake.notify()

    @property
    def _is_durable(self) -> bool:
        return self._written() == self.durable

    def stop(self) -> None:
        """Sync what is left, and end the thread; may be repeated."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def complete(self, mark: Mark) -> None:
        """Everything up to here is durable: the output is complete."""
        self.durable = mark
        if self._tell is not None:
            self._tell(mark)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._wake:
                if not self._stopped and (self._sync_s or self._is_durable):
                    self._wake.wait(self._sync_s or None)
                    if not self._sync_s:
                        self._since_s = time.monotonic()  # there was nothing to lose till now
                is_last = self._stopped
            start_s, mark = time.monotonic(), self._written()
            if mark != self.durable:
                try:
                    sync_together(self._writers)
                except BaseException as failure:  # noqa: BLE001 - kept for the caller, who ends the run
                    self.failure = failure
                    return
                self._longest_s = self.at_risk_s or 0.0
                self.complete(mark)
            self._since_s = start_s  # what was written before is durable
