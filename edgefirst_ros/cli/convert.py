"""edgefirst-ros convert: recordings to datasets."""

from __future__ import annotations

import shlex
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgefirst_ros.cli import options
from edgefirst_ros.cli.results import print_forecast, print_report
from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, Out, exit_code, make_config
from edgefirst_ros.cli.terminal import Progress, clock, make_console, megabytes, print_line, print_row

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.offline.convert import Position
    from edgefirst_ros.sources.recording import Excerpt
    from edgefirst_ros.sources.suggest import Suggestion

BEFORE_TABLES = 0.97
"""The share of its time after which a conversion writes tables and the page."""


@options.taking(
    "output formats name rate_hz start end split config_file overwrite dry_run quiet verbose as_json "
    "every moving keyframes require reference "
    "listed jobs engine address memory_gb retry_failed fail_fast "
    "user schema_version container pictures prefix workers no_report strict"
)
def convert(
    recordings: Annotated[
        list[str] | None,
        options.opt("RECORDING...", "Files (MCAP, rosbag2, ROS 1), folders, patterns, or URLs."),
    ] = None,
    **given: Any,  # noqa: ANN401 - the options
) -> None:
    """Convert recordings into EdgeFirst, NCore and L5Kit datasets.

    A sample is a camera frame with the nearest message of every other sensor. Several recordings become one
    dataset. With --jobs each drive becomes its own, and the same command resumes.

    Exit codes: 0 done, 1 empty or a drive failed, 2 wrong usage or input, 130 interrupted.

    For example

      edgefirst-ros convert drive.mcap

      edgefirst-ros convert drives/ --rate 2 --jobs 8

      edgefirst-ros convert s3://bucket/drive.mcap --format edgefirst,ncore --start 60 --end 90
    """
    of = options.asked(given)
    is_fleet = "://" in of.output or any((of.jobs, of.engine, of.address, of.retry_failed, of.fail_fast))
    out = Out(quiet=of.quiet, as_json=of.as_json, output=None if is_fleet else Path(of.output))
    with out.guarded("use --overwrite, or another -o"):
        from edgefirst_ros.config.model import preset
        from edgefirst_ros.offline.naming import named
        from edgefirst_ros.sources.recording import excerpt_of

        recordings, excerpt = named(recordings, of.listed), excerpt_of(of.start, of.end)
        chosen = preset(of.user, options.chosen(given)) if of.user else options.chosen(given)
        if is_fleet:
            from edgefirst_ros.cli.fleet import convert_fleet

            code = convert_fleet(recordings, chosen, excerpt, of, out)
        else:
            code = _convert(recordings, chosen, excerpt, of, out)
    raise typer.Exit(code)


def _convert(
    recordings: list[str], chosen: dict[str, Any], excerpt: Excerpt | None, of: SimpleNamespace, out: Out
) -> int:
    """Convert recordings into one dataset of each format, or say what would come; the exit code."""
    from edgefirst_ros.offline.convert import convert as run_convert

    notes, stop, folder, view = list[str](), threading.Event(), Path(of.output), _View(out)
    config, suggestion = configured(recordings, of.config_file, chosen, notes)
    known: dict[str, Any] = {"excerpt": excerpt, "stop": stop, "on_progress": view.update}
    known["unusable"] = {} if suggestion is None else suggestion.unusable
    if of.dry_run:
        from edgefirst_ros.offline.forecast import forecast

        out.note(*notes)
        with out.interruptible(stop, "stopping, what was read is shown"), view:
            found = forecast(recordings, config, **known)
        out.result(found)
        if not of.as_json:
            print_forecast(make_console(stderr=False), found)
        is_poor = not found["samples"] or (of.strict and found["warnings"])
        return EXIT_INTERRUPTED if stop.is_set() else EXIT_POOR if is_poor else 0
    with out.interruptible(stop):
        with view:
            more = {"dataset": of.name, "overwrite": of.overwrite, "notes": notes}
            done = run_convert(recordings, folder, config, **known, **more)
        paths = [*done.paths, *([] if of.no_report else out.page_beside(done.paths))]
        if suggestion is not None:
            paths.append(suggestion.keep(folder, str(done.report["dataset"])))
    cost = f", {megabytes(view.bytes_written)} in {time.monotonic() - view.begun_s:.0f} s"
    print_report(out, done.report, detail=of.detail, cost=cost, paths=paths)
    if not out.quiet:
        again = "the same command, for the whole drive"
        print_row(
            out.err, "next", again if done.interrupted else f"edgefirst-ros check {shlex.quote(of.output)}"
        )
    return EXIT_INTERRUPTED if done.interrupted else exit_code(done.report, strict=of.strict)


class _View(Progress):
    """How far a conversion is: by samples written of those expected."""

    def __init__(self, out: Out) -> None:
        super().__init__(out.err, "reading", quiet=out.quiet)
        self.bytes_written, self._is_new = 0, not out.quiet

    def update(self, at: Position) -> None:
        """Show a new position; may be called many times a second, from any thread."""
        self.bytes_written = at.run.bytes_written
        if self._is_new and at.whole_s:
            name = Path(at.file).name.partition(".")[0]
            print_line(self.console, f"{name}   {clock(at.whole_s)}   {megabytes(at.size)}")
        self._is_new = False
        if at.share is None:
            self.show("reading", 0.0, "the motion")
        else:
            samples, expected = at.run.samples, f"/{at.expected:,}" if at.expected else ""
            speed = samples / max(1e-3, time.monotonic() - self.begun_s)
            share = 1.0 if at.share == 1 else at.share * BEFORE_TABLES if samples else 0.0
            self.show("writing", share, f"{samples:,}{expected} samples   {speed:.0f}/s")


def configured(
    recordings: list[str], config_file: Path | None, chosen: dict[str, Any], notes: list[str]
) -> tuple[Config, Suggestion | None]:
    """The configuration, and the suggestion that it was made of, if it was."""
    from edgefirst_ros.offline.inputs import suggested
    from edgefirst_ros.offline.sessions import recorded_settings

    recorded, note = (None if config_file else recorded_settings(recordings)) or (None, "")
    notes += [note] if note else []
    config = make_config(config_file, chosen, recorded=recorded, notes=notes)
    suggestion = suggested(recordings, config) if config_file is None and recorded is None else None
    if suggestion is None:
        return config, None
    notes.append(suggestion.note)
    return make_config(None, chosen, recorded=suggestion.values), suggestion
