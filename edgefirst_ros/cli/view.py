"""edgefirst-ros view: recordings and datasets in the Rerun viewer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

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
    refuse_for_datasets,
    run_of,
    standing_for,
)
from edgefirst_ros.cli.terminal import (
    LINE_EVERY_S,
    ProgressView,
    make_console,
    print_line,
    progress_bar,
    say,
)
from edgefirst_ros.live.signals import asked_to_finish
from edgefirst_ros.model.errors import ConfigError, DatasetError, extra

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

    from edgefirst_ros.config.model import Config
    from edgefirst_ros.report.rerun.canvas import Canvas
    from edgefirst_ros.sources.recording import Excerpt

PICTURES_HZ = 10.0
"""Pictures of a recording, unless others are selected: as many as lidars and radars have sweeps."""


def view(
    path: Annotated[
        str,
        typer.Argument(
            metavar="DATASET|RECORDING",
            help="A dataset or a folder above it; or a recording, or a folder of recordings; or a URL.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.rrd", help="Save a file for Rerun; do not open the viewer."
        ),
    ] = None,
    web: Annotated[
        bool, typer.Option("--web", help="Show it in a browser on this machine, until Ctrl-C.")
    ] = False,
    start: Start = None,
    end: End = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="HZ",
            help="Maximum pictures per second; default: 10 of a recording, all of a dataset.",
        ),
    ] = None,
    every_n: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Show one of every N pictures.")
    ] = None,
    keyframes: options.Keyframes = None,
    config_file: ConfigFile = None,
    prefix: options.Prefix = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
) -> None:
    r"""Look at a recording or a dataset in Rerun: pictures, boxes, masks, clouds, cube, map, IMU.

    Lidar is coloured by range (red is near), radar by speed (blue approaches, red recedes). The 3-D view
    moves with the rig; sensors are placed by the recording's transforms, or by the capture_report.json of a
    dataset.

    A recording is decoded, and its messages get their times, as by [bold]convert[/]; no dataset is written.
    --config, --prefix, --keyframes and --workers are for recordings only. Of a dataset, --start, --end,
    --rate and --every-n select samples of each sequence.

    Rerun comes with pip install 'edgefirst_ros\[view]'. Its map loads tiles from openstreetmap.org if there
    is a network.

    Ctrl-C stops reading, and what has been read stays drawn. With --web it ends the page.

    Exit codes: 0 done; 1 nothing to show; 2 nothing there, or wrong usage; 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros view drive.mcap

      edgefirst-ros view out/edgefirst/monday

      edgefirst-ros view drive.mcap --start 60 --end 90 -o drive.rrd
    """
    err = make_console(stderr=True)
    stop = threading.Event()
    with guarded(err), ExitStack() as stack:
        with extra("view"):
            from edgefirst_ros.model.untrusted import refusing
            from edgefirst_ros.report.rerun.instants import Wanted, draw_all, drawables_of
            from edgefirst_ros.report.rerun.recording import Painter
        from edgefirst_ros.offline.forecast import observe
        from edgefirst_ros.sources.location import location_of
        from edgefirst_ros.sources.recording import excerpt_of

        excerpt = excerpt_of(start, end)
        chosen = {"rate_hz": rate, "every_n": every_n, "keyframes": keyframes}
        more = {"prefix": prefix, "workers": workers, "complete": False}
        place = stack.enter_context(standing_for(location_of(path)))
        run = run_of(place)
        if run is not None:
            alone = {
                "--config": config_file,
                "--prefix": prefix,
                "--keyframes": keyframes,
                "--workers": workers,
            }
            refuse_for_datasets(place, alone)
        notes: list[str] = []
        config = make_config(config_file, chosen | more, notes=notes)
        for note in () if quiet else notes:
            print_line(err, f"note: {escape(note)}")
        if rate is None and every_n is None:
            config = _selected(config)
        drawables = [] if run is None else drawables_of(run)
        window = None if excerpt is None else partial(_window, excerpt)
        name = path.rstrip("/").rpartition("/")[2] or path
        with _canvas(name, output, web=web) as canvas, _finishing(stop, web=web):
            finishing = "ending" if web else "finishing with what has been read"
            with interruptible(stop, err, finishing):
                if drawables:
                    bar = _progress(sum(map(len, drawables)), err, quiet=quiet)
                    with refusing(place, DatasetError), bar as passed:
                        draw_all(drawables, canvas, Wanted(window, rate or None, every_n), stop, passed)
                else:
                    with ProgressView(err, quiet=quiet) as shown:
                        warnings = observe(
                            [place], config, Painter(canvas),
                            excerpt=excerpt, stop=stop, on_progress=shown.update,
                        )  # fmt: skip
                    for warning in warnings:
                        print_line(err, f"[bold yellow]warning[/]: {escape(warning)}")
            found, is_cut = bool(canvas.seen), stop.is_set()
            if web and found and not is_cut:
                canvas.finish()
                print_line(err, "everything is drawn; Ctrl-C ends")
                stop.wait()
        if output is not None:
            say(f"{output}")
        _print_end(err, found=found, is_cut=is_cut, is_kept=not web)
    if is_cut or not found:
        raise typer.Exit(EXIT_INTERRUPTED if is_cut else EXIT_POOR)


def _selected(config: Config) -> Config:
    """The configuration with fewer pictures than a camera sends, unless it says itself which are taken."""
    if config.rate_hz or config.every_n > 1 or config.keyframes:
        return config
    return config.model_copy(update={"rate_hz": PICTURES_HZ})


def _print_end(err: Console, *, found: bool, is_cut: bool, is_kept: bool) -> None:
    if is_cut:
        print_line(err, "interrupted: what had been read is drawn" if found and is_kept else "interrupted")
    elif not found:
        print_line(err, "there was nothing to draw")


def _finishing(stop: threading.Event, *, web: bool) -> AbstractContextManager[None]:
    """Ctrl-C is the usual end of what a browser shows, whether everything is drawn by then or not."""

    def insist(_: int) -> None:
        raise KeyboardInterrupt

    return asked_to_finish(stop.set, insist) if web else nullcontext()


def _window(excerpt: Excerpt, first_ns: int) -> tuple[int, int]:
    found = excerpt.window([(first_ns, first_ns)])
    return found.begin_ns, found.end_ns


def _canvas(name: str, output: Path | None, *, web: bool) -> AbstractContextManager[Canvas]:
    from edgefirst_ros.report.rerun import output as outputs

    if output is not None and web:
        raise ConfigError(["--output and --web exclude one another: give one of them"])
    if output is not None:
        return outputs.to_file(output, name)
    return outputs.to_web(name, say) if web else outputs.to_viewer(name)


@contextmanager
def _progress(total: int, err: Console, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line every few seconds elsewhere, nothing if quiet."""
    if quiet:
        yield lambda _: None
        return
    if err.is_terminal:
        with progress_bar(err) as bar:
            task = bar.add_task("drawing", total=total, detail="")
            yield lambda count: bar.update(task, completed=count)
        return
    shown_s = time.monotonic()

    def line(count: int) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s >= LINE_EVERY_S:
            shown_s = time.monotonic()
            print_line(err, f"{count:,} of {total:,} drawn")

    yield line
