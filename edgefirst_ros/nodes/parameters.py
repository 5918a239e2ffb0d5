"""ROS parameters without ROS: specified by models, nested into their values, and read from files."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgefirst_ros.config.yamltext import read_yaml
from edgefirst_ros.model.errors import ConfigError

Kind = Literal["bool", "integer", "double", "string", "integer array", "double array", "string array"]
Value = bool | int | float | str | list[int] | list[float] | list[str]

_KINDS: Mapping[type, Kind] = {bool: "bool", int: "integer", float: "double", str: "string", Path: "string"}
_ARRAYS: Mapping[Kind, Kind] = {
    "integer": "integer array",
    "double": "double array",
    "string": "string array",
}

_WILDCARDS = {"*": "/[^/]+", "**": "(/[^/]+)*"}


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter, before it is declared to ROS.

    ``limits`` are inclusive; restrictions that they cannot express are in ``constraints``. A ROS parameter
    always has a value: if ``optional``, an empty string or array, or nan, stands for "not set".
    """

    path: tuple[str, ...]
    kind: Kind
    default: Value
    description: str
    constraints: str = ""
    choices: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None
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

    Raises:
        TypeError: a field's type cannot be that of a parameter.
    """
    return list(_fields(model, {}, (), [tuple(name.split(".")) for name in names]))


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
    if not spec.kind.endswith(" array"):
        return _scalar(spec.kind, value)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return None
    scalars = [_scalar(spec.kind.removesuffix(" array"), each) for each in value]
    return None if None in scalars else scalars  # type: ignore[return-value]


QOS_OVERRIDE = "qos_overrides."
_OVERRIDE = re.compile(r"qos_overrides\./[^.]+\.subscription\.(\w+)")
_QOS: Mapping[str, tuple[str, ...]] = {
    "reliability": ("reliable", "best_effort", "best_available", "system_default"),
    "durability": ("volatile", "transient_local", "best_available", "system_default"),
    "history": ("keep_last", "keep_all", "system_default"),
    "depth": (),
}
"""The policies that can be overridden for a subscription, and their values; of depth, numbers from 1."""


def qos_faults(given: Mapping[str, object]) -> Iterator[str]:
    """What is wrong with parameters that override the quality of service of subscriptions.

    rclpy ignores names that mean nothing, and refuses values when it subscribes, which costs the topic.
    """
    for name, value in sorted(given.items()):
        found = _OVERRIDE.fullmatch(name)
        values = _QOS.get(found[1]) if found is not None else None
        if ".publisher." in name:
            continue
        if values is None:
            expected = f"{QOS_OVERRIDE}/FULL/TOPIC.subscription.POLICY, one of {', '.join(_QOS)}"
            yield f"{name}: means nothing; expected {expected}"
        elif values and value not in values:
            yield f"{name}: {value!r}; expected one of {', '.join(values)}"
        elif not values and (type(value) is not int or value < 1):
            yield f"{name}: {value!r}; expected a number from 1"


def _scalar(kind: str, value: object) -> bool | int | float | str | None:
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if kind == "double":
        try:
            return float(value) if isinstance(value, (int, float)) else None
        except OverflowError:
            return None
    if kind == "integer":
        return value if isinstance(value, int) else None
    return value if isinstance(value, str) else None


def _fields(
    model: type[BaseModel],
    defaults: Mapping[str, Any],
    path: tuple[str, ...],
    given: Sequence[tuple[str, ...]],
) -> Iterator[ParameterSpec]:
    for name, info in model.model_fields.items():
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        default = defaults.get(name, default)
        yield from _field(info.annotation, info, default, (*path, name), given)


def _field(
    annotation: Any,  # noqa: ANN401 - any type a model's field may have
    info: FieldInfo,
    default: Any,  # noqa: ANN401 - of that type
    path: tuple[str, ...],
    given: Sequence[tuple[str, ...]],
) -> Iterator[ParameterSpec]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _fields(annotation, dict(default) if default is not None else {}, path, given)
        return
    if get_origin(annotation) in {dict, Mapping}:
        _, inner = get_args(annotation)
        more = {name[len(path)] for name in given if name[: len(path)] == path and len(name) > len(path)}
        known = default or {}
        for key in [*known, *sorted(more - set(known))]:
            yield from _field(inner, info, known.get(key), (*path, key), given)
        return
    kind, choices = _kind(annotation, path)
    unset = default is None
    value, note = _none(kind, path) if unset else (_plain(default), "")
    constraints = "; ".join(text for text in (_constraints(info, choices), note) if text)
    told = info.description or ""
    yield ParameterSpec(path, kind, value, told, constraints, choices, _limits(info), unset)


def _none(kind: Kind, path: tuple[str, ...]) -> tuple[Value, str]:
    """The value that stands for "not set", and its description."""
    if kind == "string":
        return "", "empty: not set"
    if kind == "double":
        return math.nan, "nan: not set"
    if kind.endswith(" array"):
        return [], "empty: not set"
    raise TypeError(f"{'.'.join(path)}: a parameter of type {kind} has no value for 'not set'")


def _plain(value: Any) -> Value:  # noqa: ANN401 - whatever the field holds
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, (StrEnum, Path)):
        return str(value)
    return value  # type: ignore[no-any-return]


def _kind(annotation: Any, path: tuple[str, ...]) -> tuple[Kind, tuple[str, ...]]:  # noqa: ANN401 - any type
    """The parameter type of a field, and its choices if it is an enumeration."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        # Only unions with None occur: such a parameter may stay unset.
        return _kind(next(a for a in arguments if a is not types.NoneType), path)
    if origin is Annotated:
        return _kind(arguments[0], path)
    if origin is Literal:
        return "string", tuple(str(each) for each in arguments)
    if origin in {tuple, list, Sequence}:
        inner, choices = _kind(arguments[0], path)
        return _ARRAYS[inner], choices
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "string", tuple(str(each) for each in annotation)
    if annotation in _KINDS:
        return _KINDS[annotation], ()
    raise TypeError(f"{'.'.join(path)}: a parameter cannot be of type {annotation}")


