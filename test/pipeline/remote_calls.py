"""Functions that tests have called in worker processes, which find them here."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.errors import DecodeError


def where(*_: object) -> int:
    """The process that makes the call."""
    return os.getpid()


def refuse(reason: str) -> None:
    """A refusal as codecs have."""
    raise DecodeError(reason)


def fail() -> None:
    """An error that is nobody's plan."""
    raise ZeroDivisionError("division by zero")


def doubled(array: npt.NDArray[np.int16], data: bytes) -> tuple[npt.NDArray[np.int16], bytes, bool]:
    """Twice of both, and whether the array may be written to."""
    return array * np.int16(2), data * 2, bool(array.flags.writeable)


def die(times: int, file: Path) -> str:
    """End this process the first times."""
    with file.open("ab") as stream:
        stream.write(b".")
    if file.stat().st_size <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def sleep(seconds: float, file: Path) -> None:
    """Note this process, and wait."""
    file.write_text(str(os.getpid()))
    time.sleep(seconds)


def note(number: int, file: Path) -> None:
    """Note a call."""
    with file.open("a") as stream:
        stream.write(f"{number} ")


def main() -> None:
    """A program with two calls under way; prints the processes of both once they are."""
    import remote_calls as named  # noqa: PLC0415 - what is in __main__ is found by no other process

    from edgefirst_ros.pipeline.processes import ProcessPool  # noqa: PLC0415 - only this program has a pool

    folder = Path(sys.argv[1])
    pool = ProcessPool(2)
    for name in ("one", "two"):
        pool.submit(named.sleep, 0.5, folder / name)
    idle = pool.submit(named.where)
    while not all((folder / name).exists() and (folder / name).read_text() for name in ("one", "two")):
        time.sleep(0.01)
    for line in ("{} {}".format(*((folder / name).read_text() for name in ("one", "two"))), "idle"):
        if line == "idle":
            idle.result()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    time.sleep(60)


if __name__ == "__main__":
    main()


class Unsendable(Exception):
    """Its arguments are not what it is made of."""

    def __init__(self, text: str, more: int) -> None:
        super().__init__(text)
        self.more = more


def raise_unsendable(text: str) -> None:
    raise Unsendable(text, 1)
