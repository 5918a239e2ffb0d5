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

from edgefirst_ros.live.signals import (
    ASKING,
    ESCALATION_S,
    PATIENCE_S,
    UNFINISHED,
    asked_to_finish,
    finishing,
)

CHILD = """
import os, signal, sys, threading, time
from edgefirst_ros.live.signals import finishing
stop, now_s = threading.Event(), time.monotonic()
time.monotonic = lambda: now_s
first, second = (signal.Signals[name] for name in sys.argv[2:])
with finishing(stop, lambda text: (sys.stdout.write(text), sys.stdout.flush())):
    os.kill(os.getpid(), first)
    os.kill(os.getpid(), first)
    now_s += float(sys.argv[1])
    os.kill(os.getpid(), second)
    time.sleep(0.1)
    print("finished")
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
    (text,) = said
    assert "finishing" in text
    # A launcher that passes it on late must not turn a clean end into a death by signal.
    os.kill(os.getpid(), number)
    time.sleep(0.01)


def child(after_s: float, first: str, second: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(after_s), first, second]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("first", "second"), [("SIGTERM", "SIGINT"), ("SIGINT", "SIGINT"), ("SIGTERM", "SIGTERM")]
)
def test_a_second_signal_ends_at_once(first: str, second: str) -> None:
    done = child(PATIENCE_S + 0.1, first, second)
    assert done.returncode == UNFINISHED
    assert "edgefirst-ros recover" in done.stdout


@pytest.mark.parametrize(("first", "second"), [("SIGINT", "SIGINT"), ("SIGTERM", "SIGINT")])
def test_what_has_hardly_begun_to_finish_is_not_ended(first: str, second: str) -> None:
    """A service manager tells the launch and the node, and the launch tells the node once more, later."""
    done = child(PATIENCE_S - 0.1, first, second)
    assert done.returncode == 0
    assert done.stdout.endswith("finished\n")


def test_a_launcher_that_escalates_is_not_impatient() -> None:
    done = child(PATIENCE_S + 0.1, "SIGINT", "SIGTERM")
    assert done.returncode == 0
    assert done.stdout.endswith("finished\n")


def test_a_sigterm_long_after_a_sigint_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, said, now_s = threading.Event(), list[int](), 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with asked_to_finish(stop.set, said.append, patience_s=PATIENCE_S):
        os.kill(os.getpid(), signal.SIGINT)
        now_s += ESCALATION_S - 0.1
        os.kill(os.getpid(), signal.SIGTERM)
        assert not said
        now_s += 0.2
        os.kill(os.getpid(), signal.SIGTERM)
    assert said == [signal.SIGTERM]


def test_who_logs_out_under_nohup_does_not_end_the_drive() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with finishing(stop, lambda _: None):
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.wait(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5.0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
