"""edgefirst-ros export: datasets in the layouts of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgefirst_ros.cli.help import Command, Group
from edgefirst_ros.cli.shared import guarded
from edgefirst_ros.cli.terminal import make_console, print_line, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgefirst_ros.corpus.scenery import Exported

export = typer.Typer(
    name="export",
    cls=Group,
    help="Write datasets in the layouts of other tools: coco, yolo, shards, colmap, nerfstudio.",
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
Masks = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Masks of the vehicle, CAMERA.png."),
]
Voxel = Annotated[
    float,
    typer.Option(metavar="METRES", help="Keep one point of the lidar in each cube of this size."),
]


@export.command(cls=Command)
def coco(sources: Sources, *, output: Output, unlabelled: Unlabelled = False) -> None:
    """Write pictures and 2-D boxes as COCO, a file of annotations for each group.

    Several datasets become one, with the classes of all.

    [bold]Example[/]

      edgefirst-ros export coco sets/monday sets/tuesday -o coco
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros.corpus.coco import export_coco

        for path in export_coco(sources, output, unlabelled="include" if unlabelled else "leave out"):
            say(f"{path}")


@export.command(cls=Command)
def yolo(sources: Sources, *, output: Output, unlabelled: Unlabelled = False) -> None:
    """Write pictures and 2-D boxes in the layout of Ultralytics' YOLO, with its data.yaml.

    [bold]Example[/]

      edgefirst-ros export yolo sets -o yolo
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros.corpus.yolo import export_yolo

        say(f"{export_yolo(sources, output, unlabelled=unlabelled)}")


@export.command(cls=Command)
def shards(
    sources: Sources,
    *,
    output: Output,
    sensors: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="SENSOR", help="Also lidar, radar, cube or depth; repeatable."),
    ] = None,
    labelled: Annotated[
        bool, typer.Option("--labelled", help="Only pictures that a model looked at.")
    ] = False,
    shard_mb: Annotated[
        float, typer.Option("--shard-mb", metavar="MB", min=1.0, help="Size of a shard.")
    ] = 256.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the order of samples.")] = 0,
) -> None:
    """Write samples as tar files for training that reads in order (WebDataset), mixed over all drives.

    [bold]Example[/]

      edgefirst-ros export shards sets -o shards --labelled
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros.corpus.shards import export_shards

        path = export_shards(
            sources, output, sensors=sensors or (), labelled=labelled, shard_mb=shard_mb, seed=seed
        )
        say(f"{path}")


@export.command(cls=Command)
def colmap(sources: Sources, *, output: Output, masks: Masks = None, voxel: Voxel = 0.1) -> None:
    """Write each drive as a COLMAP text model with pictures, poses, lenses, masks and the lidar's points.

    A drive in several formats is exported once, from the one that has all sensors' own frames; name the
    dataset to choose another one. Pictures without a pose are left out.

    [bold]Example[/]

      edgefirst-ros export colmap out/ncore/monday -o colmap --masks masks
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros.corpus.scenery import export_colmap

        _tell(export_colmap(sources, output, masks=masks, voxel_m=voxel))


@export.command(cls=Command)
def nerfstudio(sources: Sources, *, output: Output, masks: Masks = None, voxel: Voxel = 0.1) -> None:
    """Write each drive for nerfstudio: transforms.json, pictures, masks and the lidar's points as PLY.

    Which dataset is taken, and which pictures: as in export colmap.

    [bold]Example[/]

      edgefirst-ros export nerfstudio out -o nerf
    """
    with guarded(make_console(stderr=True)):
        from edgefirst_ros.corpus.scenery import export_nerfstudio

        _tell(export_nerfstudio(sources, output, masks=masks, voxel_m=voxel))


def _tell(found: Iterable[Exported]) -> None:
    for each in found:
        say(f"{each.folder}\n  {each.pictures:,} pictures, {each.points:,} points")
        if each.unplaced:
            print_line(
                make_console(stderr=True),
                f"[bold yellow]warning[/]: {each.unplaced:,} pictures without a pose are left out",
            )
