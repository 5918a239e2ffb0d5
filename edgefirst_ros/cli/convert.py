"""edgefirst-ros convert: recordings to datasets."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.fleet import EngineChoice, FleetOptions, convert_fleet, fleet_settings
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    ConfigFile,
    End,
    Start,
    exit_code,
    guarded,
    interruptible,
    make_config,
    page_beside,
)
from edgefirst_ros.cli.terminal import ProgressView, make_console, print_line, print_report, say
from edgefirst_ros.model.errors import ConfigError

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.sources.suggest import Suggestion


def convert(
    recordings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECORDING]...",
            help="Recordings (MCAP, rosbag2, ROS 1), folders of them, URLs such as s3://bucket/drives/, or "
            "patterns such as 's3://bucket/2026-*/*.mcap'.",
        ),
    ] = None,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FOLDER|URL", help="Folder or URL for the datasets.")
    ],
    listed: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="LIST",
            help="Also the recordings of a list: lines of a text, or the column uri of a Parquet file; -: "
            "standard input; repeatable.",
        ),
    ] = None,
    config_file: ConfigFile = None,
    formats: options.Formats = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Dataset name; default: RECORDING-dataset.")
    ] = "",
    schema_version: options.Annotations = None,
    container: options.Container = None,
    reference: options.Reference = None,
    user: Annotated[
        str,
        typer.Option("--for", metavar="NAME", help="Settings that a program asks for: studio."),
    ] = "",
    prefix: options.Prefix = None,
    start: Start = None,
    end: End = None,
    rate_hz: options.Rate = None,
    every: options.Every = None,
    distance_m: options.Distance = None,
    moving: options.Moving = None,
    keyframes: options.Keyframes = None,
    require: options.Require = None,
    incomplete: options.Incomplete = False,
    workers: options.Workers = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing dataset once the new one is complete."),
    ] = False,
    no_report: options.NoReport = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing; say what each topic would be used as, or which drives are converted.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 if there are refused messages, damage or warnings.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, help="Convert N drives at a time, one dataset each."),
    ] = None,
    engine: Annotated[
        EngineChoice | None,
        typer.Option(
            "--engine",
            metavar="local|ray|dask",
            help="Where to convert: on this machine (default), or on a Ray or Dask cluster.",
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="The cluster: auto or ray://HOST:10001; tcp://HOST:8786 for Dask.",
        ),
    ] = "",
    memory_gb: Annotated[
        float | None,
        typer.Option(
            "--memory", metavar="GB", min=0.1, help="Memory that Ray reserves for each job; default: 1.5."
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also try drives again that failed in an earlier run.")
    ] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first drive that fails.")
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Convert recordings into EdgeFirst, NCore and L5Kit datasets.

    A sample is a camera frame with the nearest message of every other sensor, at most 50 ms away; model
    messages must be of the same frame, and a radar cube goes to the sample nearest to it. A frame becomes a
    sample even if it lacks a sensor; [bold]--require[/] leaves out frames that lack one which was sending.
    The summary says how many samples are complete.

    All recordings become one dataset. With [bold]--jobs[/], [bold]--engine[/], or an output URL, each drive
    becomes a dataset of its own, OUT/DRIVE/edgefirst/... Then a drive that cannot be converted does not stop
    the others, and the same command again does only what is missing or has changed; [bold]--overwrite[/]
    converts all of them again. [bold]info[/] OUT shows the progress.

    For a robot whose topics have other names, a configuration is made as by [bold]suggest[/] if none is
    given, for each dataset, and written beside it. [bold]--config none[/] refuses that.

    A recording made by [bold]capture --record[/] is converted with the settings and names of its session,
    into the same bytes that the session wrote. Options given here override single settings; --config replaces
    all of them.

    Folders are searched with all folders below them; several files of one drive become one sequence.
    [bold]--start[/] and [bold]--end[/] select a part of every drive; the rest is not read if the files have
    an index.

    [bold]--dry-run[/] reads the recordings and writes nothing. It says what each topic would be used as,
    which clock its times are taken from, what would be ignored and why, and how many samples there would be.
    Of many drives it reads none, and says which would be converted and why.

    capture_report.json says what became of every message, and capture_report.html shows it as a page, which
    --no-report leaves out.

    Ctrl-C completes what has been read; of many drives, those in progress are stopped, and the next run
    converts them again. With --json, errors are JSON too: an object with error and faults.

    Exit codes: 0 done; 1 empty, a drive failed or, with --strict, poor; 2 wrong usage or input;
    130 interrupted.

    [bold]Examples[/]

      edgefirst-ros convert maivin_2026_03_14_10_20_30.mcap -o out

      edgefirst-ros convert drive/ -o out --rate 2 --name monday

      edgefirst-ros convert drive.mcap -o out --format edgefirst,ncore,l5kit

      edgefirst-ros convert s3://bucket/drive.mcap -o out --start 60

      edgefirst-ros convert drives/ -o sets/ --jobs 8

      edgefirst-ros convert --from drives.txt -o sets/ --jobs 8 --dry-run

      edgefirst-ros convert s3://bucket/drives/ -o s3://bucket/sets/ --engine ray --address auto
    """
    err = make_console(stderr=True)
    many = FleetOptions(jobs, engine, address, memory_gb, retry_failed, fail_fast)
    is_fleet = many.wanted(output)
    folder = Path(output)
    with guarded(
        err,
        instead="--overwrite replaces it, another -o keeps both",
        output=None if is_fleet else folder,
        as_json=as_json,
    ):
        from edgefirst_ros.config.model import preset
        from edgefirst_ros.offline.naming import named
        from edgefirst_ros.sources.recording import excerpt_of

        recordings = named(recordings, listed)
        if incomplete and not (quiet or as_json):
            print_line(err, f"note: {options.INCOMPLETE}")
        excerpt = excerpt_of(start, end)
        chosen = options.chosen(locals())
        chosen = preset(user, chosen) if user else chosen
        if is_fleet:
            if name:
                raise ConfigError(["--name is for one dataset; here each drive's dataset is named after it"])
            notes: list[str] = []
            settings = fleet_settings(
                config_file,
                chosen,
                excerpt,
                page=not no_report,
                notes=notes,
            )
            code = convert_fleet(
                recordings,
                output,
                settings,
                many,
                overwrite=overwrite,
                strict=strict,
                quiet=quiet,
                as_json=as_json,
                dry_run=dry_run,
                notes=notes,
            )
            raise typer.Exit(code)
        from edgefirst_ros.offline.convert import convert as run_convert

        notes = []
        config, suggestion = configured(recordings, config_file, chosen, notes)
        unusable = {} if suggestion is None else suggestion.unusable
        stop = threading.Event()
        if dry_run:
            from edgefirst_ros.offline.forecast import forecast

            raise typer.Exit(
                _look_ahead(
                    partial(forecast, recordings, config, excerpt=excerpt, unusable=unusable, stop=stop),
                    stop,
                    err,
                    strict=strict,
                    as_json=as_json,
                    notes=notes,
                )
            )
        with interruptible(stop, err, output=folder):
            with ProgressView(err, quiet=quiet or as_json) as view:
                done = run_convert(
                    recordings,
                    folder,
                    config,
                    excerpt=excerpt,
                    dataset=name,
                    overwrite=overwrite,
                    stop=stop,
                    on_progress=view.update,
                    notes=notes,
                    unusable=unusable,
                )
            paths = [*done.paths, *([] if no_report else page_beside(done.paths, err))]
            if suggestion is not None:
                paths.append(suggestion.keep(folder, str(done.report["dataset"])))
        if as_json:
            sys.stdout.write(json.dumps({**done.report, "paths": [str(p) for p in paths]}) + "\n")
        else:
            print_report(err, done.report, details=not quiet)
            if done.interrupted:
                err.print(done.interruption, highlight=False)
            if not quiet:
                for path in paths:
                    say(f"{path}")
        code = exit_code(done.report, strict=strict)
    raise typer.Exit(EXIT_INTERRUPTED if done.interrupted else code)


def configured(
    recordings: list[str],
    config_file: Path | None,
    chosen: dict[str, Any],
    notes: list[str],
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
    err: Console,
    *,
    strict: bool,
    as_json: bool,
    notes: list[str],
) -> int:
    """Say what a conversion would make; the exit code."""
    from edgefirst_ros.cli.terminal import print_forecast

    for note in () if as_json else notes:
        print_line(err, f"note: {escape(note)}")
    finishing = "finishing with what has been read"
    with interruptible(stop, err, finishing), ProgressView(err, quiet=as_json) as view:
        found = look(on_progress=view.update)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        print_forecast(make_console(stderr=False), found)
    if stop.is_set():
        return EXIT_INTERRUPTED
    return EXIT_POOR if not found["samples"] or (strict and found["warnings"]) else 0
