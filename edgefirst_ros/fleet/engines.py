"""What converts drives: processes of this machine, or tasks of a Ray or Dask cluster.

Each is an executor as in ``concurrent.futures``, which retries a task whose worker died.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias

from edgefirst_ros.model.errors import ConfigError, EdgeFirstError, extra
from edgefirst_ros.sources.scratch import remove_all

Function: TypeAlias = Callable[[Any], Any]
"""That of a task: it and its argument must be picklable, and importable by the workers."""
TRIES = 3
JOB_BYTES = 1_500_000_000
"""Memory that one conversion takes at most, unless a user knows better; docs/fleet.md has measurements."""
CONNECT_S = 15
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")


class WorkerDied(EdgeFirstError):
    """The process in which a task ran has died."""


class LocalEngine:
    """Processes of this machine, a new one for each task: a death is the fault of one drive alone.

    Attributes:
        text: where tasks run, for people.
        slots: how many can run at a time; of clusters it may change.
        workers: encoder threads for each.
    """

    def __init__(self, jobs: int, workers: int) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.slots, self.workers = jobs, workers or max(1, cores // jobs)
        self.text = f"{jobs} {'process' if jobs == 1 else 'processes'} on this machine"
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="worker")
        self._spawn = multiprocessing.get_context("spawn")
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._is_closed = False

    def submit(self, function: Function, argument: Any) -> Future[Any]:  # noqa: ANN401 - the function's
        """Call a function in a process of its own, up to three times if it is killed."""
        return self._pool.submit(self._try, pickle.dumps((function, argument)))

    def close(self) -> None:
        """Kill all processes: what they have not published is removed by whoever comes next."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.kill()
        self._pool.shutdown(cancel_futures=True)

    def _try(self, payload: bytes) -> Any:  # noqa: ANN401 - the function's result
        died = ""
        for _ in range(TRIES):
            try:
                return self._call(payload)
            except WorkerDied as error:
                if self._is_closed:
                    raise
                died = str(error)
        raise WorkerDied(f"{TRIES} workers died while they converted it; the last one {died}")

    def _call(self, payload: bytes) -> Any:  # noqa: ANN401 - the function's result
        answer, theirs = self._spawn.Pipe(duplex=False)
        process = self._spawn.Process(target=_work, args=(theirs, payload, self.workers))
        with theirs, self._lock:
            if self._is_closed:
                raise WorkerDied("was not started")
            process.start()
            self._running.add(process)
        with answer:
            try:
                return answer.recv()
            except EOFError:
                process.join()
                code = process.exitcode or 0
                how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
                raise WorkerDied(f"was {how}; SIGKILL is what the kernel does when memory is short") from None
            finally:
                process.join()
                with self._lock:
                    self._running.discard(process)


