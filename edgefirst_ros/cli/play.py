"""edgefirst-ros play: a recording published over Zenoh."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from edgefirst_ros.cli.options import Connect, Listen
from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, guarded, interruptible
from edgefirst_ros.cli.terminal import clock, make_console
from edgefirst_ros.errors import RecordingNotFound, TransportError
from edgefirst_ros.offline.inputs import find_recordings
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.player import Names, Played, Player, keys_of
from edgefirst_ros.sources.zenohlink import open_session


def play(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="MCAP file, or a folder with one.")],
    *,
    connect: Connect = None,
    listen: Listen = None,
    rate: Annotated[float, typer.Option(help="Pace: 1 as recorded, 2 twice as fast.")] = 1.0,
    names: Annotated[
        Names, typer.Option(help="Generation of names: rt/camera/h264, camera/h264, HOST/camera/h264.")
    ] = Names.RT,
    namespace: Annotated[
        str, typer.Option(metavar="HOST", help="HOST in names; default: the recording's. Implies host names.")
    ] = "",
    prefix: Annotated[str | None, typer.Option(help="Topic prefix, when several devices are in it.")] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Wait so long for a subscriber, else give up.")
    ] = 0.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors only.")] = False,
) -> None:
    """Publish a recording over Zenoh as the device does: same names, encodings and pace.

    A source for tests, demonstrations and work at a desk. Exit 0: played to its end; 130: interrupted;
    2: wrong usage or input, no connection possible, or nobody subscribed within --wait.

    [bold]Example[/]

      edgefirst-ros play drive.mcap --zenoh-listen tcp/127.0.0.1:7447 --wait 60
    """
    err = make_console(stderr=True)
    with guarded(err):
        if rate <= 0:
            raise typer.BadParameter("must be more than 0", param_hint="--rate")
        source = McapRecording(_one(recording))
        generation = Names.HOST if namespace else names
        keys = keys_of(source.topics(), generation, namespace.strip("/") or source.host, prefix)
        stop = threading.Event()
        with interruptible(stop, err, "stopping"), open_session(connect or [], listen or []) as link:
            player = Player(link, source, keys)
            if wait and not player.wait_for_subscriber(wait, stop) and not stop.is_set():
                raise TransportError(f"nobody subscribed within {wait:g} s")
            played = _play(player, rate, stop, err, source, quiet=quiet)
        if not quiet:
            err.print(
                f"{played.messages:,} messages, {played.bytes / 1e6:,.1f} MB, "
                f"{clock(played.recorded_s)} of drive played, at the end {played.behind_s:.2f} s late"
                + (f"; {played.skipped:,} of damaged chunks left out" if played.skipped else ""),
                highlight=False,
                soft_wrap=True,
            )
    raise typer.Exit(EXIT_INTERRUPTED if stop.is_set() else 0)


def _one(path: Path) -> Path:
    """The one recording that is meant.

    Raises:
        RecordingNotFound: there is none, or a folder has several.
    """
    found, *others = find_recordings([path])
    if others:
        raise RecordingNotFound(
            f"{path} holds {1 + len(others)} recordings; name the one to play: {found}, ..."
        )
    return found


def _play(
    player: Player, rate: float, stop: threading.Event, err: Console, source: McapRecording, *, quiet: bool
) -> Played:
    bar = Progress(console=err, transient=True, disable=quiet or not err.is_terminal)
    with bar:
        task = bar.add_task("playing", total=source.size)

        def show(played: Played) -> None:
            late = f", {played.behind_s:.1f} s late" if played.behind_s >= 0.1 else ""
            shown = f"{clock(played.recorded_s)} of drive{late}"
            bar.update(task, completed=played.position, description=shown)

        return player.play(rate, stop, show)
