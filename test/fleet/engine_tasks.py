"""What tests have other processes do; it imports little, as each of them does."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from edgefirst_ros.model.errors import RecordingError


def doubled(number: int) -> int:
    return 2 * number


def environment(_: int) -> tuple[str, int]:
    return os.environ["POLARS_MAX_THREADS"], os.getsid(0)


def refused(name: str) -> None:
    raise RecordingError(f"{name}: is broken")


class Unsendable(Exception):
    def __init__(self) -> None:
        super().__init__("cannot be sent")
        self.lock = threading.Lock()


def unsendable(_: int) -> None:
    raise Unsendable


def killed(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def killed_once(folder: Path) -> str:
    if not any(folder.iterdir()):
        killed(folder)
    return "alive"


def exiting(_: int) -> None:
    os.write(2, b"out of luck\n")
    os._exit(7)


def sleeping(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(600)


def stubborn(folder: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleeping(folder)
