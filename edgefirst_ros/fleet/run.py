"""The coordinator: gives drives to an engine until all are done, whatever becomes of single ones."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from edgefirst_ros.fleet.claims import Watch, revoke
from edgefirst_ros.fleet.engines.engine import Engine, WorkerDied
from edgefirst_ros.fleet.health import PATIENCE_S, Health
from edgefirst_ros.fleet.keys import FleetDrive, Settings
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.fleet.plan import Plan, Work
from edgefirst_ros.fleet.task import PACKAGE, Ended, Task, failed, run_task, unfit
from edgefirst_ros.model.errors import WriteError

LOOK_S = 5.0
"""How often claims of other runs, and the engine's slots, are looked at."""
_WAKE_S = 0.5
MOST_PATIENCE_S = 30.0
"""In a worker: its claim is lost after 70 s, and a drive that waits in the queue costs no worker."""


class StorageGone(WriteError):
    """The storage was at fault for longer than a drive is to wait."""


def needed(plan: Plan, settings: Settings, output: Output) -> dict[str, str]:
    """The distributions that workers must have, each in this version; empty: in any."""
    places = [output.shown, *(file.uri for work in plan.work for file in work.drive.files)]
    return {PACKAGE: settings.version} | ({"obstore": ""} if any("://" in p for p in places) else {})


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a user wants to know at once.

    Attributes:
        what: ``done``, ``failed``, ``earlier`` (another run completed it), ``again`` (it is converted again
            because something changed), ``waiting`` (another run has it), ``resting`` (it is tried again after
            a while), ``quarantined`` (a worker that failed it gets no more drives).
        drive: which.
        note: what was noted of it, or ``{"reason": …}``.
        bytes_done: of all inputs that are done with, for the progress.
    """

    what: Literal["done", "failed", "earlier", "again", "waiting", "resting", "quarantined"]
    drive: FleetDrive
    note: Mapping[str, Any]
    bytes_done: int = 0


@dataclass(slots=True)
class FleetOutcome:
    """What a run did: the notes of all its drives, and whether it was stopped before its end."""

    done: list[Mapping[str, Any]] = field(default_factory=list)
    failed: list[Mapping[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    interrupted: bool = False
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Workers that got no more drives, and why."""


