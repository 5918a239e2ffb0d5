"""What is tried again, and for how long: whose fault an error is, and which workers get no more drives."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeVar

from edgefirst_ros.model.errors import ExtraNotInstalled, RecordingError
from edgefirst_ros.sources.remote import is_outage, is_refusal

Result = TypeVar("Result")
PATIENCE_S = 600.0
"""Longer than the outages of stores that are worth waiting for; their throttling ends within minutes."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
MOST_FAULTS = 3
"""A worker that fails so many drives in a row has more than bad luck with one of them."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
_OF_STORAGE = frozenset(
    {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EBUSY, errno.ENOLCK, errno.EPIPE}
    | {errno.ECONNRESET, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ENOTCONN, errno.ESHUTDOWN}
    | {errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET}
)
"""What network file systems say while their server is away."""


class Fault(StrEnum):
    """Whose fault it is: the drive's, for good; the storage's, for a time; the worker's, for any drive."""

    DRIVE = "drive"
    STORAGE = "storage"
    WORKER = "worker"


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it was raised from."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def is_full(error: BaseException) -> bool:
    """Whether a disk is full, or cannot be written to."""
    return any(isinstance(each, OSError) and each.errno in _FULL for each in causes(error))


def fault_of(error: BaseException) -> Fault:
    """Whose fault an error of a task is."""
    is_reading = False
    for each in causes(error):
        is_reading |= isinstance(each, RecordingError)
        if isinstance(each, ExtraNotInstalled):
            return Fault.WORKER
        if type(each).__module__.startswith("obstore"):
            if is_refusal(each):
                return Fault.WORKER
            return Fault.STORAGE if is_outage(each) else Fault.DRIVE
        if isinstance(each, OSError):
            if each.errno in _FULL or (each.errno in _FORBIDDEN and not is_reading):
                return Fault.WORKER
            if each.errno in _OF_STORAGE or isinstance(each, TimeoutError):
                return Fault.STORAGE
    return Fault.DRIVE


def pauses_s(patience_s: float) -> Iterator[float]:
    """How long to wait before each further try, until it would be longer than that in all."""
    pause_s = min(FIRST_PAUSE_S, patience_s)
    while 0 < pause_s <= patience_s:
        yield pause_s
        patience_s -= pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def patiently(
    call: Callable[[], Result],
    patience_s: float,
    check: Callable[[], None] | None = None,
    stop: threading.Event | None = None,
) -> Result:
    """What a call returns, which is made again for so long while the storage is at fault.

    ``check`` is called before each further try, and raises if there must not be one; ``stop`` ends the wait.
    """
    stop = stop or threading.Event()
    pauses = pauses_s(patience_s)
    while True:
        try:
            return call()
        except Exception as error:
            if fault_of(error) is not Fault.STORAGE or (pause_s := next(pauses, None)) is None:
                raise
            if stop.wait(pause_s):
                raise
        if check is not None:
            check()


class Health:
    """How often drives were tried, and how workers have done.

    Args:
        patience_s: for so long in all a drive waits for the storage, or for a worker that can convert it.

    Attributes:
        quarantined: workers that get no more drives, and why.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.quarantined: dict[str, str] = {}
        self._rows: dict[str, set[str]] = {}
        self._pauses: dict[str, Iterator[float]] = {}

    def pause_s(self, drive: str) -> float | None:
        """How long a drive is to wait before it is tried again; None if it has waited long enough."""
        return next(self._pauses.setdefault(drive, pauses_s(self._patience_s)), None)

    def praise(self, worker: str) -> None:
        """A worker has come to the end of a drive, good or bad."""
        self._rows.pop(worker, None)

    def blame(self, worker: str, drive: str, reason: str, most: int = MOST_FAULTS) -> bool:
        """A worker has failed a drive for its own reasons; whether that was one too many.

        Args:
            worker: which.
            drive: which.
            reason: its own.
            most: drives that it may fail; with fewer than usual left, so many are all that it can.
        """
        row = self._rows.setdefault(worker, set())
        row.add(drive)
        if len(row) < min(most, MOST_FAULTS) or worker in self.quarantined:
            return False
        self.quarantined[worker] = reason
        return True
