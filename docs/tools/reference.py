"""Writes docs/configuration.md and docs/simulator.md: options with type, unit, default and command line."""

from __future__ import annotations

import re
import runpy
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import BaseMetadata, Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgefirst_ros.cli.app import COMMANDS, Commands
from edgefirst_ros.cli.options import SETTINGS
from edgefirst_ros.config.model import MAIVIN_TOPICS, Config, TopicRule
from edgefirst_ros.formats.format import OptionsModel
from edgefirst_ros.model.sensors import SENSORS, Role
from edgefirst_ros.nodes.options import CaptureOptions, ReplayOptions
from edgefirst_ros.simulation import DriveOptions

PAGE = Path(__file__).resolve().parents[1] / "configuration.md"
SIMULATOR = PAGE.with_name("simulator.md")
UNITS = {
    "_hz": "Hz",
    "_mb": "MB",
    "_ms": "ms",
    "_mm": "mm",
    "_m_s": "m/s",
    "_deg": "°",
    "_s": "s",
    "_m": "m",
    "_xyzw": "x, y, z, w",
}
"""Units by the ends of names, those first that end like another."""
SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
NARROW = "\u202f"
"""A space at which no line ends."""
PLAIN = {bool: "yes or no", int: "integer", float: "number", str: "text", Path: "path", dict: "mapping"}

HEAD = """\
<!-- Made by `make reference` from the models; edit their descriptions instead. -->
# Configuration

Write options into a YAML file and give it to COMMANDS:

```yaml
formats: [edgefirst, ncore]
rate_hz: 2.0
topics:
  camera: {topic: /front/image_raw/compressed}
  lidar_points: {topic: /points, tolerance_ms: 60.0}
edgefirst: {split: drive}
```

The ROS nodes have the same options as parameters: `rate_hz`, `edgefirst.split`. A file may have the form of
ROS 2: `/**: {ros__parameters: {...}}`. There an empty text or list, or `.nan`, means "not set".

Options of the command line come before those of the file. A wrong name is an error that says what you may
mean. Files are named from the folder of the file that names them. `edgefirst-ros suggest` makes a file for
your robot. Three others are shipped: [maivin.yaml](../config/maivin.yaml),
[raivin.yaml](../config/raivin.yaml) and [generic.yaml](../config/generic.yaml).

## The options to know
"""
ENTRIES = """\
## Topics

An entry of `topics` says how one topic is used. These entries exist. What you write changes single values of
them. A new entry needs a `role`, unless its name is one. Names are without the device's prefix.
"""
ROLES = """\
### Roles

A *sensor* is paired with frames by time. *Calibration* applies until its next message. *Motion*
gives the rig's poses.
"""
EXPERTS = """\
## For experts

All other options. One with a dot is in a block: `ncore.store` is `ncore: {store: directory}`.
"""
NODES = """\
## The nodes

ROS parameters of the nodes alone. `--config` passes over them.
"""
DRIVES = """\
<!-- Made by `make reference` from the models; edit their descriptions instead. -->
# Simulated drives

`edgefirst-ros simulate` makes a recording, as a device would. `--set` takes these options. Values are YAML:

```
edgefirst-ros simulate -o recording --set boxes3d=true --set stops='[[4,8]]'
```

A span is its begin and end, in seconds since the drive's start.

| option | default | values | meaning |
|---|---|---|---|
"""
FIRST = (
    *("formats", "rate_hz", "topics", "reference", "prefix", "rig_frame", "class_names", "pictures"),
    *("select.require", "edgefirst.split", "edgefirst.container", "ncore.ego_masks"),
)
"""Options that a first page has."""


@dataclass(frozen=True, slots=True)
class Row:
    """One option: its name with that of its block, and what the page says of it."""

    name: str
    kind: str
    default: str
    meaning: str

    def line(self, flags: Mapping[str, Sequence[str]]) -> str:
        """A line of a table."""
        shown = ", ".join(f"`{flag}`" for flag in flags.get(self.name, ()))
        cells = (f"`{self.name}`", self.kind, f"`{self.default}`", shown, self.meaning)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def rows(model: type[BaseModel], block: str = "") -> Iterator[Row]:
    """Every option of a model and of those in it, in their order.

    Raises:
        ValueError: an option has no description.
    """
    for name, info in model.model_fields.items():
        kinds = [info.annotation, *get_args(info.annotation)]
        inner = next(
            (each for each in kinds if isinstance(each, type) and issubclass(each, OptionsModel)), None
        )
        if inner is not None:
            yield from rows(inner, f"{block}{name}.{'NAME.' * (inner is TopicRule)}")
        if inner not in {None, TopicRule}:
            continue
        if not info.description:
            raise ValueError(f"{model.__name__}.{name} needs a description")
        default = "required" if info.is_required() else plain(info.get_default(call_default_factory=True))
        default = "those below" if inner is TopicRule else default
        yield Row(block + name, kind(name, info), default, escaped(" ".join(info.description.split())))


def kind(name: str, info: FieldInfo) -> str:
    """Type, unit and allowed values of an option."""
    words = [type_of(info.annotation)]
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
    if unit and "number" in words[0]:
        words.append(unit)
    words += [
        f"{SIGNS[type(each)]}{NARROW}{bound(each):.12g}" for each in info.metadata if type(each) in SIGNS
    ]
    if type(None) in get_args(info.annotation):
        words.append("or unset")
    return ", ".join(words)


def bound(limit: BaseMetadata) -> float:
    """The number in a limit."""
    return float(getattr(limit, type(limit).__name__.lower()))


