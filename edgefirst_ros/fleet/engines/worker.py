"""The process that ``LocalEngine`` starts for a task: reads it from standard input, ends with its parent."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from edgefirst_ros.sources.scratch import remove_all

EXIT_STOPPED = 130
_FIRST_TO_KILL = "500"
"""When memory is short the kernel ends this process rather than the coordinator."""


def main() -> None:
    """Run one task; its result and its error go to the file descriptor that is the only argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_KILL)
    size = int.from_bytes(sys.stdin.buffer.read(8), "little")
    payload = io.BytesIO(sys.stdin.buffer.read(size))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        sys.path[:] = pickle.load(payload)
        answer = _run(payload)
        with os.fdopen(int(sys.argv[1]), "wb", closefd=False) as file:
            file.write(answer)
    except KeyboardInterrupt:
        _end(EXIT_STOPPED)
    _end(0)


def _end(code: int) -> None:
    """Skip the interpreter's finalization: it may abort while a thread is inside a native library."""
    remove_all()
    os._exit(code)


def _run(payload: io.BytesIO) -> bytes:
    try:
        function, argument = pickle.load(payload)
        result = function(argument)
    except Exception as error:  # noqa: BLE001 - it is raised again in the parent
        try:
            return pickle.dumps((None, error))
        except Exception:  # noqa: BLE001 - it cannot be sent; its text can
            return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return pickle.dumps((result, None))


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """The other end of standard input closes when the parent ends, however it ends."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    main()