def _work(answer: Connection, payload: bytes, threads: int) -> None:
    """The life of a process of ``LocalEngine``."""
    os.setsid()  # Ctrl-C in a terminal reaches the coordinator alone
    os.environ.update({name: str(threads) for name in _THREADS if name not in os.environ})
    with suppress(OSError):
        # When memory is short the kernel ends this process rather than the coordinator.
        Path("/proc/self/oom_score_adj").write_text("500")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function, argument = pickle.loads(payload)
    answer.send(function(argument))
    answer.close()
    remove_all()
    os._exit(0)  # the interpreter's finalization may abort while a thread is inside a native library


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class RayEngine:
    """Tasks of Ray Core, with cores and memory reserved for each, which Ray retries."""

    def __init__(self, address: str, workers: int, memory: int, jobs: int | None) -> None:
        with extra("ray"):
            import ray
        try:
            _probe(address)  # Ray itself tries for minutes
            ray.init(address or "auto", logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            where = f"--engine ray: no cluster at {address or 'auto'}"
            raise ConfigError(
                [f"{where}: {str(error).partition(chr(10))[0]}; start one: ray start --head"]
            ) from error
        self._ray: Any = ray
        self.workers, self._memory, self._jobs = workers, memory, jobs
        self._references: set[Any] = set()
        self.text = f"Ray at {address or 'auto'}"
        if not self.slots:
            ray.shutdown()
            need = f"a drive needs {workers} cores and {memory / 1e9:.1f} GB, which no node has"
            raise ConfigError([f"--engine ray: {need}; lower --workers or --memory"])

    @property
    def slots(self) -> int:
        """Tasks that the nodes have cores and memory for; Ray would wait forever for a larger node."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        rooms = [(n.get("CPU", 0) // self.workers, n.get("memory", 0) // self._memory) for n in nodes]
        found = sum(int(min(room)) for room in rooms)
        return min(found, self._jobs or found)

    def submit(self, function: Function, argument: Any) -> Future[Any]:  # noqa: ANN401 - the function's
        """Call a function in the cluster."""
        remote = self._ray.remote(function)
        options = {"num_cpus": self.workers, "memory": self._memory, "max_retries": TRIES - 1}
        reference = remote.options(**options).remote(argument)
        self._references.add(reference)
        future: Future[Any] = reference.future()
        future.add_done_callback(lambda _: self._references.discard(reference))
        return future

    def close(self) -> None:
        """Kill running tasks, and leave the cluster."""
        for reference in [*self._references]:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()


def _probe(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


class DaskEngine:
    """Tasks of a Dask scheduler's workers, one for each of their threads, which the scheduler retries."""

    def __init__(self, address: str, workers: int, jobs: int | None) -> None:
        with extra("dask"):
            import dask
            import distributed
        address = address or dask.config.get("scheduler-address", "") or ""
        if not address:
            raise ConfigError(["--engine dask: --address is missing, as tcp://HOST:8786"])
        client: Any = distributed.Client  # hardly typed
        try:
            self._client: Any = client(address, timeout=CONNECT_S, set_as_default=False)
            self._client.wait_for_workers(1, timeout=CONNECT_S)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConfigError([f"--engine dask: no scheduler with workers at {address}: {error}"]) from error
        self.workers, self._jobs = workers, jobs
        self._executor = self._client.get_executor(pure=False)  # else two equal calls would be one
        self.text = f"Dask at {address}"

    @property
    def slots(self) -> int:
        """Threads of all workers."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        found = sum(int(worker["nthreads"]) for worker in workers)
        return min(found, self._jobs or found)

    def submit(self, function: Function, argument: Any) -> Future[Any]:  # noqa: ANN401 - the function's
        """Call a function in the cluster."""
        future: Future[Any] = self._executor.submit(function, argument)
        return future

    def close(self) -> None:
        """Cancel tasks that have not begun, and leave the cluster; those that run come to their end."""
        self._executor.shutdown(wait=False)
        self._client.close()


Engine: TypeAlias = LocalEngine | RayEngine | DaskEngine


def open_engine(name: str, address: str, jobs: int | None, memory_gb: float | None, workers: int) -> Engine:
    """The engine of a name.

    Args:
        name: ``local``, ``ray`` or ``dask``.
        address: of the cluster.
        jobs: most tasks at a time; None for one, or for as many as a cluster has room for.
        memory_gb: what Ray reserves for each task.
        workers: encoder threads for each; 0 for an equal share of this machine's cores, or one in a cluster.

    Raises:
        ConfigError: there is no such cluster, or a task has no room.
        ExtraNotInstalled: its library is missing.
    """
    if name == "ray":
        memory = JOB_BYTES if memory_gb is None else round(memory_gb * 1e9)
        return RayEngine(address, workers or 1, memory, jobs)
    if name == "dask":
        return DaskEngine(address, workers or 1, jobs)
    if address:
        raise ConfigError(["--address is for --engine ray and --engine dask"])
    return LocalEngine(max(1, jobs or 1), workers)
