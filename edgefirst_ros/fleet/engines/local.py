"""Tasks in processes of this machine, a new one for each task: a death is the fault of one drive alone."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result, WorkerDied

TRIES = 3
PATIENCE_S = 10.0
"""A process that was asked to end is killed after this time."""
_QUOTED = 600
"""Bytes of a dead worker's last words that are shown."""


class LocalEngine(Engine):
    """At most ``jobs`` processes at a time, each with its share of the cores.

    Args:
        jobs: processes.
        workers: threads for each.
    """

    def __init__(self, jobs: int, workers: int) -> None:
        self._jobs, self.workers = jobs, workers
        self.text = f"{jobs} {'process' if jobs == 1 else 'processes'} on this machine"
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="worker")
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def avoid(self, worker: str) -> None:  # noqa: ARG002 - there is one
        """There is no other machine: nothing can be done any more."""
        self._jobs = 0

    @property
    def slots(self) -> int:
        """As many as there may be processes."""
        return self._jobs

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        """Call a function in a process of its own."""
        return self._pool.submit(self._tried, function, argument)

    def stop(self) -> None:
        """End all processes; those that do not end are killed."""
        with self._lock:
            self._stopped = True
            running = [*self._running]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def shutdown(self) -> None:
        """Wait for running tasks."""
        self._pool.shutdown(cancel_futures=True)

    def _tried(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        payload, told = pickle.dumps(sys.path) + pickle.dumps((function, argument)), ""
        for _ in range(TRIES):
            try:
                return cast("Result", self._in_process(payload))
            except WorkerDied as error:
                if self._stopped:
                    raise
                told = str(error)
        raise WorkerDied(f"{TRIES} workers died while they converted it; the last one {told}")

    def _in_process(self, payload: bytes) -> Any:  # noqa: ANN401 - the function's result
        with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as answer:
            process = self._start(words, answer)
            try:
                if process.stdin is None:
                    raise WorkerDied("has no standard input")
                with suppress(BrokenPipeError):  # why it ended is said below
                    process.stdin.write(len(payload).to_bytes(8, "little") + payload)
                    process.stdin.flush()
                process.wait()
            finally:
                with self._lock:
                    self._running.discard(process)
                if process.stdin is not None:
                    with suppress(BrokenPipeError):
                        process.stdin.close()
            answer.seek(0)
            if process.returncode == 0 and (data := answer.read()):
                result, error = pickle.loads(data)
                if error is not None:
                    raise error
                return result
            raise WorkerDied(_death(process.returncode, words))

    def _start(self, words: IO[bytes], answer: IO[bytes]) -> subprocess.Popen[bytes]:
        here = str(Path(__file__).parents[3])
        threads = str(self.workers)
        own = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), threads
        )
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
        with self._lock:
            if self._stopped:
                raise WorkerDied("was not started: stopped")
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "edgefirst_ros.fleet.engines.worker", str(answer.fileno())],
                stdin=subprocess.PIPE,
                stdout=words,
                stderr=words,
                pass_fds=[answer.fileno()],
                env={**own, **os.environ, "PYTHONPATH": path},
                # Ctrl-C in a terminal reaches the coordinator alone, which then ends its workers.
                start_new_session=True,
            )
            self._running.add(process)
        return process


def _death(code: int, words: IO[bytes]) -> str:
    words.seek(0)
    last = words.read()[-_QUOTED:].decode(errors="replace").strip().splitlines()
    quoted = f": {last[-1]}" if last else ""
    if code == -signal.SIGKILL:
        return f"was killed by SIGKILL, as the kernel does when memory is short{quoted}"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}{quoted}"
    return f"exited with code {code}{quoted}"
