"""A second signal ends the process, also where its exception is lost on the way."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_S = 60.0
CHILD = """
import sys, threading, time
from pathlib import Path
from rich.console import Console
from edgefirst_ros.cli.shared import interruptible
with interruptible(threading.Event(), Console(stderr=True), "finishing", Path("out")):
    while True:
        try:
            print("ready", flush=True)
            for _ in range(600):  # a signal right before a sleep begins is heard only after it
                time.sleep(0.1)
        except KeyboardInterrupt:
            print("lost", flush=True)
"""

ABORTING = """
import atexit, os, threading, time
from rich.console import Console
from edgefirst_ros.cli.shared import guarded, interruptible
atexit.register(os.abort)  # as the interpreter's end does with a thread that is inside a native library
with guarded(Console(stderr=True)), interruptible(threading.Event(), Console(stderr=True)):
    print("ready", flush=True)
    for _ in range(600):
        time.sleep(0.1)
"""


@contextmanager
def interrupted(code: str) -> Iterator[subprocess.Popen[str]]:
    """A process that was asked once to finish."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert "finishing" in child.stderr.readline()
        yield child


def test_a_second_signal_does_not_end_by_way_of_what_may_abort() -> None:
    with interrupted(ABORTING) as child:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 130
    assert "interrupted at once" in err


def test_an_exception_that_is_lost_does_not_keep_the_process() -> None:
    with interrupted(CHILD) as child:
        child.send_signal(signal.SIGTERM)  # what a launcher sends by itself
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT_S)
    assert "lost" in out
    assert child.returncode == 130
    assert "interrupted at once\nhint: edgefirst-ros recover out finishes what was written" in err
