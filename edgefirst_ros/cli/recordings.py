"""edgefirst-ros info and simulate: describe a recording, or make one with known ground truth."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from edgefirst_ros.cli import importing
from edgefirst_ros.cli.shared import ConfigFile, End, Recordings, Start, guarded, make_config
from edgefirst_ros.cli.terminal import make_console, print_info, print_line, say
from edgefirst_ros.model.errors import ConfigError, RecordingError, extra
from edgefirst_ros.model.untrusted import readable

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.offline.drives import RecordedDrive
    from edgefirst_ros.sources.location import Location
    from edgefirst_ros.sources.recording import Excerpt, Recording


class CodecChoice(StrEnum):
    """Video codec of a simulated camera."""

    H264 = "h264"
    H265 = "h265"


def info(
    recordings: Recordings,
    *,
    config_file: ConfigFile = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", help="Topic prefix of the device to describe; needed if there are several."
        ),
    ] = None,
    start: Start = None,
    end: End = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Read all of a recording given by a URL, not only its summary.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per recording.")] = False,
) -> None:
    """Show what is in a recording: topics, types, counts, rates, gaps, clocks, damage.

    Of an output of many drives it shows how far their conversion is instead: done, running, failed and left.
    Only notes in the output are read, so this works from any machine, even while [bold]convert[/] runs.

    Nothing is converted or written. The uses of topics and the findings about clocks are those that
    [bold]convert[/] acts on. A gap is a pause of more than three usual intervals; a bad message is one that
    cannot be decoded. A note names the files that [bold]convert[/] takes as parts of one drive.

    With [bold]--config[/] it also says, for every drive, what each topic would be used as in a conversion
    with that configuration, and how many samples there would be (in JSON as conversion, with the drive's last
    file).

    Of a URL only the summary and the first seconds are read, so sizes, gaps and damage remain unknown;
    [bold]--whole[/] reads all of it.

    Exit codes: 0 read; 1 a drive of an output failed; 2 no recording.

    [bold]Examples[/]

      edgefirst-ros info drive.mcap

      edgefirst-ros info s3://bucket/sets/

      edgefirst-ros info monday/ --json

      edgefirst-ros info drive.mcap --config raivin.yaml

      edgefirst-ros info s3://bucket/drives/drive.mcap
    """
    err = make_console(stderr=True)
    with guarded(err, as_json=as_json):
        if len(recordings) == 1 and _is_output(recordings[0]):
            from edgefirst_ros.cli.fleet import print_status

            raise typer.Exit(print_status(recordings[0], as_json=as_json))
        with importing():
            from edgefirst_ros.offline.drives import find_drives, find_files
            from edgefirst_ros.sources.recording import excerpt_of

        notes: list[str] = []
        config = make_config(config_file, {"prefix": prefix}, notes=notes)
        for note in () if as_json else notes:
            print_line(err, f"note: {escape(note)}")
        excerpt = excerpt_of(start, end)
        found_files = find_files(recordings)
        opened, unusable = _opened(file.path for file in found_files.files)
        for drive in find_drives(opened):
            for found in _described(drive, config, excerpt, whole=whole, counts=config_file is not None):
                _print_found(found, as_json=as_json)
            for note in () if as_json else drive.notes:
                say(note)
        if found_files.note and not as_json:
            say(found_files.note)
        if unusable:
            raise unusable[0]


def _opened(paths: Iterable[Location]) -> tuple[list[Recording], list[RecordingError]]:
    """The recordings that can be read, and why others cannot."""
    from edgefirst_ros.sources.recording import open_recording

    opened: list[Recording] = []
    unusable: list[RecordingError] = []
    for path in paths:
        try:
            opened.append(open_recording(path))
        except RecordingError as error:
            unusable.append(error)
    return opened, unusable


def _described(
    drive: RecordedDrive, config: Config, excerpt: Excerpt | None, *, whole: bool, counts: bool
) -> Iterator[dict[str, Any]]:
    """What is in each file of a drive, with the last one what a conversion would make if that counts."""
    from edgefirst_ros.sources.info import glance, inspect
    from edgefirst_ros.sources.location import Url

    files = [readable(part.path.name) for part in drive.parts]
    for part in drive.parts:
        is_brief = isinstance(part.path, Url) and not whole and excerpt is None
        said = (glance(part, config) if is_brief else None) or inspect(part, config, excerpt)
        found = {**said, "drive": files}
        if counts and part is drive.parts[-1] and not is_brief:
            found["conversion"] = _conversion(drive, config, excerpt)
        yield found


_NOTES = ("_plan.json", "_done", "_failed")
"""What many drives that are converted leave in their output."""


def _is_output(given: str) -> bool:
    """Whether something is an output of many drives, and no recording."""
    if "://" not in given:
        return any((Path(given) / name).exists() for name in _NOTES)
    from edgefirst_ros.fleet.output import open_output
    from edgefirst_ros.fleet.plan import fleet_status
    from edgefirst_ros.offline.drives import is_recording

    return not is_recording(given) and any(fleet_status(open_output(given)).values())


def _conversion(drive: RecordedDrive, config: Config, excerpt: Excerpt | None) -> dict[str, Any]:
    """What a conversion of a drive would make."""
    from edgefirst_ros.offline.forecast import forecast

    return forecast([part.path for part in drive.parts], config, excerpt=excerpt)


def _print_found(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    out = make_console(stderr=False)
    print_info(out, found)
    if "conversion" in found:
        from edgefirst_ros.cli.terminal import print_forecast

        print_forecast(out, found["conversion"])


def simulate(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder for the recording and its ground truth."
        ),
    ],
    rig: Annotated[
        Path | None,
        typer.Option(
            "--rig",
            metavar="FILE|robot",
            help="Other sensors: a YAML file, or a robot with six cameras.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="Length of the drive.")] = 10.0,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the random numbers; equal options give equal bytes.")
    ] = 0,
    fps: Annotated[int, typer.Option(metavar="N", help="Camera frames per second.")] = 30,
    size: Annotated[str, typer.Option(metavar="WxH", help="Camera picture size.")] = "1280x720",
    codec: Annotated[CodecChoice, typer.Option(metavar="h264|h265", help="Video codec.")] = CodecChoice.H264,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set another option of the drive (docs/simulator.md); repeatable.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing drive.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the recording's path.")] = False,
) -> None:
    """Make a Maivin recording of a simulated drive with known ground truth.

    Camera, radar, lidar, IMU, GPS, calibration and model boxes are computed from one world, with the device's
    clocks and latencies. NAME.truth.json beside the recording says where everything was.

    [bold]Examples[/]

      edgefirst-ros simulate -o recording --seconds 30 --seed 1

      edgefirst-ros simulate -o recording --rig robot

      edgefirst-ros simulate -o recording --set stops='[[8,20]]'
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--overwrite replaces it"):
        from rich.progress import Progress

        with extra():
            from edgefirst_ros.simulation import simulate as run_simulation
            from edgefirst_ros.simulation.options import drive_options

        width, height = _size(size)
        given: dict[str, Any] = {"seconds": seconds, "seed": seed, "fps": fps}
        given |= {"codec": codec.value, "width": width, "height": height}
        options = drive_options(given | _rig(rig) | _values(more or ()))
        bar = Progress(console=err, transient=True, disable=quiet or not err.is_terminal)
        with bar:
            task = bar.add_task("simulating", total=1.0)
            made = run_simulation(
                output, options, lambda share: bar.update(task, completed=share), overwrite=overwrite
            )
        for path in made.files:
            say(f"{path}")
        if not quiet:
            say(f"{made.truth}")


