"""What an input may lead to: a result, an error of the package, words and an exit code; in bounded memory."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path

from fuzzing import UnexpectedError
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app

MOST_MORE_BYTES = 512 << 20
"""What an input may take at its peak, over what the process holds before it."""
EXIT_CODES = (0, 1, 2, 130)


def bounded(run: Callable[[bytes, Path], str]) -> Callable[[bytes, Path], str]:
    """The same, but for an error if it takes more memory at its peak than any input should."""

    def measured(data: bytes, folder: Path) -> str:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is of this input alone
        before = _resident("VmRSS")
        said = run(data, folder)
        if (more := _resident("VmHWM") - before) > MOST_MORE_BYTES:
            raise UnexpectedError(f"took {more >> 20} MB more")
        return said

    return measured


def _resident(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


def command(*words: str | Path) -> int:
    """The exit code of a command, in this process.

    Raises:
        UnexpectedError: it is none that a command may end with, or a terminal would obey what is printed.
        Exception: whatever the command did not turn into words.
    """
    ran = CliRunner().invoke(app, [*map(str, words)])
    gc.unfreeze()  # what a command keeps from the collector until its process ends
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    if ran.exit_code not in EXIT_CODES:
        raise UnexpectedError(f"{words[0]}: exit code {ran.exit_code}: {ran.output[-300:]}")
    if "\x1b" in ran.output or "Traceback" in ran.output:
        raise UnexpectedError(f"{words[0]}: {ran.output[-2000:]!r}")
    return ran.exit_code
