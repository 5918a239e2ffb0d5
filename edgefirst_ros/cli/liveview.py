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

from edgefirst_ros.cli.terminal import clock, count_text, make_table, print_line, rate_text, roles_text
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Code
from edgefirst_ros.report.finding import Expected, silent_for_s

LINE_EVERY_S = 5.0


class LiveView:
    """Shows rates, drops, queue, samples and disk of a capture; stops showing if the terminal is gone."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._told: set[str] = set()
        """What was said: each text, or what a text with changing numbers is about."""
        self._waiting, self._line_s, self._is_connected = "", time.monotonic(), False
        self._before: LiveStatus | None = None
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._live.stop()

    def update(self, status: LiveStatus, connections: int, notes: Sequence[str]) -> None:
        """Show a new status; called a few times a second."""
        try:
            if not self._quiet:
                self._tell(status, notes)
                self._show(status, connections)
        except OSError:
            self._quiet = True

    def _tell(self, status: LiveStatus, notes: Sequence[str]) -> None:
        """Print what was not said before."""
        before, self._before = self._before or status, status
        said = {text: text for text in (f"note: {note}" for note in (*notes, *status.warnings))}
        said |= {text: text for text in (f"hint: {hint.text}" for hint in status.hints)}
        said |= {f"{t} ": f"{t}: {found.text}" for t, found in status.findings.items()}
        said |= {each.code: each.text for each in status.findings_since(before)}
        said |= {each.code: f"disk: {each.text}" for each in status.disk_findings}
        if Code.SHEDDING in said:
            said[Code.SHEDDING] += f", {status.help}"
        # What a topic is found to be is said again once it was well meanwhile.
        self._told -= {f"{topic} " for topic in before.findings} - said.keys()
        for key in [key for key in said if key not in self._told]:
            self._told.add(key)
            print_line(self._console, said[key])

    def _show(self, status: LiveStatus, connections: int) -> None:
        waiting = f"waiting for {roles_text(status.silent)}" if status.silent else ""
        if self._live.is_started:
            head = Text(f"{status.session}\n{_head(status, connections)}")
            self._live.update(Group(head, _table(status), Text(waiting, style="dim")), refresh=True)
        elif time.monotonic() - self._line_s >= LINE_EVERY_S or bool(connections) != self._is_connected:
            self._line_s, self._is_connected = time.monotonic(), bool(connections)
            print_line(self._console, line(status, connections))
            if waiting != self._waiting:
                self._waiting = waiting
                print_line(self._console, waiting or "every sensor has sent something")


def line(status: LiveStatus, connections: int) -> str:
    """The status in one line."""
    rates = {topic.strip("/"): row["rate_hz"] for topic, row in status.topics.items() if row["rate_hz"]}
    shown = ", ".join(f"{topic} {rate_hz:g}" for topic, rate_hz in rates.items())
    return f"{_head(status, connections)}, Hz: {shown or 'nothing is received'}"


def _head(status: LiveStatus, connections: int) -> str:
    latency, at_risk_s, minutes = status.commit_latency_ms, status.at_risk_s, status.minutes_left
    delay = "" if latency is None else f", {latency / 1000:.1f} s after acquisition"
    at_risk = "" if at_risk_s is None else f" (at risk at most {at_risk_s:.1f} s)"
    lasts = "" if minutes is None else f" ({minutes / 60:,.1f} h left)"
    parts = [
        f"{clock(status.elapsed_s)}: {'paused, ' if status.paused else ''}{status.samples:,} samples",
        f"{status.durable:,} durable{delay}{at_risk}",
        f"{status.bytes_written / 1e6:,.0f} MB ({status.bytes_per_s / 1e6:.1f} MB/s)",
        f"queue {status.queue_fill:.0%}, {status.lag_s:.1f} s behind",
        f"disk {status.free_bytes / 1e9:,.1f} GB free{lasts}",
        f"{connections} connected" if connections else "not connected",
        f"{status.received:,} messages received, {status.dropped:,} dropped",
        *([f"shed {status.shed_text} samples"] if status.shed else []),
        f"{status.lost_upstream:,} lost upstream",
    ]
    return ", ".join(parts)


def _table(status: LiveStatus) -> Table:
    rows = []
    for topic, row in status.topics.items():
        name = f"[yellow]{escape(topic)}[/]" if silent_for_s(row, Expected(), math.inf) else escape(topic)
        dropped = row.get("dropped", 0) - row.get("shed", 0)
        rates = f"{row['rate_hz']:.1f}", rate_text(row["usual_hz"]), f"{row['age_s'] or 0:.1f}"
        lost = (row.get("received"), dropped, row.get("refused"), row.get("lost_upstream"))
        rows.append((name, *rates, rate_text(row["latency_ms"]), *(count_text(each or 0) for each in lost)))
    return make_table("topic| Hz| usual| age s| latency ms| received| dropped| rejected| lost", rows)
