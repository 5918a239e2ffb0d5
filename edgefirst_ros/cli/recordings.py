"""edgefirst-ros simulate and play: make a recording with known ground truth, and publish recordings."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.options import opt
from edgefirst_ros.cli.progress import Progress, print_json
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    End,
    Start,
    guarded,
    interruptible,
    print_error,
)
from edgefirst_ros.cli.terminal import make_console, print_line, say
from edgefirst_ros.model.errors import ConfigError, RecordingNotFound, TransportError, extra

if TYPE_CHECKING:
    from edgefirst_ros.offline.drives import RecordedDrive
    from edgefirst_ros.sources.recording import Excerpt


def simulate(
    *,
    output: Annotated[Path, opt("--output -o FOLDER", "Folder for the recording and its truth.")],
    rig: Annotated[
        Path | None, opt("--rig FILE|robot", "Other sensors: a YAML file, or a robot with six cameras.")
    ] = None,
    seconds: Annotated[float, opt("--seconds SECONDS", "Length of the drive.")] = 10.0,
    seed: Annotated[int, opt("--seed N", "Equal seeds and options give equal bytes.")] = 0,
    fps: Annotated[int, opt("--fps N", "Camera pictures per second.")] = 30,
    size: Annotated[str, opt("--size WxH", "Camera picture size.")] = "1280x720",
    more: Annotated[
        list[str] | None,
        opt("--set NAME=VALUE", "Another option, such as codec=h265 or boxes3d=true; repeatable."),
    ] = None,
    overwrite: Annotated[bool, opt("--overwrite", "Replace an existing drive.")] = False,
    quiet: Annotated[bool, opt("--quiet -q", "Print only the recording's path.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make the recording of a simulated drive with known ground truth.

    It has camera, radar, lidar, IMU, GPS, calibration and boxes of a model, with the clocks and latencies of
    a Maivin. NAME.truth.json beside it says where everything was. docs/simulator.md has all options.

    [bold]Examples[/]

      edgefirst-ros simulate -o recording --seconds 30

      edgefirst-ros simulate -o recording --rig robot --size 640x360
    """
    err = make_console(stderr=True)
    with guarded(err, instead="use --overwrite, or another -o", as_json=as_json):
        with extra():
            from edgefirst_ros.simulation import simulate as run_simulation
            from edgefirst_ros.simulation.options import drive_options

        width, by, height = size.partition("x")
        if not (by and width.isdecimal() and height.isdecimal()):
            raise ConfigError([f"--size {size}: expected WIDTHxHEIGHT, e.g. 1280x720"])
        given = {"seconds": seconds, "seed": seed, "fps": fps, "width": int(width), "height": int(height)}
        chosen = drive_options(given | _rig(rig) | _values(more or ()))
        with Progress(err, "simulating", quiet=quiet or as_json) as view:
            made = run_simulation(output, chosen, view, overwrite=overwrite)
        if as_json:
            print_json({"files": [f"{path}" for path in made.files], "truth": f"{made.truth}"})
        for path in () if as_json else (*made.files, *(() if quiet else (made.truth,))):
            say(f"{path}")


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


ENDPOINT = "tcp/127.0.0.1:7447"
"""Where a recording is played unless told otherwise; no other machine gets there."""
WAIT_S = 60.0


class NamesChoice(StrEnum):
    """Generation of the device's topic names."""

    RT = "rt"
    BARE = "bare"
    HOST = "host"


def play(
    recording: Annotated[str, opt("RECORDING", "A recording, a folder with one, or a URL of either.")],
    *,
    connect: options.Connect = None,
    listen: options.Listen = None,
    zenoh_config: options.ZenohConfig = None,
    start: Start = None,
    end: End = None,
    speed: Annotated[float, opt("--speed FACTOR", "1 is the recording's own, 2 twice as fast.")] = 1.0,
    names: Annotated[
        NamesChoice, opt("--names rt|bare|host", "Topics as rt/camera/h264, camera/h264 or HOST/camera/h264.")
    ] = NamesChoice.RT,
    prefix: options.Prefix = None,
    wait: Annotated[
        float, opt("--wait SECONDS", "Give up without a subscriber after this; 0: do not wait.", min=0)
    ] = WAIT_S,
    as_json: options.AsJson = False,
) -> None:
    """Publish a recording over Zenoh as the device would.

    Topic names, encodings and pace are the device's. Without an endpoint it listens for programs on this
    machine.

    Exit codes: 0 played to the end; 1 played, but nobody listened; 2 wrong usage or input, no connection
    possible, or nobody subscribed within --wait; 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros play drive.mcap

      edgefirst-ros play rosbag2_folder --zenoh-listen tcp/0.0.0.0:7447 --speed 2
    """
    err, stop = make_console(stderr=True), threading.Event()
    with guarded(err, as_json=as_json):
        from edgefirst_ros.sources.player import Names, Player, keys_of
        from edgefirst_ros.sources.recording import excerpt_of
        from edgefirst_ros.sources.zenohlink import linked

        if speed <= 0:
            raise ConfigError([f"--speed {speed:g}: expected more than 0"])
        drive = _one(recording, excerpt_of(start, end))
        keys = keys_of(drive.topics(), Names(names.value), drive.parts[0].host, prefix)
        if not (connect or listen or zenoh_config):
            listen = [ENDPOINT]
        opening = linked(connect or [], listen or [], zenoh_config)
        with interruptible(stop, err, "stopping"), opening as link:
            player = Player(link, keys)
            if not as_json and wait:
                here = (
                    f", such as edgefirst-ros capture --zenoh {listen[0].partition('#')[0]}" if listen else ""
                )
                print_line(err, f"waiting up to {wait:g} s for a subscriber{escape(here)}")
            if wait and not player.wait_for_subscriber(wait, stop) and not stop.is_set():
                raise TransportError(f"nobody subscribed within {wait:g} s (--wait sets how long to wait)")
            played = player.play(drive.messages(), speed, stop)
        for note in () if as_json else drive.notes:
            print_line(err, f"note: {escape(note)}")
        if as_json:
            counts = {"messages": played.messages, "skipped": played.skipped}
            print_json({**counts, "complete": played.complete, "heard": played.heard})
        else:
            damaged = f", {played.skipped:,} in damaged chunks left out" if played.skipped else ""
            print_line(err, f"{played.messages:,} messages played{damaged}")
        if played.complete and not played.heard:
            print_error(err, "nobody listened: no topic had a subscriber")
            print_line(err, "hint: start the subscriber first")
    if not played.complete:
        raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(0 if played.heard else EXIT_POOR)


def _one(place: str, excerpt: Excerpt | None) -> RecordedDrive:
    """The only drive at a path or URL, in however many files.

    Raises:
        RecordingNotFound: there is none, or a folder holds several.
        RecordingError: it cannot be read, or has nothing of the excerpt.
    """
    from edgefirst_ros.offline.drives import find_drives, find_files
    from edgefirst_ros.offline.inputs import nothing_between
    from edgefirst_ros.sources.recording import open_recording

    drive, *others = find_drives([open_recording(file.path) for file in find_files([place]).files])
    if others:
        raise RecordingNotFound(
            f"{place} holds {1 + len(others)} recordings; name the one to play: {drive.path}, ..."
        )
    if excerpt is not None and not drive.restrict(excerpt):
        raise nothing_between(drive)
    return drive
