"""Options that several commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from edgefirst_ros.formats.registry import FORMATS

TOLD = Path(__file__).parents[1] / "config" / "options.json"
"""What the models of options say, without what they import: ``make reference`` writes it."""
_SAID: Mapping[str, Mapping[str, Any]] = json.loads(TOLD.read_text(encoding="utf-8"))["config"]
SETTINGS: dict[str, str] = {}
"""Options of the configuration by parameters of commands: the last of its names."""
FLAGS: dict[str, str] = {}
"""Options of the command line by the same parameters."""


def opt(typed: str, text: str, **more: Any) -> Any:  # noqa: ANN401 - typer's own
    """A parameter by what a user types for it, ``-o --output FOLDER`` or ``PATH``, and what it is."""
    names = [word for word in typed.split() if word.startswith("-")]
    takes = " ".join(word for word in typed.split() if not word.startswith("-")) or None
    return (typer.Option if names else typer.Argument)(*names, metavar=takes, help=text, **more)


def _setting(name: str, flag: str = "", metavar: str = "", among: Sequence[str] = ()) -> Any:  # noqa: ANN401 - typer's own
    """An option of the configuration as one of the command line, in the words of the first model."""
    parameter = name
    said, SETTINGS[parameter] = next((_SAID[each], each) for each in _SAID if each.split(".")[-1] == name)
    FLAGS[parameter] = flag.partition("/")[0] or f"--{parameter.replace('_', '-')}"
    choices = said["choices"]

    def known(value: Any) -> Any:  # noqa: ANN401 - of any type
        if choices and isinstance(value, str) and value not in choices:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, choices))}")
        return value

    default = ", ".join(found) if isinstance(found := said["default"], list) else found
    more = [": ".join(filter(None, (first_sentence(said["is"])[:-1], ", ".join(among))))]
    more += [f"default: {default}"] if default else []
    return typer.Option(
        flag or FLAGS[parameter],
        metavar=metavar or "|".join(choices) or None,
        help="; ".join(more) + ".",
        callback=known,
    )


def first_sentence(text: str) -> str:
    """What an option is; how its values differ and when to set it follow."""
    return re.split(r"(?<=[.]) (?=[A-Z])", text)[0]


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
Formats = Annotated[list[str] | None, _setting("formats", "--format", "NAME,...", FORMATS.names)]
Annotations = Annotated[str | None, _setting("schema_version", "--schema")]
Container = Annotated[str | None, _setting("container")]
Host = Annotated[str | None, _setting("host", metavar="HOST")]
Prefix = Annotated[str | None, _setting("prefix", metavar="PREFIX")]
Reference = Annotated[str | None, _setting("reference", metavar="TOPIC")]
Rate = Annotated[float | None, _setting("rate_hz", "--rate", metavar="HZ")]
Every = Annotated[int | None, _setting("every", metavar="N")]
Distance = Annotated[float | None, _setting("distance_m", metavar="METRES")]
Moving = Annotated[bool | None, _setting("moving", "--moving")]
Keyframes = Annotated[bool | None, _setting("keyframes", "--keyframes")]
Require = Annotated[str | None, _setting("require", metavar="[SENSOR,...]")]
Workers = Annotated[int | None, _setting("workers", metavar="N")]
SplitEvery = Annotated[str | None, _setting("split_every", metavar="600s|2GB")]
Record = Annotated[bool | None, _setting("record", "--record/--no-record")]
Incomplete = Annotated[bool, typer.Option("--incomplete", hidden=True)]
INCOMPLETE = "--incomplete is no longer needed: samples that lack a sensor are written without it"
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Make no page (capture_report.html) beside the report.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON and nothing else.")]


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the configuration, also in blocks, of a command's parameters; None where none was given."""
    found: dict[str, Any] = {}
    for parameter, name in SETTINGS.items():
        value = given.get(parameter)
        block, _, option = name.rpartition(".")
        if block and value is not None:
            found.setdefault(block, {})[option] = value
        elif not block:
            found[option] = format_names(value) if option == "formats" else value
    return found


def format_names(formats: list[str] | None) -> list[str] | None:
    """Names from comma-separated lists without duplicates; None if no list was given."""
    return (
        list(dict.fromkeys(name.strip() for each in formats for name in each.split(","))) if formats else None
    )
