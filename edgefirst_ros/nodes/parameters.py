"""A validated model as typed, described parameters, and parameters as the model's values."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Kind = Literal["bool", "integer", "double", "string", "integer array", "double array", "string array"]
Value = bool | int | float | str | list[int] | list[float] | list[str]

_KINDS: Mapping[type, Kind] = {bool: "bool", int: "integer", float: "double", str: "string", Path: "string"}
_ARRAYS: Mapping[Kind, Kind] = {
    "integer": "integer array",
    "double": "double array",
    "string": "string array",
}


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter before anything of ROS knows it.

    ``limits`` are inclusive; what they cannot say is in ``constraints``. Parameters always have a value:
    where ``optional``, an empty string or array or a nan stands for none.
    """

    path: tuple[str, ...]
    kind: Kind
    default: Value
    description: str
    constraints: str = ""
    limits: tuple[float, float] | None = None
    optional: bool = False

    @property
    def name(self) -> str:
        """The parameter's name: the path with dots."""
        return ".".join(self.path)

    def is_unset(self, value: object) -> bool:
        """Whether the value stands for none."""
        return self.optional and (value in ("", [], ()) or (isinstance(value, float) and math.isnan(value)))


def specify(model: type[BaseModel], names: Sequence[str] = ()) -> list[ParameterSpec]:
    """Parameters of every field of a model, nested ones with dots.

    A field that is a mapping has a parameter for every key of its default and for every key that ``names``
    (of parameters somebody gave) mention below it.

    Raises:
        TypeError: a field of the model has a type that no parameter can have.
    """
    return list(_fields(model, {}, (), [tuple(name.split(".")) for name in names]))


def nest(values: Mapping[str, Any], specs: Sequence[ParameterSpec]) -> dict[str, Any]:
    """Parameters by name as nested values for the model; those not set are left out.

    Names that are no parameter stay as they are, so that the model says that it knows no such name.
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


def fits(spec: ParameterSpec, value: object) -> Value | None:
    """The value as the parameter's type, None if it is of another one; whole numbers are numbers, too."""
    if not spec.kind.endswith(" array"):
        return _scalar(spec.kind, value)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return None
    scalars = [_scalar(spec.kind.removesuffix(" array"), each) for each in value]
    return None if None in scalars else scalars  # type: ignore[return-value]


def _scalar(kind: str, value: object) -> bool | int | float | str | None:
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if kind == "double":
        return float(value) if isinstance(value, (int, float)) else None
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
        default = defaults[name] if name in defaults else _default(info)
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
    yield ParameterSpec(path, kind, value, info.description or "", constraints, _limits(info), unset)


def _none(kind: Kind, path: tuple[str, ...]) -> tuple[Value, str]:
    """What stands for none, and how that is said."""
    if kind == "string":
        return "", "empty: not set"
    if kind == "double":
        return math.nan, "nan: not set"
    if kind.endswith(" array"):
        return [], "empty: not set"
    raise TypeError(f"{'.'.join(path)}: a parameter of type {kind} has no value that stands for none")


def _default(info: FieldInfo) -> Any:  # noqa: ANN401 - whatever the field holds
    return None if info.is_required() else info.get_default(call_default_factory=True)


def _plain(value: Any) -> Value:  # noqa: ANN401 - whatever the field holds
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, (StrEnum, Path)):
        return str(value)
    return value  # type: ignore[no-any-return]


def _kind(annotation: Any, path: tuple[str, ...]) -> tuple[Kind, tuple[str, ...]]:  # noqa: ANN401 - any type
    """A field's kind of parameter, and its choices if they are listed."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        # Only "or None" occurs: such a parameter may stay unset.
        return _kind(next(a for a in arguments if a is not types.NoneType), path)
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
