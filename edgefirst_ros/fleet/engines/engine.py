"""What every engine is: an executor that says how much it can do, and can be stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from edgefirst_ros.errors import EdgeFirstError

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class WorkerDied(EdgeFirstError):
    """The processes in which a task ran died, as often as a task is tried."""


class Engine(ABC):
    """An executor, as in ``concurrent.futures``, for tasks of minutes; a context manager that shuts it down.

    A task whose worker dies is tried again by the engine; if too many die, its future raises WorkerDied.
    Functions and arguments must be picklable, and the functions importable by the workers.

    Attributes:
        text: where tasks run, for people.
        workers: encoder threads for each task.
    """

    text: str
    workers: int

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many tasks can run at a time; may change."""

    @abstractmethod
    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        """Call a function in a worker."""

    @abstractmethod
    def stop(self) -> None:
        """Stop running tasks soon, and do not begin others; their futures raise."""

    @abstractmethod
    def shutdown(self) -> None:
        """Give back what the engine holds; no task is running any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.stop()
        self.shutdown()


def chained(inner: Future[Result], translate: Callable[[BaseException], BaseException]) -> Future[Result]:
    """A future like ``inner``, whose errors are translated."""
    outer: Future[Result] = Future()

    def passed_on(done: Future[Result]) -> None:
        if not outer.set_running_or_notify_cancel():
            return
        if done.cancelled():
            outer.set_exception(WorkerDied("stopped"))
        elif (error := done.exception()) is not None:
            outer.set_exception(translate(error))
        else:
            outer.set_result(done.result())

    inner.add_done_callback(passed_on)
    return outer
