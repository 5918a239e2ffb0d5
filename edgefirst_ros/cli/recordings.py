"""edgefirst-ros simulate, play and suggest: make recordings, publish them, and a configuration for them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgefirst_ros.cli import importing, options
from edgefirst_ros.cli.options import opt
from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, Out
from edgefirst_ros.model.errors import ConfigError, RecordingError, RecordingNotFound, TransportError, extra

if TYPE_CHECKING:
    from edgefirst_ros.offline.drives import RecordedDrive
    from edgefirst_ros.sources.recording import Excerpt


def simulate(
    *,
    output: Annotated[Path, opt("--output -o FOLDER", "Folder for the recording and its truth.")],
    rig: Annotated[Path | None, opt("--rig FILE|robot", "Sensors of a YAML file, or of a robot.")] = None,
    seconds: Annotated[float, opt("--seconds SECONDS", "Length of the drive.")] = 10.0,
    seed: Annotated[int, opt("--seed N", "Equal seeds and options give equal bytes.")] = 0,
    fps: Annotated[int, opt("--fps N", "Camera pictures per second.")] = 30,
    size: Annotated[str, opt("--size WxH", "Camera picture size.")] = "1280x720",
    more: Annotated[list[str] | None, opt("--set NAME=VALUE", "Others, as boxes3d=true; repeatable.")] = None,
    overwrite: options.Overwrite = False,
    quiet: Annotated[bool, opt("--quiet -q", "Print only the recording's path.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make the recording of a simulated drive with known ground truth.

    It has camera, radar, lidar, IMU, GPS, calibration and boxes of a model, with the clocks and latencies of
    a Maivin. NAME.truth.json beside it says where everything was. docs/simulator.md has all options.

    For example

      edgefirst-ros simulate -o recording --seconds 30

      edgefirst-ros simulate -o recording --rig robot --size 640x360
    """
    out = Out(quiet=quiet, as_json=as_json)
    with out.guarded("use --overwrite, or another -o"):
        from edgefirst_ros.config.yamltext import read_yaml

        with extra():
            from edgefirst_ros.simulation import simulate as run_simulation
            from edgefirst_ros.simulation.options import RIGS, drive_options, rig_options

        width, by, height = size.partition("x")
        if not (by and width.isdecimal() and height.isdecimal()):
            raise ConfigError([f"--size {size}: expected WIDTHxHEIGHT, e.g. 1280x720"])
        given = {"seconds": seconds, "seed": seed, "fps": fps, "width": int(width), "height": int(height)}
        more_sensors = {} if rig is None else rig_options(read_yaml(RIGS.get(f"{rig}", rig)), f"--rig {rig}")
        chosen = drive_options(given | more_sensors | _settings(more or ()))
        with out.progress("simulating") as view:
            made = run_simulation(output, chosen, view, overwrite=overwrite)
        lines = (*made.files, *(() if quiet else (made.truth,)))
        files = {"files": [f"{path}" for path in made.files], "truth": f"{made.truth}"}
        out.result(files, *(f"{path}" for path in lines))


def _settings(given: Iterable[str]) -> dict[str, Any]:
    """Settings ``name=value``, with values in YAML."""
    from edgefirst_ros.config.yamltext import yaml_mapping

    values: dict[str, Any] = {}
    for setting in given:
        name, equals, text = setting.partition("=")
        if not (name and equals):
            raise ConfigError([f"--set {setting}: expected NAME=VALUE, e.g. boxes3d=true"])
        values[name] = yaml_mapping(f"--set {setting}", f"value: {text}")["value"]
    return values


ENDPOINT = "tcp/127.0.0.1:7447"
"""Where a recording is played unless told otherwise; no other machine gets there."""
WAIT_S, LISTEN_S = 60.0, 5.0


