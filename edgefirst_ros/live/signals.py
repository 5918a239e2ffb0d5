"""Signals that ask a process to finish, pause or resume, and a second one that ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self

from edgefirst_ros.model.errors import EdgeFirstError

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ESCALATION_S = 10.0
"""Launchers that forwarded a SIGINT send SIGTERM by themselves within this time (ros2 launch: 5 s)."""
PATIENCE_S = 5.0
"""What has been finishing for less than this is not ended: most sessions are complete by then, and terminal,
launcher and service manager may each send the same Ctrl-C, one more than a second after another."""
_PATIENCE_OVER, _ESCALATION_OVER = _MARKS = 254, 255
"""No signal has these numbers."""
_MOST = 1 << 16
"""Bytes that a pipe holds."""
UNFINISHED = 4
"""Exit code of a process that a second signal ended before its session was complete."""


@contextmanager
def asked_to_finish(
    first: Callable[[], None], again: Callable[[int], None], *, patience_s: float = 0.0, last: bool = False
) -> Iterator[None]:
    """Call ``first`` at the first SIGINT, SIGTERM or SIGHUP, and ``again`` at a second one.

    Some signals do not count as a second one: any that came before ``first`` was called or, with
    ``patience_s``, within that time of its end, because a terminal and a launcher may both send one Ctrl-C;
    and a SIGTERM within ESCALATION_S of a SIGINT. That holds for when they came, however much later Python
    handles them. SIGHUP stays ignored if it was (nohup), so that logging out does not end a capture.

    Args:
        first: called to finish.
        again: called with the second signal's number, to end at once.
        patience_s: time within which a second signal is taken for the first one.
        last: the process ends after the block: after a first signal, later ones are ignored until then, so
            that it ends with its own exit code.
    """
    with _Order() as order:
        asked: int | None = None
        over: set[int] = set()

        def handle(number: int, _: FrameType | None) -> None:
            nonlocal asked
            if asked is None:
                asked = number
                order.come()
                if not patience_s:
                    over.add(_PATIENCE_OVER)
                first()
                if patience_s:
                    order.come()  # what came until then
                    order.mark(patience_s, _PATIENCE_OVER)
                order.mark(max(ESCALATION_S, patience_s), _ESCALATION_OVER)
                return
            for each in order.come():
                escalates = asked == signal.SIGINT and each == signal.SIGTERM
                if each in _MARKS:
                    over.add(each)
                elif each in ASKING and (_ESCALATION_OVER if escalates else _PATIENCE_OVER) in over:
                    again(each)

        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        previous = {number: signal.signal(number, handle) for number in ASKING if number not in ignored}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, signal.SIG_IGN if last and asked is not None else handler)


class _Order:
    """In which order signals came, and times passed: the system notes a signal in a pipe as it comes.

    Python calls a handler when the main thread runs Python code again, which may be seconds later.
    """

    def __enter__(self) -> Self:
        self._timers: list[threading.Timer] = []
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        for timer in self._timers:
            timer.cancel()
            if timer.is_alive():
                timer.join()  # so that it does not write where something else is open by now
        os.close(self._in)
        os.close(self._out)

    def mark(self, seconds: float, mark: int) -> None:
        """Put a mark behind the signals that come within so much time."""
        timer = threading.Timer(seconds, lambda: os.write(self._in, bytes([mark])))
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def come(self) -> bytes:
        """The numbers of the signals that have come, and marks, since the last call."""
        try:
            return os.read(self._out, _MOST)
        except BlockingIOError:
            return b""


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
