"""The one command of a pip user: edgefirst-ros."""

from __future__ import annotations

import io
import json
import sys
import threading
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from edgefirst_ros.checks import check as run_checks
from edgefirst_ros.commands.capture import capture
from edgefirst_ros.commands.l5kit import app as l5kit_app
from edgefirst_ros.commands.play import play
from edgefirst_ros.commands.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    EXIT_USAGE,
    ContainerChoice,
    Schema,
    exit_code,
    guarded,
    interruptible,
    make_config,
    print_error,
)
from edgefirst_ros.config import build_config
from edgefirst_ros.contactsheet import contact_sheet
from edgefirst_ros.convert import convert as run_convert
from edgefirst_ros.errors import ConfigError, WriteError
from edgefirst_ros.inputs import find_recordings
from edgefirst_ros.inspect import inspect
from edgefirst_ros.recovery import recover as run_recovery
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation import simulate as run_simulation
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.terminal import ProgressView, make_console, print_info, print_report, say

app = typer.Typer(
    name="edgefirst-ros",
    help="Turn what an EdgeFirst Maivin or Raivin saw into training data, every message accounted for.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


app.add_typer(l5kit_app, name="l5kit")


def _say_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"edgefirst-ros {version('edgefirst_ros')}\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Turn what an EdgeFirst Maivin or Raivin saw into training data, every message accounted for."""


class CodecChoice(StrEnum):
    """Video codec of a simulated camera."""

    H264 = "h264"
    H265 = "h265"


@app.command()
def convert(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="RECORDING...", help="MCAP files, or folders of them.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder that the dataset goes below.")],
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config", help="YAML or ROS 2 parameter file, as share/edgefirst_ros/config/maivin.yaml."
        ),
    ] = None,
    formats: Annotated[
        str | None, typer.Option("--format", metavar="NAME,...", help="edgefirst (default), ncore, l5kit.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Dataset name; default: RECORDING-dataset.")] = "",
    schema: Annotated[
        Schema | None,
        typer.Option(help="Annotation columns: the published article's (2025.01, default), or the client's."),
    ] = None,
    container: Annotated[
        ContainerChoice | None, typer.Option(help="Sensor files in one ZIP (default), or plain in a folder.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Topic that samples are aligned to, as lidar/points; default: the camera."),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Topic prefix, when several devices are in it; default: found.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="HZ", help="At most so many samples a second; default: every frame."),
    ] = None,
    every_n: Annotated[int | None, typer.Option(metavar="N", help="Keep one reference frame in N.")] = None,
    keyframes: Annotated[bool, typer.Option("--keyframes", help="Video key frames only.")] = False,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Also write samples that lack a sensor's companion.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Encoder threads; default: one a core.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a dataset of that name, once the new one is complete."),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 if anything was refused, damaged or poor.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Warnings and errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, nothing else.")] = False,
) -> None:
    """Convert MCAP recordings into EdgeFirst datasets, NCore sequences and L5Kit datasets.

    A sample is a camera frame with its nearest radar, lidar and model messages (within 50 ms; the same frame
    for a model). By default a sample is complete: a frame that lacks a sensor which is alive is left out, and
    the summary says how many and why; [bold]--incomplete[/] keeps them.

    Ctrl-C finishes what has been read and exits with 130. Exit 0: done; 1: empty, or poor with --strict;
    2: wrong usage or input. With --json a failure is JSON too: an object with error and faults.

    [bold]Examples[/]

      edgefirst-ros convert maivin_2026_03_14_10_20_30.mcap -o out

      edgefirst-ros convert drive/ -o out --rate 2 --name monday

      edgefirst-ros convert drive.mcap -o out --format edgefirst,ncore,l5kit
    """
    err = make_console(stderr=True)
    with guarded(
        err, instead="--overwrite replaces it, another -o keeps both", output=output, as_json=as_json
    ):
        chosen = {
            "formats": None if formats is None else [f.strip() for f in formats.split(",")],
            "reference": reference,
            "prefix": prefix,
            "rate_hz": rate,
            "every_n": every_n,
            "keyframes": keyframes or None,
            "workers": workers,
        }
        edgefirst = {
            "schema_version": None if schema is None else schema.value,
            "container": None if container is None else container.value,
        }
        config = make_config(config_file, chosen, edgefirst, incomplete=incomplete)
        stop = threading.Event()
        with interruptible(stop, err, output=output), ProgressView(err, quiet=quiet or as_json) as view:
            done = run_convert(
                recordings,
                output,
                config,
                dataset=name,
                overwrite=overwrite,
                stop=stop,
                on_progress=view.update,
            )
        if as_json:
            sys.stdout.write(json.dumps({**done.report, "paths": [str(p) for p in done.paths]}) + "\n")
        else:
            print_report(err, done.report, details=not quiet)
            if done.interrupted:
                err.print("interrupted: what had been read is finished and complete", highlight=False)
            if not quiet:
                for path in done.paths:
                    say(f"{path}")
        code = exit_code(done.report, strict=strict)
    raise typer.Exit(EXIT_INTERRUPTED if done.interrupted else code)


