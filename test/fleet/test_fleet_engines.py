"""Processes of this machine: results, deaths, and stopping; how long a run will take."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from engine_tasks import doubled, environment, exiting, killed, killed_once, sleeping
from fleets import wait_for
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.fleet.engines import LocalEngine, WorkerDied, open_engine
from edgefirst_ros.fleet.run import time_left_s
from edgefirst_ros.model.errors import ConfigError


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_back() -> None:
    with closing(LocalEngine(2, 1)) as engine:
        assert [f.result() for f in [engine.submit(doubled, n) for n in range(4)]] == [0, 2, 4, 6]


def test_a_worker_has_its_share_of_threads_and_no_terminal_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    with closing(LocalEngine(1, 3)) as engine:
        threads, session = engine.submit(environment, 0).result()
    assert threads == "3"
    assert session != os.getsid(0)


def test_a_task_whose_worker_dies_is_tried_again(tmp_path: Path) -> None:
    with closing(LocalEngine(1, 1)) as engine:
        assert engine.submit(killed_once, tmp_path).result() == "alive"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_task_that_kills_three_workers_is_given_up_alone(tmp_path: Path) -> None:
    with closing(LocalEngine(2, 1)) as engine:
        dying, living = engine.submit(killed, tmp_path), [engine.submit(doubled, n) for n in range(4)]
        with pytest.raises(WorkerDied, match=r"3 workers died .* killed by SIGKILL"):
            dying.result()
        assert [f.result() for f in living] == [0, 2, 4, 6]
        with pytest.raises(WorkerDied, match="ended with code 7"):
            engine.submit(exiting, 0).result()
    assert len(list(tmp_path.iterdir())) == 3


def test_closing_ends_what_runs_and_what_waits(tmp_path: Path) -> None:
    engine = LocalEngine(1, 1)
    running, waiting = (engine.submit(sleeping, tmp_path) for _ in range(2))
    pid = int(wait_for(lambda: [p.name for p in tmp_path.iterdir()])[0])
    engine.close()
    with pytest.raises(WorkerDied):
        running.result(timeout=30)
    assert waiting.cancelled() or waiting.exception() is not None
    assert not is_alive(pid)


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = f"""import sys; sys.path[:] = {sys.path!r}
from pathlib import Path
from engine_tasks import sleeping
from edgefirst_ros.fleet.engines import LocalEngine
if __name__ == "__main__":
    LocalEngine(1, 1).submit(sleeping, Path({str(tmp_path)!r})).result()"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    pid = int(wait_for(lambda: [p.name for p in tmp_path.iterdir()])[0])
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_alive(pid))


def test_an_address_is_of_a_cluster() -> None:
    with pytest.raises(ConfigError, match="--address is for --engine ray"):
        open_engine("local", "auto", 1, None, 0)


@given(sizes=st.lists(st.integers(50, 200), min_size=1, max_size=60), slots=st.integers(1, 4))
def test_what_is_said_to_be_left_is_true_if_the_pace_stays(sizes: list[int], slots: int) -> None:
    waiting, running, now = [*sizes], [], 0.0
    said: list[tuple[float, float]] = []
    while waiting or running:
        while waiting and len(running) < slots:
            running.append((size := waiting.pop(0), now, now + 2 * size))
        first = min(running, key=lambda each: each[2])
        running.remove(first)
        now = first[2]
        since = [(size, now - begun_s) for size, begun_s, _ in running]
        said.append((now, time_left_s(2.0, waiting, since, slots)))
    assert [at_s + left_s for at_s, left_s in said] == pytest.approx([now] * len(said))
