"""The command edgefirst-ros.

A command's module is imported when the command is asked for, and imports what it works with when it is
called, so that ``--help`` and ``info`` are quick: the libraries of all formats take more than a second.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from edgefirst_ros.cli import importing
from edgefirst_ros.cli.help import Command, Group
from edgefirst_ros.cli.streams import open_streams
from edgefirst_ros.cli.usage import note_arguments, usage_told

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


class Commands(Group):
    """The commands; a command's module is imported when the command is asked for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Understand the arguments before the command's name."""
        note_arguments(ctx, args)
        with usage_told(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own click
        """Run the command that was asked for."""
        with usage_told(ctx):
            return super().invoke(ctx)

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
                found.command(name, cls=Command)(function)
            self.commands[name] = get_command(found)
        return self.commands.get(cmd_name)


def _typer(*, add_completion: bool = False, **options: Any) -> typer.Typer:  # noqa: ANN401 - whatever typer takes
    return typer.Typer(
        add_completion=add_completion,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **options,
    )


app = _typer(name="edgefirst-ros", cls=Commands, add_completion=True)


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
    open_streams()
    app()


if __name__ == "__main__":
    main()
