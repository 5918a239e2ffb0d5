"""ROS parameters without ROS: specified by models, nested into their values, and read from files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from edgefirst_ros.config.yamltext import read_yaml
from edgefirst_ros.model.errors import ConfigError

Kind = Literal["bool", "integer", "double", "string", "integer array", "double array", "string array"]
Value = bool | int | float | str | list[int] | list[float] | list[str]

_TYPES: Mapping[str, type] = {"bool": bool, "integer": int, "double": float, "string": str}
_KINDS = {"boolean": "bool", "integer": "integer", "number": "double"}
"""By the types of JSON schemas; whatever else is a string."""
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
_WILDCARDS = {"*": "/[^/]+", "**": "(/[^/]+)*"}


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter, before it is declared to ROS.

    ``constraints`` are for people; the models refuse what does not meet them. A ROS parameter always has a
    value: if ``optional``, an empty string or array, or nan, stands for "not set".
    """

    path: tuple[str, ...]
    kind: Kind
    default: Value
    description: str
    constraints: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False

    @property
    def name(self) -> str:
        """The parameter's name: the path joined by dots."""
        return ".".join(self.path)

    def is_unset(self, value: object) -> bool:
        """Whether the value stands for "not set"."""
        return self.optional and (value in ("", [], ()) or (isinstance(value, float) and math.isnan(value)))


def specify(model: type[BaseModel], names: Sequence[str] = ()) -> list[ParameterSpec]:
    """Parameters for every field of a model; names of nested fields are joined by dots.

    A mapping field has parameters for every key of its default, and for every further key in ``names``, the
    names of parameters that were given.
    """
    schema = model.model_json_schema()
    defaults = model.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    given = [tuple(name.split(".")) for name in names]

    def resolved(said: Mapping[str, Any]) -> Mapping[str, Any]:
        one: Mapping[str, Any] = next((e for e in said.get("anyOf", ()) if e.get("type") != "null"), {})
        said = {**one, **said}
        return {**schema.get("$defs", {}).get(said.get("$ref", "").rpartition("/")[2], {}), **said}

    def walk(said: Mapping[str, Any], default: Any, path: tuple[str, ...]) -> Iterator[ParameterSpec]:  # noqa: ANN401
        said, known = resolved(said), default or {}
        if "properties" in said:
            for name, each in said["properties"].items():
                yield from walk(each, known.get(name, each.get("default")), (*path, name))
        elif isinstance(each := said.get("additionalProperties"), dict):
            more = {name[len(path)] for name in given if name[: len(path)] == path and len(name) > len(path)}
            for key in [*known, *sorted(more - known.keys())]:
                yield from walk({"description": said["description"], **each}, known.get(key), (*path, key))
        else:
            inner = said.get("prefixItems", [said.get("items", {})])[0]
            yield _spec(path, said, resolved(inner) if said.get("type") == "array" else said, default)

    return list(walk(schema, defaults, ()))


def nest(values: Mapping[str, Any], specs: Sequence[ParameterSpec]) -> dict[str, Any]:
    """Nest parameter values, by name, as the model expects them; values that are not set are left out.

    Unknown names stay as they are, so that the model reports them.
    """
    known = {spec.name: spec for spec in specs}
    nested: dict[str, Any] = {}
    for name, value in values.items():
        spec = known.get(name)
        if value is None or (spec is not None and spec.is_unset(value)):
            continue
        *parents, leaf = (name,) if spec is None else spec.path
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[leaf] = value
    return nested


def converted(spec: ParameterSpec, value: object) -> Value | None:
    """The value as the parameter's type, None if it has another type; integers are accepted as doubles."""
    one, _, is_array = spec.kind.partition(" ")
    kind: Any = _TYPES[one]
    if is_array:
        kind, is_list = list[kind], isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        value = [*value] if is_list else None  # type: ignore[misc]
    try:
        found: Value = TypeAdapter(kind).validate_python(value, strict=True)
    except (ValidationError, OverflowError):
        return None
    return found


QOS_OVERRIDE = "qos_overrides."


def _spec(
    path: tuple[str, ...], said: Mapping[str, Any], each: Mapping[str, Any], default: Value | None
) -> ParameterSpec:
    """Of what a schema says of a field, and of ``each`` of its values."""
    array = "" if each is said else " array"
    kind: Any = _KINDS.get(each.get("type", ""), "string") + array
    choices = tuple(map(str, each.get("enum", [each["const"]] if "const" in each else ())))
    bounds = ", ".join(f"{word} {said[key]:g}" for key, word in _BOUNDS.items() if key in said)
    notes = ["one of " + ", ".join(map(repr, choices)) if choices else bounds]
    if default is None:
        notes.append("nan: not set" if kind == "double" else "empty: not set")
    unset: Value = math.nan if kind == "double" else [] if array else ""
    value = unset if default is None else default
    constraints = "; ".join(filter(None, notes))
    return ParameterSpec(path, kind, value, said["description"], constraints, choices, default is None)


def folder_of(arguments: Sequence[str]) -> Path:
    """Where a process's first parameter file is, from which it names others; without any where it runs."""
    files = [value for option, value in pairwise(arguments) if option == "--params-file"]
    return Path(files[0]).parent if files else Path()


def check_parameter_files(arguments: Sequence[str], node: str) -> None:
    """Reject parameter files that hold nothing for this node.

    ROS itself would silently start the node with its defaults if a file names only other nodes, or this one
    in another namespace.

    Args:
        arguments: all arguments of the process.
        node: the node's name, unless an argument remaps it.

    Raises:
        ConfigError: a file is missing, is not YAML, or holds nothing for this node.
    """
    ours, space, name, files = False, "", node, list[Path]()
    for option, value in pairwise([*arguments, ""]):
        ours = option == "--ros-args" or (ours and option != "--")
        remap = re.fullmatch(rf"(?:{re.escape(node)}:)?__(ns|node|name):=(.*)", value)
        if ours and option == "--params-file":
            files.append(Path(value))
        elif ours and option in {"-r", "--remap"} and remap is not None:
            space, name = (remap[2].strip("/"), name) if remap[1] == "ns" else (space, remap[2])
    own = f"/{space}/{name}" if space else f"/{name}"
    if faults := [fault for file in files for fault in _faults(file, own)]:
        raise ConfigError(faults)


def _faults(path: Path, node: str) -> list[str]:
    try:
        names = list(_nodes(read_yaml(path)))
    except ConfigError as error:
        return error.faults
    for name in names:
        tokens = (_WILDCARDS.get(each, f"/{re.escape(each)}") for each in name.strip("/").split("/"))
        if re.fullmatch("".join(tokens), node):
            return []
    found = f"parameters of {', '.join(names)}" if names else "parameters of no node"
    return [f"{path}: holds {found}, none of {node}; begin it with /**: and ros__parameters:"]


def _nodes(data: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The nodes that a file has parameters of; namespaces may be nested levels."""
    for key, value in data.items():
        name = f"{above}/{str(key).strip('/')}"
        if isinstance(value, dict) and "ros__parameters" in value:
            yield name
        elif isinstance(value, dict):
            yield from _nodes(value, name)
