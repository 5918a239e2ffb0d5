"""edgefirst-ros info and report: what is in recordings and datasets, in words, as a page or as a picture."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgefirst_ros.cli import importing, options
from edgefirst_ros.cli.options import opt
from edgefirst_ros.cli.results import print_dataset, print_recording
from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, Out, make_config
from edgefirst_ros.cli.terminal import Progress, make_console
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, RecordingNotFound, extra
from edgefirst_ros.model.untrusted import REPORT

if TYPE_CHECKING:
    from edgefirst_ros.sources.location import Location

_NOTES = ("_plan.json", "_done", "_failed")
"""What many drives that are converted leave in their output."""


def info(
    paths: Annotated[
        list[str] | None,
        opt("[PATH]...", "Recordings, datasets, folders of them, or an output of many drives; or URLs."),
    ] = None,
    *,
    config_file: options.ConfigFile = None,
    whole: Annotated[
        bool, opt("--whole", "Read recordings at URLs whole, not only their summaries.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what is in recordings and datasets, or versions without a PATH.

    Of a recording it shows topics, types, counts, rates, gaps, clocks and damage. With --config it also says
    what a conversion would make of it. Of a dataset it shows samples, groups, sequences and labels. Of an
    output of many drives it shows which are done, running, failed and left, also while they are converted.

    With --json it prints a line for each.

    Exit codes: 0 read; 1 a drive of an output failed; 2 neither a recording nor a dataset.

    For example

      edgefirst-ros info drive.mcap

      edgefirst-ros info out --json
    """
    out, console = Out(as_json=as_json), make_console(stderr=False)
    with out.guarded():
        if not paths:
            _print_versions(out)
            return
        if len(paths) == 1 and (code := _print_status(paths[0], out)) is not None:
            raise typer.Exit(code)
        with importing():
            from edgefirst_ros.offline.opening import infos
        notes: list[str] = []
        config = None if config_file is None else make_config(config_file, {}, notes=notes)
        out.note(*notes)
        for found in infos(paths, config, whole=whole):
            out.result(found)
            if not as_json:
                (print_recording if "file" in found else print_dataset)(console, found)


def _print_versions(out: Out) -> None:
    from platform import platform

    from edgefirst_ros.pipeline.report import versions

    found = {**versions(), "system": platform()}
    out.result({"versions": found}, *(f"{name:15} {version}" for name, version in found.items()))


def _print_status(given: str, out: Out) -> int | None:
    """Print how far the conversion of many drives to an output is; the exit code, None if it is none.

    Raises:
        ConfigError: a URL that cannot be read.
        OSError: the storage does not answer.
    """
    from edgefirst_ros.offline.drives import is_recording

    is_url = "://" in given
    if is_recording(given) if is_url else not any((Path(given) / name).exists() for name in _NOTES):
        return None
    from edgefirst_ros.fleet.output import open_output
    from edgefirst_ros.fleet.plan import fleet_status

    found = fleet_status(open_output(given))
    if is_url and not any(found.values()):
        return None
    failed = (f"failed: {each['drive']}: {each['reason']}" for each in found["failed"])
    out.result(found, ", ".join(f"{len(each):,} {kind}" for kind, each in found.items()), *failed)
    return EXIT_POOR if found["failed"] else 0


def report(
    path: Annotated[
        str, opt("PATH", "A dataset, a folder above it, its capture_report.json, or a recording; or a URL.")
    ],
    *,
    output: Annotated[Path | None, opt("--output -o FILE.html", "The page; default: beside PATH.")] = None,
    picture: Annotated[Path | None, opt("--picture FILE.png", "A contact sheet, not the page.")] = None,
    rows: Annotated[int, opt("--rows N", "Samples of a contact sheet.", min=1, max=50)] = 6,
    config_file: options.ConfigFile = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Make one HTML page that shows whether a drive is good.

    It begins with the verdict and pictures. Then it shows topic by topic when messages came, samples and what
    they lack, times, track, and what became of every message. The page works offline, on a phone, in light
    and dark. It shows the place of the drive: share it with care.

    The page of a recording shows what a conversion would find, with --config by that configuration. Nothing
    else is written.

    --picture draws camera with boxes, lidar, radar and cube, a row for each sample. It prefers samples with
    labels.

    Exit codes: 0 done; 2 nothing there, or wrong usage; 130 interrupted.

    For example

      edgefirst-ros report out

      edgefirst-ros report drive.mcap -o drive.html

      edgefirst-ros report out --picture sheet.png
    """
    out, is_interrupted = Out(quiet=quiet, as_json=as_json), False
    with out.guarded():
        from edgefirst_ros.offline.opening import located, nearby

        given = located(path)
        with out.progress("drawing") as view:
            if picture is not None:
                from edgefirst_ros.report.drawing import contact_sheet, refuse_picture, write_sheet

                refuse_picture(picture)
                write_sheet(contact_sheet(nearby(given), rows, view), picture)
                output = picture
            elif (dataset := _dataset(given)) is not None:
                with extra():
                    from edgefirst_ros.report.page.make import make_page
                if config_file is not None:
                    raise ConfigError([f"--config: only for recordings, but {dataset} is a dataset"])
                there = None if isinstance(given, Path) else Path(f"{given.name}.html")
                output = make_page(dataset, output or there, view)
            else:
                output = output or _page_of(given)
                is_interrupted = _draw_recording(given, output, config_file, view, out)
        if is_interrupted:
            out.note("interrupted, so the page shows what had been read", label="warning")
        out.result({"path": f"{output}", "interrupted": is_interrupted}, f"{output}")
    if is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _dataset(place: Location) -> Path | None:
    """A dataset, its report, or a folder above one; of a URL a copy; None for recordings.

    Raises:
        DatasetNotFound: there is neither.
    """
    from edgefirst_ros.formats.datasets import find
    from edgefirst_ros.offline.drives import find_files, is_recording
    from edgefirst_ros.offline.opening import nearby

    if is_recording(place.name) and not (isinstance(place, Path) and place.is_dir()):
        return None
    if isinstance(place, Path) and place.name.endswith(REPORT) and place.is_file():
        return place
    try:
        if isinstance(place, Path):
            find(place)
        return nearby(place)
    except DatasetNotFound as missing:
        try:
            find_files([place])
        except RecordingNotFound as error:
            raise missing from error
        return None


def _page_of(place: Location) -> Path:
    """The page of a recording: beside it, or in the current folder if it is remote."""
    from edgefirst_ros.offline.drives import is_recording

    if isinstance(place, Path):
        place = place if place.name not in {"", ".."} else place.resolve()
    name = place.stem if is_recording(place.name) else place.name
    return place.with_name(f"{name}.html") if isinstance(place, Path) else Path(f"{name}.html")


def _draw_recording(place: Location, output: Path, config: Path | None, view: Progress, out: Out) -> bool:
    """Make the page of a recording; returns whether it was interrupted before its end."""
    from edgefirst_ros.cli.convert import configured
    from edgefirst_ros.offline.forecast import outline

    with extra():
        from edgefirst_ros.report.page.make import make_recording_page, refuse_output
        from edgefirst_ros.report.page.thumbnails import SceneWriter

    refuse_output(output)
    notes, writer, stop = list[str](), SceneWriter(), threading.Event()
    used, _ = configured([f"{place}"], config, {}, notes)
    out.note(*notes)
    with out.interruptible(stop, "finishing with what has been read"):
        found = outline([place], used, writer, stop=stop, on_progress=lambda at: view(at.share or 0.0))
        make_recording_page(found, writer.scenes, output)
    return bool(found["interrupted"])