@app.command()
def info(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="RECORDING...", help="MCAP files, or folders of them.")
    ],
    *,
    prefix: Annotated[
        str | None, typer.Option(help="Topic prefix, when several devices are in it; default: found.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a recording, a line each.")
    ] = False,
) -> None:
    """Say what is in a recording: topics, types, counts, rates, gaps, clocks, damage.

    Nothing is converted or written. The clock findings are those that [bold]convert[/] will act on. A gap is
    a pause of more than three usual intervals; bad are messages that do not decode. Exit 0: read; 2: no
    recording.

    [bold]Examples[/]

      edgefirst-ros info drive.mcap

      edgefirst-ros info monday/ --json
    """
    err, out = make_console(stderr=True), make_console(stderr=False)
    with guarded(err, as_json=as_json):
        config = build_config({} if prefix is None else {"prefix": prefix})
        for path in find_recordings(recordings):
            found = inspect(McapRecording(path), config)
            if as_json:
                sys.stdout.write(json.dumps(found) + "\n")
            else:
                print_info(out, found)


@app.command()
def simulate(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the recording and its truth.")],
    seconds: Annotated[float, typer.Option(help="Length of the drive.")] = 10.0,
    seed: Annotated[
        int, typer.Option(help="Another seed, another drive; the same seed, the same bytes.")
    ] = 0,
    fps: Annotated[int, typer.Option(help="Camera frames a second.")] = 30,
    size: Annotated[str, typer.Option(metavar="WxH", help="Camera picture size.")] = "1280x720",
    codec: Annotated[CodecChoice, typer.Option(help="Video codec.")] = CodecChoice.H264,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a drive that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the recording's path only.")] = False,
) -> None:
    """Make a Maivin recording of a simulated drive whose truth is known.

    Camera, radar, lidar, IMU, GPS, calibration and model boxes are computed from one world, with the device's
    clocks and latencies; NAME.truth.json beside the recording says where everything was. Equal options give
    equal bytes.

    [bold]Example[/]

      edgefirst-ros simulate -o recording --seconds 30 --seed 1
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--overwrite replaces it"):
        width, height = _size(size)
        options = DriveOptions(
            seconds=seconds, seed=seed, fps=fps, width=width, height=height, codec=codec.value
        )
        bar = Progress(console=err, transient=True, disable=quiet or not err.is_terminal)
        with bar:
            task = bar.add_task("simulating", total=1.0)
            made = run_simulation(
                output, options, lambda share: bar.update(task, completed=share), overwrite=overwrite
            )
        say(f"{made.mcap}")
        if not quiet:
            say(f"{made.truth}")


@app.command()
def recover(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="An output folder, or anything above it.")],
) -> None:
    """Finish what a crash, a kill or a full disk left in .part files.

    Everything that had been committed is kept, a torn end is dropped, and what was kept is said. Running it
    twice does no harm. A complete dataset is never replaced by an unfinished one: what a killed --overwrite
    left is finished beside it, as NAME_recovered. Exit 0: all is finished; 2: something could not be, or
    there is nothing.

    [bold]Example[/]

      edgefirst-ros recover out
    """
    err, failed = make_console(stderr=True), False
    with guarded(err):
        for done in run_recovery(path):
            failed |= done.failed
            if done.failed:
                print_error(err, done.text)
            else:
                say(f"{done.path}\n  {done.text}")
                sys.stdout.flush()
        if failed:
            err.print("  what failed is as it was; mend the cause and run it again", highlight=False)
    if failed:
        raise typer.Exit(EXIT_USAGE)


@app.command()
def check(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A dataset, one of its files, or a folder above it.")
    ],
    *,
    official: Annotated[
        Path | None,
        typer.Option(metavar="PYTHON", help="Python with nvidia-ncore: its reader looks, too."),
    ] = None,
) -> None:
    """Check every dataset at or below PATH, of any format: is all of it there, whole, and what it says?

    EdgeFirst: every file's CRC-32, name and header, picture sizes, points; columns, samples, values and
    groups of the table; counts of the report. L5Kit: arrays, chunks, intervals, times, rotations,
    probabilities. NCore: container, index, metadata, times, unit rays, pose tree. Prints what is wrong, then
    a line for each dataset.

    Needs nothing but this package, and writes nothing. Exit 0: sound; 1: errors; 2: no dataset there.

    [bold]Examples[/]

      edgefirst-ros check out

      edgefirst-ros check out/edgefirst/monday

      edgefirst-ros check out/ncore --official /opt/ncore/bin/python
    """
    sound = True
    with guarded(make_console(stderr=True)):
        for result in run_checks(path, official_python=official):
            sys.stdout.write(result.text + "\n")
            sys.stdout.flush()
            sound &= result.ok
    if not sound:
        raise typer.Exit(EXIT_POOR)


@app.command()
def sheet(
    dataset: Annotated[
        Path, typer.Argument(metavar="DATASET", help="Folder of an EdgeFirst dataset, OUT/edgefirst/NAME.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG to write.")],
    rows: Annotated[int, typer.Option(min=1, max=50, help="Samples to show.")] = 6,
) -> None:
    """Draw a contact sheet of an EdgeFirst dataset: camera with boxes, lidar, radar and cube.

    A row a sample, spread evenly over the dataset. Clouds are seen from above, a ring every 10 m.

    [bold]Example[/]

      edgefirst-ros sheet out/edgefirst/monday -o sheet.png --rows 12
    """
    err = make_console(stderr=True)
    with guarded(err):
        picture = contact_sheet(dataset, rows)
        try:
            picture.save(output, "PNG")
        except OSError as error:
            raise WriteError(f"{output}: cannot be written: {error.strerror or error}") from error
        say(f"{output}")


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise ConfigError([f"--size {text}: expected WIDTHxHEIGHT, e.g. 1280x720"])
    return int(width), int(height)


app.command()(capture)
app.command()(play)


def main() -> None:
    """The command, once its imports are done."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path may hold bytes that are no text; they are printed as they are.
            stream.reconfigure(errors="surrogateescape")
    app()


if __name__ == "__main__":
    main()
