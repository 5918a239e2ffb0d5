"""Conversion of many drives, each into datasets of its own, and how far it is."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, interruptible, make_config
from edgefirst_ros.cli.terminal import clock, make_console, print_line, progress_bar, say
from edgefirst_ros.model.errors import ConfigError, extra

if TYPE_CHECKING:
    from rich.progress import Progress

    from edgefirst_ros.fleet.engines.engine import Engine
    from edgefirst_ros.fleet.keys import Settings, Shard
    from edgefirst_ros.fleet.output import Output
    from edgefirst_ros.fleet.plan import Plan
    from edgefirst_ros.fleet.run import Event, FleetOutcome
    from edgefirst_ros.fleet.table import Done
    from edgefirst_ros.sources.recording import Excerpt


MOST_ROWS = 50
"""Drives in the table at the end."""


class EngineChoice(StrEnum):
    """Where drives are converted."""

    LOCAL = "local"
    RAY = "ray"
    DASK = "dask"


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The options of ``convert`` that concern many drives; None and False where they were not given."""

    jobs: int | None = None
    engine: EngineChoice | None = None
    address: str = ""
    memory_gb: float | None = None
    resume: bool = False
    retry_failed: bool = False
    fail_fast: bool = False
    shard: str | None = None
    metrics: Path | None = None
    log: Path | None = None
    patience_min: float | None = None
    single_run: bool = False

    def wanted(self, output: str) -> bool:
        """Whether each drive becomes datasets of its own."""
        given = (self.jobs, self.engine, self.patience_min, self.shard, self.metrics, self.log)
        wanted = self.resume or self.retry_failed or self.fail_fast or self.single_run
        return wanted or bool(self.address) or "://" in output or any(each is not None for each in given)

    @property
    def patience_s(self) -> float:
        """For so long a drive is tried again while the storage is at fault."""
        from edgefirst_ros.fleet.health import PATIENCE_S

        return PATIENCE_S if self.patience_min is None else self.patience_min * 60

    @property
    def part(self) -> Shard | None:
        """The part of the drives that is wanted; None for all.

        Raises:
            ConfigError: the option is none.
        """
        from edgefirst_ros.fleet.keys import Shard

        return None if self.shard is None else Shard.parse(self.shard)


