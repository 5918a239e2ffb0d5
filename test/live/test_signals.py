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
LATE = f"""
import os, signal, sys, threading, time
{CLOCK}
held = threading.Lock()
held.acquire()

def comes():
    clock.passes(float(sys.argv[1]))
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    clock.passes(60.0)
    held.release()

with signals.finishing(threading.Event(), lambda text: (sys.stdout.write(text), sys.stdout.flush())):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=comes).start()
    held.acquire()  # the signal interrupts the other thread, and Python handles it after this only
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


def test_a_sigterm_long_after_a_sigint_is() -> None:
    assert child(ESCALATION_S - 0.1, "SIGINT", "SIGTERM").returncode == 0
    assert child(ESCALATION_S + 0.1, "SIGINT", "SIGTERM").returncode == UNFINISHED


def test_when_a_signal_came_counts_and_not_when_it_is_handled() -> None:
    """On a busy machine the handler of a launch's twin runs when what it would end has long begun."""
    done = child(PATIENCE_S - 0.1, code=LATE)
    assert (done.returncode, done.stdout[-9:]) == (0, "finished\n")
    assert child(PATIENCE_S + 0.1, code=LATE).returncode == UNFINISHED


def test_what_came_before_anything_was_said_is_no_answer_to_it() -> None:
    again = list[int]()

    def first() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

    with asked_to_finish(first, again.append):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert not again
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert again == [signal.SIGINT]


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


def test_who_logs_out_under_nohup_does_not_end_the_drive() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with finishing(stop, lambda _: None):
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.wait(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5.0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
