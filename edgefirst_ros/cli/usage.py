"""What is wrong with the arguments of a command, in a sentence; as JSON too, where that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from edgefirst_ros.cli.help import typed
from edgefirst_ros.cli.shared import EXIT_USAGE, print_faults
from edgefirst_ros.cli.terminal import make_console, print_line

_ERRORS = tuple(
    kind
    for kind in typer.BadParameter.__mro__
    if issubclass(kind, Exception) and kind.__name__ == "UsageError"
)
"""Typer brings a click of its own in some versions, and does not export its error."""
_AS_JSON = "edgefirst_ros.as_json"
"""In what a context knows: whether ``--json`` was given."""


def note_arguments(ctx: Any, arguments: Sequence[str]) -> None:  # noqa: ANN401 - typer's own click
    """Note whether errors are to be JSON, too: what is wrong with the arguments, first of all."""
    ctx.meta[_AS_JSON] = "--json" in arguments


@contextmanager
def usage_told(ctx: Any) -> Iterator[None]:  # noqa: ANN401 - typer's own click
    """Print what is wrong with the arguments, and end with EXIT_USAGE."""
    try:
        yield
    except _ERRORS as error:
        err = make_console(stderr=True)
        print_faults(err, [_sentence(error)], as_json=ctx.meta.get(_AS_JSON, False))
        at = getattr(error, "ctx", None) or ctx
        print_line(err, f"  {at.command_path} --help shows what there is")
        raise typer.Exit(EXIT_USAGE) from error


def _sentence(error: Any) -> str:  # noqa: ANN401 - typer's own click
    parameter = getattr(error, "param", None)
    if parameter is None:
        said = str(error.format_message())
        return said[:1].lower() + said[1:]
    if type(error).__name__ == "MissingParameter":
        text = f": {parameter.help}" if getattr(parameter, "help", None) else ""
        return f"{typed(parameter)} is missing{text}"
    return f"{max(parameter.opts, key=len)}: {_wrong_value(error)}"


def _wrong_value(error: Any) -> str:  # noqa: ANN401 - typer's own click
    """What was expected and found, from what pydantic tells newer versions of typer; else in their words."""
    from pydantic import ValidationError

    from edgefirst_ros.faults import fault_text

    if isinstance(error.__cause__, ValidationError):
        return fault_text(error.__cause__.errors()[0]).removeprefix("Value error, ")
    return str(error.message)
