"""What models of options have in common: no other names, and those that they had before.

Files, recordings and journals that were written with an earlier version hold its options, mostly all of them
with their defaults. They stay valid: what has another name is taken for it, and a default that has become a
constant is passed over. Any other value of what is gone is a fault that says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Former:
    """An option that there was.

    Attributes:
        default: its value where nobody chose another one.
        into: the option that took its place; empty if the default is what always holds now.
        value: the new option's value, of the former one's and the new one's so far.
        instead: what a user can do in place of setting it.
    """

    default: object
    into: str = ""
    value: Callable[[Any, Any], object] = lambda former, _: former
    instead: str = ""


class Options(BaseModel):
    """Options by name, none of which is unknown; a subclass lists its former ones in their order."""

    model_config = STRICT
    former: ClassVar[Mapping[str, Former]] = {}

    @model_validator(mode="before")
    @classmethod
    def _by_present_names(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic hands over whatever the user wrote
        """The new name counts where it has more than its default, which ROS parameters always have."""
        if not isinstance(data, dict):
            return data
        present = {name: value for name, value in data.items() if name not in cls.former}
        if faults := [*cls._gone(data)]:
            raise ValueError("; ".join(faults))
        defaults = {name: info.get_default() for name, info in cls.model_fields.items()}
        chosen = {name for name in present if not is_same(present[name], defaults.get(name))}
        for name, former in cls.former.items():
            if former.into and name in data and former.into not in chosen:
                so_far = present.get(former.into, defaults[former.into])
                present[former.into] = former.value(data[name], so_far)
        return present

    @classmethod
    def _gone(cls, data: Mapping[str, object]) -> Iterator[str]:
        for name, former in cls.former.items():
            if not former.into and name in data and not is_same(data[name], former.default):
                always = "" if former.default is None else f"it is always {former.default}"
                yield f"{name} is no option any more: {'; '.join(filter(None, (always, former.instead)))}"


def is_same(value: object, other: object) -> bool:
    """Whether two values of an option are equal; a file's lists are tuples here."""
    return (list(value) if isinstance(value, tuple) else value) == (
        list(other) if isinstance(other, tuple) else other
    )