def fleet_settings(
    file: Path | None,
    chosen: dict[str, Any],
    excerpt: Excerpt | None,
    *,
    page: bool,
    notes: list[str],
) -> Settings:
    """What ``make_config`` makes a configuration of, to be sent to workers; ``notes`` as there.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    from importlib.metadata import version

    from edgefirst_ros.fleet.keys import Settings

    make_config(file, chosen, notes=notes)
    values = None
    if file is not None:
        from edgefirst_ros.config.files import load_values

        values = load_values(file)
    return Settings(values, chosen, version("edgefirst_ros"), excerpt, page)


def convert_fleet(
    inputs: Sequence[str],
    output: str,
    settings: Settings,
    options: FleetOptions,
    *,
    overwrite: bool,
    strict: bool,
    quiet: bool,
    as_json: bool,
    dry_run: bool = False,
    notes: Sequence[str] = (),
) -> int:
    """Convert every drive of the inputs into datasets of its own; the exit code.

    Raises:
        ConfigError: settings or resources that cannot work.
        RecordingNotFound: an input does not exist, or holds no recordings.
        OSError: the storage of the output does not answer.
    """
    from edgefirst_ros.fleet.keys import discover
    from edgefirst_ros.fleet.metrics import Telling
    from edgefirst_ros.fleet.output import open_output
    from edgefirst_ros.fleet.plan import make_plan, put_plan
    from edgefirst_ros.fleet.run import Fleet

    err = make_console(stderr=True)
    shard = options.part
    stop = threading.Event()
    to = open_output(output, options.patience_s, stop=stop)
    drives, found = discover(inputs)
    plan = make_plan(
        drives, settings, to.notes, retry_failed=options.retry_failed, redo=overwrite, shard=shard
    )
    del drives  # a plan of 50,000 holds what it needs of them
    if dry_run:
        print_plan(err, plan, [*notes, *found], quiet=quiet, as_json=as_json)
        return 0
    said = [*notes, *found, *_swept()]
    is_single = bool(plan.work) and _accepted_lack(to, said, single=options.single_run)
    if is_single:
        to = open_output(output, options.patience_s, single=True, stop=stop)
    workers = settings.config().workers or None
    with ExitStack() as stack:
        engine = stack.enter_context(_engine(options, len(plan.work), workers, said)) if plan.work else None
        put_plan(plan, inputs, to.notes, shard)
        stack.enter_context(interruptible(stop, err, "stopping; what is complete stays"))
        view = stack.enter_context(FleetView(err, plan, quiet=quiet or as_json))
        view.begin(engine, said)
        telling = stack.enter_context(Telling(plan, options.metrics, options.log))

        def show(event: Event) -> None:
            telling.take(event)
            view.show(event)

        outcome = None
        if engine is not None:
            outcome = Fleet(
                plan,
                settings,
                to,
                engine,
                fail_fast=options.fail_fast,
                redo=overwrite,
                single=is_single,
                patience_s=options.patience_s,
                stop=stop,
                on_event=show,
            ).convert()
    done, failed, left, interrupted = _result(plan, outcome)
    report, places = _reported(to, outcome, err)
    quarantined = {} if outcome is None else outcome.quarantined
    if as_json:
        result: dict[str, Any] = {"interrupted": interrupted, "left": left, "quarantined": quarantined}
        sys.stdout.write(json.dumps({**result, "report": report, "paths": places}) + "\n")
    else:
        if not quiet:
            print_fleet(err, report)
        _print_rest(err, plan, failed, left, quarantined)
        for place in () if quiet else places:
            say(place)
    if interrupted:
        return EXIT_INTERRUPTED
    is_poor = any(each.is_empty or (strict and each.is_doubtful) for each in done)
    return EXIT_POOR if failed or left or quarantined or is_poor else 0


def _reported(to: Output, outcome: FleetOutcome | None, err: Console) -> tuple[dict[str, Any], list[str]]:
    """The report on everything in an output, and where it was written."""
    from edgefirst_ros.fleet.report import fleet_report, put_report

    try:
        return put_report(to, lambda text: print_line(err, f"[yellow]warning[/]: {escape(text)}"))
    except OSError as error:
        if outcome is None or not outcome.left:
            raise
        # What keeps the storage from this machine has ended the run as well, and is said.
        print_line(err, f"the fleet's report was not written: {escape(str(error))}")
        return fleet_report(outcome.done, outcome.failed), []


def _print_rest(
    err: Console,
    plan: Plan,
    failed: Sequence[Mapping[str, Any]],
    left: Sequence[str],
    quarantined: Mapping[str, str],
) -> None:
    """Say what was not done, and why."""
    for note in failed:
        print_line(err, f"[bold red]failed[/]: {escape(note['drive'])}: {escape(note['reason'])}")
    if failed and plan.failed:
        print_line(err, "  --retry-failed tries those again that failed in an earlier run")
    for worker, reason in quarantined.items():
        print_line(err, f"[bold red]quarantined[/]: {escape(worker)}: {escape(reason)}")
    if left:
        print_line(err, f"{len(left):,} of {plan.drives:,} drives are left; the same command does them")


def _swept() -> list[str]:
    """Remove what killed runs left on this machine's scratch; a note on it."""
    from edgefirst_ros.sources.scratch import sweep

    count, size = sweep()
    what = "folder" if count == 1 else "folders"
    return (
        [f"removed {count:,} {what} ({size / 1e6:,.1f} MB) that killed runs left on scratch"] if count else []
    )


def _accepted_lack(to: Output, notes: list[str], *, single: bool) -> bool:
    """Whether the storage lacks what two runs at once need, and the user has said that there is one.

    Raises:
        ConfigError: there may be two.
    """
    lack = to.lack()
    if not lack:
        return False
    text = f"{to.shown}: the store {lack}, so that two runs at once would spoil each other's datasets"
    if not single:
        raise ConfigError([f"{text}; --single-run accepts that, if no other run writes there"])
    notes.append(f"{text}: let no other run write there before this one ends")
    return True


def _result(
    plan: Plan, outcome: FleetOutcome | None
) -> tuple[list[Done], list[Mapping[str, Any]], list[str], bool]:
    from edgefirst_ros.fleet.table import Done

    if outcome is None:
        return plan.done, [note for _, note in plan.failed], [], False
    return (
        [*plan.done, *(Done.of(str(note["key"]), note) for note in outcome.done)],
        outcome.failed,
        outcome.left,
        outcome.interrupted,
    )


