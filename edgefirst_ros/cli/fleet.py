"""Conversion of many drives, each into datasets of its own, and how far it is."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, interruptible, make_config
from edgefirst_ros.cli.terminal import clock, make_console, print_line, progress_bar, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from edgefirst_ros.fleet.plan import Plan, Settings
    from edgefirst_ros.fleet.run import Event, Outcome
    from edgefirst_ros.sources.recording import Excerpt


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The options of ``convert`` that concern many drives; None and False where they were not given."""

    jobs: int | None = None
    engine: str | None = None
    address: str = ""
    memory_gb: float | None = None
    retry_failed: bool = False
    fail_fast: bool = False

    def wanted(self, output: str) -> bool:
        """Whether each drive becomes datasets of its own."""
        return "://" in output or self != FleetOptions(memory_gb=self.memory_gb)


def fleet_settings(
    file: Path | None, chosen: dict[str, Any], excerpt: Excerpt | None, *, page: bool, notes: list[str]
) -> Settings:
    """What ``make_config`` makes a configuration of, to be sent to workers; ``notes`` as there.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    from importlib.metadata import version

    from edgefirst_ros.config.files import load_values
    from edgefirst_ros.fleet.plan import Settings

    make_config(file, chosen, notes=notes)
    values = None if file is None else load_values(file)
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
        OutputBusy: another run is converting to the output.
        OSError: the storage of the output does not answer.
    """
    from edgefirst_ros.fleet.engines import open_engine
    from edgefirst_ros.fleet.output import open_output
    from edgefirst_ros.fleet.page import put_report
    from edgefirst_ros.fleet.plan import make_plan
    from edgefirst_ros.fleet.run import Run

    err, to, stop = make_console(stderr=True), open_output(output), threading.Event()
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(to.hold(stop.set))
        plan = make_plan(inputs, settings, to, retry_failed=options.retry_failed, redo=overwrite)
        view = FleetView(err, plan, quiet or as_json)
        if dry_run:
            return view.print_plan([*notes, *plan.notes], as_json=as_json)
        jobs = None if options.jobs is None else min(options.jobs, max(1, len(plan.work)))
        workers, name = settings.config().workers, options.engine or "local"
        with closing(open_engine(name, options.address, jobs, options.memory_gb, workers)) as engine:
            if err.is_terminal and not view.quiet:
                view.bar = stack.enter_context(progress_bar(err))
            view.begin(f"by {engine.text}", [*notes, *plan.notes])
            with interruptible(stop, err, "stopping, what is complete stays"):
                outcome = Run(plan, settings, to, engine, options.fail_fast, stop, view.show).convert()
        report, places = put_report(to, lambda text: print_line(err, f"[yellow]warning[/]: {escape(text)}"))
    if as_json:
        sys.stdout.write(json.dumps({**asdict(outcome), "report": report, "paths": places}) + "\n")
    else:
        view.end(outcome)
        for place in () if quiet else places:
            say(place)
    if outcome.is_interrupted:
        return EXIT_INTERRUPTED
    own = {drive.name for drive in plan.drives}
    is_poor = any(_is_poor(each, strict=strict) for each in report["drives"] if each["drive"] in own)
    return EXIT_POOR if outcome.failed or outcome.left or is_poor else 0


def _is_poor(drive: Mapping[str, Any], *, strict: bool) -> bool:
    lost = drive["lost"].keys() - {"never arrived"}
    return not drive["samples"] or (strict and bool(drive["faults"] or drive["warnings"] or lost))


@dataclass(slots=True)
class FleetView:
    """Shows what is to be done, a line for every drive that ended, and how far all of them are."""

    console: Console
    plan: Plan
    quiet: bool
    bar: Progress | None = None
    ended: int = 0

    def _print(self, text: str) -> None:
        if not self.quiet:
            print_line(self.console, text)

    def begin(self, engine: str, notes: Sequence[str]) -> None:
        """Say what is to be done, and where."""
        parts = {"drives": self.plan.drives, "done before": self.plan.done, "failed before": self.plan.failed}
        counts = ", ".join(f"{len(each):,} {what}" for what, each in parts.items() if each)
        self._print(f"{counts}: {len(self.plan.work):,} to convert, {engine}")
        for note in notes:
            self._print(f"note: {escape(note)}")
        if self.bar is not None:
            self.bar.add_task("converting", total=sum(drive.size for drive in self.plan.work), detail="")

    def print_plan(self, notes: Sequence[str], *, as_json: bool) -> int:
        """Say what a run would do; the exit code."""
        self.begin("by a run without --dry-run", notes)
        work = [{"drive": each.name, "bytes": each.size, "again": each.change} for each in self.plan.work]
        for each in self.plan.work:
            self._print(f"{escape(each.name)}: {each.size:,} bytes, {_again(each.change) or 'new'}")
        if as_json:
            sys.stdout.write(json.dumps({"drives": len(self.plan.drives), "work": work}) + "\n")
        return 0

    def show(self, event: Event) -> None:
        """Show what became of a drive."""
        self.ended += event.what != "later"
        share = event.bytes_done / max(1, sum(drive.size for drive in self.plan.work))
        left = "" if event.left_s is None or share == 1 else f", {clock(event.left_s)} left"
        progress = f"{self.ended:,} of {len(self.plan.work):,}, {share:.0%}{left}"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=event.bytes_done, detail=progress)
        self._print(f"{escape(event.drive.name)}: {escape(', '.join(_told(event)))}  ({progress})")

    def end(self, outcome: Outcome) -> None:
        """Say what was not done, and why."""
        for what, reasons in (("[red]failed[/]", outcome.failed), ("[yellow]left[/]", outcome.left)):
            for name, reason in reasons.items():
                if reason:
                    print_line(self.console, f"{what}: {escape(name)}: {escape(reason)}")
        if self.plan.failed:
            print_line(self.console, "hint: --retry-failed tries those again that failed in an earlier run")
        if outcome.left:
            counts = f"{len(outcome.left):,} of {len(self.plan.drives):,} drives are left"
            print_line(self.console, f"note: {counts}, run the same command again to resume")


def _again(change: str) -> str:
    return f"again, since {change} changed" if change else ""


def _told(event: Event) -> Iterator[str]:
    """What became of a drive, in a few words each."""
    from edgefirst_ros.fleet.page import lost_text

    note = event.note
    if event.what != "done":
        yield f"{'is tried again' if event.what == 'later' else 'failed'}: {note['reason']}"
        return
    speed = note["recorded_s"] / max(1e-3, note["seconds"])
    yield f"{note['samples']:,} samples, {lost_text(note) or 'nothing lost'}, {speed:.1f}× real time"
    yield from filter(None, [_again(event.drive.change), note["note"]])


def print_status(output: str, *, as_json: bool) -> int:
    """Print how far the conversion of many drives to an output is; the exit code.

    Raises:
        ConfigError: a URL that cannot be read.
        OSError: the storage does not answer.
    """
    from edgefirst_ros.fleet.output import open_output
    from edgefirst_ros.fleet.plan import fleet_status

    found, out = fleet_status(open_output(output)), make_console(stderr=False)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        print_line(out, ", ".join(f"{len(each):,} {kind}" for kind, each in found.items()))
        for each in found["failed"]:
            print_line(out, f"[red]failed[/]: {escape(each['drive'])}: {escape(each['reason'])}")
    return EXIT_POOR if found["failed"] else 0