def _bounds(info: FieldInfo) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in info.metadata:
        for kind, key in ((bounds.Ge, "ge"), (bounds.Gt, "gt"), (bounds.Le, "le"), (bounds.Lt, "lt")):
            if isinstance(each, kind):
                found[key] = getattr(each, key)
    return found


def _limits(info: FieldInfo) -> tuple[float, float] | None:
    found = _bounds(info)
    return (found["ge"], found["le"]) if "ge" in found and "le" in found else None


def _constraints(info: FieldInfo, choices: Sequence[str]) -> str:
    if choices:
        return "one of " + ", ".join(repr(choice) for choice in choices)
    if _limits(info) is not None:
        return ""
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    return ", ".join(f"{words[key]} {value:g}" for key, value in _bounds(info).items())


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
    space = ""
    files: list[str] = []
    for option, value in _options(arguments):
        if option == "--params-file":
            files.append(value)
            continue
        rule, _, name = value.partition(":=")
        target, _, what = rule.rpartition(":")
        if target not in ("", node):
            continue
        if what == "__ns":
            space = name.strip("/")
        elif what in ("__node", "__name"):
            node = name
    own = f"/{space}/{node}" if space else f"/{node}"
    faults = [fault for file in files for fault in _faults(Path(file), own)]
    if faults:
        raise ConfigError(faults)


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The ROS options of interest, each with its value."""
    ours, waiting = False, ""
    for argument in arguments:
        if not ours:
            ours = argument == "--ros-args"
        elif argument == "--":
            ours, waiting = False, ""
        elif waiting:
            yield {"-r": "--remap"}.get(waiting, waiting), argument
            waiting = ""
        elif argument in ("--params-file", "--remap", "-r"):
            waiting = argument


def _faults(path: Path, node: str) -> list[str]:
    try:
        blocks = list(_blocks(read_yaml(path)))
    except ConfigError as error:
        return error.faults
    if any(meant and re.fullmatch(_pattern(name), node) for name, meant in blocks):
        return []
    found = ", ".join(name for name, _ in blocks) or "nothing"
    return [f"{path}: holds {found}, nothing for {node}; begin it with /**: and ros__parameters:"]


def _blocks(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, bool]]:
    """Every name in a file, and whether it is a node's; namespaces may be nested levels."""
    for key, value in data.items():
        name = f"{above}/{str(key).strip('/')}" if above else str(key)
        if not isinstance(value, dict):
            yield name, False
        elif "ros__parameters" in value:
            yield name, True
        else:
            yield from _blocks(value, name) if value else [(name, False)]


def _pattern(name: str) -> str:
    """Regular expression of the full node names that a name in a file, with its wildcards, matches."""
    return "".join(_WILDCARDS.get(token, f"/{re.escape(token)}") for token in name.strip("/").split("/"))
