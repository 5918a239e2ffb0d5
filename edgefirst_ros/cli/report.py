"""edgefirst-ros info and report: what is in recordings and datasets, in words, as a page or as a picture."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edgefirst_ros.cli import importing, options
from edgefirst_ros.cli.convert import configured
from edgefirst_ros.cli.options import opt
from edgefirst_ros.cli.progress import Progress, print_json
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    ConfigFile,
    fetched,
    guarded,
    interruptible,
    make_config,
    run_of,
)
from edgefirst_ros.cli.terminal import clock, make_console, print_line, say, several
from edgefirst_ros.model.errors import ConfigError, extra

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.sources.location import Location

_OWN_CLOCK = "stamp: the recording's own clock"
"""What is found of a clock that nothing need be said of."""


def info(
    paths: Annotated[
        list[str] | None,
        opt("[PATH]...", "Recordings, datasets, folders of them, or an output of many drives; or URLs."),
    ] = None,
    *,
    config_file: ConfigFile = None,
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

    [bold]Examples[/]

      edgefirst-ros info drive.mcap

      edgefirst-ros info out --json
    """
    err, out = make_console(stderr=True), make_console(stderr=False)
    with guarded(err, as_json=as_json):
        if not paths:
            _print_versions(as_json=as_json)
            return
        if len(paths) == 1 and _is_output(paths[0]):
            from edgefirst_ros.cli.fleet import print_status

            raise typer.Exit(print_status(paths[0], as_json=as_json))
        with importing():
            from edgefirst_ros.offline.opening import infos
        notes: list[str] = []
        config = None if config_file is None else make_config(config_file, {}, notes=notes)
        for note in () if as_json else notes:
            print_line(err, f"note: {escape(note)}")
        for found in infos(paths, config, whole=whole):
            if as_json:
                print_json(found)
            elif "file" in found:
                _print_recording(out, found)
            else:
                _print_dataset(out, found)


def _print_versions(*, as_json: bool) -> None:
    from platform import platform

    from edgefirst_ros.pipeline.report import versions

    found = {**versions(), "system": platform()}
    if as_json:
        print_json({"versions": found})
    for name, version in () if as_json else found.items():
        say(f"{name:15} {version}")


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


def _print_dataset(out: Console, found: Mapping[str, Any]) -> None:
    groups = "".join(f"   {escape(name)} {count:,}" for name, count in found.get("groups", {}).items())
    samples = several(found["samples"], "samples")
    print_line(out, f"{escape(found['path'])}   {escape(found['format'])}   {samples}{groups}")
    for each in found.get("sequences", ()):
        print_line(out, f"  {escape(each['name'])}: {several(each['samples'], 'samples')}")
    if found.get("labels"):
        print_line(out, f"  labels: {escape(', '.join(found['labels']))}")


def _print_recording(out: Console, found: Mapping[str, Any]) -> None:
    from edgefirst_ros.cli.terminal import fits, print_forecast
    from edgefirst_ros.report.judge import damage_of
    from edgefirst_ros.report.models import Recording

    head = [found["file"], several(found["messages"], "messages"), f"{found['bytes'] / 1e6:,.1f} MB"]
    if found["messages"]:
        start = datetime.fromtimestamp(found["start_ns"] / 1e9, UTC)
        head[1:1] = [clock(found["duration_s"]), f"{start:%Y-%m-%d %H:%M:%S} UTC"]
        head += [f"topics of {found['prefix']}"] if found["prefix"] else []
    print_line(out, escape("   ".join(head)))
    if topics := found["topics"]:
        out.print(table if fits(out, table := _contents(topics)) else _contents(topics, narrow=True))
    for text in _said(found):
        print_line(out, escape(text))
    damage = damage_of(Recording.model_validate({"file": "damage", "faults": found["faults"]}))
    late = [
        f"{name}: {several(each['messages'], 'messages')} stored up to {each['worst_s']:,.1f} s too late"
        for name, each in found["displaced"].items()
    ]
    for text in [*found["clock_breaks"], *(each.text for each in damage), *late]:
        print_line(out, f"[yellow]warning[/]: {escape(text)}")
    bad = [f"{name}: bad: {each['fault']}" for name, each in topics.items() if each.get("fault")]
    notes = found["note"], found["ambiguous"], *found["choices"], *bad, *found.get("notes", ())
    for text in filter(None, notes):
        print_line(out, f"[yellow]note[/]: {escape(text)}")
    for hint in found["hints"]:
        print_line(out, f"[yellow]hint[/]: {escape(hint)}")
    if "conversion" in found:
        print_forecast(out, found["conversion"])


def _said(found: Mapping[str, Any]) -> list[str]:
    """A line for each clock but the recording's own, whose topics mostly differ in figures only."""
    clocks: dict[str, tuple[str, list[str]]] = {}
    for topic, each in found["topics"].items():
        if (text := each["clock"]) and not text.startswith(_OWN_CLOCK):
            clocks.setdefault(re.sub(r"[\d.,+]+", "", text), (text, []))[1].append(topic)
    return [f"{', '.join(topics)}: {text}" for text, topics in clocks.values()]


