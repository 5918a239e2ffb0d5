"""What tests have other processes do; it imports little, as each of them does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def doubled(number: int) -> int:
    return 2 * number


def environment(_: int) -> tuple[str, int]:
    return os.environ["POLARS_MAX_THREADS"], os.getsid(0)


def killed(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def killed_once(folder: Path) -> str:
    if not any(folder.iterdir()):
        killed(folder)
    return "alive"


def exiting(_: int) -> None:
    os._exit(7)


def sleeping(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(600)
