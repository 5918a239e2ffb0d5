"""Output for people: progress while a command runs, what came of it, and what a conversion would make."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from edgefirst_ros.model.untrusted import visible

if TYPE_CHECKING:
    from rich.progress import Progress

    from edgefirst_ros.offline.convert import Position


_LAYOUT = "\n\t"
LINE_EVERY_S = 10.0
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


def print_row(console: Console, label: str, text: str) -> None:
    """Print one line of a summary; the caller has escaped nothing."""
    print_line(console, f"[bold]{label:<10}[/] {escape(text.replace('; ', ', '))}")


def progress_bar(console: Console) -> Progress:
    """A bar; its task has the field ``detail``."""
    from rich.progress import BarColumn, Progress, TextColumn

    shown = TextColumn("{task.description:<10}"), BarColumn(30), TextColumn("{task.fields[detail]}")
    return Progress(*shown, console=console)


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


BEFORE_TABLES = 0.97
"""The share of its time after which a conversion writes tables and the page."""


class ProgressView:
    """Shows progress: a bar on a terminal, a line every few seconds elsewhere, nothing if quiet."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._start_s = self._last_s = time.monotonic()
        self._left, is_live = TimeLeft(), console.is_terminal and not quiet
        self._bar = progress_bar(console) if is_live else None
        self.position: Position | None = None
        """The last one."""

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.add_task("reading", total=1.0, detail="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """How long it has been shown."""
        return time.monotonic() - self._start_s

    def update(self, position: Position) -> None:
        """Show a new position; may be called many times a second, from any thread."""
        before, self.position = self.position, position
        try:
            if not self._quiet:
                self._update(position, before)
        except OSError:  # the terminal is gone, and the result is complete all the same
            self._quiet = True

    def _update(self, position: Position, before: Position | None) -> None:
        now_s = time.monotonic()
        if before is None and position.whole_s:
            name = escape(Path(position.file).name.partition(".")[0])
            print_line(self._console, f"{name}   {clock(position.whole_s)}   {megabytes(position.size)}")
        share, what = position.share or 0.0, "reading" if position.share is None else "writing"
        detail = "the motion" if position.share is None else self._detail(position, share, now_s)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=what, completed=share, detail=detail)
        elif now_s - self._last_s >= LINE_EVERY_S:
            self._last_s = now_s
            print_row(self._console, what, detail)

    def _detail(self, position: Position, share: float, now_s: float) -> str:
        samples, expected = position.run.samples, position.expected
        left_s = 0.0 if share == 1 else self._left.after(now_s, share * BEFORE_TABLES) if samples else None
        count = f"{samples:,}/{expected:,} samples" if expected else f"{share:.0%}"
        left = "" if left_s is None else f"   {clock(left_s)} left"
        return f"{count}   {samples / max(1e-3, now_s - self._start_s):.0f}/s{left}"


def print_places(paths: Sequence[Path]) -> None:
    """Print on standard output where each dataset is, its page, and what else was written."""
    from edgefirst_ros.formats.registry import FORMATS
    from edgefirst_ros.model.untrusted import REPORT

    kinds = {".html": "report", ".mcap": "recording", ".yaml": "settings"}
    has_page, places = any(path.suffix == ".html" for path in paths), dict[Path, str]()
    for path in paths:
        if path.name.endswith(REPORT):
            places |= {} if has_page else {path: "report"}
        else:
            is_whole = path.suffix in kinds or path.parent.name in FORMATS
            places.setdefault(path if is_whole else path.parent, kinds.get(path.suffix, "dataset"))
    for path, kind in places.items():
        say(f"{kind:<10} {path}")


def megabytes(size: int) -> str:
    """Bytes as text."""
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.2g} MB"


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def print_report(
    console: Console,
    report: Mapping[str, Any],
    *,
    detail: int = 1,
    cost: str = "",
    paths: Sequence[Path] = (),
) -> None:
    """Print what came of a run: what is in it, the verdict, and at most one note.

    Args:
        console: standard error.
        report: of the run.
        detail: 0 for what is wrong only, 2 for what became of every message, clocks, and all notes, too.
        cost: how large it is, and how long it took.
        paths: what was written.
    """
    from edgefirst_ros.model.reasons import Code
    from edgefirst_ros.report.judge import judge
    from edgefirst_ros.report.models import parsed

    verdict = judge(parsed(report))
    if detail > 1:
        _print_details(console, report)
    if detail:
        labelled = report.get("labelled")
        labels = "" if labelled is None else f", {labelled:,} with labels"
        print_row(console, "done", f"{several(report['samples'], 'samples')}{labels}{cost}")
        if held := "   ".join(_held(report)):
            print_row(console, "", held)
    stopped = next((e.text for e in verdict.findings if e.code is Code.INTERRUPTED), "")
    if detail or verdict.grade != "good":
        text = ", ".join((*verdict.short, *_aligned(report["sequences"])))
        label, text = ("stopped", text.removeprefix("stopped ")) if stopped else (verdict.grade, text)
        print_row(console, label, text)
    if detail:
        print_places(paths)
    warnings = [text for text in report["warnings"] if detail > 1 or text not in verdict.details]
    for text in warnings:
        print_row(console, "warning", text)
    notes = [*report["notes"], *report.get("hints", ()), *_advice(report)]
    for text in notes if detail > 1 else notes[: detail and not warnings]:
        print_row(console, "note", text)


def _print_details(console: Console, report: Mapping[str, Any]) -> None:
    print_line(console, "What became of every message")
    for topic, account in report["topics"].items():
        for text in _account(account):
            print_line(console, f"  {escape(topic)}: {escape(text)}")
    for sequence in report["sequences"]:
        _print_clocks(console, sequence)
    _print_formats(console, report["formats"])


SHORT_NAMES = {"lidar_points": "lidar", "radar_targets": "radar", "radar_cube": "cube", "model": "boxes"}
"""Of roles, in the order in which they are shown; others are called what they are."""
STAGES = {"refused": "rejected", "skipped": "ignored"}
"""What stages of the report are called; others are called what they are."""


def _held(report: Mapping[str, Any]) -> Iterator[str]:
    """In how many samples there is something of each kind of sensor; its rate, if these are few."""
    counts: dict[str, list[tuple[int, float]]] = {}
    for sequence in report["sequences"]:
        for topic, stream in sequence["streams"].items():
            if (count := report["companions"].get(topic)) is not None:
                role = SHORT_NAMES.get(stream["role"], stream["role"].replace("_", " "))
                counts.setdefault(role, []).append((count, sequence["rates_hz"].get(topic, 0.0)))
        if beside := [each["sample"] for each in sequence["cameras"].values()]:
            counts.setdefault("further camera", []).extend((count, 0.0) for count in beside)
    order = [*SHORT_NAMES.values()]
    for role, found in sorted(counts.items(), key=lambda e: order.index(e[0]) if e[0] in order else 99):
        least, most, rate_hz = min(found)[0], max(found)[0], found[0][1]
        which = role if len(found) == 1 else f"{len(found)} {role.removesuffix('s')}s"
        rate = f" ({rate_hz:.3g} Hz)" if most < 0.9 * report["samples"] and rate_hz else ""
        yield f"{which} {least:,}{f'–{most:,}' if most > least else ''}{rate}"


def _aligned(sequences: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How well the clocks of devices are known, if there is one beside the recording's."""
    every = (found for sequence in sequences for found in sequence["clocks"].values())
    if off_ns := [each["uncertainty_ns"] for each in every if each["clock"] and each["uncertainty_ns"]]:
        yield f"clocks aligned to ± {max(off_ns) / 1e6:.0f} ms"


MANY_HZ = 8.0
"""Pictures that follow one another faster are nearly the same."""


def _advice(report: Mapping[str, Any]) -> Iterator[str]:
    """What a detector is trained with: fewer samples than a camera sends."""
    for sequence in report["sequences"]:
        rates = [sequence["rates_hz"].get(topic, 0.0) for topic in sequence["references"]]
        if report.get("labelled") and rates and rates[0] > MANY_HZ and not sequence["skipped"]:
            yield f"every frame of {rates[0]:.0f} Hz is a sample: --rate 2 for a detector"
            return


def _account(account: Mapping[str, Any]) -> Iterator[str]:
    """What became of a topic's messages, how far off samples they are, and why some are not used."""
    from edgefirst_ros.pipeline.ledger import COLUMNS

    ends = [f"{account[c]:,} {STAGES.get(c, c)}" for c in COLUMNS if account[c]]
    ends += [f"{account['lost_upstream']:,} lost upstream"] if account["lost_upstream"] else []
    if off := account["pairing_error_ms"]:
        ends.append(f"{off['p50']:.1f} ms off (p95 {off['p95']:.1f}, at most {off['max']:.1f})")
    yield f"{account['received']:,} received, {', '.join(ends)}"
    for column, reasons in account["reasons"].items():
        yield from (f"{count:,} {STAGES.get(column, column)}: {why}" for why, count in reasons.items())
    yield from (f"{several(n, 'parts')} rejected: {why}" for why, n in account["refused_parts"].items())
    for name, reasons in account.get("left_out", {}).items():
        for why, count in reasons.items():
            if why not in account["reasons"].get("skipped", {}):  # another format has them
                yield f"{count:,} left out of {name}: {why}"


def fits(console: Console, table: Table) -> bool:
    """Whether the table fits the console's width without cutting a cell."""
    wide = console.options.update(max_width=10 * PLAIN_WIDTH)
    return Measurement.get(console, wide, table).maximum <= console.width


def several(count: int, things: str) -> str:
    """A count with its noun, which is given in the plural."""
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def roles_text(roles: Mapping[str, Sequence[str]]) -> str:
    """Roles with their topics."""
    return ", ".join(f"{role} ({', '.join(topics)})" for role, topics in roles.items())


def count_text(value: int | None) -> str:
    """A number; ``·`` for 0, ``?`` for one that is not known."""
    return "?" if value is None else f"{value:,}" if value else "·"


def _print_clocks(console: Console, sequence: Mapping[str, Any]) -> None:
    """Print how many samples are complete, and a sentence for every clock."""
    frames = several(sequence["reference_frames"], "camera frames")
    head = f"{several(sequence['sample'], 'samples')} of {frames}"
    print_line(console, f"{escape(sequence['name'])}: {head}, {escape(_completeness(sequence))}")
    for each in sequence.get("cameras", {}).values():
        counts = f"{several(each['sample'], 'samples')} of {several(each['reference_frames'], 'frames')}"
        print_line(console, f"{escape(each['name'])}: {counts}, {escape(_completeness(each))}")
    texts: dict[str, list[str]] = {}
    for topic, found in sequence["clocks"].items():
        texts.setdefault(_clock_text(found), []).append(topic)
    for text, topics in texts.items():
        print_line(console, f"  {escape(', '.join(topics))}: {escape(text)}")


def _clock_text(found: Mapping[str, Any]) -> str:
    """Where the times of a topic are from."""
    if found["source"] != "stamp":
        return "no usable time stamp: the time of arrival is used"
    if not found["clock"]:
        return "the recording's own clock"
    off_ns = found["uncertainty_ns"]
    return "device clock" + ("" if off_ns is None else f", aligned to ± {off_ns / 1e6:.0f} ms")


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
    frames = several(found["reference_frames"], "frames")
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
