"""Group commit: what the writers have written is synced to the disk every so often, beside the writing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgefirst_ros.formats.base import CrashSafe, Writer


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

    What was written when a sync began is durable when it ends: it survives a power cut. Formats that are not
    ``CrashSafe`` are durable only when they are complete.

    Args:
        writers: of all formats.
        sync_s: time from one sync to the next; 0 begins the next at once if there is anything new. Negative:
            nothing is synced before the output is complete.
        written: says how far writing has come; any thread.
        durable: called with each mark that has become durable, in the thread.

    Attributes:
        durable: the newest mark that is durable.
        longest_s: the longest time that a sync took.
        failure: what ended the thread; nothing more becomes durable then.
        syncing: name of the format that is synced, or that failed.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        sync_s: float,
        written: Callable[[], Mark],
        durable: Callable[[Mark], None] | None = None,
    ) -> None:
        self.durable = Mark()
        self.longest_s = 0.0
        self.failure: BaseException | None = None
        self.syncing = ""
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

    def wrote(self) -> None:
        """Something was written; any thread. Matters where ``sync_s`` is 0."""
        if self._thread is not None and not self._sync_s:
            with self._wake:
                self._wake.notify()

    def stop(self) -> None:
        """End the thread, after the sync under way; may be repeated."""
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
        while True:
            with self._wake:
                if not self._stopped and (self._sync_s or self._written() == self.durable):
                    self._wake.wait(self._sync_s or None)
                if self._stopped:
                    return
            mark = self._written()
            if mark == self.durable:
                continue
            start_s = time.monotonic()
            try:
                for writer in self._writers:
                    self.syncing = writer.name
                    writer.sync()
            except BaseException as failure:  # noqa: BLE001 - kept for the caller, who ends the run
                self.failure = failure
                return
            self.longest_s = max(self.longest_s, time.monotonic() - start_s)
            self.complete(mark)
