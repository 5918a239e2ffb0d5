"""Group commit: what the writers have written is synced to the disk every so often, beside the writing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgefirst_ros.formats.crashsafe.sync import sync_together
from edgefirst_ros.formats.format import CrashSafe, Writer


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

    A sample that is written after half of that is synced at once: a few a second are soon on disk.

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
        self._writers = [writer for writer in writers if isinstance(writer, CrashSafe)]
        self._sync_s = sync_s
        self._written = written
        self._tell = durable
        self._stopped = False
        self._is_early = not sync_s
        """Whether the thread waits for something to be written."""
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        if sync_s >= 0 and self._writers:
            self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
            self._thread.start()

    def wrote(self) -> None:
        """Something was written; any thread."""
        if self._thread is not None and self._is_early:
            with self._wake:
                self._wake.notify()

    @property
    def _is_durable(self) -> bool:
        return self._written() == self.durable

    @property
    def _has_sample(self) -> bool:
        return self._written().samples > self.durable.samples

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
                if self._sync_s:
                    self._wake.wait_for(lambda: self._stopped, self._sync_s / 2)
                    self._is_early = True
                    self._wake.wait_for(lambda: self._stopped or self._has_sample, self._sync_s / 2)
                    self._is_early = False
                elif not self._stopped and self._is_durable:
                    self._wake.wait()
                is_last = self._stopped
            mark = self._written()
            if mark != self.durable:
                try:
                    sync_together(self._writers)
                except BaseException as failure:  # noqa: BLE001 - kept for the caller, who ends the run
                    self.failure = failure
                    return
                self.complete(mark)
