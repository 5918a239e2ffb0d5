"""Every output format: ours, and those of installed packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgefirst_ros.formats.format import Format

GROUP = "edgefirst_ros.formats"
"""Entry points of a package's formats: a name and a subclass of ``Format``, or an instance of one."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class FormatTable(Mapping[str, "Format[Any]"]):
    """Formats by name, those built in first; they are imported, and other packages' looked for, at first use.

    A package whose format cannot be used is left out, and ``faults`` says why.

    Args:
        built_in: module and class of each format that is built in, as in an entry point.
    """

    def __init__(self, built_in: Mapping[str, str]) -> None:
        self._built_in = dict(built_in)
        self._formats: dict[str, Format[Any]] = {}
        self._faults: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all formats, without importing them: those of other packages may prove unusable."""
        return tuple(dict.fromkeys([*self._built_in, *(point.name for point in _points())]))

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for every format that cannot be used, with the name of its package."""
        self._all()
        return tuple(self._faults)

    def reserve(self, names: Iterable[str]) -> None:
        """Leave out other packages' formats with one of these names, which mean something else to a user."""
        for name in {*names} & (self._all().keys() - self._built_in.keys()):
            del self._formats[name]
            self._faults.append(
                f"format {name} cannot be used: the configuration uses its name for something else"
            )

    def check_names(self, names: Iterable[str]) -> None:
        """See that every name is one of a format.

        Raises:
            ValueError: one is not; the message says which there are, and how to get others.
        """
        for name in names:
            if name not in self:
                raise ValueError(
                    f"{name!r} is not a format; available: {', '.join(self)}; installed packages can add "
                    f"others (entry points {GROUP})" + "".join(f"; {f}" for f in self.faults)
                )

    def __getitem__(self, name: str) -> Format[Any]:
        """The format of a name."""
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        """Names, those built in first."""
        return iter(self._all())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all())

    def _all(self) -> Mapping[str, Format[Any]]:
        if not self._formats:
            self._formats = {
                name: EntryPoint(name, at, GROUP).load()() for name, at in self._built_in.items()
            }
            for point in _points():
                try:
                    self._add(point)
                except Exception as error:  # noqa: BLE001 - whatever another package does when it is imported
                    text = str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"
                    self._faults.append(
                        f"format {point.name} of the package {_package(point)} cannot be used: {text}"
                    )
        return self._formats

    def _add(self, point: EntryPoint) -> None:
        from pydantic import BaseModel

        from edgefirst_ros.formats.format import Format

        if point.name in self._formats:
            kind = "a built-in" if point.name in self._built_in else "another package's"
            raise _Refused(f"{kind} format has this name")
        if not _NAME.fullmatch(point.name):
            raise _Refused("a name is made of small letters, digits and _, and begins with a letter")
        loaded = point.load()
        made = loaded() if isinstance(loaded, type) else loaded
        if not isinstance(made, Format):
            raise _Refused(f"{point.value} is not an edgefirst_ros.formats.format.Format")
        if made.name != point.name:
            raise _Refused(f"it calls itself {made.name!r}")
        if not issubclass(made.options, BaseModel):
            raise _Refused(f"{made.options} is not a pydantic model")
        made.options()
        self._formats[made.name] = made


class _Refused(Exception):
    """Why an entry point is not a format."""


def _points() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, _package(point)))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"


FORMATS = FormatTable(
    {
        "edgefirst": "edgefirst_ros.formats.edgefirst.format:EdgeFirstFormat",
        "ncore": "edgefirst_ros.formats.ncore.format:NCoreFormat",
        "l5kit": "edgefirst_ros.formats.l5kit.format:L5KitFormat",
    }
)
"""Every format by name: built-in ones, a line each, then those of installed packages."""
