"""The disk that holds an output: how much may still be written, so that what is there can be completed.

Group commit: what the writers have written is synced to the disk every so often, beside the writing.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.crashsafe.sync import sync_together
from edgefirst_ros.formats.format import CrashSafe, Writer
from edgefirst_ros.model.reasons import Finding
from edgefirst_ros.report.finding import sync_findings

LOOK_EVERY_S = 1.0
"""Other processes that fill the disk are seen within this time."""
OVERHEAD_BYTES = 64 << 10
"""Counted for every item beside its own bytes: records of journals, and the blocks of some small files."""


class Disk:
    """The free space at an output, by what was written since it was looked at; thread-safe.

    Before an item is written, ``admits`` is asked; how much it took is said with ``wrote``. The disk is
    looked at again once half of what may be written is, so that what is said may be too little by as much.

    With ``min_free_mb`` 0 everything is admitted until the disk refuses.

    Args:
        output: the output folder, which need not exist yet.
        config: the configuration.
        subfolders: of the output, that may be on disks of their own.
        needed: how many bytes it takes to complete what has been written; any thread.
        on_full: called once, by whichever thread writes, with the reason why nothing more is admitted.
    """

    def __init__(
        self,
        output: Path,
        config: Config,
        subfolders: tuple[str, ...] = (),
        needed: Callable[[], int] = lambda: 0,
        on_full: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.output = output
        self.config = config
        self._places = (output, *(output / name for name in subfolders))
        self._needed = needed
        self._on_full = on_full
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Items are admitted again, as far as there is space."""
        with self._lock:
            self._left = self._since = self._largest = 0
            self._looked_s = -LOOK_EVERY_S
            self._full = ""

    def free_bytes(self) -> int:
        """Free space where there is least; 0 if a disk fails."""
        found = []
        try:
            for place in self._places:
                there = next((path for path in (place, *place.parents) if path.exists()), place)
                found.append(shutil.disk_usage(there).free)
        except OSError:
            return 0
        return min(found)

    def spare_bytes(self, free_bytes: int) -> int:
        """Free space beyond ``min_free_mb``, negative if there is less than that."""
        return free_bytes - round(self.config.min_free_mb * 1e6)

    def full(self) -> str:
        """Why nothing may be written now, empty if there is space."""
        return self._reason(self.free_bytes(), 0)

    def watch(self) -> None:
        """Look at the disk, unless that was done a moment ago."""
        if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._admit(look=True)

    def admits(self) -> bool:
        """Whether another item may be written."""
        return self._admit(look=False)

    @property
    def reason(self) -> str:
        """Why nothing more is admitted; empty while something is."""
        return self._full

    def wrote(self, size: int) -> None:
        """An item of this many bytes was written."""
        with self._lock:
            self._since += size + OVERHEAD_BYTES
            self._largest = max(self._largest, size)

    def _admit(self, *, look: bool) -> bool:
        if not self.config.min_free_mb:
            return True
        with self._lock:
            if self._full:
                return False
            if not look and 2 * (self._since + self._largest) < self._left:
                return True
            # What is under way at several writers may be as large as the largest so far.
            # Needed for the report, the names of folders and the ends of files that are hardly worth
            # counting.
            needed = self._needed() + (1 << 20) + _AT_ONCE * self._largest
            free = self.free_bytes()
            self._since, self._looked_s = 0, time.monotonic()
            self._left = self.spare_bytes(free) - needed
            full = self._full = self._reason(free, needed)
        if full:
            self._on_full(full)
        return not full

    def _reason(self, free: int, needed: int) -> str:
        """Why nothing may be written with so much free space, of which some is needed."""
        limit_mb, spare = self.config.min_free_mb, self.spare_bytes(free)
        if spare >= needed:
            return ""
        if spare < 0:
            return f"the disk has {free / 1e6:,.0f} MB left, less than min_free_mb {limit_mb:,.0f}"
        needs = f"{needed / 1e6:,.1f} MB to complete what is written"
        return f"the disk has {free / 1e6:,.0f} MB left: min_free_mb {limit_mb:,.0f}, and {needs}"


_AT_ONCE = 4
"""Writers that may write an item each while the disk is looked at: three formats and the recording."""


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
        waited_s: the longest that a message has waited in memory before it was taken.
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
        self._longest_s = self.waited_s = 0.0
        self._since_s = time.monotonic()
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

    @property
    def at_risk_s(self) -> float | None:
        """Of how many seconds a power cut could have taken the data, at most, at any time so far.

        That is what messages have waited for, ``sync_s``, and as long as the disk takes. None where nothing
        is synced; any thread.
        """
        return None if self._thread is None else self.waited_s + self._unsynced_s

    @property
    def _unsynced_s(self) -> float:
        since_s = self._since_s
        return self._longest_s if self._is_durable else max(self._longest_s, time.monotonic() - since_s)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether the disk is too slow for ``sync_s``. Any thread."""
        return tuple(sync_findings(None if self._thread is None else self._unsynced_s, self._sync_s))

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
                    self._since_s = time.monotonic()  # there was nothing to lose till now
                is_last = self._stopped
            start_s, mark = time.monotonic(), self._written()
            if mark != self.durable:
                try:
                    sync_together(self._writers)
                except BaseException as failure:  # noqa: BLE001 - kept for the caller, who ends the run
                    self.failure = failure
                    return
                self._longest_s = self._unsynced_s
                self.complete(mark)
            self._since_s = start_s  # what was written before is durable
