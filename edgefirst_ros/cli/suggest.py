"""edgefirst-ros suggest: a configuration from what is in recordings, or on the network."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from edgefirst_ros.cli import importing
from edgefirst_ros.cli.options import AsJson, Connect, Listen, ZenohConfig
from edgefirst_ros.cli.progress import print_json
from edgefirst_ros.cli.shared import guarded
from edgefirst_ros.cli.terminal import make_console
from edgefirst_ros.model.errors import ConfigError


def suggest(
    recordings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECORDING...]", help="Recordings of one robot, folders of them, or URLs."),
    ] = None,
    *,
    connect: Connect = None,
    listen: Listen = None,
    zenoh_config: ZenohConfig = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", min=0.5, help="How long to listen over Zenoh.")
    ] = 5.0,
    as_json: AsJson = False,
    ros: Annotated[bool, typer.Option("--ros", help="Print a parameter file of ROS 2.")] = False,
) -> None:
    """Print a configuration for a robot, made from its recordings or from what is on the network.

    Comments say what was found, and why a topic is left out.

    Exit codes: 0 printed; 2 nothing that samples could begin with, or no recording.

    [bold]Examples[/]

      edgefirst-ros suggest drive.mcap > robot.yaml

      edgefirst-ros convert drive.mcap --config robot.yaml

      edgefirst-ros suggest --zenoh tcp/192.168.1.5:7447 > robot.yaml
    """
    err = make_console(stderr=True)
    with guarded(err, as_json=as_json):
        with importing():
            from edgefirst_ros.offline.drives import find_files
            from edgefirst_ros.offline.inputs import open_all
            from edgefirst_ros.sources.recording import Recording
            from edgefirst_ros.sources.suggest import look_at

        if bool(recordings) == bool(connect or listen):
            raise ConfigError(["give recordings, or an endpoint with --zenoh or --zenoh-listen"])
        if recordings:
            opened = open_all({file.path: file for file in find_files(recordings).files})
            for each in opened:
                if not isinstance(each, Recording):
                    raise each
            look, source = (
                look_at(each for each in opened if isinstance(each, Recording)),
                " ".join(recordings),
            )
        else:
            from edgefirst_ros.sources.zenoh import overhear
            from edgefirst_ros.sources.zenohlink import linked

            with linked(connect or [], listen or [], zenoh_config) as link:
                look, source = overhear(link, seconds), ", ".join([*(connect or ()), *(listen or ())])
        found = look.suggestion(source)
        if as_json:
            print_json({"configuration": found.values, "left_out": found.left_out})
        else:
            sys.stdout.write(found.parameters if ros else found.text)
