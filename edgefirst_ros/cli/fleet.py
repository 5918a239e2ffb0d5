"""Conversion of many drives, each into datasets of its own, and how far it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, Out, make_config
from edgefirst_ros.cli.terminal import Progress, clock, several
from edgefirst_ros.config.files import load_values
from edgefirst_ros.fleet.engines import open_engine
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.page import lost_text, put_report
from edgefirst_ros.fleet.plan import Plan, Settings, make_plan
from edgefirst_ros.fleet.run import Event, Outcome, Run
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.sources.recording import Excerpt


def convert_fleet(
    inputs: list[str], chosen: dict[str, Any], excerpt: Excerpt | None, of: SimpleNamespace, out: Out
) -> int:
    """Convert every drive of the inputs into datasets of its own, as the options say; the exit code.

    Raises:
        ConfigError: settings or resources that cannot work.
        RecordingNotFound: an input does not exist, or holds no recordings.
        OutputBusy: another run is converting to the output.
        OSError: the storage of the output does not answer.
    """
    if of.name:
        raise ConfigError(["--name is for one dataset, and each drive's is named after it"])
    to, stop, notes = open_output(of.output), threading.Event(), list[str]()
    config = make_config(of.config_file, chosen, notes=notes)
    values = None if of.config_file is None else load_values(of.config_file)
    settings = Settings(values, chosen, version("edgefirst_ros"), excerpt, not of.no_report)
    with nullcontext() if of.dry_run else to.hold(stop.set):
        plan = make_plan(inputs, settings, to, retry_failed=of.retry_failed, redo=of.overwrite)
        notes += plan.notes
        if of.dry_run:
            _begin(out, plan, "by a run without --dry-run", notes)
            work = [{"drive": each.name, "bytes": each.size, "again": each.change} for each in plan.work]
            out.result({"drives": len(plan.drives), "work": work})
            for each in plan.work:
                out.note(f"{each.name}: {each.size:,} bytes, {_again(each.change) or 'new'}", label="")
            return 0
        jobs = None if of.jobs is None else min(of.jobs, max(1, len(plan.work)))
        engine = open_engine(of.engine or "local", of.address, jobs, of.memory_gb, config.workers)
        with closing(engine):
            _begin(out, plan, f"by {engine.text}", notes)
            with _View(out, plan) as view, out.interruptible(stop, "stopping, what is complete stays"):
                outcome = Run(plan, settings, to, engine, of.fail_fast, stop, view.end_drive).convert()
        report, places = put_report(to, lambda text: out.tell("warning", text))
    if not of.as_json:
        _end(out, plan, outcome)
    found = {**asdict(outcome), "report": report, "paths": places}
    out.result(found, *(() if out.quiet else places))
    if outcome.is_interrupted:
        return EXIT_INTERRUPTED
    own = {drive.name for drive in plan.drives}
    is_poor = any(_is_poor(each, strict=of.strict) for each in report["drives"] if each["drive"] in own)
    return EXIT_POOR if outcome.failed or outcome.left or is_poor else 0


def _is_poor(drive: Mapping[str, Any], *, strict: bool) -> bool:
    lost = drive["lost"].keys() - {"never arrived"}
    return not drive["samples"] or (strict and bool(drive["faults"] or drive["warnings"] or lost))


def _begin(out: Out, plan: Plan, engine: str, notes: list[str]) -> None:
    """Say what is to be done, and where."""
    parts = {"drives": plan.drives, "done before": plan.done, "failed before": plan.failed}
    counts = ", ".join(several(len(each), what) for what, each in parts.items() if each)
    out.note(f"{counts}: {len(plan.work):,} to convert, {engine}", label="")
    out.note(*notes)


class _View(Progress):
    """A line for every drive that ended, and how far all of them are."""

    def __init__(self, out: Out, plan: Plan) -> None:
        super().__init__(out.err, "converting", quiet=out.quiet or not out.err.is_terminal)
        self._out, self._drives, self._ended = out, len(plan.work), 0
        self._bytes = max(1, sum(drive.size for drive in plan.work))

    def end_drive(self, event: Event) -> None:
        """Show what became of a drive."""
        self._ended += event.what != "later"
        share = event.bytes_done / self._bytes
        count = f"{self._ended:,} of {self._drives:,}, {share:.0%}"
        self.show("converting", share, count, event.left_s)
        left = "" if event.left_s is None or share == 1 else f", {clock(event.left_s)} left"
        self._out.note(f"{event.drive.name}: {', '.join(_became(event))}  ({count}{left})", label="")


def _end(out: Out, plan: Plan, outcome: Outcome) -> None:
    """Say what was not done, and why."""
    for what, reasons in (("failed", outcome.failed), ("left", outcome.left)):
        for name, reason in reasons.items():
            if reason:
                out.tell(what, f"{name}: {reason}")
    if plan.failed:
        out.tell("hint", "--retry-failed tries those again that failed in an earlier run")
    if outcome.left:
        counts = f"{len(outcome.left):,} of {len(plan.drives):,} drives are left"
        out.tell("note", f"{counts}, run the same command again to resume")


def _again(change: str) -> str:
    return f"again, since {change} changed" if change else ""


def _became(event: Event) -> Iterator[str]:
    """What became of a drive, in a few words each."""
    note = event.note
    if event.what != "done":
        yield f"{'is tried again' if event.what == 'later' else 'failed'}: {note['reason']}"
        return
    speed = note["recorded_s"] / max(1e-3, note["seconds"])
    yield f"{note['samples']:,} samples, {lost_text(note) or 'nothing lost'}, {speed:.1f}× real time"
    yield from filter(None, [_again(event.drive.change), note["note"]])
