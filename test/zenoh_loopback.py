"""Zenoh on loopback only, and the capture and play commands as processes."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

COMMAND = [sys.executable, "-m", "edgefirst_ros"]
PATIENT = [
    sys.executable,
    "-c",
    "from edgefirst_ros.cli import app, capture; capture.STOP_S = capture.END_S = 60.0; app.app()",
]
"""A capture that takes its time after a signal: a busy machine needs more than 3 s for what is left."""
LIMIT_S = 120.0


def free_endpoint() -> str:
    """An endpoint on loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{found.getsockname()[1]}"


def await_condition(what: str, condition: Callable[[], bool]) -> None:
    """Wait until it holds; never is an error of its own, not a wrong result."""
    limit_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit_s:
            raise TimeoutError(f"never came: {what}")
        time.sleep(0.02)


class Process:
    """One command running; its words go to files, so that nobody waits for a pipe to be read."""

    def __init__(self, folder: Path, *arguments: str | Path, command: Sequence[str] = COMMAND) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.popen = subprocess.Popen([*command, *map(str, arguments)], stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return (self._folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self._folder / "err").read_text()

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self) -> int:
        return self.popen.wait(LIMIT_S)


@contextmanager
def started(folder: Path, *arguments: str | Path, command: Sequence[str] = COMMAND) -> Iterator[Process]:
    """A command that does not outlive the test."""
    process = Process(folder, *arguments, command=command)
    try:
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.kill()
            process.popen.wait()