class Fleet:
    """One run over the drives of a plan; call ``convert`` once.

    Args:
        plan: what is to be done.
        settings: how.
        output: where to.
        engine: converts them.
        fail_fast: stop at the first failure.
        redo: convert drives although they are done.
        single: see ``open_output``.
        patience_s: for so long in all a drive is tried again while the storage, or a worker, is at fault.
        stop: when set, running drives are stopped, and no others begin.
        on_event: called from the calling thread.
    """

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        output: Output,
        engine: Engine,
        *,
        fail_fast: bool = False,
        redo: bool = False,
        single: bool = False,
        patience_s: float = PATIENCE_S,
        stop: threading.Event | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._plan, self._settings, self._output, self._engine = plan, settings, output, engine
        self._fail_fast, self._redo, self._single = fail_fast, redo, single
        self._patience_s = patience_s
        self._health = Health(patience_s)
        self._stop = stop or threading.Event()
        self._on_event = on_event
        self._run = uuid.uuid4().hex
        self._queue = deque((work, "") for work in plan.work)
        self._running: dict[Future[Ended], Work] = {}
        self._held: list[tuple[Work, Watch]] = []
        self._resting: list[tuple[Work, float]] = []
        self._needed = needed(plan, settings, output)
        self._looked_s = 0.0
        self._slots = 0
        self._bytes = 0
        self._outcome = FleetOutcome([note for _, note in plan.done], [note for _, note in plan.failed])

    def convert(self) -> FleetOutcome:
        """Convert all drives.

        Raises:
            OSError: the output's storage does not answer.
        """
        for work in self._plan.work:
            if work.change:
                self._tell("again", work, {"reason": work.change})
        try:
            while self._is_open() and not self._ends():
                self._look()
                self._wake()
                while self._queue and len(self._running) < self._slots:
                    self._submit(*self._queue.popleft())
                ended, _ = wait(self._running, _WAKE_S, FIRST_COMPLETED)
                if not self._running:
                    time.sleep(_WAKE_S)
                for future in ended:
                    self._take(self._running.pop(future), future)
        finally:
            self._finish()
        return self._outcome

    def _is_open(self) -> bool:
        return bool(self._queue or self._running or self._held or self._resting)

    def _ends(self) -> bool:
        is_alone = bool(self._health.quarantined) and not self._slots and not self._running
        return self._stop.is_set() or is_alone or bool(self._fail_fast and self._outcome.failed)

    def _submit(self, work: Work, abandoned: str) -> None:
        self._running[self._engine.submit(run_task, self._task(work, abandoned))] = work

    def _task(self, work: Work, abandoned: str) -> Task:
        return Task(
            work.drive,
            work.key,
            self._settings,
            self._output.shown,
            self._run,
            self._engine.workers,
            abandoned,
            work.earlier,
            self._redo,
            min(self._patience_s, MOST_PATIENCE_S),
            self._single,
        )

    def _take(self, work: Work, future: Future[Ended]) -> None:
        """See how a task ended."""
        try:
            ended = future.result()
        except WorkerDied as error:
            if self._ends():
                self._outcome.left.append(work.drive.name)
                return
            ended = self._died(work, error)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it was not the task that raised it
            # A worker to which the task means nothing, or the engine: nothing is known of the drive.
            ended = unfit(f"{type(error).__name__}: {error}")
        if ended.how in {"storage", "unfit"}:
            self._rest(work, ended)
            return
        self._health.praise(ended.worker)
        if ended.how == "busy":
            self._held.append((work, Watch(self._output.notes, work.drive.name)))
            self._tell("waiting", work, {"reason": "another run is converting it"})
            return
        self._bytes += work.drive.size
        (self._outcome.failed if ended.how == "failed" else self._outcome.done).append(ended.note)
        self._tell(ended.how, work, ended.note)

    def _rest(self, work: Work, ended: Ended) -> None:
        """Have a drive tried again after a while, and see what that says of the worker."""
        reason = str(ended.note["reason"])
        if ended.how == "unfit":
            several = len({w.drive.name for w, _ in (*self._queue, *self._resting)} | {work.drive.name})
            most = 1 if ended.note.get("all") else several + len(self._running)
            if ended.worker and self._health.blame(ended.worker, work.drive.name, reason, most):
                self._quarantine(ended.worker, work)
                self._queue.append((work, ""))
                return
        pause_s = self._health.pause_s(work.drive.name)
        if pause_s is not None:
            self._resting.append((work, time.monotonic() + pause_s))
            self._tell("resting", work, {"reason": reason, "pause_s": pause_s})
        elif ended.how == "unfit":
            self._outcome.left.append(work.drive.name)
        else:
            self._bytes += work.drive.size
            note = failed(self._task(work, ""), self._output, StorageGone(reason)).note
            self._outcome.failed.append(note)
            self._tell("failed", work, note)

    def _quarantine(self, worker: str, work: Work) -> None:
        self._engine.avoid(worker)
        self._slots = self._engine.slots
        self._tell("quarantined", work, {"worker": worker, "reason": self._health.quarantined[worker]})

    def _wake(self) -> None:
        """Put what has rested into the queue."""
        now_s = time.monotonic()
        self._queue.extend((work, "") for work, until_s in self._resting if until_s <= now_s)
        self._resting = [each for each in self._resting if each[1] > now_s]

    def _died(self, work: Work, error: WorkerDied) -> Ended:
        revoke(self._output.notes, work.drive.name, self._run)
        return failed(self._task(work, ""), self._output, error)

    def _look(self) -> None:
        """Now and then: how large the cluster is, and what became of drives that other runs have."""
        if self._slots and time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s = time.monotonic()
        for worker, reason in self._engine.find_unfit(self._needed).items():
            if self._health.blame(worker, "", reason, 1):
                self._quarantine(worker, self._plan.work[0])
        self._slots = self._engine.slots
        for each in [*self._held]:
            work, watch = each
            if (version := watch.look()) is None:
                continue
            self._held.remove(each)
            self._queue.append((work, version))

    def _tell(self, what: Any, work: Work, note: Mapping[str, Any]) -> None:  # noqa: ANN401 - a Literal
        self._on_event(Event(what, work.drive, note, self._bytes))

    def _finish(self) -> None:
        """Stop what is running, and give up its claims, so that another run need not wait for them."""
        self._outcome.quarantined = self._health.quarantined
        if not self._is_open():
            return
        self._outcome.interrupted = self._stop.is_set()
        self._engine.stop()
        ended, _ = wait(self._running, LOOK_S)
        for future, work in self._running.items():
            with suppress(Exception, CancelledError):
                if future in ended and future.result().how in {"done", "earlier"}:
                    self._outcome.done.append(future.result().note)
                    self._tell("done", work, future.result().note)
                    continue
            self._outcome.left.append(work.drive.name)
            with suppress(OSError):
                revoke(self._output.notes, work.drive.name, self._run)
        waiting = (*self._queue, *self._held, *self._resting)
        self._outcome.left += [work.drive.name for work, _ in waiting]
