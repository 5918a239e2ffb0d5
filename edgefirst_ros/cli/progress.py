"""How far a command is and how long it takes yet, and what it prints as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

from edgefirst_ros.cli.terminal import LINE_EVERY_S, clock, print_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Shows progress: a bar on a terminal, a line every some seconds elsewhere, nothing if quiet.

    Args:
        console: standard error.
        doing: what is done, such as ``checking``.
        quiet: show nothing.
    """

    def __init__(self, console: Console, doing: str, *, quiet: bool = False) -> None:
        self._console, self._doing, self._quiet = console, doing, quiet
        self._start_s = self._shown_s = time.monotonic()
        self._bar: Bar | None = None
        if console.is_terminal and not quiet:
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = TextColumn(f"{doing:10}"), BarColumn(), TextColumn("{task.description}")
            self._bar = Bar(*columns, console=console, transient=True)
            self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: float, total: float = 1.0) -> None:
        """So much of all is done; may be called many times a second."""
        now_s = time.monotonic()
        if self._quiet or (self._bar is None and now_s - self._shown_s < LINE_EVERY_S):
            return
        self._shown_s = now_s
        share = min(1.0, done / total) if total else 0.0
        left = f"   {clock((now_s - self._start_s) * (1 - share) / share)} left" if share else ""
        if self._bar is not None:
            self._bar.update(self._task, completed=share, description=f"{share:4.0%}{left}")
        else:
            print_line(self._console, f"{self._doing:10} {share:4.0%}{left}")


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever a command has to say
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
