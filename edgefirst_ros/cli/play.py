"""edgefirst-ros play: a recording published over Zenoh."""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from edgefirst_ros.cli.options import Connect, Listen, ZenohConfig
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    End,
    Start,
    guarded,
    interruptible,
    print_error,
)
from edgefirst_ros.cli.terminal import make_console, print_line
from edgefirst_ros.model.errors import ConfigError, RecordingNotFound, TransportError

if TYPE_CHECKING:
    from edgefirst_ros.offline.drives import RecordedDrive
    from edgefirst_ros.sources.recording import Excerpt

ENDPOINT = "tcp/127.0.0.1:7447"
"""Where a recording is played unless told otherwise; no other machine gets there."""
WAIT_S = 60.0


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
    speed: Annotated[
        float,
        typer.Option("--speed", metavar="FACTOR", help="1 is the recording's own, 2 twice as fast."),
    ] = 1.0,
    names: Annotated[
        NamesChoice,
        typer.Option(
            metavar="rt|bare|host",
            help="Form of topic names: rt/camera/h264, camera/h264 or HOST/camera/h264.",
        ),
    ] = NamesChoice.RT,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", help="Topic prefix of the device to play; needed if there are several."
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Wait this long for a subscriber, then give up; 0: do not wait."
        ),
    ] = WAIT_S,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> None:
    """Publish a recording over Zenoh as the device would: same topic names, encodings and pace.

    Useful for tests, demonstrations and development without a device. Without an endpoint it listens on
    tcp/127.0.0.1:7447, for programs on this machine. Files into which one drive was split are played one
    after another. Stamps keep the recording's pace: for a dataset play at --speed 1, or convert it.

    Exit codes: 0 played to the end; 1 played, but nobody listened; 2 wrong usage or input, no connection
    possible, or nobody subscribed within --wait; 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros play drive.mcap

      edgefirst-ros play rosbag2_folder --zenoh-listen tcp/0.0.0.0:7447 --speed 2
    """
    err = make_console(stderr=True)
    with guarded(err):
        from edgefirst_ros.sources.player import Names, Player, keys_of
        from edgefirst_ros.sources.recording import excerpt_of
        from edgefirst_ros.sources.zenohlink import linked

        if speed <= 0:
            raise ConfigError([f"--speed {speed:g}: expected more than 0"])
        drive = _one(recording, excerpt_of(start, end))
        keys = keys_of(drive.topics(), Names(names.value), drive.parts[0].host, prefix)
        if not (connect or listen or zenoh_config):
            listen = [ENDPOINT]
        stop = threading.Event()
        opening = linked(connect or [], listen or [], zenoh_config)
        with interruptible(stop, err, "stopping"), opening as link:
            player = Player(link, keys)
            if not quiet and wait:
                here = f" --zenoh {listen[0].partition('#')[0]}" if listen else ""
                how = f", such as edgefirst-ros capture{escape(here)} -o OUT" if here else ""
                print_line(err, f"waiting up to {wait:g} s for a subscriber{how}")
            if wait and not player.wait_for_subscriber(wait, stop) and not stop.is_set():
                raise TransportError(f"nobody subscribed within {wait:g} s; --wait sets how long to wait")
            played = player.play(drive.messages(), speed, stop)
        for note in () if quiet else drive.notes:
            print_line(err, f"note: {escape(note)}")
        if not quiet:
            damaged = f"; {played.skipped:,} in damaged chunks left out" if played.skipped else ""
            print_line(err, f"{played.messages:,} messages played{damaged}")
        if played.complete and not played.heard:
            print_error(
                err,
                "nobody listened: no topic had a subscriber; start it first, or have play wait with --wait",
            )
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