def play(
    recording: Annotated[str, opt("RECORDING", "A recording, a folder with one, or a URL of either.")],
    *,
    connect: options.Connect = None,
    listen: options.Listen = None,
    zenoh_config: options.ZenohConfig = None,
    start: options.Start = None,
    end: options.End = None,
    speed: Annotated[float, opt("--speed FACTOR", "1 is the recording's own, 2 twice as fast.")] = 1.0,
    names: Annotated[str, opt("--names rt|bare|host", "Topics as rt/imu, imu or HOST/imu.")] = "rt",
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

    For example

      edgefirst-ros play drive.mcap

      edgefirst-ros play rosbag2_folder --zenoh-listen tcp/0.0.0.0:7447 --speed 2
    """
    out, stop = Out(as_json=as_json), threading.Event()
    with out.guarded():
        from edgefirst_ros.sources.player import Names, Player, keys_of
        from edgefirst_ros.sources.recording import excerpt_of
        from edgefirst_ros.sources.zenohlink import alone, connections, linked

        if speed <= 0:
            raise ConfigError([f"--speed {speed:g}: expected more than 0"])
        drive = _drive(recording, excerpt_of(start, end))
        keys = keys_of(drive.topics(), Names(names), drive.parts[0].host, prefix)
        if not keys:
            raise RecordingError(f"{recording}: holds no topic")
        here = ""
        if not (connect or listen or zenoh_config):
            listen, here = [ENDPOINT], f", such as edgefirst-ros capture --zenoh {ENDPOINT}"
        opening = linked(connect or [], listen or [], zenoh_config)
        with out.interruptible(stop, "stopping"), opening as link:
            player = Player(link, keys)
            if wait:
                out.note(f"waiting up to {wait:g} s for a subscriber{here}", label="")
            if wait and not player.wait_for_subscriber(wait, stop) and not stop.is_set():
                what = "nobody subscribed" if connections(link) else alone(connect, listen)
                raise TransportError(f"{what} within {wait:g} s (--wait sets how long to wait)")
            played = player.play(drive.messages(), speed, stop)
        out.note(*drive.notes)
        damaged = f", {played.skipped:,} in damaged chunks left out" if played.skipped else ""
        out.note(f"{played.messages:,} messages played{damaged}", label="")
        out.result({name: getattr(played, name) for name in ("messages", "skipped", "complete", "heard")})
        if played.complete and not played.heard:
            out.tell("error", "nobody listened: no topic had a subscriber")
            out.tell("hint", "start the subscriber first")
    raise typer.Exit(EXIT_INTERRUPTED if not played.complete else 0 if played.heard else EXIT_POOR)


def _drive(place: str, excerpt: Excerpt | None) -> RecordedDrive:
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
        count = 1 + len(others)
        raise RecordingNotFound(f"{place} holds {count} recordings; name the one to play: {drive.path}, ...")
    if excerpt is not None and not drive.restrict(excerpt):
        raise nothing_between(drive)
    return drive


def suggest(
    recordings: Annotated[
        list[str] | None, opt("RECORDING...", "Recordings of one robot, folders of them, or URLs.")
    ] = None,
    *,
    connect: options.Connect = None,
    listen: options.Listen = None,
    zenoh_config: options.ZenohConfig = None,
    ros: Annotated[bool, opt("--ros", "Print a parameter file of ROS 2.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Print a configuration for a robot, made from its recordings or from what is on the network.

    Comments say what was found, and why a topic is left out. It listens over Zenoh for five seconds.

    Exit codes: 0 printed; 2 nothing that samples could begin with, or no recording.

    For example

      edgefirst-ros suggest drive.mcap > robot.yaml

      edgefirst-ros convert drive.mcap --config robot.yaml

      edgefirst-ros suggest --zenoh tcp/192.168.1.5:7447 > robot.yaml
    """
    out = Out(as_json=as_json)
    with out.guarded():
        if bool(recordings) == bool(connect or listen):
            raise ConfigError(["give recordings, or an endpoint with --zenoh or --zenoh-listen"])
        if recordings:
            with importing():
                from edgefirst_ros.offline.inputs import opened
                from edgefirst_ros.sources.suggest import look_at

            look = look_at(opened(recordings))
        else:
            from edgefirst_ros.sources.zenoh import overhear
            from edgefirst_ros.sources.zenohlink import linked

            with linked(connect or [], listen or [], zenoh_config) as link:
                look = overhear(link, LISTEN_S)
        found = look.suggestion(", ".join([*(connect or ()), *(listen or ())]) or " ".join(recordings or ()))
        text = found.parameters if ros else found.text
        out.result({"configuration": found.values, "left_out": found.left_out}, text.removesuffix("\n"))
