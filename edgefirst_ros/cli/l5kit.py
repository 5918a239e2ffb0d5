"""edgefirst-ros l5kit: show, merge and split L5Kit datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli.help import Command, Group
from edgefirst_ros.cli.shared import guarded
from edgefirst_ros.cli.terminal import make_console, print_line, say

l5kit = typer.Typer(
    name="l5kit",
    cls=Group,
    help="Show, merge and split L5Kit datasets.",
    add_completion=False,
    rich_markup_mode="rich",
)


@l5kit.command(cls=Command)
def show(dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A .zarr folder.")]) -> None:
    """Print a summary table of a dataset.

    [bold]Example[/]

      edgefirst-ros l5kit show out/l5kit/monday.zarr
    """
    err = make_console(stderr=True)
    with guarded(err):
        from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset

        _warn_of_missing(err, [dataset])
        say(f"{ChunkedDataset(dataset).open()}")


@l5kit.command(cls=Command)
def merge(
    datasets: Annotated[
        list[Path],
        typer.Argument(metavar="DATASET...", help="Datasets; their scenes keep this order."),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="NAME.zarr", help="The new dataset.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing dataset.")] = False,
) -> None:
    """Merge datasets into one, scene after scene.

    [bold]Example[/]

      edgefirst-ros l5kit merge monday.zarr tuesday.zarr -o week.zarr
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--overwrite replaces it"):
        from edgefirst_ros.formats.l5kit.rearrange import merge as merge_datasets

        _warn_of_missing(err, datasets)
        say(f"{merge_datasets(datasets, output, overwrite=overwrite)}")


@l5kit.command(cls=Command)
def split(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A .zarr folder.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the parts.")],
    at: Annotated[
        list[int] | None,
        typer.Option(
            metavar="SCENE", help="Begin a part at this scene; repeatable. Default: at every scene."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing parts.")] = False,
) -> None:
    """Split a dataset between scenes.

    [bold]Examples[/]

      edgefirst-ros l5kit split week.zarr -o parts

      edgefirst-ros l5kit split week.zarr -o parts --at 10 --at 20
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--overwrite replaces it"):
        from edgefirst_ros.formats.l5kit.rearrange import split as split_dataset

        _warn_of_missing(err, [dataset])
        for part in split_dataset(dataset, output, at, overwrite=overwrite):
            say(f"{part}")


def _warn_of_missing(console: Console, datasets: Sequence[Path]) -> None:
    from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset

    for dataset in datasets:
        missing = ChunkedDataset(dataset).open().missing()
        if missing:
            print_line(
                console,
                f"[bold yellow]warning[/]: {escape(str(missing[0]))} is missing, its rows read as zero "
                f"({len(missing):,} such files); was the dataset copied completely?",
            )
