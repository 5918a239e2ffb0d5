"""What is wrong with a configuration, in the words of its user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


def sentences(error: ValidationError, root: type[BaseModel]) -> list[str]:
    """One sentence for every fault: the parameter, what is wrong with it, and which may be meant."""
    found = error.errors()
    places = [e["loc"] for e in found]
    return [
        _sentence(e["type"], e["loc"], _said(e), root)
        for e in found
        # Of a list whose every item is faulty nothing is left, which is no fault of its own.
        if not (e["type"] == "too_short" and any(e["loc"] == p[: len(e["loc"])] != p for p in places))
    ]


def _sentence(kind: str, place: tuple[int | str, ...], text: str, root: type[BaseModel]) -> str:
    name = ".".join(map(str, place))
    parent = ".".join(map(str, place[:-1]))
    if kind == "extra_forbidden":
        model = _model(root, place[:-1])
        return no_such(str(place[-1]), model.model_fields if model else (), parent)
    if kind == "missing" and place[0] == "topics":
        meant = _meant(str(place[1]), root.model_fields["topics"].get_default(call_default_factory=True))
        hint = f"; did you mean topics.{meant}?" if meant else ""
        return f"{name}: a new topic needs a {place[-1]}{hint}"
    text = text.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def _said(fault: ErrorDetails) -> str:
    """Pydantic's words, but for the kinds of Python that a user of YAML need not know."""
    if fault["type"] in {"tuple_type", "list_type"}:
        return f"expected a list, as [a, b], found {fault['input']!r}"
    return fault["msg"]


def no_such(name: str, known: Iterable[str], parent: str = "") -> str:
    """The sentence for a name that means nothing below ``parent``, and which known one may be meant."""
    above = f"{parent}." if parent else ""
    meant = _meant(name, known)
    return f"{above}{name}: no such parameter" + (f"; did you mean {above}{meant}?" if meant else "")


def names_of(value: object) -> object:
    """A list of names; one alone, or several with commas between them, need no brackets."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def _meant(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest, with what follows a first dot; empty if none is near."""
    head, dot, rest = name.partition(".")
    near = get_close_matches(head, [each for each in known if each != head], n=1)
    return f"{near[0]}{dot}{rest}" if near else ""


def _model(root: type[BaseModel], place: Sequence[int | str]) -> type[BaseModel] | None:
    """The model at a place, through fields and dictionaries of models."""
    here: Any = root
    for part in place:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(str(part))
            here = None if field is None else field.annotation
        else:
            here = (getattr(here, "__args__", None) or (None,))[-1]
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None
