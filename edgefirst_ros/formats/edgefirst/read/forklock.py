"""A lock for what threads share that can be pickled and does not stay locked in a forked process."""

from __future__ import annotations

import os
from threading import Lock
from types import TracebackType
from weakref import WeakSet


class ForkLock:
    """A lock which is open in new processes: a fork does not copy the thread that holds it."""

    def __init__(self) -> None:
        self._lock = Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ForkLock], tuple[()]]:
        return ForkLock, ()

    def renew(self) -> None:
        """Open it, whoever holds it."""
        self._lock = Lock()


_LOCKS: WeakSet[ForkLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
