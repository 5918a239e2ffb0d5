"""A real Dask cluster of two workers converts the drives, though one of them is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import (
    assert_a_dead_worker_costs_nothing,
    make_drives,
    run,
)

from edgefirst_ros.fleet.engines.dask import DaskEngine
from edgefirst_ros.fleet.engines.engine import WorkerDied
from edgefirst_ros.model.errors import ConfigError

distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'edgefirst_ros[dask]'")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="4GB", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


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
