"""The coordinator of a run: gives drives to an engine until all are done, whatever becomes of single ones.

How the modules go together: ``plan`` says what is to be done, by the ``notes`` in an ``output``. A ``Run``
gives each drive to one of the ``engines``, where a ``task`` converts and publishes it. ``page`` shows what
all datasets hold.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any, Literal

from edgefirst_ros.fleet.engines import Engine
from edgefirst_ros.fleet.notes import BEGUN, FAILED, Notes
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.fleet.plan import Drive, Plan, Settings
from edgefirst_ros.fleet.task import Ended, Task, ended_by, run_task

_LOOK_S = 0.5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
MOST_PAUSES = 9
"""With no drive done in between: after some six minutes an outage is for a person."""
MOST_TRIES = 4
"""Of one drive, while others are done."""
UNKNOWN = "is there already, and no note says what it is of; --overwrite replaces it"


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a drive; ``note`` as of ``Ended``, ``left_s``: how long the others will take."""

    what: Literal["done", "failed", "later"]
    drive: Drive
    note: Mapping[str, Any]
    bytes_done: int
    left_s: float | None
    """None until a drive is done."""


@dataclass(slots=True)
class Outcome:
    """Why drives have failed, in this run or before, or are left; empty where the run only came to an end."""

    failed: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    is_interrupted: bool = False


def time_left_s(
    pace: float, waiting: Iterable[int], running: Iterable[tuple[int, float]], slots: int
) -> float:
    """How long a run will still take, if each drive takes its bytes times the pace so far.

    Args:
        pace: seconds for a byte.
        waiting: bytes of drives that wait, in their order.
        running: of those that are converted, and since how many seconds.
        slots: how many are converted at a time.
    """
    ends_s = [max(0.0, size * pace - since_s) for size, since_s in running]
    ends_s += [0.0] * (max(1, slots) - len(ends_s))
    heapify(ends_s)
    for size in waiting:
        heapreplace(ends_s, ends_s[0] + size * pace)
    return max(ends_s)


@dataclass(slots=True)
class Run:
    """One run over the drives of a plan; call ``convert`` once.

    Attributes:
        plan: what is to be done.
        settings: how.
        output: where to; the caller holds it.
        engine: converts them.
        fail_fast: stop at the first failure.
        stop: when set, no further drives begin, and ``convert`` returns.
        on_event: called from the calling thread.
    """

    plan: Plan
    settings: Settings
    output: Output
    engine: Engine
    fail_fast: bool
    stop: threading.Event
    on_event: Callable[[Event], None]
    _waiting: deque[Drive] = field(default_factory=deque)
    _running: dict[Future[Ended], tuple[Drive, float]] = field(default_factory=dict)
    _outcome: Outcome = field(default_factory=Outcome)
    _has_failed: bool = False
    _tries: Counter[str] = field(default_factory=Counter)
    _reasons: dict[str, str] = field(default_factory=dict)
    _pauses: int = 0
    _resume_s: float = 0.0
    _bytes: int = 0
    _converted: int = 0
    _seconds: float = 0.0

    def convert(self) -> Outcome:
        """Convert all drives.

        Raises:
            OSError: the output's storage does not answer.
        """
        notes, plan = Notes(self.output), self.plan
        notes.put_plan({drive.name: drive.key for drive in plan.drives})
        known = notes.read_notes(FAILED) if plan.failed else {}
        before = {each.name: str(known.get(each.name, {}).get("reason", "?")) for each in plan.failed}
        self._outcome.failed |= before | {each.name: UNKNOWN for each in plan.refused}
        self._waiting.extend(plan.work)
        while (self._waiting or self._running) and not self._ends():
            self._submit()
            ended, _ = wait(self._running, _LOOK_S, FIRST_COMPLETED)
            if not self._running:
                self.stop.wait(_LOOK_S)
            for future in ended:
                self._take(*self._running.pop(future), future)
        self._outcome.is_interrupted = self.stop.is_set()
        for drive in (*self._waiting, *(drive for drive, _ in self._running.values())):
            self._outcome.left[drive.name] = self._reasons.get(drive.name, "")
        return self._outcome

    def _ends(self) -> bool:
        return self.stop.is_set() or self._pauses > MOST_PAUSES or (self.fail_fast and self._has_failed)

    def _submit(self) -> None:
        while self._waiting and len(self._running) < self.engine.slots and time.monotonic() >= self._resume_s:
            drive = self._waiting.popleft()
            task = Task(drive, self.settings, self.output.shown, self.engine.workers)
            self._running[self.engine.submit(run_task, task)] = drive, time.monotonic()

    def _take(self, drive: Drive, since_s: float, future: Future[Ended]) -> None:
        """See how a task ended: its drive is done, has failed, or is tried again after a pause."""
        error = future.exception()
        ended = future.result() if error is None else ended_by(error)
        if ended.how == "later":
            self._postpone(drive, str(ended.note["reason"]))
        else:
            self._pauses, self._resume_s = 0, 0.0
            self._bytes += drive.size
        if ended.how == "done":
            self._converted += drive.size
            self._seconds += time.monotonic() - since_s
        elif ended.how == "failed":
            self._has_failed = True
            self._outcome.failed[drive.name] = str(ended.note["reason"])
            note = {"inputs": drive.places, "unix_s": round(time.time()), **ended.note}
            notes = Notes(self.output)
            notes.put_note(FAILED, drive.name, drive.key, note)
            notes.remove_notes(BEGUN, drive.name, [*drive.earlier, drive.key])
        self.on_event(Event(ended.how, drive, ended.note, self._bytes, self._left_s()))

    def _postpone(self, drive: Drive, reason: str) -> None:
        """Have all wait before a drive is tried again: what is away is away for the others, too."""
        self._tries[drive.name] += 1
        self._reasons[drive.name] = reason
        if time.monotonic() >= self._resume_s:  # those that fail at one time are one fault
            self._resume_s = time.monotonic() + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._pauses)
            self._pauses += 1
        if self._tries[drive.name] < MOST_TRIES or self._pauses > 1:
            self._waiting.append(drive)
        else:
            self._outcome.left[drive.name] = reason

    def _left_s(self) -> float | None:
        if not self._converted:
            return None
        now_s, waiting = time.monotonic(), [drive.size for drive in self._waiting]
        running = [(drive.size, now_s - since_s) for drive, since_s in self._running.values()]
        return time_left_s(self._seconds / self._converted, waiting, running, self.engine.slots)
