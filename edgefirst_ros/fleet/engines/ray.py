"""Tasks of a Ray cluster (Ray Core), with cores and memory reserved for each."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any

from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result, WorkerDied, chained, lacking
from edgefirst_ros.fleet.task import MOST_DEATHS
from edgefirst_ros.model.errors import ConfigError, extra

CONNECT_S = 15
_NODE = "ray.io/node-id"
"""A label that Ray gives every node."""


class RayEngine(Engine):
    """Tasks with ``num_cpus``, ``memory`` and ``max_retries``.

    Args:
        address: of the cluster, as ``auto`` or ``ray://HOST:10001``.
        workers: cores for each task, which are its encoder threads.
        memory: bytes for each task.
        jobs: most tasks at a time; None takes what the cluster has.

    Raises:
        ExtraNotInstalled: Ray is missing.
        ConfigError: there is no such cluster, or none of its nodes is large enough for one task.
    """

    def __init__(self, address: str, workers: int, memory: int, jobs: int | None = None) -> None:
        with extra("ray"):
            import ray
        try:
            _probe(address)
            ray.init(address or "auto", logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            where = f"--engine ray: no cluster at {address or 'auto'}"
            raise ConfigError([f"{where}: {_line(error)}; start one: ray start --head"]) from error
        self._ray: Any = ray
        self.workers, self._memory, self._jobs = workers, memory, jobs
        self._references: set[Any] = set()
        self._seen: set[str] = set()
        self._avoided: set[str] = set()
        self.text = f"Ray, {len(self._nodes())} nodes"
        if not self.slots:
            text = self._too_small()
            self.shutdown()
            raise ConfigError([text])

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._alive()]

    def _alive(self) -> list[dict[str, Any]]:
        return [n for n in self._ray.nodes() if n["Alive"] and n["NodeID"] not in self._avoided]

    def find_unfit(self, needed: Mapping[str, str]) -> dict[str, str]:
        """Ask nodes for the versions of what they have."""
        unfit: dict[str, str] = {}
        for node in [n["NodeID"] for n in self._alive() if n["NodeID"] not in self._seen]:
            self._seen.add(node)
            # A function of Python itself, since those of this package may be missing there, or others.
            ask = self._ray.remote(version).options(num_cpus=0, label_selector={_NODE: node})
            found = {name: self._answer(ask.remote(name)) for name in needed}
            if reason := lacking(needed, found):
                unfit[node] = reason
        return unfit

    def _answer(self, reference: Any) -> object:  # noqa: ANN401 - Ray's
        try:
            return self._ray.get(reference, timeout=CONNECT_S)
        except self._ray.exceptions.RayError as error:
            return getattr(error, "cause", None) or error

    def avoid(self, worker: str) -> None:
        """Have tasks go to other nodes."""
        self._avoided.add(worker)

    @property
    def slots(self) -> int:
        """Tasks that the nodes have cores and memory for; Ray would wait forever for a larger node."""
        found = sum(
            min(int(node.get("CPU", 0) // self.workers), int(node.get("memory", 0) // self._memory))
            for node in self._nodes()
        )
        return min(found, self._jobs or found)

    def _too_small(self) -> str:
        largest = [f"{n.get('CPU', 0):g} cores, {n.get('memory', 0) / 1e9:.1f} GB" for n in self._nodes()]
        return (
            f"--engine ray: a drive needs {self.workers} cores and {self._memory / 1e9:.1f} GB, but the "
            f"nodes have {'; '.join(largest) or 'nothing'}; lower --workers or --memory, or add a larger node"
        )

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        """Call a function in the cluster."""
        options: dict[str, Any] = {"num_cpus": self.workers, "memory": self._memory}
        options["max_retries"] = MOST_DEATHS - 1
        if self._avoided:
            options["label_selector"] = {_NODE: f"!in({','.join(sorted(self._avoided))})"}
        reference = self._ray.remote(function).options(**options).remote(argument)
        self._references.add(reference)
        future = chained(reference.future(), self._translated)
        future.add_done_callback(lambda _: self._references.discard(reference))
        return future

    def _translated(self, error: BaseException) -> BaseException:
        died = self._ray.exceptions
        if isinstance(error, died.TaskCancelledError):
            return WorkerDied("stopped")
        if isinstance(error, died.WorkerCrashedError | died.OutOfMemoryError | died.NodeDiedError):
            return WorkerDied(f"{MOST_DEATHS} workers died while they converted it: {_line(error)}")
        return error.cause if isinstance(error, died.RayTaskError) and error.cause is not None else error

    def stop(self) -> None:
        """Interrupt running tasks, and cancel the others."""
        for reference in [*self._references]:
            self._ray.cancel(reference)

    def shutdown(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()


def _probe(address: str) -> None:
    """Connect to a cluster's head: Ray itself tries for minutes.

    Raises:
        OSError: nobody answers.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


def _line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
