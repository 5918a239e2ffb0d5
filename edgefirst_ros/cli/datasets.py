"""edgefirst-ros select, export, recover and check: choose from datasets, finish and verify them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.help import Command, Group
from edgefirst_ros.cli.options import NoReport
from edgefirst_ros.cli.shared import EXIT_POOR, EXIT_USAGE, fetched, guarded, page_beside, print_error
from edgefirst_ros.cli.terminal import LINE_EVERY_S, make_console, print_line, say
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound


def recover(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="An output folder, or a folder above it.")],
    *,
    no_report: NoReport = False,
) -> None:
    """Finish datasets that a crash, a kill or a full disk left in .part files.

    Everything that was committed is kept; an incomplete record at the end is dropped. Each line says what was
    kept. Running it again does no harm. A complete dataset is never replaced by an unfinished one: what an
    interrupted --overwrite left is finished beside it, as NAME_recovered. A report without a page gets it.

    Exit codes: 0 everything is finished; 2 something could not be finished, or there is nothing to do.

    [bold]Example[/]

      edgefirst-ros recover out
    """
    err, failed = make_console(stderr=True), False
    _print_format_faults(err)
    with guarded(err):
        from edgefirst_ros.formats.datasets import recover as run_recovery

        for done in run_recovery(path):
            failed |= done.failed
            if done.failed:
                print_error(err, done.text)
            else:
                say(f"{done.path}\n  {done.text}")
                sys.stdout.flush()
        for page in [] if no_report else _missing_pages(path, err):
            say(f"{page}\n  the page of a report that had none")
        if failed:
            err.print(
                "  failed datasets are unchanged; fix the cause, then run recover again", highlight=False
            )
    if failed:
        raise typer.Exit(EXIT_USAGE)


def check(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A dataset, one of its files, or a folder above it; or a URL."),
    ],
    *,
    official: Annotated[
        Path | None,
        typer.Option(
            metavar="PYTHON",
            help="Python interpreter with the official reader of a format, which then checks as well.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Headers and checksums only: decode no picture, cloud or mask.")
    ] = False,
    user: Annotated[
        str,
        typer.Option(
            "--for", metavar="NAME", help="Also what this program, such as nurec, asks of datasets."
        ),
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Check every dataset at or below PATH, of any format: complete, undamaged and consistent.

    What is sound can be opened: pictures, clouds and masks are decoded as for training, about 10 ms a picture
    of 1080p; --quick leaves that out.

    EdgeFirst: every file's CRC-32, name and content, picture sizes, points; columns, samples, values and
    groups of the table; counts of the report. L5Kit: arrays, chunks, intervals, times, rotations,
    probabilities. NCore: container, index, metadata, times, unit rays, pose tree. Prints what is wrong, then
    one line per dataset. Nothing is written.

    With --for each demand is a line: YES, NO and what to do, UNKNOWN where data cannot tell. NO is a warning.

    Of val samples that have a neighbour in train, their number is said; one in another dataset is a warning.

    A dataset that is still being written is not checked; a line names the process that writes it.

    Exit codes: 0 sound; 1 errors, with --strict warnings, or still being written; 2 no dataset there.

    [bold]Examples[/]

      edgefirst-ros check out

      edgefirst-ros check out/edgefirst/monday --quick

      edgefirst-ros check out/ncore --official /opt/ncore/bin/python

      edgefirst-ros check out/ncore --for nurec
    """
    err, sound, unasked = make_console(stderr=True), True, dict[str, None]()
    _print_format_faults(err)
    with guarded(err):
        from edgefirst_ros.formats.datasets import check as run_checks
        from edgefirst_ros.formats.format import Look
        from edgefirst_ros.sources.location import location_of

        _refuse_unknown(user)
        look, looked = Look(quick, _Passed(err, quiet=quiet), user), False
        place = Path(str(fetched(location_of(path), whole=True)))
        for result in run_checks(place, official_python=official, look=look):
            say(result.text)
            sys.stdout.flush()
            sound &= result.ok and not (strict and result.warnings)
            looked |= user in FORMATS[result.format].users
            if official is None and (package := FORMATS[result.format].official):
                unasked[package] = None
        for package in unasked:
            print_line(
                err,
                f"note: {package}, the format's own reader, was not asked; --official PYTHON asks it, too, "
                "where PYTHON is an interpreter that has it",
            )
        if user and not looked:
            raise DatasetNotFound(f"{path}: holds no dataset that {user} takes")
    if not sound:
        raise typer.Exit(EXIT_POOR)