def print_plan(console: Console, plan: Plan, notes: Sequence[str], *, quiet: bool, as_json: bool) -> None:
    """Say what a run would do, and what it would take."""
    from dataclasses import asdict

    from edgefirst_ros.fleet.plan import estimate

    takes = estimate(plan)
    if as_json:
        wanted = [
            {"drive": w.drive.name, "bytes": w.drive.size, "files": len(w.drive.files), "again": w.change}
            for w in plan.work
        ]
        counts = {"drives": plan.drives, "done": len(plan.done), "failed": len(plan.failed)}
        sys.stdout.write(json.dumps({**counts, "work": wanted, "estimate": asdict(takes)}) + "\n")
        return
    for note in () if quiet else notes:
        print_line(console, f"note: {escape(note)}")
    for work in () if quiet else plan.work[:MOST_ROWS]:
        why = f"again: {work.change} changed" if work.change else "again" if work.earlier else "new"
        print_line(console, f"{escape(work.drive.name)}: {work.drive.size / 1e6:,.1f} MB, {why}")
    if (more := len(plan.work) - MOST_ROWS) > 0 and not quiet:
        print_line(console, f"and {more:,} more drives, which --json lists")
    parts = [_drives(plan.drives), f"{len(plan.done):,} done", f"{len(plan.failed):,} failed before"]
    print_line(console, f"{', '.join(parts)}: {len(plan.work):,} to convert, {takes.bytes / 1e9:,.2f} GB")
    changes = Counter(work.change or ("as asked for" if work.earlier else "") for work in plan.work)
    for why, count in changes.most_common():
        print_line(console, f"  {count:,} {f'again: {why}' if why else 'new'}")
    if takes.hours is None or takes.core_hours is None:
        print_line(console, "what it takes is known once a few drives are done")
    else:
        known = f", {takes.known_hours:,.2f} of them known" if takes.known_hours else ""
        print_line(
            console,
            f"about {takes.hours:,.2f} hours of driving{known}; about {takes.core_hours:,.2f} core hours, "
            f"as {takes.drives:,} complete drives took",
        )


def _engine(options: FleetOptions, drives: int, workers: int | None, notes: list[str]) -> Engine:
    from edgefirst_ros.fleet.engines import engine as machine

    memory = machine.JOB_BYTES if options.memory_gb is None else round(options.memory_gb * 1e9)
    if options.engine in {None, EngineChoice.LOCAL}:
        if options.address:
            raise ConfigError(["--address is for --engine ray and --engine dask"])
        with extra():
            from edgefirst_ros.fleet.engines.local import LocalEngine

        share = machine.share(min(options.jobs or 1, drives), memory, workers)
        notes += [share.note] if share.note else []
        return LocalEngine(share.jobs, share.workers)
    if options.engine is EngineChoice.RAY:
        with extra():
            from edgefirst_ros.fleet.engines.ray import RayEngine

        return RayEngine(options.address, workers or 1, memory, options.jobs)
    with extra():
        from edgefirst_ros.fleet.engines.dask import DaskEngine

    return DaskEngine(options.address, workers or 1, memory, options.jobs)


class FleetView:
    """Shows a line for every drive that ended, and how far all of them are."""

    def __init__(self, console: Console, plan: Plan, *, quiet: bool) -> None:
        self._console, self._plan, self._quiet = console, plan, quiet
        self._total = sum(work.drive.size for work in plan.work)
        self._ended = 0
        self._start_s = time.monotonic()
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            self._bar = progress_bar(console)
            self._task = self._bar.add_task("converting", total=self._total, detail="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, engine: Engine | None, notes: Sequence[str]) -> None:
        """Say what is to be done, and where."""
        if self._quiet:
            return
        plan = self._plan
        parts = [_drives(plan.drives)]
        parts += [f"{len(plan.done):,} done before"] if plan.done else []
        parts += [f"{len(plan.failed):,} failed before"] if plan.failed else []
        where = f": {len(plan.work):,} to convert, by {engine.text}" if engine is not None else ""
        print_line(self._console, f"{', '.join(parts)}{where}")
        for note in notes:
            print_line(self._console, f"note: {escape(note)}")

    def show(self, event: Event) -> None:
        """Show what became of a drive."""
        if event.what in {"done", "earlier", "failed"}:
            self._ended += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=event.bytes_done, detail=self._progress(event.bytes_done))
        if self._quiet:
            return
        if event.what == "quarantined":
            who, reason = escape(event.note["worker"]), escape(event.note["reason"])
            print_line(self._console, f"worker {who} gets no more drives: {reason}")
            return
        end = f"  ({self._progress(event.bytes_done)})" if self._bar is None else ""
        print_line(self._console, f"{escape(event.drive.name)}: {escape(_told(event))}{end}")

    def _progress(self, bytes_done: int) -> str:
        share = bytes_done / self._total if self._total else 1.0
        elapsed_s = time.monotonic() - self._start_s
        eta = f", {clock(elapsed_s * (1 - share) / share)} to go" if 0 < share < 1 else ""
        return f"{self._ended:,} of {len(self._plan.work):,}, {share:.0%}{eta}"


