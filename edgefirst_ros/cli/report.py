"""edgefirst-ros report: a page that shows whether a drive is good, or a picture of a dataset."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.convert import configured
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    ConfigFile,
    fetched,
    guarded,
    interruptible,
    refuse_for_datasets,
    run_of,
)
from edgefirst_ros.cli.terminal import ProgressView, make_console, print_line, say
from edgefirst_ros.model.errors import extra

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.sources.location import Location


def report(
    path: Annotated[
        str,
        typer.Argument(
            metavar="DATASET|RECORDING",
            help="A dataset, its capture_report.json, or a folder above it; or a recording (MCAP, rosbag2, "
            "ROS 1), or a folder of recordings; or a URL of any.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            help="The page; default: beside the report, or RECORDING.html.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE.png", help="A contact sheet of a dataset, no page."),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, max=50, help="Samples of a contact sheet.")
    ] = 6,
    config_file: ConfigFile = None,
    prefix: options.Prefix = None,
    quiet: options.Quiet = False,
) -> None:
    """Make one HTML page that shows whether a drive is good.

    It begins with a verdict. Then it shows, for every topic, when messages came, where they paused and which
    clock their times are taken from; the samples and what they lack, pairing errors, latencies, track, speed,
    pictures with boxes and lidar, and what became of every message. The page works offline, on a phone, in
    light and dark. It shows pictures and the location of the drive: share it with care.

    The page of a dataset is made from its capture_report.json and the dataset itself, at any later time. The
    page of a recording shows what a conversion would find; nothing else is written. --config and --prefix are
    for recordings only.

    --picture draws a dataset's camera with boxes, lidar, radar and cube, one row per sample. Clouds are seen
    from above, with a ring every 10 m. Of what is there it replaces only an earlier contact sheet.

    Exit codes: 0 done; 2 nothing there, or wrong usage; 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros report out/edgefirst/monday

      edgefirst-ros report drive.mcap -o drive.html

      edgefirst-ros report out/edgefirst/monday --picture sheet.png --rows 12
    """
    err = make_console(stderr=True)
    stop = threading.Event()
    interrupted = False
    with guarded(err):
        from edgefirst_ros.sources.location import location_of

        given = location_of(path)
        if picture is not None:
            from edgefirst_ros.report.drawing import contact_sheet, refuse_picture, write_sheet

            refuse_picture(picture)
        place = fetched(given)
        if picture is not None:
            write_sheet(contact_sheet(Path(str(place)), rows), picture)
            say(f"{picture}")
            return
        if run_of(place) is None:
            output = output or _page_of(place)
            notes: list[str] = []
            config, _ = configured([str(place)], config_file, {"prefix": prefix}, notes)
            for note in () if quiet else notes:
                print_line(err, f"note: {escape(note)}")
            with interruptible(stop, err, "finishing with what has been read"):
                interrupted = _of_recording(place, output, config, stop, ProgressView(err, quiet=quiet))
            if interrupted:
                print_line(err, "interrupted: the page shows what had been read")
        else:
            with extra():
                from edgefirst_ros.report.page.make import make_page
            refuse_for_datasets(place, {"--config": config_file, "--prefix": prefix})
            if output is None and given is not place:
                output = Path(f"{given.name}.html")
            output = make_page(Path(str(place)), output)
        say(f"{output}")
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _page_of(place: Location) -> Path:
    """The page of a recording: beside it, or in the current folder if it is remote."""
    from edgefirst_ros.offline.drives import is_recording

    if isinstance(place, Path):
        place = place if place.name not in {"", ".."} else place.resolve()
    name = place.stem if is_recording(place.name) else place.name
    return place.with_name(f"{name}.html") if isinstance(place, Path) else Path(f"{name}.html")


def _of_recording(
    place: Location, output: Path, config: Config, stop: threading.Event, progress: ProgressView
) -> bool:
    """Make the page of a recording; returns whether it was interrupted before its end."""
    from edgefirst_ros.offline.forecast import outline

    with extra():
        from edgefirst_ros.report.page.make import make_recording_page, refuse_output
        from edgefirst_ros.report.page.thumbnails import SceneWriter

    refuse_output(output)
    writer = SceneWriter()
    with progress as view:
        found = outline([place], config, writer, stop=stop, on_progress=view.update)
    make_recording_page(found, writer.scenes, output)
    return bool(found["interrupted"])
