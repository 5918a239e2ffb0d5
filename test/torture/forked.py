"""Runs the command in forks of this process, so that its imports are paid once."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from intercept import Answer, Call, Supervisor, install

LIMIT_S = 120.0
"""A command that takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command did.

    Attributes:
        code: exit code; negative for the signal that ended it.
        out: its standard output; err likewise.
        acknowledged: what it said is in the output, see ``acknowledging``.
        calls: that change something below its folder, in order; empty unless they were asked about.
        killed: at which of them it was killed.
    """

    code: int
    out: str
    err: str
    acknowledged: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    killed: Call | None = None

    @property
    def traceback(self) -> str:
        """The last line of the first traceback that it printed; empty without one."""
        _, found, text = self.err.partition("Traceback (most recent call last)")
        lines = [line for line in text.splitlines()[1:] if line and not line.startswith(" ")]
        return "" if not found else f"traceback: {lines[0] if lines else text[-200:]}"


Tell = Callable[[str], None]
Hook = Callable[[Tell], None]


def command(*arguments: str | Path) -> Callable[[], None]:
    """The command line with these arguments, as a function that ends as the process would."""

    def run() -> None:
        from edgefirst_ros.cli.app import app  # noqa: PLC0415 - imported by whoever forks

        sys.argv = ["edgefirst-ros", *map(str, arguments)]
        app()

    return run


class Fork:
    """Something that runs in a fork of this process.

    Args:
        act: what to run.
        root: folder below which calls are asked about; needs ``decide``.
        decide: what is to become of such a call.
        hook: called in the fork before, with a function that notes an acknowledgement.
    """

    def __init__(
        self,
        act: Callable[[], object],
        *,
        root: Path | None = None,
        decide: Callable[[Call], Answer] | None = None,
        hook: Hook | None = None,
    ) -> None:
        self._files = [tempfile.TemporaryFile("w+b") for _ in range(3)]  # noqa: SIM115 - closed at its end
        ours, theirs = socket.socketpair()
        self._process = os.fork()
        if self._process == 0:
            ours.close()
            _act(act, [file.fileno() for file in self._files], None if decide is None else theirs, hook)
        theirs.close()
        self._supervisor: Supervisor | None = None
        self._ended: Ended | None = None
        if decide is not None and root is not None:
            _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
            self._supervisor = Supervisor(listeners[0], self._process, root, decide)
        ours.close()

    @property
    def acknowledged(self) -> tuple[str, ...]:
        """What it has noted so far."""
        return tuple(_read(self._files[2]).splitlines())

    @property
    def err(self) -> str:
        """What it has printed on standard error so far."""
        return _read(self._files[1])

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return os.waitid(os.P_PID, self._process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def end(self, number: signal.Signals) -> Ended:
        """Send it a signal, if it runs, and wait for its end; may be repeated."""
        if self._ended is None:
            with suppress(ProcessLookupError):
                os.kill(self._process, number)
            self._ended = self.wait()
        return self._ended

    def wait(self, limit_s: float = LIMIT_S) -> Ended:
        """Answer its calls until it ends; after the limit it is killed, and its code is -SIGALRM."""
        late = True
        try:
            if self._supervisor is not None:
                late = not self._supervisor.run(limit_s)
            else:
                ended = os.pidfd_open(self._process)
                late = not select.select([ended], [], [], limit_s)[0]
                os.close(ended)
        finally:
            if late:
                os.kill(self._process, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        supervisor = self._supervisor
        done = Ended(
            -signal.SIGALRM if late else code,
            _read(self._files[0]),
            self.err,
            self.acknowledged,
            () if supervisor is None else tuple(supervisor.calls),
            None if supervisor is None else supervisor.killed,
        )
        self._ended = done
        for file in self._files:
            file.close()
        return done


def run(
    act: Callable[[], object],
    *,
    root: Path | None = None,
    decide: Callable[[Call], Answer] | None = None,
    hook: Hook | None = None,
) -> Ended:
    """Run something in a fork to its end, see ``Fork``."""
    return Fork(act, root=root, decide=decide, hook=hook).wait()


def value_of(act: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it is
    """What a function returns in a fork, if JSON can say it.

    Raises:
        RuntimeError: it raised.
    """
    done = run(lambda: print(json.dumps(act())))  # noqa: T201
    if done.code:
        raise RuntimeError(f"{done.traceback or done.code}\n{done.err}")
    return json.loads(done.out)


def import_all_of(act: Callable[[], object]) -> None:
    """Import here what a function imports when it runs, so that forks of this process have it."""

    def names() -> list[str]:
        with suppress(SystemExit):
            act()
        return list(sys.modules)

    for name in value_of(_quietly(names)):
        if name not in sys.modules and not name.startswith(("_", "multiprocessing")):
            with suppress(Exception):
                import_module(name)


def _quietly(act: Callable[[], Any]) -> Callable[[], Any]:
    def quiet() -> Any:  # noqa: ANN401
        shown, sys.stdout = sys.stdout, sys.stderr
        try:
            return act()
        finally:
            sys.stdout = shown

    return quiet


def _act(
    act: Callable[[], object], files: Sequence[int], supervisor: socket.socket | None, hook: Hook | None
) -> None:
    """In the fork: run and end as a process of its own would."""
    code: Any = 1
    try:
        atexit._clear()  # those are the parent's
        for number, file in enumerate(files[:2], 1):
            os.dup2(file, number)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if supervisor is not None:
            listener = install()
            socket.send_fds(supervisor, [b"x"], [listener])
            os.close(listener)
        if hook is not None:
            hook(lambda text: _tell(files[2], text))
        act()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
        os._exit(code)


def _tell(file: int, text: str) -> None:
    os.write(file, f"{text}\n".encode())


def _read(file: IO[bytes]) -> str:
    """All of it; the fork shares the position, so that must not move."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")
