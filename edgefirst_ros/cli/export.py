"""edgefirst-ros export: datasets in the layouts of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgefirst_ros.cli.help import Command, Group
from edgefirst_ros.cli.shared import guarded
from edgefirst_ros.cli.terminal import make_console, say

export = typer.Typer(
    name="export",
    cls=Group,
    help="Write datasets in the layouts of other tools: coco, yolo.",
    add_completion=False,
    rich_markup_mode="rich",
)

Sources = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE...", help="Datasets, or folders above them; paths or URLs."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new or empty folder.")]
Unlabelled = Annotated[
    bool, typer.Option("--unlabelled", help="Also pictures that no model looked at, as ones without objects.")
]


@export.command(cls=Command)
def coco(sources: Sources, *, output: Output, unlabelled: Unlabelled = False) -> None:
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
def yolo(sources: Sources, *, output: Output, unlabelled: Unlabelled = False) -> None:
    """Write pictures and 2-D boxes in the layout of Ultralytics' YOLO, with its data.yaml.

    [bold]Example[/]

      edgefirst-ros export yolo sets -o yolo
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros import export_yolo, open  # noqa: A004

        say(f"{export_yolo(open(sources, format='edgefirst'), output, unlabelled=unlabelled)}")
