"""The first signal asks, its twin is ignored, a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from edgefirst_ros.nodes.signals import ASKING, TWIN_S, finishing

CHILD = f"""
import os, signal, sys, threading, time
from edgefirst_ros.nodes.signals import finishing
stop = threading.Event()
with finishing(stop, lambda text: (sys.stdout.write(text), sys.stdout.flush())):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep({TWIN_S} + 0.1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
"""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The suite's own, afterwards."""
    before = {number: signal.getsignal(number) for number in ASKING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_without_a_signal_everything_is_as_before() -> None:
    before = [signal.getsignal(number) for number in ASKING]
    with finishing(threading.Event(), lambda _: None):
        assert all(callable(signal.getsignal(number)) for number in ASKING)
    assert [signal.getsignal(number) for number in ASKING] == before


@pytest.mark.parametrize("number", ASKING, ids=lambda n: signal.Signals(n).name)
def test_the_first_signal_asks(number: int) -> None:
    stop, said = threading.Event(), list[str]()
    with finishing(stop, said.append):
        os.kill(os.getpid(), number)
        assert stop.wait(5.0)
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    assert not said
    # A launcher that passes it on late must not turn a clean end into a death by signal.
    os.kill(os.getpid(), number)
    time.sleep(0.01)


def test_a_second_signal_ends_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 128 + signal.SIGINT
    assert "edgefirst-ros recover" in done.stdout


def test_who_logs_out_under_nohup_does_not_end_the_drive() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with finishing(stop, lambda _: None):
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.wait(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5.0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
