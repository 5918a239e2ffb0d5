"""Signals that ask to finish (the request, the same one again, impatience), to pause and to resume."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from edgefirst_ros.errors import EdgeFirstError

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ESCALATION_S = 10.0
"""A launcher that has passed on a SIGINT sends SIGTERM this soon after it, unasked (ros2 launch: 5 s)."""


@contextmanager
def asked_to_finish(
    first: Callable[[], None], again: Callable[[int], None], *, twin_s: float = 0.0, last: bool = False
) -> Iterator[None]:
    """Call ``first`` at the first SIGINT, SIGTERM or SIGHUP, ``again`` with the number of any impatient one.

    Not impatient is what comes within ``twin_s``, as a terminal and a launcher may both pass on one Ctrl-C,
    and a SIGTERM within ESCALATION_S of a first SIGINT. SIGHUP stays ignored where it is, as under nohup: who
    logs out does not mean to end the drive.

    Args:
        first: what asks to finish.
        again: what ends at once.
        twin_s: in which a second one is the same.
        last: the process ends after the block: what comes then is ignored if it was asked to, so that it
            ends with its own exit code.
    """
    asked: tuple[int, float] | None = None

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        now_s = time.monotonic()
        if asked is None:
            asked = number, now_s
            first()
            return
        by, at_s = asked
        escalates = by == signal.SIGINT and number == signal.SIGTERM
        if now_s - at_s > (ESCALATION_S if escalates else twin_s):
            again(number)

    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    previous = {number: signal.signal(number, handle) for number in ASKING if number not in ignored}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if last and asked is not None else handler)


@contextmanager
def pausing(pause: Callable[[], None], resume: Callable[[], None]) -> Iterator[None]:
    """Call ``pause`` at SIGUSR1 and ``resume`` at SIGUSR2; where there are none such, nothing."""
    if not hasattr(signal, "SIGUSR1"):
        yield
        return

    def later(action: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
        def handle(_: int, __: FrameType | None) -> None:
            # Not in the handler: what was interrupted may hold the very lock that the action takes.
            threading.Thread(target=_unless_ended, args=[action], daemon=True).start()

        return handle

    wanted = {signal.SIGUSR1: later(pause), signal.SIGUSR2: later(resume)}
    previous = {number: signal.signal(number, handle) for number, handle in wanted.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _unless_ended(action: Callable[[], None]) -> None:
    with suppress(EdgeFirstError):
        action()
