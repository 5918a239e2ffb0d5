"""What an input may lead to: a result, an error of the package, words and an exit code."""

from __future__ import annotations

import gc
from pathlib import Path

from fuzzing import UnexpectedError
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app

EXIT_CODES = (0, 1, 2, 130)


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
