"""What becomes of an error that nobody foresaw: one line that says where it was, and exit code 2.

And standard streams that take whatever is printed, as it may be this line.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from edgefirst_ros.model.untrusted import displayed, visible

DEBUG = "EDGEFIRST_DEBUG"
"""Environment variable: if it is set, tracebacks are printed as Python does."""
EXIT_FAULT = 2
_MOST_TEXT = 500
"""Characters of its own text: a library's message may quote all of an input."""
_PATIENCE_S = 5.0
"""For threads that are in the middle of something, before the process is ended."""
_of_threads: list[str] = []
"""What was said of errors in other threads."""
_ended: list[int] = []
"""The exit code, once there is one."""


def watch_threads() -> None:
    """Have errors in other threads told in one line, too."""
    atexit.register(_leave)  # before all others, so it comes last
    if not os.environ.get(DEBUG):
        threading.excepthook = _in_thread


def settle(code: str | int | None, arguments: list[str]) -> str | int | None:
    """The exit code of a command that ended with ``code``: another thread may have failed meanwhile."""
    if _of_threads and code in {None, 0, 1}:
        if "--json" in arguments:
            print_faults_as_json(_of_threads)
        code = EXIT_FAULT
    _ended.append(1 if isinstance(code, str) else code or 0)
    return code


def _leave() -> None:
    """Skip the interpreter's finalization if a thread may be inside a native library.

    One that comes back meanwhile, as when it closed a connection of Zenoh, is ended in a way that aborts the
    process, before Python 3.14.
    """
    if _ended and any(thread.daemon for thread in threading.enumerate()):
        leave(_ended[-1])


def leave(code: int) -> NoReturn:
    """End this process at once, whatever its threads do."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):
            stream.flush()
    os._exit(code)


def is_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C is the cause: native libraries that are being imported make another error of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def tell(error: BaseException, arguments: list[str]) -> int:
    """Say that there is a fault, and where; the exit code.

    Args:
        error: that nobody foresaw.
        arguments: of the command, among which ``--json`` may be.
    """
    text = _told(error)
    if "--json" in arguments:
        print_faults_as_json([text])
    # A thread that waits for what this one was to do would keep the process.
    last = threading.Timer(_PATIENCE_S, os._exit, [EXIT_FAULT])
    last.daemon = True
    last.start()
    return EXIT_FAULT


def _told(error: BaseException, where: str = "") -> str:
    said = "without words"
    with suppress(Exception):  # whatever is wrong with its text, there is an error to be told
        said = displayed(str(error)[:_MOST_TEXT])
    kind, trace = f"{type(error).__name__}: {said}".removesuffix(": "), error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = f", {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    text = visible(
        f"this is a fault of edgefirst-ros{where}: {kind}{at}, {DEBUG}=1 shows all of it, please send that"
    )
    with suppress(OSError, ValueError):
        sys.stderr.write(f"error: {text}\n")
        sys.stderr.flush()
    return text


def _in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
        name = found.thread.name if found.thread is not None else "?"
        _of_threads.append(_told(found.exc_value, f" (in its thread {name})"))


def print_faults_as_json(faults: Sequence[str]) -> None:
    """Print an object with ``error`` and ``faults`` on standard output, which may be what is gone."""
    with suppress(OSError, ValueError, RuntimeError):
        sys.stdout.write(json.dumps({"error": "; ".join(faults), "faults": [*faults]}) + "\n")
        sys.stdout.flush()


def open_streams() -> None:
    """Make standard output and error fit to print on; may be called again.

    One that is closed (``>&-``) goes nowhere: else the next file that is opened would get its number, and
    what a library prints would be written into that file. A path may hold bytes that are not text; in UTF-8
    they are printed unchanged. What another encoding lacks becomes a question mark.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest number, which this is
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape" if stream.encoding.lower() == "utf-8" else "replace")
