"""Worker processes: functions called in other processes, so that they do not wait for this one's lock."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from edgefirst_ros.errors import EdgeFirstError
from edgefirst_ros.pipeline.crossing import Area, Line, LinkClosed

Made = TypeVar("Made")
COMMAND = (sys.executable, "-P", "-m", "edgefirst_ros.pipeline.child")
ATTEMPTS = 2
"""How often a call is made whose process ends before it is done."""
WORTH_BYTES = 20 << 20
"""Threads have converted less than this, some seconds of a drive, before processes have started."""
PATIENCE_S = 5.0
"""For a process to end once its connection is closed."""


def are_worth_it(workers: int, size: int) -> bool:
    """Whether worker processes make recordings of so many bytes in all faster than threads do."""
    return workers > 1 and size >= WORTH_BYTES


class WorkerLost(EdgeFirstError):
    """A worker process ended in the middle of a call, and so did the next one with the same call."""


class _Child:
    """One process that makes calls for one thread of this one.

    It ends when this process does, however that ends: then this end of the connection is closed.
    """

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        requests, replies = self._areas = Area(), Area()
        descriptors = theirs.fileno(), requests.descriptor, replies.descriptor
        path = os.pathsep.join(each for each in sys.path if each)
        with theirs:
            self.process = subprocess.Popen(
                [*COMMAND, *map(str, descriptors)],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,  # Ctrl-C in a terminal is for this process alone
            )
        self._line = Line(self._link, requests, replies)

    def call(self, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:  # noqa: ANN401 - of any function
        """What the function returns.

        Raises:
            LinkClosed: the process has ended.
            Exception: whatever the function raises.
        """
        self._line.send((function, given))
        made, error = self._line.receive(copied=True)
        if error is not None:
            raise error
        return made

    def close(self) -> str:
        """End the process, and say how it ended."""
        self._link.close()
        for area in self._areas:
            area.close()
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(PATIENCE_S)
            return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self.process.kill()
        self.process.wait()
        return "did not answer"


_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class ProcessPool:
    """Calls functions in worker processes, which the first calls start.

    A thread of this process waits for each of them. Functions must be found by their names in modules, and
    arguments and results be such that pickle copies them; large ones cross through shared memory.

    Args:
        workers: processes.

    Attributes:
        failure: why a call could not be made at all; None while all could.
    """

    def __init__(self, workers: int) -> None:
        self.failure: WorkerLost | None = None
        self._workers = workers
        self._urgent: deque[_Call] = deque()
        self._calls: deque[_Call] = deque()
        self._idle = 0
        self._is_closed = self._is_killed = False
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._children: set[_Child] = set()

    def submit(self, function: Callable[..., Made], *given: Any) -> Future[Made]:  # noqa: ANN401 - of any function
        """Call a function in a worker process; the future has what it returns or raises, or WorkerLost."""
        return self._put(function, given, urgent=False)

    def call(self, function: Callable[..., Made], *given: Any) -> Made:  # noqa: ANN401 - of any function
        """Call a function in a worker process, before what was submitted, and wait for it."""
        return self._put(function, given, urgent=True).result()

    def shutdown(self) -> None:
        """Wait for all calls, and end the processes."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def kill(self) -> None:
        """End the processes at once; calls that are not done fail."""
        with self._changed:
            self._is_killed = True
            for child in self._children:
                child.process.kill()
        self.shutdown()

    def _put(self, function: Callable[..., Made], given: tuple[Any, ...], *, urgent: bool) -> Future[Made]:
        made: Future[Made] = Future()
        with self._changed:
            if self._is_closed:
                made.set_exception(WorkerLost("the worker processes have ended"))
                return made
            (self._urgent if urgent else self._calls).append((made, function, given))
            if len(self._urgent) + len(self._calls) > self._idle and len(self._threads) < self._workers:
                # A daemon: a caller that died before shutting down must not keep the process from ending.
                name = f"worker-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        return made

    def _next(self) -> _Call | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._urgent or self._calls or self._is_closed)
            self._idle -= 1
            waiting = self._urgent or self._calls
            return waiting.popleft() if waiting else None

    def _run(self) -> None:
        child: _Child | None = None
        while (call := self._next()) is not None:
            made, function, given = call
            if made.set_running_or_notify_cancel():
                child = self._make(child, made, function, given)
            del call, made, function, given
        if child is not None:
            self._close(child)

    def _make(
        self,
        child: _Child | None,
        made: Future[Any],
        function: Callable[..., Any],
        given: tuple[Any, ...],
    ) -> _Child | None:
        """Make a call, in another process if one ends; the one that made it."""
        ended = ""
        for _ in range(ATTEMPTS):
            if self._is_killed:
                break
            try:
                child = child or self._open()
                made.set_result(child.call(function, given))
            except LinkClosed:
                ended = "" if child is None else self._close(child)
                child = None
            except BaseException as error:  # noqa: BLE001 - handed on to whoever asks for the result
                made.set_exception(error)
                return child
            else:
                return child
        lost = WorkerLost(
            f"a worker process {ended}, and so did the next one at the same call: if memory is short, "
            "fewer workers take less (--workers 1 takes no process)"
        )
        self.failure = self.failure or lost
        made.set_exception(lost)
        return child

    def _open(self) -> _Child:
        child = _Child()
        with self._changed:
            self._children.add(child)
            if self._is_killed:
                child.process.kill()
        return child

    def _close(self, child: _Child) -> str:
        with self._changed:
            self._children.discard(child)
        return child.close()