def _refuse_unknown(user: str) -> None:
    known = sorted({name for each in FORMATS.values() for name in each.users})
    if user and user not in known:
        raise ConfigError([f"--for: {user!r} is not known; there are {', '.join(known)}"])


class _Passed:
    """A line every few seconds that says how much was looked at."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._bytes, self._shown_s = 0, time.monotonic()

    def __call__(self, passed: int) -> None:
        """So many more bytes."""
        self._bytes += passed
        if not self._quiet and time.monotonic() - self._shown_s >= LINE_EVERY_S:
            self._shown_s = time.monotonic()
            print_line(self._console, f"checked {self._bytes / 1e6:,.0f} MB")


def _missing_pages(path: Path, err: Console) -> list[Path]:
    """Make the pages that a run did not come to, or that a power cut took; where they are."""
    from edgefirst_ros.report.runs import without_page

    return page_beside(without_page(path), err)


def _print_format_faults(console: Console) -> None:
    for fault in FORMATS.faults:
        print_line(console, f"[yellow]note[/]: {escape(fault)}")


def select(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A folder of datasets, or the catalogue of some (.parquet)."),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the new dataset.")
    ],
    where: Annotated[
        str, typer.Option(metavar="SQL", help="A condition on the catalogue's columns, as polars has SQL.")
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    r"""Choose samples of EdgeFirst datasets by SQL, as a new dataset.

    SOURCE/catalog.parquet, a table with a row a sample, is made or brought up to date: drive, time, place,
    speed, pose, companions, objects by class, quality. [bold]docs/corpus.md[/] has the columns. Sensor files
    are copied byte for byte, rows keep their groups; the column [bold]source[/] says where a row is from.

    Needs [bold]pip install 'edgefirst_ros\[polars]'[/].

    [bold]Examples[/]

      edgefirst-ros select out --where "person > 0 and speed_mps > 5" -o subset

      edgefirst-ros select out/catalog.parquet --where "frame % 10 = 0 and luminance > 200" -o bright
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--overwrite replaces it"):
        from edgefirst_ros import select as choose

        done = choose(source, output, where=where, overwrite=overwrite)
        say(f"{done.path}\n  {done.samples:,} of {done.of:,} samples, of {done.datasets:,} datasets")


export = typer.Typer(
    name="export",
    cls=Group,
    help="Write datasets in the layouts of other tools: coco, yolo.",
    add_completion=False,
    rich_markup_mode=None,
)

ExportedFrom = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE...", help="Datasets, or folders above them; paths or URLs."),
]
ExportedTo = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new or empty folder.")]
Unlabelled = Annotated[
    bool, typer.Option("--unlabelled", help="Also pictures that no model looked at, as ones without objects.")
]


@export.command(cls=Command)
def coco(sources: ExportedFrom, *, output: ExportedTo, unlabelled: Unlabelled = False) -> None:
    """Write pictures and 2-D boxes as COCO, a file of annotations for each group.

    Several datasets become one, with the classes of all.

    [bold]Example[/]

      edgefirst-ros export coco sets/monday sets/tuesday -o coco
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros import export_coco, open  # noqa: A004

        for path in export_coco(open(sources, format="edgefirst"), output, unlabelled=unlabelled):
            say(f"{path}")


@export.command(cls=Command)
def yolo(sources: ExportedFrom, *, output: ExportedTo, unlabelled: Unlabelled = False) -> None:
    """Write pictures and 2-D boxes in the layout of Ultralytics' YOLO, with its data.yaml.

    [bold]Example[/]

      edgefirst-ros export yolo sets -o yolo
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros import export_yolo, open  # noqa: A004

        say(f"{export_yolo(open(sources, format='edgefirst'), output, unlabelled=unlabelled)}")
