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
    PATIENCE_S,
    UNFINISHED,
    asked_to_finish,
    finishing,
)

CLOCK = """
import threading
from edgefirst_ros.live import signals

class Clock:
    def __init__(self):
        self.now_s, self.timers = 0.0, []
    def Timer(self, after_s, action):
        timer = Timer(self.now_s + after_s, action)
        self.timers.append(timer)
        return timer
    def passes(self, seconds):
        self.now_s += seconds
        for timer in [each for each in self.timers if each.at_s <= self.now_s]:
            self.timers.remove(timer)
            timer.action()

class Timer:
    def __init__(self, at_s, action):
        self.at_s, self.action = at_s, action
    def start(self): pass
    def cancel(self): pass
    def is_alive(self): return False

clock = Clock()
threading.Timer = clock.Timer
"""
CHILD = f"""
import os, signal, sys, threading, time
{CLOCK}
stop = threading.Event()
first, second = (signal.Signals[name] for name in sys.argv[2:])
with signals.finishing(stop, lambda text: (sys.stdout.write(text), sys.stdout.flush())):
    os.kill(os.getpid(), first)
    os.kill(os.getpid(), first)
    clock.passes(float(sys.argv[1]))
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


def child(after_s: float, *names: str, code: str = CHILD) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, str(after_s), *names]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("first", "second"), [("SIGTERM", "SIGINT"), ("SIGINT", "SIGINT"), ("SIGTERM", "SIGTERM")]
)
def test_a_second_signal_ends_at_once(first: str, second: str) -> None:
    done = child(PATIENCE_S + 0.1, first, second)
    assert done.returncode == UNFINISHED
    assert "edgefirst-ros recover" in done.stdout


def test_whoever_else_listens_to_signals_does_so_afterwards() -> None:
    out, into = os.pipe()
    os.set_blocking(into, False)
    before = signal.set_wakeup_fd(into)
    try:
        with asked_to_finish(lambda: None, lambda _: None):
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.set_wakeup_fd(into) == into
    finally:
        signal.set_wakeup_fd(before)
        os.close(out)
        os.close(into)