def _contents(topics: Mapping[str, Mapping[str, Any]], *, narrow: bool = False) -> Table:
    """The table of topics; ``narrow`` has the type below the topic."""
    from edgefirst_ros.cli.terminal import count_text

    table = Table(box=None, pad_edge=False)
    for name in ("topic", *(() if narrow else ("type",)), "used as"):
        table.add_column(name, overflow="fold")
    for name in ("messages", "Hz", "MB", "bad", "gaps", "longest s"):
        table.add_column(name, justify="right")
    for topic, t in topics.items():
        names = escape(topic), escape(t["type"].rpartition("/")[2])
        table.add_row(
            *(("\n  ".join(names),) if narrow else names),
            t["use"] or "·",
            f"{t['messages']:,}",
            f"{t['rate_hz']:.1f}",
            "?" if t["bytes"] is None else f"{t['bytes'] / 1e6:,.1f}",
            count_text(t["undecodable"]),
            count_text(t["gaps"]),
            f"{t['longest_gap_s']:.2f}" if t["gaps"] else "·",
        )
    return table


def report(
    path: Annotated[
        str,
        opt("PATH", "A dataset, a folder above it, or its capture_report.json; or a recording; or a URL."),
    ],
    *,
    output: Annotated[Path | None, opt("--output -o FILE.html", "The page; default: beside PATH.")] = None,
    picture: Annotated[
        str | None,
        opt(
            "--picture [FILE.png]",
            "A contact sheet of a dataset in place of the page; default: beside the dataset.",
        ),
    ] = None,
    rows: Annotated[int, opt("--rows N", "Samples of a contact sheet.", min=1, max=50)] = 6,
    config_file: ConfigFile = None,
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

    [bold]Examples[/]

      edgefirst-ros report out

      edgefirst-ros report drive.mcap -o drive.html

      edgefirst-ros report out --picture sheet.png
    """
    err = make_console(stderr=True)
    stop = threading.Event()
    interrupted = False
    with guarded(err, as_json=as_json):
        from edgefirst_ros.sources.location import location_of

        given = location_of(path)
        with Progress(err, "drawing", quiet=quiet or as_json) as view:
            place = fetched(given, whole=picture is not None)
            if picture is not None:
                output = _sheet(Path(str(place)), picture, rows, view, here=given is not place)
            elif run_of(place) is None:
                output = output or _page_of(place)
                notes: list[str] = []
                config, _ = configured([str(place)], config_file, {}, notes)
                for note in () if quiet or as_json else notes:
                    print_line(err, f"note: {escape(note)}")
                with interruptible(stop, err, "finishing with what has been read"):
                    interrupted = _of_recording(place, output, config, stop, view)
            else:
                with extra():
                    from edgefirst_ros.report.page.make import make_page
                if config_file is not None:
                    raise ConfigError([f"--config: only for recordings, but {place} is a dataset"])
                if output is None and given is not place:
                    output = Path(f"{given.name}.html")
                output = make_page(Path(str(place)), output, view)
        if interrupted and not as_json:
            print_line(err, "warning: interrupted, so the page shows what had been read")
        if as_json:
            print_json({"path": f"{output}", "interrupted": interrupted})
        else:
            say(f"{output}")
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _sheet(place: Path, named: str, rows: int, view: Progress, *, here: bool) -> Path:
    """Draw a contact sheet, by default beside the dataset, or in the current folder; where it is."""
    from edgefirst_ros.formats.datasets import find
    from edgefirst_ros.report.drawing import contact_sheet, refuse_picture, write_sheet

    if not named:
        dataset = find(place)[0][1]
        beside = dataset.with_name(f"{dataset.name.removesuffix('.zarr').removesuffix('.arrow')}.png")
        named = beside.name if here else f"{beside}"
    refuse_picture(Path(named))
    write_sheet(contact_sheet(place, rows, view), Path(named))
    return Path(named)


def _page_of(place: Location) -> Path:
    """The page of a recording: beside it, or in the current folder if it is remote."""
    from edgefirst_ros.offline.drives import is_recording

    if isinstance(place, Path):
        place = place if place.name not in {"", ".."} else place.resolve()
    name = place.stem if is_recording(place.name) else place.name
    return place.with_name(f"{name}.html") if isinstance(place, Path) else Path(f"{name}.html")


def _of_recording(
    place: Location, output: Path, config: Config, stop: threading.Event, view: Progress
) -> bool:
    """Make the page of a recording; returns whether it was interrupted before its end."""
    from edgefirst_ros.offline.forecast import outline

    with extra():
        from edgefirst_ros.report.page.make import make_recording_page, refuse_output
        from edgefirst_ros.report.page.thumbnails import SceneWriter

    refuse_output(output)
    writer = SceneWriter()
    found = outline([place], config, writer, stop=stop, on_progress=lambda at: view(at.share or 0.0))
    make_recording_page(found, writer.scenes, output)
    return bool(found["interrupted"])
