"""Output for people: consoles, lines, tables, and how far a command is."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from edgefirst_ros.model.untrusted import visible

_LAYOUT = "\n\t"
LINE_EVERY_S, LOOK_EVERY_S = 10.0, 0.1
"""How often progress is shown without a terminal, and on one."""
PLAIN_WIDTH = 140
"""Width of output that goes to a file or a log, in characters."""
STYLES = {"error": "bold red", "failed": "red", "warning": "bold yellow"}
"""Of labels; others are yellow."""
NOTHING = "·"


class PlainConsole(Console):
    """A console that shows control characters in text, so that names cannot control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich renders it, with control characters of the text escaped."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.is_control else visible(segment.text, keep=_LAYOUT)
            yield segment if text == segment.text else Segment(text, segment.style)


def make_console(*, stderr: bool) -> Console:
    """A console as wide as the terminal; PLAIN_WIDTH wide if the output is not a terminal."""
    # Without emoji, for which a part of a name between two colons may be taken.
    console = PlainConsole(stderr=stderr, emoji=False)
    return console if console.is_terminal else PlainConsole(stderr=stderr, emoji=False, width=PLAIN_WIDTH)


def say(text: str) -> None:
    """Write lines to standard output, with control characters escaped; ``--json`` has names as they are."""
    sys.stdout.write(visible(text, keep=_LAYOUT) + "\n")
    sys.stdout.flush()


def print_line(console: Console, text: str, label: str = "") -> None:
    """Print a text as one unwrapped line, so that it can be searched and copied: ``hint: install it``."""
    head = f"[{STYLES.get(label, 'yellow')}]{label}[/]: " if label else ""
    console.print(f"{head}{escape(text)}", highlight=False, soft_wrap=True)


def print_row(console: Console, label: str, text: str) -> None:
    """Print one line of a summary."""
    text = escape(text.replace("; ", ", "))
    console.print(f"[bold]{label:<10}[/] {text}", highlight=False, soft_wrap=True)


def make_table(columns: str, rows: Iterable[Sequence[str]]) -> Table:
    """Rows of markup below ``name| number|...``: columns with a space before their names are numbers."""
    table = Table(box=None, pad_edge=False)
    for name in columns.split("|"):
        is_number = name.startswith(" ")
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(name.strip(), justify=justify, no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def several(count: int, things: str) -> str:
    """A count with its noun, which is given in the plural."""
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def count_text(value: int | None) -> str:
    """A number; NOTHING for 0, ``?`` for one that is not known."""
    return "?" if value is None else f"{value:,}" if value else NOTHING


def rate_text(value: float | None) -> str:
    """A rate or a time; NOTHING for one that is not known, or for none."""
    return f"{value:.1f}" if value else NOTHING


def roles_text(roles: Mapping[str, Sequence[str]]) -> str:
    """Roles with their topics."""
    return ", ".join(f"{role} ({', '.join(topics)})" for role, topics in roles.items())


def megabytes(size: int) -> str:
    """Bytes as text."""
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.2g} MB"


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class TimeLeft:
    """How long something will still take, by how fast the latest half of what is done went."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def after(self, now_s: float, share: float) -> float | None:
        """Seconds, None while nothing can be said; call it now and then with the share that is done."""
        seen = self._seen
        seen.append((now_s, share))
        while len(seen) > 2 and seen[1][1] <= share / 2:
            seen.popleft()
        begin_s, begin = seen[0]
        return (now_s - begin_s) * (1 - share) / (share - begin) if share > begin else None


class Progress:
    """Shows progress: a bar on a terminal, a line every few seconds elsewhere, nothing if quiet.

    Args:
        console: standard error.
        doing: what is done, such as ``checking``.
        quiet: show nothing.
    """

    def __init__(self, console: Console, doing: str, *, quiet: bool = False) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self.console, self._doing, self._quiet = console, doing, quiet
        self.begun_s = self._looked_s = self._shown_s = time.monotonic()
        self._left, self._done = TimeLeft(), 0.0
        self._left.after(self.begun_s, 0.0)
        shown = TextColumn("{task.description:<10}"), BarColumn(30), TextColumn("{task.fields[detail]}")
        self._bar = Bar(*shown, console=console, disable=quiet or not console.is_terminal)
        self._task = self._bar.add_task(doing, total=1.0, detail="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def add(self, amount: float, total: float) -> None:
        """So much more of all is done."""
        self._done += amount
        self(self._done, total)

    def __call__(self, done: float, total: float = 1.0) -> None:
        """So much of all is done."""
        share = min(1.0, done / total) if total else 0.0
        self.show(self._doing, share, f"{share:.0%}")

    def show(self, doing: str, share: float, detail: str, left_s: float | None = None) -> None:
        """So much is done, in words; may be called many times a second, from any thread.

        Args:
            doing: now.
            share: of all, from 0 to 1.
            detail: what is done.
            left_s: how long the rest takes; by default what can be said by the shares.
        """
        now_s = time.monotonic()
        if self._quiet or (now_s - self._looked_s < LOOK_EVERY_S and share < 1):
            return
        self._looked_s, seen_s = now_s, self._left.after(now_s, share)
        left_s = seen_s if left_s is None else left_s
        detail += "" if left_s is None else f"   {clock(left_s)} left"
        try:
            self._bar.update(self._task, description=doing, completed=share, detail=detail)
            if self._bar.disable and now_s - self._shown_s >= LINE_EVERY_S:
                self._shown_s = now_s
                print_row(self.console, doing, detail)
        except OSError:  # the terminal is gone, and the result is complete all the same
            self._quiet = True
