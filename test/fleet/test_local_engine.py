"""Processes of this machine: results, errors, deaths, and stopping."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_tasks import (
    doubled,
    environment,
    exiting,
    killed,
    killed_once,
    refused,
    sleeping,
    stubborn,
    unsendable,
)
from fleets import wait_for

from edgefirst_ros.fleet.engines.engine import WorkerDied
from edgefirst_ros.fleet.engines.local import LocalEngine
from edgefirst_ros.model.errors import RecordingError


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_back() -> None:
    with LocalEngine(2, 1) as engine:
        assert [f.result() for f in [engine.submit(doubled, n) for n in range(4)]] == [0, 2, 4, 6]


def test_a_worker_has_its_share_of_threads_and_no_terminal_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    with LocalEngine(1, 3) as engine:
        threads, session = engine.submit(environment, 0).result()
    assert threads == "3"
    assert session != os.getsid(0)


def test_errors_come_back_as_they_are() -> None:
    with LocalEngine(1, 1) as engine:
        with pytest.raises(RecordingError, match="a: is broken"):
            engine.submit(refused, "a").result()
        with pytest.raises(RuntimeError, match="Unsendable: cannot be sent"):
            engine.submit(unsendable, 0).result()


def test_a_task_whose_worker_dies_is_tried_again(tmp_path: Path) -> None:
    with LocalEngine(1, 1) as engine:
        assert engine.submit(killed_once, tmp_path).result() == "alive"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_task_that_kills_three_workers_is_given_up_alone(tmp_path: Path) -> None:
    with LocalEngine(2, 1) as engine:
        dying, living = engine.submit(killed, tmp_path), [engine.submit(doubled, n) for n in range(4)]
        with pytest.raises(WorkerDied, match=r"3 workers died .* killed by SIGKILL"):
            dying.result()
        assert [f.result() for f in living] == [0, 2, 4, 6]
    assert len(list(tmp_path.iterdir())) == 3


def test_the_last_words_of_a_dead_worker_are_quoted() -> None:
    with LocalEngine(1, 1) as engine, pytest.raises(WorkerDied, match="exited with code 7: out of luck"):
        engine.submit(exiting, 0).result()


@pytest.mark.parametrize("task", [sleeping, stubborn])
def test_stopping_ends_what_runs(tmp_path: Path, task: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgefirst_ros.fleet.engines.local.PATIENCE_S", 0.5)
    with LocalEngine(1, 1) as engine:
        running, waiting = (engine.submit(task, tmp_path) for _ in range(2))  # type: ignore[arg-type]
        pid = int(wait_for(lambda: [p.name for p in tmp_path.iterdir()])[0])
        engine.stop()
        for future in (running, waiting):
            with pytest.raises(WorkerDied):
                future.result(timeout=30)
    assert not is_alive(pid)


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = f"""import sys; sys.path[:] = {sys.path!r}
from pathlib import Path
from engine_tasks import sleeping
from edgefirst_ros.fleet.engines.local import LocalEngine
LocalEngine(1, 1).submit(sleeping, Path({str(tmp_path)!r})).result()"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    pid = int(wait_for(lambda: [p.name for p in tmp_path.iterdir()])[0])
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_alive(pid))
