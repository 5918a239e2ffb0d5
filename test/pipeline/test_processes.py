"""Worker processes: what they are given, return and raise, and how they and their callers end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import remote_calls

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.pipeline.processes import ProcessPool, WorkerLost

WAIT_S = 60.0


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    made = ProcessPool(2)
    yield made
    made.kill()


def await_gone(pid: int) -> None:
    """Wait until a process is gone, or a zombie of somebody who does not look."""
    for _ in range(int(WAIT_S * 50)):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} lives on")


def pid_in(file: Path) -> int:
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)
    return int(file.read_text())


def test_calls_are_made_in_other_processes_that_serve_again(pool: ProcessPool) -> None:
    made = {pool.call(remote_calls.where) for _ in range(4)}
    assert os.getpid() not in made
    assert len(made) <= 2


def test_no_process_is_started_before_there_is_a_call_and_no_more_than_asked_for(tmp_path: Path) -> None:
    pool = ProcessPool(2)
    assert not pool._children
    waits = [pool.submit(remote_calls.sleep, 0.2, tmp_path / str(number)) for number in range(5)]
    for wait in waits:
        wait.result(WAIT_S)
    assert len({(tmp_path / str(number)).read_text() for number in range(5)}) == 2
    pool.shutdown()
    assert not pool._children


def test_what_a_call_raises_is_raised_here(pool: ProcessPool) -> None:
    with pytest.raises(DecodeError, match="torn"):
        pool.call(remote_calls.refuse, "torn")
    with pytest.raises(ZeroDivisionError):
        pool.submit(remote_calls.fail).result(WAIT_S)
    with pytest.raises(Exception, match="pickle"):
        pool.call(remote_calls.where, threading.Lock())
    with pytest.raises(Exception, match="pickle"):
        pool.call(threading.Lock)
    with pytest.raises(RuntimeError, match="Unsendable: torn"):
        pool.call(remote_calls.raise_unsendable, "torn")
    with pytest.raises(ZeroDivisionError) as caught:
        pool.call(remote_calls.fail)
    assert "in fail" in caught.value.__notes__[0]
    assert pool.call(remote_calls.where)
    assert pool.failure is None


def test_a_call_whose_process_is_killed_is_made_again(pool: ProcessPool, tmp_path: Path) -> None:
    assert pool.submit(remote_calls.die, 1, tmp_path / "died").result(WAIT_S) == "done"
    assert pool.failure is None
    assert pool.call(remote_calls.where)


def test_killing_the_pool_ends_its_processes_and_fails_what_waits(tmp_path: Path) -> None:
    pool = ProcessPool(1)
    calls: list[Future[None]] = [pool.submit(remote_calls.sleep, 60, tmp_path / str(n)) for n in range(3)]
    child = pid_in(tmp_path / "0")
    pool.kill()
    await_gone(child)
    for call in (*calls, pool.submit(remote_calls.where)):
        with pytest.raises(WorkerLost):
            call.result(WAIT_S)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_end_with_the_program_that_started_them(tmp_path: Path, end: signal.Signals) -> None:
    program = subprocess.Popen(
        [sys.executable, remote_calls.__file__, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    children = [int(pid) for pid in program.stdout.readline().split()]
    if end is not signal.SIGKILL:
        assert program.stdout.readline() == "idle\n"
    program.send_signal(end)
    program.wait(WAIT_S)
    program.stdout.close()
    assert len(set(children)) == 2
    for child in children:
        await_gone(child)


def test_ctrl_c_in_a_terminal_is_not_for_the_processes(pool: ProcessPool, tmp_path: Path) -> None:
    call = pool.submit(remote_calls.sleep, 0.3, tmp_path / "child")
    child = pid_in(tmp_path / "child")
    assert os.getpgid(child) != os.getpgid(0)
    os.kill(child, signal.SIGINT)
    call.result(WAIT_S)
    assert pool.failure is None


def test_nothing_stays_open_once_the_processes_have_ended() -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    pool = ProcessPool(2)
    pool.call(remote_calls.doubled, np.zeros(100_000, np.int16), b"")
    pool.shutdown()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
