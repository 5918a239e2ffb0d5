"""edgefirst-ros view: recordings and datasets in the Rerun viewer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgefirst_ros.cli import options
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    ConfigFile,
    End,
    Start,
    guarded,
    interruptible,
    make_config,
)
from edgefirst_ros.cli.terminal import ProgressView, make_console, print_line, progress_bar, say
from edgefirst_ros.errors import ConfigError, extra

if TYPE_CHECKING:
    from rich.console import Console

    from edgefirst_ros.config.model import Config
    from edgefirst_ros.sources.window import Excerpt
    from edgefirst_ros.view.rerun.canvas import Canvas
    from edgefirst_ros.view.rerun.datasets import Part

PICTURES_HZ = 10.0
"""Pictures of a recording, unless others are selected: as many as lidars and radars have sweeps."""
WEB_MEMORY = "2GB"


def view(
    path: Annotated[
        str,
        typer.Argument(
            metavar="DATASET|RECORDING",
            help="A dataset or a folder above it; or a recording (MCAP, rosbag2, ROS 1), folder or URL of some.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.rrd", help="Save for Rerun instead of opening it."),
    ] = None,
    web: Annotated[
        bool, typer.Option("--web", help="Show it in a browser on this machine, until Ctrl-C.")
    ] = False,
    start: Start = None,
    end: End = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="HZ", help="Maximum pictures, or samples, per second; default: 10 of recordings."),
    ] = None,
    every_n: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Show one of every N pictures, or samples.")
    ] = None,
    keyframes: options.Keyframes = False,
    config_file: ConfigFile = None,
    prefix: Annotated[
        str | None, typer.Option(help="Topic prefix of the device to show; needed if there are several.")
    ] = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
) -> None:
    """Look at a recording or a dataset in Rerun: pictures, boxes, masks, clouds, cube, map, IMU.

    Lidar is coloured by range (red is near), radar by speed (blue comes nearer, red goes away). The 3-D view
    moves with the rig; sensors are where the recording's transforms have them.

    A recording is decoded and dated as by [bold]convert[/], without writing a dataset. Of a dataset, places of
    sensors and the camera's intrinsics come from capture_report.json; --config, --prefix and --keyframes are
    for recordings.

    Rerun comes with [bold]pip install 'edgefirst_ros[view]'[/]. Its map asks openstreetmap.org for tiles of the
    place, as far as there is a network.

    Ctrl-C ends with what has been read.

    Exit codes: 0 done; 1 nothing to show; 2 nothing there, or wrong usage; 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros view drive.mcap

      edgefirst-ros view out/edgefirst/monday

      edgefirst-ros view drive.mcap --start 60 --end 90 -o drive.rrd
    """
    err = make_console(stderr=True)
    stop = threading.Event()
    with guarded(err):
        from edgefirst_ros.sources.window import excerpt_of
        from edgefirst_ros.view.rerun import source

        if output is not None and web:
            raise ConfigError(["--output and --web exclude one another: give one of them"])
        excerpt = excerpt_of(start, end)
        parts = source.datasets_of(path)
        with extra("view"), interruptible(stop, err, "finishing with what has been read"):
            with _canvas(source.name_of(path), output, web, stop, err) as canvas:
                if parts:
                    pass
                else:
                    pass
