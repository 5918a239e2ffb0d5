"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from edgefirst_ros.formats.registry import FORMATS


class Schema(StrEnum):
    """Version of the annotation columns."""

    V2025_01 = "2025.01"
    V2026_10 = "2026.10"


class ContainerChoice(StrEnum):
    """Where the sensor files go."""

    ZIP = "zip"
    FOLDER = "folder"


Connect = Annotated[
    list[str] | None,
    typer.Option(
        "--zenoh",
        metavar="ENDPOINT",
        help="Connect to this endpoint, e.g. tcp/192.168.1.5:7447, and reconnect when lost; repeatable.",
    ),
]
Listen = Annotated[
    list[str] | None,
    typer.Option(
        "--zenoh-listen", metavar="ENDPOINT", help="Listen on this endpoint, e.g. tcp/[::]:7447; repeatable."
    ),
]
ZenohConfig = Annotated[
    Path | None,
    typer.Option(
        "--zenoh-config",
        metavar="FILE",
        help="Zenoh configuration file, JSON5 or YAML: TLS, user and password; docs/security.md.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the datasets.")]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format", metavar="NAME,...", help=f"Any of {', '.join(FORMATS.names)}; default: the first."
    ),
]
Annotations = Annotated[
    Schema | None,
    typer.Option(
        "--schema",
        metavar="2025.01|2026.10",
        help="Annotation columns: 2025.01, the published article (default), or 2026.10, the vendor's client.",
    ),
]
Container = Annotated[
    ContainerChoice | None,
    typer.Option(metavar="zip|folder", help="Sensor files in one ZIP (default) or in a folder."),
]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="TOPIC", help="Topic that samples are aligned to, e.g. lidar/points; default: the camera."
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(metavar="HZ", help="Maximum samples per second; default: every frame."),
]
EveryN = Annotated[int | None, typer.Option(metavar="N", help="Keep one of every N reference frames.")]
ShownPrefix = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        metavar="PREFIX",
        help="Topic prefix of the device to show; needed if there are several.",
    ),
]
Keyframes = Annotated[bool, typer.Option("--keyframes", help="Keep only video key frames.")]
Complete = Annotated[
    str | None,
    typer.Option(
        "--complete",
        metavar="[SENSOR,...]",
        help="Keep only samples with a message of every sensor that was sending, or of those that are named, "
        "such as model,lidar.",
    ),
]
Incomplete = Annotated[bool, typer.Option("--incomplete", hidden=True)]
INCOMPLETE = "--incomplete is no longer needed: samples that lack a sensor are written without it"
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="Encoder threads or processes; default: one per core."),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Make no page (capture_report.html) beside the report.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON and nothing else.")]


def format_values(**given: StrEnum | None) -> dict[str, dict[str, str]]:
    """Values of the configuration's blocks of formats: an option is that of the first format that has it."""
    found: dict[str, dict[str, str]] = {}
    for option, value in given.items():
        if value is not None:
            name = next(name for name, each in FORMATS.items() if option in each.options.model_fields)
            found.setdefault(name, {})[option] = value.value
    return found


def format_names(formats: list[str] | None) -> list[str] | None:
    """Names from comma-separated lists without duplicates; None if no list was given."""
    return (
        list(dict.fromkeys(name.strip() for each in formats for name in each.split(","))) if formats else None
    )
