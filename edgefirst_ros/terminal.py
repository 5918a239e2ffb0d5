"""What a person sees: progress while it runs, and the account at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from edgefirst_ros.accounting import COLUMNS
from edgefirst_ros.convert import Position

LINE_EVERY_S = 5.0
PLAIN_WIDTH = 140
"""Columns of output that goes to a file or a log, where nobody knows the width."""


def make_console(*, stderr: bool) -> Console:
    """A console as wide as the terminal, or of a fixed width where there is none."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=PLAIN_WIDTH)


class ProgressView:
    """A bar on a terminal, a line every few seconds elsewhere, nothing when quiet."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._start_s = time.monotonic()
        self._last_s = self._start_s
        self._told = 0
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[detail]}"),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("reading", total=None, detail="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, position: Position) -> None:
        """Show how far it has come; called many times a second."""
        now_s = time.monotonic()
        if self._quiet or (self._bar is None and now_s - self._last_s < LINE_EVERY_S):
            return
        self._last_s = now_s
        elapsed_s = now_s - self._start_s
        run = position.run
        speed = run.recorded_s / elapsed_s if elapsed_s > 0 else 0.0
        detail = (
            f"{clock(run.recorded_s)} of drive, {speed:.1f}× real time, {run.samples} samples, "
            f"{run.bytes_written / 1e6:,.0f} MB"
        )
        while self._told < len(position.notes):
            self._console.print(f"note: {position.notes[self._told]}", highlight=False)
            self._told += 1
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=position.file,
                completed=position.bytes_read,
                total=position.bytes_total,
                detail=detail,
            )
            return
        share = position.bytes_read / position.bytes_total if position.bytes_total else 0.0
        eta = elapsed_s * (1 - share) / share if share > 0 else 0.0
        self._console.print(
            f"{position.file}: {share:.0%}, {detail}, {clock(eta)} to go", highlight=False, soft_wrap=True
        )


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def print_report(console: Console, report: Mapping[str, Any], *, details: bool = True) -> None:
    """The account by topic, what the clocks were found to be, and warnings."""
    if details:
        console.print(_account(report["topics"]))
        _print_reasons(console, report["topics"])
        for sequence in report["sequences"]:
            _print_clocks(console, sequence)
    for recording in report.get("recordings", ()):
        for fault in recording["faults"]:
            console.print(
                f"[yellow]{recording['file']}[/]: {fault['what']} ({fault['bytes']:,} bytes at "
                f"{fault['offset']:,} unreadable)",
                highlight=False,
                soft_wrap=True,
            )
    for note in report["notes"]:
        console.print(f"note: {note}", highlight=False, soft_wrap=True)
    for warning in report["warnings"]:
        console.print(f"[bold yellow]warning[/]: {warning}", highlight=False, soft_wrap=True)


def _account(topics: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title="What became of every message", title_justify="left")
    table.add_column("topic", overflow="fold", min_width=14)
    lossy = any(account["lost_upstream"] for account in topics.values())
    names = ("received", *COLUMNS, *(("lost_upstream",) if lossy else ()))
    for name in names:
        table.add_column(name.replace("_", "\n"), justify="right")
    table.add_column("pairing error ms\np50 / p95 / max", justify="right")
    for topic, account in topics.items():
        pairing = account["pairing_error_ms"]
        shown = f"{pairing['p50']:g} / {pairing['p95']:g} / {pairing['max']:.1f}" if pairing else ""
        table.add_row(topic, *(_count(account[name]) for name in names), shown)
    return table


def _count(value: int) -> str:
    return f"{value:,}" if value else "·"


def _print_reasons(console: Console, topics: Mapping[str, Mapping[str, Any]]) -> None:
    for topic, account in topics.items():
        for column, reasons in account["reasons"].items():
            for reason, count in reasons.items():
                console.print(f"  {topic}: {count:,} {column}: {reason}", highlight=False, soft_wrap=True)
        for reason, count in account["refused_parts"].items():
            console.print(f"  {topic}: {count:,} parts refused: {reason}", highlight=False, soft_wrap=True)


def _print_clocks(console: Console, sequence: Mapping[str, Any]) -> None:
    console.print(
        f"{sequence['name']}: {sequence['sample']:,} samples of {sequence['reference_frames']:,} reference "
        f"frames; clocks:",
        highlight=False,
        soft_wrap=True,
    )
    for topic, found in sequence["clocks"].items():
        console.print(f"  {topic}: {found['finding']}", highlight=False, soft_wrap=True)


def print_info(console: Console, info: Mapping[str, Any]) -> None:
    """What is in a recording, topic by topic."""
    start = datetime.fromtimestamp(info["start_ns"] / 1e9, UTC)
    console.print(
        f"{info['file']}: {info['bytes'] / 1e6:,.1f} MB, {info['messages']:,} messages, "
        f"{clock(info['duration_s'])} from {start:%Y-%m-%d %H:%M:%S} UTC, "
        f"topic prefix {info['prefix'] or 'none'}",
        highlight=False,
        soft_wrap=True,
    )
    table = Table()
    table.add_column("topic", overflow="fold", min_width=16)
    table.add_column("type")
    table.add_column("used as")
    for name in ("messages", "Hz", "MB", "bad", "gaps", "longest s"):
        table.add_column(name, justify="right")
    for topic, t in info["topics"].items():
        table.add_row(
            topic,
            t["type"].rpartition("/")[2],
            t["use"] or "·",
            f"{t['messages']:,}",
            f"{t['rate_hz']:.1f}",
            f"{t['bytes'] / 1e6:,.1f}",
            _count(t["undecodable"]),
            _count(t["gaps"]),
            f"{t['longest_gap_s']:.2f}" if t["gaps"] else "·",
        )
    console.print(table)
    for topic, t in info["topics"].items():
        if t["clock"]:
            console.print(f"  {topic}: {t['clock']}", highlight=False, soft_wrap=True)
    for text in info["clock_breaks"]:
        console.print(f"[yellow]clock break[/]: {text}", highlight=False, soft_wrap=True)
    for fault in info["faults"]:
        console.print(
            f"[yellow]damage[/]: {fault['what']} ({fault['bytes']:,} bytes at {fault['offset']:,})",
            highlight=False,
            soft_wrap=True,
        )
    if info["ambiguous"]:
        console.print(f"[yellow]note[/]: {info['ambiguous']}", highlight=False, soft_wrap=True)
