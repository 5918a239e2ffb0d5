"""A process that calls functions for another one, until that has gone: ``processes`` starts it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.pipeline.processes import Area, Line, LinkClosed, keep_freed_memory


def main(descriptors: Sequence[str]) -> None:
    """Receive a function and its arguments, call it, and send what it returns or raises; and again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    link, theirs, mine = map(int, descriptors)
    line = Line(socket.socket(fileno=link), Area(mine), Area(theirs))
    with suppress(LinkClosed):
        while True:
            _serve(line)
    os._exit(0)  # whoever waited is gone: nothing to tidy up


def _serve(line: Line) -> None:
    try:
        call, given = line.receive(copied=False)
        made = call(*given), None
        del call, given
        line.send(made)
    except LinkClosed:
        raise
    except Exception as error:  # noqa: BLE001 - it is raised where the call came from
        line.send((None, _sendable(error)))


def _sendable(error: Exception) -> Exception:
    """The error, or its text if it cannot be sent; one that nobody foresaw takes its traceback along."""
    if isinstance(error, EdgeFirstError):
        return error
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - a class of a library may refuse in any way
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(trace)
    return error


if __name__ == "__main__":
    main(sys.argv[1:])
