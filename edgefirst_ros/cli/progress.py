"""How far a command is and how long it takes yet, and what it prints as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

from edgefirst_ros.cli.terminal import LINE_EVERY_S, TimeLeft, clock, print_row, progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Shows progress: a bar on a terminal, a line every few seconds elsewhere, nothing if quiet.

    Args:
        console: standard error.
        doing: what is done, such as ``checking``.
        quiet: show nothing.
    """

    def __init__(self, console: Console, doing: str, *, quiet: bool = False) -> None:
        self._console, self._doing, self._quiet = console, doing, quiet
        self._shown_s, self._left = time.monotonic(), TimeLeft()
        self._left.after(self._shown_s, 0.0)
        self._bar: Bar | None = None
        if console.is_terminal and not quiet:
            self._bar = progress_bar(console)
            self._task = self._bar.add_task(doing, total=1.0, detail="")

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
        if self._quiet or now_s - self._shown_s < (LINE_EVERY_S if self._bar is None else 0.1):
            return
        self._shown_s = now_s
        share = min(1.0, done / total) if total else 0.0
        left_s = self._left.after(now_s, share)
        detail = f"{share:.0%}" + ("" if left_s is None else f"   {clock(left_s)} left")
        if self._bar is not None:
            self._bar.update(self._task, completed=share, detail=detail)
        else:
            print_row(self._console, self._doing, detail)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever a command has to say
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