def _rig(given: Path | None) -> dict[str, Any]:
    """Options of a drive with the rig of a file, or with one that has a name."""
    if given is None:
        return {}
    import yaml

    from edgefirst_ros.config.yamltext import parse_yaml, read_named
    from edgefirst_ros.simulation.options import RIGS, rig_options

    try:
        return rig_options(parse_yaml(read_named(RIGS.get(f"{given}", given))), f"--rig {given}")
    except yaml.YAMLError as error:
        raise ConfigError([f"--rig {given}: not valid YAML"]) from error


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise ConfigError([f"--size {text}: expected WIDTHxHEIGHT, e.g. 1280x720"])
    return int(width), int(height)


def _values(settings: Iterable[str]) -> dict[str, Any]:
    """Settings ``a.b=value``, with values in YAML, as nested mappings."""
    import yaml

    from edgefirst_ros.config.yamltext import parse_yaml

    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        *parents, last = name.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError([f"--set {setting}: {parent} already has a value"])
        if not equals or not last:
            raise ConfigError([f"--set {setting}: expected NAME=VALUE, e.g. boxes3d=true"])
        try:
            place[last] = parse_yaml(text)
        except yaml.YAMLError as error:
            raise ConfigError([f"--set {setting}: {text!r} is not valid YAML"]) from error
    return values
