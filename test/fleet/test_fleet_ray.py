"""A real Ray cluster with two cores converts the drives, though one of its workers is killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from fleets import (
    assert_a_dead_worker_costs_nothing,
    make_drives,
    run,
)

from edgefirst_ros.fleet.engines.engine import WorkerDied, this_worker
from edgefirst_ros.fleet.engines.ray import RayEngine
from edgefirst_ros.model.errors import ConfigError

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
    assert_a_dead_worker_costs_nothing("ray", address, tmp_path)


def test_a_drive_that_needs_more_than_any_node_has_is_refused(address: str, tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=1)
    command = ("convert", drives, "-o", tmp_path / "sets", "--engine", "ray", "--address", address)
    code, _, err = run(*command, "--workers", "64")
    assert code == 2, err
    assert "needs 64 cores and 1.5 GB, but the nodes have 2 cores, 4.0 GB" in err
    code, _, err = run(*command, "--memory", "100")
    assert code == 2, err
    assert "needs 1 cores and 100.0 GB" in err


def test_no_cluster_is_an_error(tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=1)
    code, _, err = run("convert", drives, "-o", tmp_path, "--engine", "ray", "--address", "127.0.0.1:1")
    assert code == 2, err
    assert "no cluster at 127.0.0.1:1" in err


def doubled(number: int) -> int:
    return 2 * number


def refused(_: int) -> None:
    raise ValueError("broken")


def killed(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def sleeping(seconds: float) -> None:
    """In short steps: Ray interrupts Python, not what waits in the system."""
    for _ in range(round(10 * seconds)):
        time.sleep(0.1)


class InTheCluster(RayEngine):
    """The engine in a process that is connected to the cluster already, and stays so."""

    def shutdown(self) -> None:
        pass


@pytest.fixture
def engine(address: str, monkeypatch: pytest.MonkeyPatch) -> RayEngine:
    monkeypatch.setattr(ray, "init", lambda *_, **__: None)
    return InTheCluster(address, 1, 10**9)


def test_slots_are_what_all_tasks_fit_into(engine: RayEngine, address: str) -> None:
    assert engine.slots == 2
    assert InTheCluster(address, 2, 10**9).slots == 1
    assert InTheCluster(address, 1, 4 * 10**9).slots == 1
    assert InTheCluster(address, 1, 10**9, jobs=1).slots == 1
    with pytest.raises(ConfigError, match="needs 3 cores"):
        InTheCluster(address, 3, 10**9)


def test_results_and_errors_come_back(engine: RayEngine) -> None:
    assert engine.submit(doubled, 4).result(60) == 8
    with pytest.raises(ValueError, match="broken"):
        engine.submit(refused, 0).result(60)


def test_a_task_that_kills_three_workers_is_given_up(engine: RayEngine, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match="3 workers died"):
        engine.submit(killed, str(tmp_path)).result(120)
    assert len(list(tmp_path.iterdir())) == 3


def test_running_tasks_are_stopped(engine: RayEngine) -> None:
    futures = [engine.submit(sleeping, 600) for _ in range(3)]
    time.sleep(1)
    engine.stop()
    for future in futures:
        with pytest.raises(WorkerDied, match="stopped"):
            future.result(60)


def named(_: int) -> str:
    return this_worker()


def test_nodes_are_asked_what_they_have_and_avoided(engine: RayEngine, address: str) -> None:
    (node,) = [each["NodeID"] for each in ray.nodes()]
    assert engine.submit(named, 0).result(60) == node
    here = version("edgefirst_ros")
    assert engine.find_unfit({"edgefirst_ros": here, "pytest": ""}) == {}
    assert engine.find_unfit({"edgefirst_ros": "0.0.1"}) == {}, "it was asked already"
    told = f"has edgefirst_ros {here}, the coordinator has 0.0.1"
    assert InTheCluster(address, 1, 10**9).find_unfit({"edgefirst_ros": "0.0.1"}) == {node: told}
    assert InTheCluster(address, 1, 10**9).find_unfit({"no-such": ""}) == {node: "has no no-such"}
    engine.avoid("0" * len(node))
    assert engine.submit(doubled, 4).result(60) == 8
    engine.avoid(node)
    assert engine.slots == 0
