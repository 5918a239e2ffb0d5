"""What commands share: configuration, exit codes, error messages and signals.

What a user names to look at: a recording, or the datasets of a run.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli.lastresort import leave
from edgefirst_ros.cli.terminal import print_line
from edgefirst_ros.live.signals import asked_to_finish
from edgefirst_ros.model.errors import (
    ConfigError,
    DatasetNotFound,
    EdgeFirstError,
    OutputBusy,
    OutputExists,
    RecordingNotFound,
    WriteError,
)
from edgefirst_ros.model.untrusted import REPORT, visible

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.report.runs import Run
    from edgefirst_ros.sources.location import Location


EXIT_POOR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
FORCED_EXIT_S = 2.0
"""The process is ended if a second signal's exception has not ended it within this time."""
Recordings = Annotated[
    list[str],
    typer.Argument(
        metavar="RECORDING...",
        help="Recordings (MCAP, rosbag2, ROS 1), folders of them, or URLs such as s3://bucket/drives/.",
    ),
]
Start = Annotated[
    str | None, typer.Option("--start", metavar="T", help="Begin here, in seconds or as a time in UTC.")
]
End = Annotated[str | None, typer.Option("--end", metavar="T", help="End before this, given like --start.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="YAML file, or maivin, raivin, generic. none: suggest none."
    ),
]


def exit_code(report: dict[str, Any], *, strict: bool) -> int:
    """1 if the result is empty or, with ``strict``, has refusals, damage or warnings; else 0."""
    if not report["samples"]:
        return EXIT_POOR
    from edgefirst_ros.report.models import parsed
    from edgefirst_ros.report.shortfalls import losses

    damaged = any(r["faults"] for r in report["recordings"])
    refused = "refused" in losses(parsed(report))
    return EXIT_POOR if strict and (refused or damaged or report["warnings"]) else 0


def make_config(
    file: Path | None,
    chosen: dict[str, Any],
    *,
    recorded: Mapping[str, Any] | None = None,
    notes: list[str] | None = None,
) -> Config:
    """Combine the values of a configuration file with those of the command line, which win.

    Args:
        file: configuration file; None takes ``recorded`` instead.
        chosen: values given on the command line, also in the blocks of formats; None means not given.
        recorded: settings that were stored in the recording.
        notes: gets a sentence for everything in the file that is not used, although it may look so.

    Raises:
        ConfigError: with one sentence for every fault; faults of the file begin with its name, others with
            the option.
    """
    from edgefirst_ros.config.model import chosen_config

    values = dict(recorded or {})
    if file is not None:
        from edgefirst_ros.config.files import load_values

        values = load_values(file, notes)
    try:
        return chosen_config(values, chosen)
    except ConfigError as error:
        blocks = [value for value in chosen.values() if isinstance(value, Mapping)]
        given = [name for each in (chosen, *blocks) for name, value in each.items() if value is not None]
        raise ConfigError([_by_option(fault, given) for fault in error.faults]) from error


def _by_option(fault: str, given: Sequence[str]) -> str:
    """A fault with the options of the command line in place of settings, which it names before a colon."""
    from edgefirst_ros.cli.options import FLAGS

    head, colon, rest = fault.partition(":")
    for name in given:
        option = FLAGS.get(name, f"--{name.replace('_', '-')}")
        head = re.sub(rf"(?<![\w.])(\w+\.)?{name}(\.\d+)?(?![\w.])", option, head)
    return f"{head}{colon}{rest}"


def page_beside(paths: Sequence[Path], console: Console) -> list[Path]:
    """Make the page of the report among these paths; where it is.

    That it cannot be made is a warning: the datasets are complete without it.
    """
    from edgefirst_ros.report import make_pages

    pages, fault = make_pages(paths)
    if fault:
        print_line(console, f"[bold yellow]warning[/]: {escape(fault)}")
    return pages


def print_error(console: Console, text: str) -> None:
    """Print a line that says what is wrong, and one for each thing to do, which semicolons part."""
    what, *actions = text.split("; ")
    print_line(console, f"[bold red]error[/]: {escape(what)}")
    for action in actions:
        print_line(console, f"hint: {escape(action)}")


def print_interruption(console: Console, text: str, *, as_json: bool) -> None:
    """Print what an interruption left, as JSON too if that was asked for."""
    print_line(console, escape(text))
    if as_json:
        _print_json([text])


