"""A real Dask cluster of two workers converts the drives, though one of them is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from engine_tasks import doubled, killed
from fleets import assert_a_dead_worker_costs_nothing

from edgefirst_ros.fleet.engines import DaskEngine
from edgefirst_ros.model.errors import ConfigError

distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'edgefirst_ros[dask]'")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="4GB", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def test_all_drives_are_converted_though_a_worker_dies(address: str, tmp_path: Path) -> None:
    assert_a_dead_worker_costs_nothing(tmp_path, "--engine", "dask", "--address", address)


def test_no_scheduler_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--address is missing"):
        DaskEngine("", 1, None)


def test_results_and_deaths_come_back(address: str, tmp_path: Path) -> None:
    with closing(DaskEngine(address, 1, None)) as engine:
        assert engine.slots == 2
        assert [engine.submit(doubled, 4).result(60) for _ in range(2)] == [8, 8]
        with pytest.raises(Exception, match="died"):
            engine.submit(killed, tmp_path).result(120)
    assert len(list(tmp_path.iterdir())) > 1, "it was tried again"
    with closing(DaskEngine(address, 1, 1)) as engine:
        assert engine.slots == 1
