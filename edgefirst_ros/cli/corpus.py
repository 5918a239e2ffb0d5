"""edgefirst-ros select: choose samples from many datasets as one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli.options import Quiet
from edgefirst_ros.cli.shared import EXIT_POOR, guarded, print_error
from edgefirst_ros.cli.terminal import make_console, print_line, say


class SplitBy(StrEnum):
    """What a group of a selection is made of."""

    DRIVE = "drive"
    PLACE = "place"


def select(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|CATALOG",
            help="A folder of datasets, whose catalog.parquet is made or renewed; or a catalogue. Or a URL.",
        ),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Folder of a new dataset, or NAME.parquet for a list."
        ),
    ],
    where: Annotated[
        str, typer.Option(metavar="SQL", help="A condition on the catalogue's columns; needs polars.")
    ] = "",
    every_m: Annotated[
        float, typer.Option(metavar="METRES", help="Least distance of two samples of a sequence.")
    ] = 0.0,
    every_n: Annotated[int, typer.Option(metavar="N", help="One of every N.")] = 1,
    skip_standstill: Annotated[
        bool, typer.Option("--skip-standstill", help="One sample of each stop.")
    ] = False,
    per_drive: Annotated[
        int, typer.Option(metavar="N", help="At most so many of each dataset, drawn by --seed.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Of what is drawn.")] = 0,
    split: Annotated[
        SplitBy | None,
        typer.Option(
            metavar="drive|place",
            help="Train and val anew, without neighbours in both.",
        ),
    ] = None,
    val_ratio: Annotated[float, typer.Option(metavar="SHARE", help="Share of val with --split.")] = 0.2,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Choose samples by SQL, distance and number, as a new EdgeFirst dataset or as a list.

    Sensor files are copied byte for byte, annotations kept, classes unified by name; the column
    [bold]source[/] says from which dataset a row is. [bold]edgefirst_ros.open[/] takes a list, too.

    Exit codes: 0 done; 1 a list is empty; 2 usage, or nothing to write.

    [bold]Examples[/]

      edgefirst-ros select sets/ --where "person > 0 and speed_mps > 5" --every-m 5 -o subset

      edgefirst-ros select catalog.parquet --per-drive 200 --split drive --seed 1 -o subset

      edgefirst-ros select catalog.parquet --where "light = 'night'" -o night.parquet
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--overwrite replaces it"):
        from edgefirst_ros.corpus.choose import select as choose

        if not source.endswith(".parquet"):
            source = _renewed(err, source)
        done = choose(
            source,
            output,
            where=where,
            every_m=every_m,
            every_n=every_n,
            skip_standstill=skip_standstill,
            per_drive=per_drive,
            seed=seed,
            split=split.value if split else "",
            val_ratio=val_ratio,
            overwrite=overwrite,
        )
        for note in () if quiet else done.notes:
            print_line(err, f"note: {escape(note)}")
        say(f"{done.path}\n  {done.samples:,} of {done.of:,} samples, of {done.datasets:,} datasets")
    if not done.samples:
        raise typer.Exit(EXIT_POOR)


def _renewed(err: Console, folder: str) -> str:
    """The catalogue of a folder of datasets, made or brought up to date: a row a sample."""
    from edgefirst_ros.corpus.catalog import catalog

    place = f"{folder.rstrip('/')}/catalog.parquet"
    for fault in catalog(folder, place).faults:
        print_error(err, fault)
    return place