@contextmanager
def guarded(
    console: Console, *, instead: str = "", output: Path | None = None, as_json: bool = False
) -> Iterator[None]:
    """Turn expected errors into a message and an exit code.

    Args:
        console: standard error.
        instead: advice if the output already exists.
        output: folder where a failure or an interruption may leave ``.part`` files for ``recover``.
        as_json: also print the error to standard output, as an object with ``error`` and ``faults``.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (EdgeFirstError, OSError) as error:
        faults = error.faults if isinstance(error, ConfigError) else [_text(error)]
        print_faults(console, faults, as_json=as_json)
        if isinstance(error, OutputExists) and instead:
            print_line(console, f"hint: {escape(instead)}")
        # Nothing is to be recovered while another process writes it.
        elif isinstance(error, WriteError) and not isinstance(error, OutputBusy) and _has_parts(output):
            print_line(console, f"hint: {escape(_recovery(output))}")
        raise typer.Exit(EXIT_USAGE) from error
    except KeyboardInterrupt as error:
        print_interruption(console, _interrupted(output), as_json=as_json)
        raise typer.Exit(EXIT_INTERRUPTED) from error


def _has_parts(output: Path | None) -> bool:
    return output is not None and output.is_dir() and any(output.rglob("*.part"))


def _recovery(output: Path | None) -> str:
    return f"edgefirst-ros recover {shlex.quote(str(output))} finishes what was written"


def _interrupted(output: Path | None) -> str:
    # Does not look whether there is anything to recover: the disk may be what hangs.
    return "interrupted at once" + ("" if output is None else f"\nhint: {_recovery(output)}")


def _text(error: Exception) -> str:
    if isinstance(error, EdgeFirstError) or not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"{reason} (no file is named, it may be standard output)"
    return f"{error.filename}: {reason}"


def print_faults(console: Console, faults: Sequence[str], *, as_json: bool) -> None:
    """Print what is wrong, a line each, and as an object with ``error`` and ``faults`` if ``as_json``."""
    for fault in faults:
        print_error(console, fault)
    if as_json:
        _print_json(faults)


def _print_json(faults: Sequence[str]) -> None:
    with suppress(OSError):  # standard output may be what cannot be written
        sys.stdout.write(json.dumps({"error": "; ".join(faults), "faults": list(faults)}) + "\n")
        sys.stdout.flush()


@contextmanager
def interruptible(
    stop: threading.Event,
    console: Console,
    finishing: str = "stopping, what was read is written",
    output: Path | None = None,
) -> Iterator[None]:
    """Finish at the first SIGINT, SIGTERM or SIGHUP; stop at once at the second.

    The second signal raises KeyboardInterrupt. If a library's callback swallows that, or the main thread
    hangs, the process ends after FORCED_EXIT_S.

    Args:
        stop: set by the first signal.
        console: standard error.
        finishing: printed at the first signal.
        output: folder named in the advice to recover.
    """

    def end() -> None:
        with suppress(OSError):
            sys.stderr.write(visible(_interrupted(output)) + "\n")
        os._exit(EXIT_INTERRUPTED)

    last = threading.Timer(FORCED_EXIT_S, end)
    last.daemon = True

    def ask() -> None:
        stop.set()
        with suppress(OSError):  # the terminal may be what is gone
            console.print(f"{finishing}, Ctrl-C again stops at once", highlight=False)

    def insist(_: int) -> None:
        if last.ident is None:
            last.start()
            # Skip the interpreter's finalization: it aborts if a thread is inside a native library.
            atexit.register(leave, EXIT_INTERRUPTED)
        raise KeyboardInterrupt

    with asked_to_finish(ask, insist):
        yield


def run_of(place: Location) -> Run | None:
    """The run of a dataset, of its report, or of a folder above one; None for recordings.

    Raises:
        DatasetNotFound: there is neither, or there are the datasets of several runs.
        DatasetError: it is a report, and damaged.
    """
    from edgefirst_ros.formats.datasets import find
    from edgefirst_ros.offline.drives import find_files, is_recording
    from edgefirst_ros.report.runs import find_run
    from edgefirst_ros.sources.recording import SUFFIXES

    if not isinstance(place, Path) or (is_recording(place.name) and not place.is_dir()):
        return None
    if not (place.name.endswith(REPORT) and place.is_file()):
        try:
            find(place)
        except DatasetNotFound:
            if not place.exists():
                raise
            try:
                find_files([place])
            except RecordingNotFound as error:
                endings = ", ".join(SUFFIXES)
                text = f"{place}: holds neither a finished dataset nor a recording ({endings})"
                raise DatasetNotFound(text) from error
            return None
    return find_run(place)


def fetched(place: Location, *, whole: bool = False) -> Location:
    """A dataset's path; of a URL, that of a copy which is kept.

    Args:
        place: a URL of recordings stays what it is.
        whole: recordings are not expected.

    Raises:
        DatasetNotFound: there is no dataset, and recordings are not expected.
    """
    from edgefirst_ros.offline.drives import is_recording

    if isinstance(place, Path) or (not whole and is_recording(place.name)):
        return place
    from edgefirst_ros.offline.copies import local_copy

    try:
        return local_copy(place)
    except DatasetNotFound:
        if whole:
            raise
        return place
