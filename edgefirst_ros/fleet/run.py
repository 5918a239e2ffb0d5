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

from edgefirst_ros.fleet.claims import Watch, is_over, revoke
from edgefirst_ros.fleet.engines.engine import Engine, WorkerDied
from edgefirst_ros.fleet.keys import FleetDrive, Settings
from edgefirst_ros.fleet.notes import RUNNING
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.fleet.plan import Plan, Work
from edgefirst_ros.fleet.task import Ended, Task, failed, run_task, settled

LOOK_S = 5.0
"""How often claims of other runs, and the engine's slots, are looked at."""
_WAKE_S = 0.5


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a user wants to know at once.

    Attributes:
        what: ``done``, ``failed``, ``earlier`` (another run completed it), ``again`` (it is converted again
            because something changed), ``waiting`` (another run has it).
        drive: which.
        note: what was noted of it, or ``{"reason": …}``.
        bytes_done: of all inputs that are done with, for the progress.
    """

    what: Literal["done", "failed", "earlier", "again", "waiting"]
    drive: FleetDrive
    note: Mapping[str, Any]
    bytes_done: int = 0


@dataclass(slots=True)
class FleetOutcome:
    """The notes of what a run did, and of what had failed before; whether it was stopped before its end."""

    done: list[Mapping[str, Any]] = field(default_factory=list)
    failed: list[Mapping[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    interrupted: bool = False


class Fleet:
    """One run over the drives of a plan; call ``convert`` once.

    Args:
        plan: what is to be done.
        settings: how.
        output: where to.
        engine: converts them.
        fail_fast: stop at the first failure.
        redo: convert drives although they are done.
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
        stop: threading.Event | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._plan, self._settings, self._output, self._engine = plan, settings, output, engine
        self._fail_fast, self._redo = fail_fast, redo
        self._stop = stop or threading.Event()
        self._on_event = on_event
        self._run = uuid.uuid4().hex
        self._queue = deque((work, "") for work in plan.work)
        if self._queue and not fail_fast:
            # Runs at once begin at different drives; who wants the first failure wants it in order.
            self._queue.rotate(int(self._run, 16) % len(self._queue))
        self._others = False
        self._running: dict[Future[Ended], Work] = {}
        self._held: list[tuple[Work, Watch]] = []
        self._looked_s = 0.0
        self._slots = 0
        self._bytes = 0
        self._outcome = FleetOutcome(failed=[note for _, note in plan.failed])

    def convert(self) -> FleetOutcome:
        """Convert all drives.

        Raises:
            OSError: the output's storage does not answer.
        """
        for work in self._plan.work:
            if work.change:
                self._tell("again", work, {"reason": work.change})
        try:
            while (self._queue or self._running or self._held) and not self._ends():
                self._look()
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

    def _ends(self) -> bool:
        return self._stop.is_set() or bool(self._fail_fast and self._outcome.failed)

    def _submit(self, work: Work, abandoned: str) -> None:
        task = Task(
            work.drive,
            work.key,
            self._settings,
            self._output.shown,
            self._run,
            self._engine.workers,
            abandoned,
            work.earlier,
            self._redo,
            work.failed,
        )
        if (ended := self._elsewhere(task)) is not None:
            self._settle(work, ended)
            return
        self._running[self._engine.submit(run_task, task)] = work

    def _elsewhere(self, task: Task) -> Ended | None:
        """What another run has done with a drive, or that it has it: no process need begin for that."""
        if not self._others:
            return None
        with suppress(OSError):  # the task says what is wrong
            claim = self._output.notes.read(f"{RUNNING}/{task.drive.name}")
            if claim is not None and claim.version != task.abandoned and not is_over(claim.values):
                return Ended("busy")
            return settled(task, self._output.notes)
        return None

    def _take(self, work: Work, future: Future[Ended]) -> None:
        """See how a task ended."""
        try:
            ended = future.result()
        except WorkerDied as error:
            if self._ends():
                self._outcome.left.append(work.drive.name)
                return
            ended = self._died(work, error)
        self._settle(work, ended)

    def _settle(self, work: Work, ended: Ended) -> None:
        if ended.how == "busy":
            self._held.append((work, Watch(self._output.notes, work.drive.name)))
            # Two runs that have come to the same place would meet at each of the following drives, too.
            self._queue.rotate(len(self._queue) // 2)
            self._tell("waiting", work, {"reason": "another run is converting it"})
            return
        self._bytes += work.drive.size
        (self._outcome.failed if ended.how == "failed" else self._outcome.done).append(ended.note)
        self._tell(ended.how, work, ended.note)

    def _died(self, work: Work, error: WorkerDied) -> Ended:
        revoke(self._output.notes, work.drive.name, self._run)
        task = Task(work.drive, work.key, self._settings, self._output.shown, self._run, 0)
        return failed(task, self._output, error)

    def _look(self) -> None:
        """Now and then: how large the cluster is, and what became of drives that other runs have."""
        if self._slots and time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s, self._slots = time.monotonic(), self._engine.slots
        if not self._others:
            own = {work.drive.name for work in self._running.values()}
            self._others = bool(set(self._output.notes.names(RUNNING)) - own)
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
        if not (self._queue or self._running or self._held):
            return
        self._outcome.interrupted = self._stop.is_set()
        self._engine.stop()
        ended, _ = wait(self._running, LOOK_S)
        for future, work in self._running.items():
            with suppress(WorkerDied, CancelledError, OSError):
                if future in ended and future.result().how in {"done", "earlier"}:
                    self._outcome.done.append(future.result().note)
                    self._tell("done", work, future.result().note)
                    continue
            self._outcome.left.append(work.drive.name)
            with suppress(OSError):
                revoke(self._output.notes, work.drive.name, self._run)
        self._outcome.left += [work.drive.name for work, _ in (*self._queue, *self._held)]
