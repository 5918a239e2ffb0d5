"""A real Dask cluster of two workers converts the drives, though one of them is killed."""

from __future__ import annotations

import errno
import importlib.metadata
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fleets import (
    GARBAGE,
    OPTIONS,
    assert_a_dead_worker_costs_nothing,
    contents,
    done_versions,
    locally,
    make_drives,
    run,
)

from edgefirst_ros.fleet.engines.dask import DaskEngine
from edgefirst_ros.fleet.engines.engine import WorkerDied
from edgefirst_ros.fleet.notes import LocalNotes, read_all
from edgefirst_ros.model.errors import ConfigError

distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'edgefirst_ros[dask]'")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="4GB", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def claim_another_version() -> None:
    real = importlib.metadata.version
    importlib.metadata.version = lambda name: "0.0.1" if name == "edgefirst_ros" else real(name)


def run_out_of_disk() -> None:
    from edgefirst_ros.fleet import task  # noqa: PLC0415 - of the worker

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    task.convert = full


@contextmanager
def worse(address: str, change: Callable[[], None]) -> Iterator[str]:
    """One of the workers is changed, and started anew afterwards; its address."""
    with distributed.Client(address, set_as_default=False) as client:
        bad = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
        client.run(change, workers=[bad])
        try:
            yield bad
        finally:
            client.restart_workers([bad])


def test_a_worker_of_another_version_gets_no_drives(address: str, tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=2)
    where = ("--engine", "dask", "--address", address)
    with worse(address, claim_another_version) as bad:
        code, _, err = run("convert", drives, "-o", tmp_path / "sets", *where, *OPTIONS)
    assert code == 1, err
    assert f"quarantined: {bad}: has edgefirst_ros 0.0.1, the coordinator has " in err
    notes = LocalNotes(tmp_path / "sets")
    assert len(done_versions(notes)) == 2
    assert notes.names("_failed") == []


@pytest.mark.long
def test_a_worker_that_cannot_write_is_quarantined(address: str, tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives")
    where = ("--engine", "dask", "--address", address)
    with worse(address, run_out_of_disk) as bad:
        code, _, err = run("convert", drives, "-o", tmp_path / "sets", *where, *OPTIONS)
    assert code == 1, err
    assert f"worker {bad} gets no more drives: [Errno 28] No space left on device" in err
    assert contents(tmp_path / "sets") == locally(drives)
    failed = read_all(LocalNotes(tmp_path / "sets"), "_failed")
    assert [note["drive"] for note in failed.values()] == [GARBAGE]


@pytest.mark.long
def test_all_drives_are_converted_though_a_worker_dies(address: str, tmp_path: Path) -> None:
    assert_a_dead_worker_costs_nothing("dask", address, tmp_path)


def test_a_drive_that_needs_more_than_any_worker_has_is_refused(address: str, tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=1)
    code, _, err = run(
        *("convert", drives, "-o", tmp_path / "sets", "--memory", "100"),
        *("--engine", "dask", "--address", address),
    )
    assert code == 2, err
    assert "needs 100.0 GB, but the workers have 1 threads, 4.0 GB" in err


def test_no_scheduler_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--address is missing"):
        DaskEngine("", 1, 1)


def doubled(number: int) -> int:
    return 2 * number


def refused(_: int) -> None:
    raise ValueError("broken")


def test_results_and_errors_come_back(address: str) -> None:
    with DaskEngine(address, 1, 10**9, jobs=1) as engine:
        assert engine.slots == 1
        assert engine.submit(doubled, 4).result(60) == 8
        with pytest.raises(ValueError, match="broken"):
            engine.submit(refused, 0).result(60)


def test_what_has_not_begun_is_cancelled(address: str) -> None:
    with DaskEngine(address, 1, 10**9) as engine:
        futures = [engine.submit(time.sleep, 5) for _ in range(6)]
        engine.stop()
        for future in futures:
            with pytest.raises(WorkerDied, match="stopped"):
                future.result(60)
