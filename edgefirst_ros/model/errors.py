"""The errors of this package; a message says what was found, what was expected and what to do.

Faults of a configuration as sentences for its user.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what shows the version, or help, needs no pydantic
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails


class EdgeFirstError(Exception):
    """Base class of all errors of this package."""


class ConfigError(EdgeFirstError, ValueError):
    """An invalid configuration.

    Args:
        faults: one sentence for every fault, with the name of the parameter.
    """

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


class DecodeError(EdgeFirstError, ValueError):
    """Data that cannot be decoded, or that a format cannot express; counted by their text, which is short."""


class RecordingError(EdgeFirstError, ValueError):
    """A recording that cannot be read."""


class StorageUnreachable(RecordingError):
    """A recording that cannot be read now: its store is away, or refuses. That says nothing of it."""


class RecordingNotFound(EdgeFirstError, FileNotFoundError):
    """No recording at that path."""


class OutputExists(EdgeFirstError, FileExistsError):
    """The output exists and overwriting was not requested."""


class WriteError(EdgeFirstError, OSError):
    """The output cannot be written: the disk is full, read-only or gone."""


class OutputBusy(WriteError):
    """Another process is writing or recovering it."""


class DatasetError(EdgeFirstError, ValueError):
    """A dataset that does not comply with its format, or is damaged."""


class DatasetNotFound(EdgeFirstError, FileNotFoundError):
    """No dataset at that path."""


class TransportError(EdgeFirstError, ConnectionError):
    """A connection to a device cannot be made or accepted."""


class ExtraNotInstalled(EdgeFirstError, ImportError):
    """A library of an optional part of the package is not installed."""


@contextmanager
def extra(name: str = "") -> Iterator[None]:
    """A block that imports modules of an extra of setup.py, or a part that few need and that may be left out.

    Raises:
        ExtraNotInstalled: a module is missing; the message has the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = f"'edgefirst_ros[{name}]'" if name else "edgefirst_ros"
        text = f"{error.name} is not installed: pip install {package}"
        raise ExtraNotInstalled(text, name=error.name) from error


def recovery(path: Path) -> str:
    """The command that finishes what was left at a path, as a shell takes it."""
    return f"edgefirst-ros recover {shlex.quote(str(path))}"


def sentences(error: ValidationError, root: type[BaseModel]) -> list[str]:
    """One sentence for every fault: parameter, what is wrong with it, and a similar name if it is unknown."""
    count, found = error.error_count(), error.errors()[:_MOST_FAULTS]
    places = [e["loc"] for e in found]
    more = [f"and {count - len(found):,} more faults"] if count > len(found) else []
    return [
        _sentence(e["type"], e["loc"], fault_text(e), root)
        for e in found
        # Pydantic calls a list too short if all its items are invalid, which is no fault of its own.
        if not (e["type"] == "too_short" and any(e["loc"] == p[: len(e["loc"])] != p for p in places))
    ] + more


def _sentence(kind: str, place: tuple[int | str, ...], text: str, root: type[BaseModel]) -> str:
    name = ".".join(map(str, place))
    parent = ".".join(map(str, place[:-1]))
    if kind == "extra_forbidden":
        return unknown_parameter(str(place[-1]), option_names(_model(root, place[:-1])), parent)
    if kind == "missing" and place[0] == "topics" and len(place) == 3:
        near = _nearest(str(place[1]), root.model_fields["topics"].get_default(call_default_factory=True))
        hint = f"; did you mean topics.{near}?" if near else ""
        return f"{name}: a new topic needs a {place[-1]}{hint}"
    text = text.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


_EXPECTED = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    **dict.fromkeys(("literal_error", "enum"), "{expected}"),
    "finite_number": "a finite number",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list, as [a, b]"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "parameters by name"),
    "string_type": "a text",
}
"""By kind of fault what was expected, with pydantic's names for the limits."""
_LONGEST_VALUE = 60
_MOST_FAULTS = 50


def fault_text(fault: ErrorDetails) -> str:
    """What was expected and what was found, in words that users of YAML know; pydantic's for rare faults."""
    kind, value = fault["type"], fault["input"]
    if kind not in _EXPECTED:
        return fault["msg"]
    limits = {name: f"{v:g}" if isinstance(v, float) else v for name, v in fault.get("ctx", {}).items()}
    found = str(value).lower() if isinstance(value, bool) else "nothing" if value is None else shown(value)
    quoted = "; put it in quotes" if kind == "string_type" and isinstance(value, bool | int | float) else ""
    return f"expected {_EXPECTED[kind].format_map(limits)}, found {found}{quoted}"


def shown(value: object) -> str:
    """A value as it is written, cut short; of what holds many, no more than is shown is written at all."""
    short = Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 4 * _LONGEST_VALUE, 4 * _LONGEST_VALUE
    try:
        text = short.repr(value)
    except ValueError:  # a number of more digits than Python writes
        text = "a number of thousands of digits"
    return f"{text[:_LONGEST_VALUE]}…" if len(text) > _LONGEST_VALUE else text


def unknown_parameter(name: str, known: Iterable[str], parent: str = "") -> str:
    """The sentence for a parameter that does not exist below ``parent``, with a similar one that does."""
    above = f"{parent}." if parent else ""
    near = _nearest(name, known)
    return f"{above}{name}: no such parameter" + (f"; did you mean {above}{near}?" if near else "")


def names_of(value: object) -> object:
    """A text of names separated by commas as a list, each once; any other value as it is."""
    return [*dict.fromkeys(map(str.strip, value.split(",")))] if isinstance(value, str) else value


def _nearest(name: str, known: Iterable[str]) -> str:
    """The known name most similar to what precedes a first dot, with the rest; empty if none is similar."""
    head, dot, rest = name.partition(".")
    by_ending = {each.rpartition(".")[2]: each for each in known if each != head}
    near = get_close_matches(head, by_ending, n=1)
    return f"{by_ending[near[0]]}{dot}{rest}" if near else ""


def option_names(model: object) -> list[str]:
    """Options of a model, behind those of the models in it, so that of two with one ending its own counts."""
    fields = getattr(model, "model_fields", {})
    return [
        *(f"{name}.{each}" for name, info in fields.items() for each in option_names(info.annotation)),
        *fields,
    ]


def _model(root: type[BaseModel], place: Sequence[int | str]) -> object:
    """The model, or whatever else is, at a place of nested models and dictionaries of models."""
    here: Any = root
    for part in place:
        fields = getattr(here, "model_fields", None)
        inner = (getattr(here, "__args__", None) or (None,))[-1]
        here = inner if fields is None else getattr(fields.get(str(part)), "annotation", None)
    return here
