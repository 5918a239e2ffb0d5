"""Tasks of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result, WorkerDied, chained
from edgefirst_ros.model.errors import ConfigError, extra

CONNECT_S = 15


class DaskEngine(Engine):
    """Tasks of a scheduler's workers, one for each of their threads.

    Dask itself repeats tasks whose worker died. It blames all tasks of such a worker; the claim on a drive
    counts how often that drive had really begun, so only few tasks are given to the scheduler at a time.

    Args:
        address: of the scheduler, as ``tcp://HOST:8786``.
        workers: encoder threads for each task.
        memory: bytes for each task.
        jobs: most tasks at a time; None takes what the cluster has.

    Raises:
        ExtraNotInstalled: Dask is missing.
        ConfigError: there is no scheduler, it has no worker, or none is large enough for one task.
    """

    def __init__(self, address: str, workers: int, memory: int, jobs: int | None = None) -> None:
        with extra("dask"):
            import dask
            import distributed
        address = address or dask.config.get("scheduler-address", "") or ""
        if not address:
            raise ConfigError(["--engine dask: --address is missing, as tcp://HOST:8786"])
        client: Any = distributed.Client  # hardly typed
        try:
            self._client: Any = client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConfigError([f"--engine dask: no scheduler at {address}: {error}"]) from error
        self.workers, self._memory, self._jobs = workers, memory, jobs
        self._distributed: Any = distributed
        # Without pure=False two equal calls would be one.
        self._executor = self._client.get_executor(pure=False)
        self.text = f"Dask, {len(self._all())} workers"
        if not self.slots:
            found = [f"{w['nthreads']} threads, {w['memory_limit'] / 1e9:.1f} GB" for w in self._all()]
            self.shutdown()
            lack = f"--engine dask: a drive needs {memory / 1e9:.1f} GB, but the workers "
            lack += f"have {'; '.join(found)}" if found else "have not come yet"
            raise ConfigError([f"{lack}; lower --memory, or start larger ones"])

    def _all(self) -> list[dict[str, Any]]:
        return [*self._client.scheduler_info(n_workers=-1)["workers"].values()]

    @property
    def slots(self) -> int:
        """Threads of all workers, no more in each than there is memory for; a limit of 0 is none."""
        found = sum(
            min(w["nthreads"], int(w["memory_limit"] // self._memory) if w["memory_limit"] else w["nthreads"])
            for w in self._all()
        )
        return int(min(found, self._jobs or found))

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        """Call a function in the cluster."""
        return chained(self._executor.submit(function, argument), self._translated)

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(
            error, self._distributed.client.FutureCancelledError | self._distributed.CancelledError
        ):
            return WorkerDied("stopped")
        if isinstance(error, self._distributed.scheduler.KilledWorker):
            return WorkerDied(f"workers died while they converted it: {error}")
        return error

    def stop(self) -> None:
        """Cancel tasks that have not begun; running ones end when their claims are revoked."""
        self._executor.shutdown(wait=False)

    def shutdown(self) -> None:
        """Leave the cluster."""
        self._client.close()
