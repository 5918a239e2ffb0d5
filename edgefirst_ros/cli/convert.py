"""edgefirst-ros convert: recordings to datasets."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.fleet import FleetOptions, convert_fleet, fleet_settings
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    exit_code,
    guarded,
    interruptible,
    make_config,
    page_beside,
)
from edgefirst_ros.cli.terminal import (
    ProgressView,
    make_console,
    megabytes,
    print_line,
    print_report,
    print_row,
)
from edgefirst_ros.model.errors import ConfigError

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.sources.recording import Excerpt
    from edgefirst_ros.sources.suggest import Suggestion


FLEET = "jobs engine address memory_gb retry_failed fail_fast"


@options.taking(
    "output formats name rate_hz start end split config_file overwrite dry_run quiet verbose as_json "
    "every distance_m moving keyframes require reference "
    f"listed {FLEET} user schema_version container pictures prefix workers no_report strict"
)
def convert(
    recordings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECORDING...", help="Files (MCAP, rosbag2, ROS 1), folders, patterns, or URLs."
        ),
    ] = None,
    **given: Any,  # noqa: ANN401 - the options
) -> None:
    """Convert recordings into EdgeFirst, NCore and L5Kit datasets.

    A sample is a camera frame with the nearest message of every other sensor. Several recordings become one
    dataset. With --jobs each drive becomes its own, and the same command resumes.

    Exit codes: 0 done, 1 empty or a drive failed, 2 wrong usage or input, 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros convert drive.mcap

      edgefirst-ros convert drives/ --rate 2 --jobs 8

      edgefirst-ros convert s3://bucket/drive.mcap --format edgefirst,ncore --start 60 --end 90
    """
    of, err = options.asked(given), make_console(stderr=True)
    many = FleetOptions(**{name: given[name] for name in FLEET.split()})
    folder = None if many.wanted(of.output) else Path(of.output)
    with guarded(err, instead="use --overwrite, or another -o", output=folder, as_json=of.as_json):
        from edgefirst_ros.config.model import preset
        from edgefirst_ros.offline.naming import named
        from edgefirst_ros.sources.recording import excerpt_of

        recordings = named(recordings, of.listed)
        excerpt = excerpt_of(of.start, of.end)
        chosen = options.chosen(given)
        chosen = preset(of.user, chosen) if of.user else chosen
        if folder is None:
            code = _convert_many(recordings, of, many, chosen, excerpt)
        else:
            code = _convert_one(recordings, folder, of=of, chosen=chosen, excerpt=excerpt, err=err)
    raise typer.Exit(code)


def _convert_many(
    recordings: list[str],
    of: SimpleNamespace,
    many: FleetOptions,
    chosen: dict[str, Any],
    excerpt: Excerpt | None,
) -> int:
    if of.name:
        raise ConfigError(["--name is for one dataset, and each drive's is named after it"])
    notes: list[str] = []
    return convert_fleet(
        recordings,
        of.output,
        fleet_settings(of.config_file, chosen, excerpt, page=not of.no_report, notes=notes),
        many,
        overwrite=of.overwrite,
        strict=of.strict,
        quiet=of.quiet,
        as_json=of.as_json,
        dry_run=of.dry_run,
        notes=notes,
    )


def _convert_one(
    recordings: list[str],
    folder: Path,
    *,
    of: SimpleNamespace,
    chosen: dict[str, Any],
    excerpt: Excerpt | None,
    err: Console,
) -> int:
    """Convert recordings into one dataset of each format; the exit code."""
    from edgefirst_ros.offline.convert import convert as run_convert

    notes: list[str] = []
    config, suggestion = configured(recordings, of.config_file, chosen, notes)
    unusable = {} if suggestion is None else suggestion.unusable
    stop, view = threading.Event(), ProgressView(err, quiet=of.quiet or of.as_json)
    if of.dry_run:
        from edgefirst_ros.offline.forecast import forecast

        look = partial(forecast, recordings, config, excerpt=excerpt, unusable=unusable, stop=stop)
        return _look_ahead(look, stop, view=view, err=err, of=of, notes=notes)
    with interruptible(stop, err, output=folder):
        with view:
            done = run_convert(
                recordings,
                folder,
                config,
                excerpt=excerpt,
                dataset=of.name,
                overwrite=of.overwrite,
                stop=stop,
                on_progress=view.update,
                notes=notes,
                unusable=unusable,
            )
        paths = [*done.paths, *([] if of.no_report else page_beside(done.paths, err))]
        if suggestion is not None:
            paths.append(suggestion.keep(folder, str(done.report["dataset"])))
    if of.as_json:
        sys.stdout.write(json.dumps({**done.report, "paths": [str(p) for p in paths]}) + "\n")
    else:
        size = 0 if view.position is None else view.position.run.bytes_written
        cost = f", {megabytes(size)} in {view.seconds:.0f} s"
        print_report(err, done.report, detail=of.detail, cost=cost, paths=paths)
        if not of.quiet:
            again = "the same command, for the whole drive"
            print_row(err, "next", again if done.interrupted else f"edgefirst-ros check {of.output}")
    return EXIT_INTERRUPTED if done.interrupted else exit_code(done.report, strict=of.strict)


def configured(
    recordings: list[str], config_file: Path | None, chosen: dict[str, Any], notes: list[str]
) -> tuple[Config, Suggestion | None]:
    """The configuration, and the suggestion that it was made of, if it was."""
    from edgefirst_ros.offline.inputs import suggested
    from edgefirst_ros.offline.sessions import recorded_settings

    found = None if config_file is not None else recorded_settings(recordings)
    recorded, note = found or (None, "")
    notes += [note] if note else []
    config = make_config(config_file, chosen, recorded=recorded, notes=notes)
    suggestion = None
    if config_file is None and found is None:
        suggestion = suggested(recordings, config)
    if suggestion is None:
        return config, None
    notes.append(suggestion.note)
    return make_config(None, chosen, recorded=suggestion.values), suggestion


def _look_ahead(
    look: Callable[..., dict[str, Any]],
    stop: threading.Event,
    *,
    view: ProgressView,
    err: Console,
    of: SimpleNamespace,
    notes: list[str],
) -> int:
    """Say what a conversion would make; the exit code."""
    from edgefirst_ros.cli.terminal import print_forecast

    for note in () if of.as_json else notes:
        print_line(err, f"note: {escape(note)}")
    with interruptible(stop, err, "stopping, what was read is shown"), view:
        found = look(on_progress=view.update)
    if of.as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        print_forecast(make_console(stderr=False), found)
    if stop.is_set():
        return EXIT_INTERRUPTED
    return EXIT_POOR if not found["samples"] or (of.strict and found["warnings"]) else 0
