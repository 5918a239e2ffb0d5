"""A real Ray cluster with two cores converts the drives, though one of its workers is killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_tasks import doubled, killed
from fleets import assert_a_dead_worker_costs_nothing, make_drives, run

from edgefirst_ros.fleet.engines import RayEngine

ray = pytest.importorskip("ray", reason="no Ray: make test-fleet installs it in a venv of its own")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of this machine; its workers import what this process can."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    context = ray.init(
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        _memory=4 * 10**9,
        object_store_memory=10**8,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
    )
    yield context.address_info["gcs_address"]
    ray.shutdown()


def test_all_drives_are_converted_though_a_worker_dies(address: str, tmp_path: Path) -> None:
    assert_a_dead_worker_costs_nothing(tmp_path, "--engine", "ray", "--address", address)


def test_a_drive_that_needs_more_than_any_node_has_is_refused(address: str, tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=1)
    command = ("convert", drives, "-o", tmp_path / "sets", "--engine", "ray", "--address", address)
    for more, need in (
        (("--workers", "64"), "64 cores and 1.5 GB"),
        (("--memory", "100"), "1 cores and 100.0 GB"),
    ):
        code, _, err = run(*command, *more)
        assert (code, f"a drive needs {need}, which no node has" in err) == (2, True), err
    code, _, err = run(*command[:-1], "127.0.0.1:1")
    assert (code, "no cluster at 127.0.0.1:1" in err) == (2, True), err


def test_results_and_deaths_come_back(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda *_, **__: None)  # this process is connected already
    engine = RayEngine(address, 1, 10**9, None)
    assert engine.slots == 2
    assert RayEngine(address, 2, 10**9, None).slots == RayEngine(address, 1, 10**9, 1).slots == 1
    assert engine.submit(doubled, 4).result(60) == 8
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        engine.submit(killed, tmp_path).result(120)
    assert len(list(tmp_path.iterdir())) == 3
