"""Tasks of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any

from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result, WorkerDied, chained, lacking
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
        self._seen: set[str] = set()
        self._avoided: set[str] = set()
        # Without pure=False two equal calls would be one.
        self._executor = self._client.get_executor(pure=False)
        self.text = f"Dask, {len(self._all())} workers"
        if not self.slots:
            found = [
                f"{w['nthreads']} threads, {w['memory_limit'] / 1e9:.1f} GB" for w in self._all().values()
            ]
            self.shutdown()
            lack = f"--engine dask: a drive needs {memory / 1e9:.1f} GB, but the workers "
            lack += f"have {'; '.join(found)}" if found else "have not come yet"
            raise ConfigError([f"{lack}; lower --memory, or start larger ones"])

    def _all(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: worker for address, worker in found.items() if address not in self._avoided}

    def find_unfit(self, needed: Mapping[str, str]) -> dict[str, str]:
        """Ask workers for the versions of what they have."""
        new = [address for address in self._all() if address not in self._seen]
        self._seen.update(new)
        if not new:
            return {}
        # A function of Python itself, since those of this package may be missing there, or others.
        by_name = {name: self._client.run(version, name, workers=new, on_error="return") for name in needed}
        found = {a: lacking(needed, {name: each.get(a) for name, each in by_name.items()}) for a in new}
        return {address: reason for address, reason in found.items() if reason}

    def avoid(self, worker: str) -> None:
        """Have the scheduler prefer the others."""
        self._avoided.add(worker)

    @property
    def slots(self) -> int:
        """Threads of all workers, no more in each than there is memory for; a limit of 0 is none."""
        found = sum(
            min(w["nthreads"], int(w["memory_limit"] // self._memory) if w["memory_limit"] else w["nthreads"])
            for w in self._all().values()
        )
        return int(min(found, self._jobs or found))

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        """Call a function in the cluster."""
        # Others may do it if none of these lives any more: then it is done there, or given back soon.
        chosen = {"workers": [*self._all()], "allow_other_workers": True} if self._avoided else {}
        return chained(self._executor.submit(function, argument, **chosen), self._translated)

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
