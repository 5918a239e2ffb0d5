"""Output for people: progress while a command runs, reports at its end, and what a conversion would make."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from edgefirst_ros.model.untrusted import visible

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from edgefirst_ros.offline.convert import Position


_LAYOUT = "\n\t"
LINE_EVERY_S = 5.0
FEW_LABELS = 0.9
"""Of the samples that were selected; if fewer have labels, the user may not know how to select those."""
PLAIN_WIDTH = 140
"""Width of output that goes to a file or a log, in characters."""


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


def print_line(console: Console, text: str) -> None:
    """Print one unwrapped line, so that it can be searched and copied; the caller escapes names in it."""
    console.print(text, highlight=False, soft_wrap=True)


def progress_bar(console: Console, *columns: ProgressColumn) -> Progress:
    """A bar that vanishes at its end; its task has the field ``detail``, further columns follow it."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[detail]}"),
        *columns,
        console=console,
        transient=True,
    )


class ProgressView:
    """Shows progress: a bar on a terminal, a line every few seconds elsewhere, nothing if quiet."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._start_s = time.monotonic()
        self._last_s = self._start_s
        self._notes_shown = 0
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            from rich.progress import TimeRemainingColumn

            self._bar = progress_bar(console, TimeRemainingColumn())
            self._task = self._bar.add_task("reading", total=None, detail="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, position: Position) -> None:
        """Show a new position; may be called many times a second."""
        now_s = time.monotonic()
        if self._quiet or (self._bar is None and now_s - self._last_s < LINE_EVERY_S):
            return
        self._last_s = now_s
        elapsed_s = now_s - self._start_s
        run = position.run
        speed = run.recorded_s / elapsed_s if elapsed_s > 0 else 0.0
        detail = (
            f"{clock(run.recorded_s)} of recording, {speed:.1f}× real time, {run.samples} samples, "
            f"{run.bytes_written / 1e6:,.0f} MB"
        )
        while self._notes_shown < len(position.notes):
            print_line(self._console, f"note: {escape(position.notes[self._notes_shown])}")
            self._notes_shown += 1
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=escape(position.file),
                completed=position.bytes_read,
                total=position.bytes_total,
                detail=detail,
            )
            return
        share = position.bytes_read / position.bytes_total if position.bytes_total else 0.0
        eta = elapsed_s * (1 - share) / share if share > 0 else 0.0
        print_line(self._console, f"{escape(position.file)}: {share:.0%}, {detail}, {clock(eta)} to go")


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _labels(report: Mapping[str, Any]) -> str:
    """How many samples have labels, and how to have only such."""
    labelled, samples = report["labelled"], report["samples"]
    text = f"{labelled:,} of {several(samples, 'samples')} have labels: a model looked at their picture"
    if labelled < FEW_LABELS * samples and any(each["skipped"] for each in report["sequences"]):
        text += "; --require model selects only such"
    return text


def print_report(console: Console, report: Mapping[str, Any], *, details: bool = True) -> None:
    """Print a report: counts by topic, clock findings, contents of each format, notes and warnings."""
    from edgefirst_ros.model.reasons import Code
    from edgefirst_ros.report.judge import judge
    from edgefirst_ros.report.models import parsed

    if details:
        _print_account(console, report["topics"])
        _print_reasons(console, report["topics"])
        for sequence in report["sequences"]:
            _print_clocks(console, sequence)
        if report.get("labelled") is not None:
            print_line(console, _labels(report))
        _print_formats(console, report["formats"])
    verdict = judge(parsed(report))
    for each in verdict.findings:
        if each.code is Code.RECORDING_DAMAGED:
            print_line(console, f"[yellow]damage[/]: {escape(each.text)}")
    for note in report["notes"]:
        print_line(console, f"note: {escape(note)}")
    for warning in report["warnings"]:
        print_line(console, f"[bold yellow]warning[/]: {escape(warning)}")
    for hint in report.get("hints", ()):
        print_line(console, f"[yellow]hint[/]: {escape(hint)}")
    grade, _, sentence = verdict.sentence.partition(": ")
    if details or grade != "good":
        print_line(console, f"[bold]{grade}[/]: {escape(sentence)}")


def _print_account(console: Console, topics: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a table if it fits without cutting numbers, else one line per topic."""
    if not topics:
        return
    if fits(console, table := _account(topics)):
        console.print(table)
        return
    print_line(console, "What became of every message")
    for topic, account in topics.items():
        ends = [f"{count_text(account[c])} {c.replace('_', ' ')}" for c in _columns(topics)[1:] if account[c]]
        off = _pairing(account)
        ends += [f"p50 / p95 / max {off} ms off"] if off else []
        print_line(console, f"{escape(topic)}: {account['received']:,} received: {', '.join(ends)}")


def fits(console: Console, table: Table) -> bool:
    """Whether the table fits the console's width without cutting a cell."""
    wide = console.options.update(max_width=10 * PLAIN_WIDTH)
    return Measurement.get(console, wide, table).maximum <= console.width


def _pairing(account: Mapping[str, Any]) -> str:
    found = account["pairing_error_ms"]
    return " / ".join(f"{found[k]:.1f}" for k in ("p50", "p95", "max")) if found else ""


