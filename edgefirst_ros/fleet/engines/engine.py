"""What every engine is: an executor that says how much it can do, and can be stopped.

The cores and the memory that this process may use, and each job's share of them.
"""

from __future__ import annotations

import os
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from edgefirst_ros.model.errors import ConfigError, EdgeFirstError

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

    def find_unfit(self, needed: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002 - as engines are able to
        """Workers that have come since the last call and cannot do a task, and why.

        Args:
            needed: distributions that workers must have, each in this version; empty: in any.
        """
        return {}

    @abstractmethod
    def avoid(self, worker: str) -> None:
        """Give a worker no more tasks; ``worker`` as ``this_worker`` names it there."""

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


def this_worker() -> str:
    """What an engine calls the worker that this is: address (Dask), node (Ray), or the machine's name."""
    distributed: Any = sys.modules.get("distributed")
    ray: Any = sys.modules.get("ray")
    if distributed is not None:
        with suppress(ValueError):  # this is no worker
            return str(distributed.get_worker().address)
    if ray is not None and ray.is_initialized():
        return str(ray.get_runtime_context().get_node_id())
    return socket.gethostname()


def lacking(needed: Mapping[str, str], found: Mapping[str, object]) -> str:
    """What a worker lacks of what is needed, empty if nothing is known; ``found``: versions, or errors."""
    for name, wanted in needed.items():
        here = found.get(name)
        if isinstance(here, ImportError):
            return f"has no {name}"
        if isinstance(here, str) and wanted not in {"", here}:
            return f"has {name} {here}, the coordinator has {wanted}"
    return ""


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


JOB_BYTES = 1_500_000_000
"""Memory that one conversion takes at most, unless a user knows better; docs/fleet.md has measurements."""
_GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Share:
    """How many jobs run on this machine, with how many encoder threads each, and why not more."""

    jobs: int
    workers: int
    note: str = ""


def share(jobs: int, memory: int, workers: int | None = None) -> Share:
    """Divide this machine among jobs.

    Args:
        jobs: wanted.
        memory: bytes for each job.
        workers: threads for each job; None divides the cores.

    Raises:
        ConfigError: there is not enough memory for a single job.
    """
    free = available_memory()
    fitting = jobs if free is None else int(free // memory)
    if free is not None and not fitting:
        need = (
            f"--jobs {jobs}: a job needs {memory / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are available"
        )
        raise ConfigError([f"{need}; end other programs, or lower --memory"])
    used = min(jobs, fitting)
    note = ""
    if used < jobs and free is not None:
        note = (
            f"{used} {'job' if used == 1 else 'jobs'} instead of {jobs}: each may need {memory / 1e9:.1f} GB"
        )
        note += f", and {free / 1e9:.1f} GB are available; --memory sets another value"
    return Share(used, workers or max(1, cores() // used), note)


def cores() -> int:
    """Cores that this process may use, by its affinity and its control group."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for words in map(str.split, _read("cpu.max")):
        if words and words[0] != "max":
            count = min(count, max(1, int(words[0]) // int(words[1])))
    return count


def available_memory() -> int | None:
    """Bytes of memory that can be taken without swapping; None where that cannot be known."""
    found = []
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found.append(next(int(line.split()[1]) << 10 for line in text.splitlines() if "MemAvailable" in line))
    except (OSError, StopIteration, ValueError):
        pass
    for most, now in zip(_read("memory.max"), _read("memory.current"), strict=False):
        if most.strip() != "max":
            found.append(int(most) - int(now))
    return min(found, default=None)


def _read(name: str) -> Iterator[str]:
    """What a file of the control group says; nothing where there is none."""
    try:
        yield (_GROUP / name).read_text(encoding="ascii")
    except OSError:
        return