def _told(event: Event) -> str:
    """What became of a drive, in a line."""
    note = event.note
    if event.what == "again":
        return f"is converted again: {note['reason']} changed"
    if event.what in {"failed", "waiting"}:
        return f"{event.what}: {note['reason']}"
    if event.what == "resting":
        return f"is tried again in {note['pause_s']:.0f} s: {note['reason']}"
    from edgefirst_ros.fleet.report import drive_summary

    drive = drive_summary(note)
    lost = ", ".join(f"{count:,} {what}" for what, count in drive["lost"].items()) or "nothing lost"
    speed = f", {drive['speed']:.1f}× real time" if drive["speed"] else ""
    by = ", by another run" if event.what == "earlier" else ""
    how = f"; {note['suggestion']}" if "suggestion" in note else ""
    return f"{drive['samples']:,} samples, {lost}{speed}{by}{how}"


def print_fleet(console: Console, report: Mapping[str, Any]) -> None:
    """Print the fleet's report: a table of the drives, and the sums."""
    table = Table(title="Drives", title_justify="left")
    table.add_column("drive", overflow="fold")
    for name in ("samples", "recorded", "× real time", "MB written", "lost", "worst pairing, ms"):
        table.add_column(name, justify="right")
    for drive in report["drives"][:MOST_ROWS]:
        table.add_row(
            escape(drive["drive"]),
            f"{drive['samples']:,}",
            clock(drive["recorded_s"]),
            f"{drive['speed']:.1f}" if drive["speed"] else "·",
            f"{drive['bytes_written'] / 1e6:,.1f}",
            "\n".join(f"{count:,} {what}" for what, count in drive["lost"].items()) or "·",
            "·" if drive["worst_pairing_ms"] is None else f"{drive['worst_pairing_ms']:.1f}",
        )
    if report["drives"]:
        console.print(table)
    if (more := len(report["drives"]) - MOST_ROWS) > 0:
        print_line(console, f"and {more:,} more drives, which are in the fleet report")
    totals = report["totals"]
    print_line(
        console,
        f"{_drives(totals['drives'])}, {totals['hours']:,.2f} hours, {totals['samples']:,} samples, "
        f"{totals['failed']:,} failed",
    )


def print_status(output: str, *, as_json: bool) -> int:
    """Print how far the conversion of many drives to an output is; the exit code.

    Raises:
        ConfigError: it holds no notes, or is a URL that cannot be read.
        OSError: the storage does not answer.
    """
    from edgefirst_ros.fleet.output import open_output
    from edgefirst_ros.fleet.plan import fleet_status

    found = fleet_status(open_output(output).notes)
    if not any(found.values()):
        raise ConfigError(
            [f"{output}: holds no notes of a fleet; convert writes them with --jobs or --resume"]
        )
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        _print_status(make_console(stderr=False), found)
    return EXIT_POOR if found["failed"] else 0


def _print_status(console: Console, found: Mapping[str, Any]) -> None:
    counts = ", ".join(f"{len(found[kind]):,} {kind}" for kind in ("done", "running", "failed", "left"))
    print_line(console, counts)
    for each in found["running"]:
        state = "abandoned" if each["abandoned"] else "running"
        print_line(
            console, f"{state}: {escape(each['drive'])}: {escape(each['by'])}, {each['silent_s']} s ago"
        )
    for name in found["damaged"]:
        print_line(
            console, f"[yellow]damaged[/]: {escape(name)}: no note that can be understood; not counted"
        )
    for each in found["failed"]:
        print_line(console, f"[red]failed[/]: {escape(each['drive'])}: {escape(each['reason'])}")


def _drives(count: int) -> str:
    return f"{count:,} {'drive' if count == 1 else 'drives'}"
