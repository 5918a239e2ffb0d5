"""edgefirst-ros play: a recording published over Zenoh."""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from edgefirst_ros.cli.options import Connect, Listen, ZenohConfig
from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, End, Start, guarded, interruptible
from edgefirst_ros.cli.terminal import clock, make_console, print_line
from edgefirst_ros.errors import RecordingNotFound, TransportError

if TYPE_CHECKING:
    from rich.console import Console

    from edgefirst_ros.sources.location import Location
    from edgefirst_ros.sources.player import Player, PlayProgress
    from edgefirst_ros.sources.recording import Recording


class NamesChoice(StrEnum):
    """Generation of the device's topic names."""

    RT = "rt"
    BARE = "bare"
    HOST = "host"


def play(
    recording: Annotated[
        str, typer.Argument(metavar="RECORDING", help="A recording, a folder with one, or a URL of either.")
    ],
    *,
    connect: Connect = None,
    listen: Listen = None,
    zenoh_config: ZenohConfig = None,
    start: Start = None,
    end: End = None,
    rate: Annotated[float, typer.Option(help="Speed: 1 is the recording's own, 2 twice that.")] = 1.0,
    names: Annotated[
        NamesChoice,
        typer.Option(help="Form of topic names: rt/camera/h264, camera/h264 or HOST/camera/h264."),
    ] = NamesChoice.RT,
    namespace: Annotated[
        str,
        typer.Option(metavar="HOST", help="HOST in topic names (implies --names host); default: recorded."),
    ] = "",
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", help="Topic prefix of the device to play; needed if there are several."
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Wait this long for a subscriber, then give up."),
    ] = 0.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> None:
    """Publish a recording over Zenoh as the device would: same topic names, encodings and pace.

    Useful for tests, demonstrations and development without a device.

    Exit codes: 0 played to the end; 130 interrupted; 2 wrong usage or input, no connection possible, or
    nobody subscribed within --wait.

    [bold]Example[/]

      edgefirst-ros play drive.mcap --zenoh-listen tcp/127.0.0.1:7447 --wait 60
    """
    err = make_console(stderr=True)
    with guarded(err):
        from edgefirst_ros.sources.kinds import open_recording
        from edgefirst_ros.sources.player import Names, Player, keys_of
        from edgefirst_ros.sources.window import excerpt_of
        from edgefirst_ros.sources.zenohlink import open_session

        if rate <= 0:
            raise typer.BadParameter("must be more than 0", param_hint="--rate")
        excerpt = excerpt_of(start, end)
        source = open_recording(_one(recording))
        generation = Names.HOST if namespace else Names(names.value)
        keys = keys_of(source.topics(), generation, namespace.strip("/") or source.host, prefix)
        stop = threading.Event()
        opening = open_session(connect or [], listen or [], zenoh_config)
        with interruptible(stop, err, "stopping"), opening as link:
            player = Player(link, source, keys, excerpt)
            if wait and not player.wait_for_subscriber(wait, stop) and not stop.is_set():
                raise TransportError(f"nobody subscribed within {wait:g} s")
            played = _play(player, rate, stop, err, source, quiet=quiet)
        if not quiet:
            print_line(
                err,
                f"{played.messages:,} messages, {played.bytes / 1e6:,.1f} MB, "
                f"{clock(played.recorded_s)} of recording played, {played.behind_s:.2f} s late at the end"
                + (f"; {played.skipped:,} messages in damaged chunks left out" if played.skipped else ""),
            )
    raise typer.Exit(EXIT_INTERRUPTED if stop.is_set() else 0)


def _one(place: str) -> Location:
    """The only recording at a path or URL.

    Raises:
        RecordingNotFound: there is none, or a folder holds several.
    """
    from edgefirst_ros.offline.files import find_files

    found, *others = find_files([place]).files
    if others:
        raise RecordingNotFound(
            f"{place} holds {1 + len(others)} recordings; name the one to play: {found.path}, ..."
        )
    return found.path


def _play(
    player: Player, rate: float, stop: threading.Event, err: Console, source: Recording, *, quiet: bool
) -> PlayProgress:
    from rich.progress import Progress

    bar = Progress(console=err, transient=True, disable=quiet or not err.is_terminal)
    with bar:
        task = bar.add_task("playing", total=source.size)

        def show(played: PlayProgress) -> None:
            late = f", {played.behind_s:.1f} s late" if played.behind_s >= 0.1 else ""
            shown = f"{clock(played.recorded_s)} of recording{late}"
            bar.update(task, completed=played.position, description=shown)

        return player.play(rate, stop, show)