def _columns(topics: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    from edgefirst_ros.pipeline.ledger import COLUMNS

    lossy = any(account["lost_upstream"] for account in topics.values())
    return ("received", *COLUMNS, *(("lost_upstream",) if lossy else ()))


def _account(topics: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title="What became of every message", title_justify="left")
    table.add_column("topic", no_wrap=True)
    names = _columns(topics)
    for name in names:
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    table.add_column("pairing error ms\np50 / p95 / max", justify="right", no_wrap=True)
    for topic, account in topics.items():
        table.add_row(escape(topic), *(count_text(account[name]) for name in names), _pairing(account))
    return table


def several(count: int, things: str) -> str:
    """A count with its noun, which is given in the plural."""
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def roles_text(roles: Mapping[str, Sequence[str]]) -> str:
    """Roles with their topics."""
    return ", ".join(f"{role} ({', '.join(topics)})" for role, topics in roles.items())


def count_text(value: int | None) -> str:
    """A number; ``·`` for 0, ``?`` for one that is not known."""
    return "?" if value is None else f"{value:,}" if value else "·"


def _print_reasons(console: Console, topics: Mapping[str, Mapping[str, Any]]) -> None:
    for topic, account in topics.items():
        for column, reasons in account["reasons"].items():
            for reason, count in reasons.items():
                print_line(console, f"  {escape(topic)}: {count:,} {column}: {escape(reason)}")
        for reason, count in account["refused_parts"].items():
            print_line(console, f"  {escape(topic)}: {several(count, 'parts')} refused: {escape(reason)}")
        for name, reasons in account.get("left_out", {}).items():
            for reason, count in reasons.items():
                if reason not in account["reasons"].get("skipped", {}):  # another format has them
                    print_line(console, f"  {escape(topic)}: {count:,} left out of {name}: {escape(reason)}")


def _print_clocks(console: Console, sequence: Mapping[str, Any]) -> None:
    print_line(
        console,
        f"{escape(sequence['name'])}: {several(sequence['sample'], 'samples')} of "
        f"{several(sequence['reference_frames'], 'reference frames')}, {escape(_completeness(sequence))}; "
        "clocks:",
    )
    for topic, found in sequence["clocks"].items():
        print_line(console, f"  {escape(topic)}: {escape(found['finding'])}")
    for each in sequence.get("cameras", {}).values():
        counts = f"{several(each['sample'], 'samples')} of {several(each['reference_frames'], 'frames')}"
        print_line(console, f"{escape(each['name'])}: {counts}, {escape(_completeness(each))}")


def _completeness(sequence: Mapping[str, Any]) -> str:
    """How many samples have every sensor that was alive, and what the others lack."""
    missing = sorted(sequence["missing"].items(), key=lambda item: (-item[1], item[0]))
    if not missing:
        return "all complete"
    lacked = ", ".join(f"{count:,} without {topic}" for topic, count in missing)
    return f"{sequence['complete']:,} complete ({lacked})"


def _print_formats(console: Console, formats: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what each format holds, from how many messages, and what it left out."""
    for name, held in formats.items():
        count, unit = next((held[key], key) for key in held if key not in {"messages", "left_out"})
        text = f"{name}: {several(count, unit)}, of {several(held['messages'], 'messages')}"
        for reason, samples in held["left_out"].items():
            what = unit if unit == "measurements" else "samples"
            text += f"; {several(samples, what)} left out: {reason}"
        print_line(console, escape(text))


NOTHING = "·"


def print_forecast(console: Console, found: Mapping[str, Any]) -> None:
    """Print what each topic would be used as, what is ignored and why, and how many samples would come."""
    frames = several(found["reference_frames"], "reference frames")
    print_line(
        console,
        f"{escape(', '.join(found['recordings']))} would become {several(found['samples'], 'samples')} of "
        f"{frames}, {found['complete']:,} of them complete",
    )
    for topic, count in sorted(found["missing"].items(), key=lambda item: (-item[1], item[0])):
        print_line(console, f"  {count:,} would lack {escape(topic)}")
    used = Table(box=None, pad_edge=False)
    for name in ("topic", "used as", "Hz", "clock"):
        used.add_column(name, overflow="fold", justify="right" if name == "Hz" else "left")
    for topic, each in found["topics"].items():
        if each["role"] is not None:
            rate = NOTHING if not each["rate_hz"] else f"{each['rate_hz']:.1f}"
            used.add_row(escape(topic), each["role"], rate, escape(each["clock"] or NOTHING))
    console.print(used)
    for topic, each in found["topics"].items():
        for reason, count in each["ignored"].items():
            what = several(count, "messages")
            print_line(console, f"ignored: {escape(topic)}: {what}: {escape(reason)}")
    for note in found["notes"]:
        print_line(console, f"note: {escape(note)}")
    for warning in found["warnings"]:
        print_line(console, f"[bold yellow]warning[/]: {escape(warning)}")
    for hint in found["hints"]:
        print_line(console, f"[yellow]hint[/]: {escape(hint)}")
