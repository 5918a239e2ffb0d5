"""The state of a live capture on screen: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from edgefirst_ros.cli.terminal import clock, roles_text
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Code
from edgefirst_ros.report.finding import Expected, silent_for_s

LINE_EVERY_S = 5.0


class LiveView:
    """Shows rates, drops, queue, samples and disk of a capture; stops showing if the terminal is gone."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._told: set[str] = set()
        """What was said: each text, or what a text with changing numbers is about."""
        self._silent: set[str] = set()
        self._before: LiveStatus | None = None
        self._connected, self._line_s = False, time.monotonic()
        self._live: Live | None = None
        if console.is_terminal and not quiet:
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            if self._live is not None:
                self._live.stop()

    def update(self, status: LiveStatus, connections: int, notes: Sequence[str]) -> None:
        """Show a new status; called a few times a second."""
        try:
            if not self._quiet:
                self._update(status, connections, notes)
        except OSError:
            self._quiet = True

    def _update(self, status: LiveStatus, connections: int, notes: Sequence[str]) -> None:
        said = {text: text for text in (f"note: {note}" for note in (*notes, *status.warnings))}
        said |= {text: text for text in (f"hint: {hint.text}" for hint in status.hints)}
        said |= {f"{t} ": f"{t}: {found.text}" for t, found in status.findings.items()}
        said |= {each.code: each.text for each in status.findings_since(self._before or status)}
        said |= {each.code: f"disk: {each.text}" for each in status.disk_findings}
        if Code.SHEDDING in said:
            said[Code.SHEDDING] += f", {status.help}"
        # What a topic is found to be is said again once it was well meanwhile.
        self._told -= {f"{topic} " for topic in (self._before or status).findings} - said.keys()
        for key, text in said.items():
            if key not in self._told:
                self._told.add(key)
                self._print(text)
        self._before = status
        if self._live is not None:
            self._live.update(_panel(status, connections), refresh=True)
        elif time.monotonic() - self._line_s >= LINE_EVERY_S or bool(connections) != self._connected:
            self._line_s, self._connected = time.monotonic(), bool(connections)
            self._print(line(status, connections))
            if set(status.silent) != self._silent:
                self._silent = set(status.silent)
                waiting = f"waiting for {', '.join(status.silent)}"
                self._print(waiting if status.silent else "every sensor has sent something")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def line(status: LiveStatus, connections: int) -> str:
    """The status in one line."""
    rates = ", ".join(
        f"{topic.strip('/')} {row['rate_hz']:g}" for topic, row in status.topics.items() if row["rate_hz"]
    )
    counts = f"{status.received:,} messages received, {status.dropped:,} dropped"
    shed = f", shed {status.shed_text} samples" if status.shed else ""
    lost = f"{status.lost_upstream:,} lost upstream, Hz: {rates or 'nothing is received'}"
    return f"{clock(status.elapsed_s)}: {_head(status, connections)}, {counts}{shed}, {lost}"


def _head(status: LiveStatus, connections: int) -> str:
    latency = status.commit_latency_ms
    delay = "" if latency is None else f", {latency / 1000:.1f} s after acquisition"
    parts = [
        f"{'paused, ' if status.paused else ''}{status.samples:,} samples",
        f"{status.durable:,} durable{delay}{_at_risk(status)}",
        f"{status.bytes_written / 1e6:,.0f} MB ({status.bytes_per_s / 1e6:.1f} MB/s)",
        f"queue {status.queue_fill:.0%}, {status.lag_s:.1f} s behind",
        f"disk {_left(status)}",
        f"{connections} connected" if connections else "not connected",
    ]
    return ", ".join(parts)


def _panel(status: LiveStatus, connections: int) -> Group:
    head = Text(f"{status.session}  {clock(status.elapsed_s)}\n{_head(status, connections)}")
    foot = Text(f"waiting for {roles_text(status.silent)}" if status.silent else "", style="dim")
    shed = [Text(f"shed: {status.shed_text} samples, {status.help}", style="yellow")] if status.shed else []
    slow = [Text(each.text, style="yellow") for each in status.slow_disk]
    return Group(head, _table(status), *shed, *slow, foot)


def _at_risk(status: LiveStatus) -> str:
    """What a power cut could have taken, if that is known."""
    return "" if status.at_risk_s is None else f" (at risk at most {status.at_risk_s:.1f} s)"


def _table(status: LiveStatus) -> Table:
    table = Table()
    table.add_column("topic", overflow="fold", min_width=14)
    for name in ("Hz", "usual", "age s", "latency ms", "received", "dropped", "rejected", "lost\nupstream"):
        table.add_column(name, justify="right")
    for topic, row in status.topics.items():
        lost = {**row, "dropped": row.get("dropped", 0) - row.get("shed", 0)}
        counts = (lost.get(name, 0) for name in ("received", "dropped", "refused", "lost_upstream"))
        cells = (
            f"{row['rate_hz']:.1f}",
            _number(row["usual_hz"]),
            f"{row['age_s'] or 0:.1f}",
            _number(row["latency_ms"]),
            *(f"{count:,}" if count else "·" for count in counts),
        )
        table.add_row(
            escape(topic), *cells, style="yellow" if silent_for_s(row, Expected(), math.inf) else None
        )
    return table


def _number(value: float | None) -> str:
    return "·" if value is None else f"{value:.1f}"


def _left(status: LiveStatus) -> str:
    minutes = status.minutes_left
    lasts = "" if minutes is None else f" ({minutes / 60:,.1f} h left)"
    return f"{status.free_bytes / 1e9:,.1f} GB free{lasts}"
