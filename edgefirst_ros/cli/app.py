"""The command edgefirst-ros.

A command's module is imported when the command is asked for, and imports what it works with when it is
called, so that ``--help`` and ``info`` are quick: the libraries of all formats take more than a second.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from edgefirst_ros.cli import importing

COMMANDS = {
    "convert": "convert",
    "status": "fleet",
    "info": "recordings",
    "simulate": "recordings",
    "recover": "datasets",
    "check": "datasets",
    "report": "report",
    "view": "view",
    "sheet": "datasets",
    "capture": "capture",
    "play": "play",
    "l5kit": "l5kit",
}
"""The module of each command, in the order of ``--help``."""


class Commands(TyperGroup):
    """The commands; a command's module is imported when the command is asked for."""

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer's signature
        """The command of a name; None if there is none, after importing all to suggest one that is alike."""
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            with importing():
                found = getattr(import_module(f"edgefirst_ros.cli.{COMMANDS[name]}"), name)
            if not isinstance(found, typer.Typer):
                found, function = _typer(), found
                found.command(name)(function)
            self.commands[name] = get_command(found)
        return self.commands.get(cmd_name)


def _typer(**options: Any) -> typer.Typer:  # noqa: ANN401 - whatever typer takes
    return typer.Typer(
        add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False, **options
    )


app = _typer(name="edgefirst-ros", cls=Commands, no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"edgefirst-ros {version('edgefirst_ros')}\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Turn recordings and live streams of EdgeFirst Maivin and Raivin into training data.

    Every message is accounted for.
    """


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path may hold bytes that are not text; they are printed unchanged.
            stream.reconfigure(errors="surrogateescape")
    app()


if __name__ == "__main__":
    main()
