"""Signals that ask a process to finish, pause or resume, and a second one that ends it at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from edgefirst_ros.errors import EdgeFirstError

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ESCALATION_S = 10.0
"""Launchers that forwarded a SIGINT send SIGTERM by themselves within this time (ros2 launch: 5 s)."""
PATIENCE_S = 5.0
"""What has been finishing for less than this is not ended: most sessions are complete by then, and terminal,
launcher and service manager may each send the same Ctrl-C, one more than a second after another."""
UNFINISHED = 4
"""Exit code of a process that a second signal ended before its session was complete."""


@contextmanager
def asked_to_finish(
    first: Callable[[], None], again: Callable[[int], None], *, patience_s: float = 0.0, last: bool = False
) -> Iterator[None]:
    """Call ``first`` at the first SIGINT, SIGTERM or SIGHUP, and ``again`` at a second one.

    Two signals do not count as a second one: any within ``patience_s`` of the first, because a terminal and a
    launcher may both send one Ctrl-C; and a SIGTERM within ESCALATION_S of a SIGINT. SIGHUP stays ignored if
    it was (nohup), so that logging out does not end a capture.

    Args:
        first: called to finish.
        again: called with the second signal's number, to end at once.
        patience_s: time within which a second signal is taken for the first one.
        last: the process ends after the block: after a first signal, later ones are ignored until then, so
            that it ends with its own exit code.
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
        if now_s - at_s > (ESCALATION_S if escalates else patience_s):
            again(number)

    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    previous = {number: signal.signal(number, handle) for number in ASKING if number not in ignored}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if last and asked is not None else handler)


@contextmanager
def finishing(stop: threading.Event, say: Callable[[str], None]) -> Iterator[None]:
    """Set ``stop`` at the first SIGINT, SIGTERM or SIGHUP; end the process at once at one PATIENCE_S later.

    A process that ends at once leaves ``.part`` files, which ``edgefirst-ros recover`` completes.
    """

    def finish() -> None:
        stop.set()
        say(f"finishing the session; a signal more than {PATIENCE_S:g} s from now ends at once")

    def end(_: int) -> None:
        say("second signal: ending at once; `edgefirst-ros recover` completes what is in .part files")
        os._exit(UNFINISHED)

    with asked_to_finish(finish, end, patience_s=PATIENCE_S, last=True):
        yield


@contextmanager
def pausing(pause: Callable[[], None], resume: Callable[[], None]) -> Iterator[None]:
    """Call ``pause`` at SIGUSR1 and ``resume`` at SIGUSR2, on platforms that have them."""
    if not hasattr(signal, "SIGUSR1"):
        yield
        return

    def later(action: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
        def handle(_: int, __: FrameType | None) -> None:
            # Not in the handler, since the interrupted code may hold the lock that the action needs.
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