def type_of(annotation: Any) -> str:  # noqa: ANN401 - any type a model's field may have
    """A type as users of YAML call it, with the values that it allows if they are few."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        words = " or ".join(type_of(each) for each in inner if each is not types.NoneType)
    elif origin is Literal:
        words = " / ".join(f"`{each}`" if each else "empty" for each in inner)
    elif origin is tuple and inner[-1:] != (...,):
        words = f"{len(inner)} {'texts' if type_of(inner[0]) == 'text' else 'numbers'}"
    elif origin is Annotated:
        words = type_of(inner[0])
    elif origin in {tuple, list, Sequence}:
        words = f"list of {type_of(inner[0])}"
    elif origin in {dict, Mapping}:
        words = f"mapping of {'names' if inner[0] is str else 'labels'} to {type_of(inner[1])}"
    elif annotation is Role:
        words = "one of the roles below"
    elif issubclass(annotation, StrEnum):
        words = " / ".join(f"`{each}`" for each in annotation)
    else:
        words = "entries" if issubclass(annotation, BaseModel) else PLAIN[annotation]
    return words


def plain(value: Any) -> str:  # noqa: ANN401 - any default
    """A default as YAML has it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, Mapping):
        return "{}"
    return str(value) if str(value) else '""'


def escaped(text: str) -> str:
    """A description as Markdown: names of options and topics keep their stars and brackets."""
    return re.sub(r"([*<>_](?=\W|$)|(?<=\W)[*<_])", r"\\\1", text)


def commands() -> Iterator[tuple[str, list[Any]]]:
    """Every command of the command line with its parameters, as typer has them."""
    group = Commands()
    for name in COMMANDS:
        yield name, group.get_command(None, name).params


def flags() -> dict[str, list[str]]:
    """Options of convert and capture by the option of the configuration that they set."""
    found: dict[str, list[str]] = {}
    for command, parameters in commands():
        for parameter in parameters if command in {"convert", "capture"} else ():
            name = SETTINGS.get(f"{parameter.name}", f"{parameter.name}")
            if parameter.opts[0] not in found.setdefault(name, []):
                found[name].append(parameter.opts[0])
    return found


def table(found: Iterable[Row]) -> Iterator[str]:
    """The lines of a table of options."""
    known = flags()
    yield "| option | type | default | command line | meaning |"
    yield "|---|---|---|---|---|"
    for row in found:
        yield row.line(known)
    yield ""


def entries() -> Iterator[str]:
    """The topics that are used without any configuration."""
    yield "| entry | role | topic | other values |"
    yield "|---|---|---|---|"
    for name, rule in MAIVIN_TOPICS.items():
        own = rule.model_dump(exclude_defaults=True, exclude={"topic", "role", "info_file"})
        values = ", ".join(f"`{key}: {plain(value)}`" for key, value in own.items())
        yield f"| `{name}` | `{rule.role}` | `{rule.topic}` | {values} |"
    yield ""


def roles() -> Iterator[str]:
    """The message types of each role."""
    yield "| role | kind | message types |"
    yield "|---|---|---|"
    for role, sensor in SENSORS.items():
        shown = ", ".join(f"`{each.replace('/msg/', '/')}`" for each in sensor.decoders)
        kind = sensor.kind.value.replace("companion", "sensor")
        yield f"| `{role}` | {kind} | {shown} |"
    yield ""


def attributes(model: type[Any]) -> dict[str, str]:
    """What the docstring of options of a drive says of each."""
    text = f"{model.__doc__}".partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", text, re.M)
    return {name: re.sub(r"\s+", " ", said).strip().replace("``", "`") for name, said in found}


def drives(model: type[Any] = DriveOptions, block: str = "") -> Iterator[str]:
    """Lines of a table of the options of a simulated drive; without an own word, that of the whole."""
    said, kinds = attributes(model), get_type_hints(model)
    for each in fields(model):
        if is_dataclass(kinds[each.name]):
            yield from drives(kinds[each.name], f"{block}{each.name}.")
            continue
        default = {} if each.default is MISSING else each.default
        choices = get_args(kinds[each.name]) if get_origin(kinds[each.name]) is Literal else ()
        shown = " / ".join(f"`{choice or '(empty)'}`" for choice in choices)
        meaning = said.get(each.name) or next((of for of in said.values() if f"{each.name}" in of), None)
        if meaning is None:
            meaning = f"{model.__doc__}".partition("\n")[0].partition(";")[0]
        parts = meaning.rstrip(".").split("`")
        meaning = "`".join(escaped(part) if at % 2 == 0 else part for at, part in enumerate(parts))
        default = "unset" if default is None else plain(default)
        cells = (f"`{block}{each.name}`", f"`{default}`", shown, meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """The whole page of options."""
    known = {row.name: row for row in rows(Config)}
    takers = [f"`{name}`" for name, each in commands() if any("--config" in p.opts for p in each)]
    head = HEAD.replace("COMMANDS", f"{', '.join(takers[:-1])} or {takers[-1]} with `--config FILE`")
    lines = [head, *table(known.pop(name) for name in FIRST)]
    lines += [ENTRIES, *entries(), ROLES, *roles(), EXPERTS, *table(known.values()), NODES]
    for title, model in (("capture", CaptureOptions), ("replay", ReplayOptions)):
        lines += [f"### `{title}`", "", *table(rows(model))]
    return "\n".join(lines).rstrip() + "\n"


def simulator() -> str:
    """The page of the simulator's options."""
    return "\n".join([DRIVES.rstrip(), *drives()]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SIMULATOR.write_text(simulator(), encoding="utf-8")
    runpy.run_path(str(PAGE.parent / "tools" / "helps.py"), run_name="__main__")
