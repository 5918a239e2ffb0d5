"""The one command of a pip user: edgefirst-ros."""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from edgefirst_ros.cli.capture import capture
from edgefirst_ros.cli.convert import convert
from edgefirst_ros.cli.datasets import check, recover, sheet
from edgefirst_ros.cli.l5kit import app as l5kit_app
from edgefirst_ros.cli.play import play
from edgefirst_ros.cli.recordings import info, simulate

app = typer.Typer(
    name="edgefirst-ros",
    help="Turn what an EdgeFirst Maivin or Raivin saw into training data, every message accounted for.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


app.add_typer(l5kit_app, name="l5kit")


def _say_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"edgefirst-ros {version('edgefirst_ros')}\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Turn what an EdgeFirst Maivin or Raivin saw into training data, every message accounted for."""


for command in (convert, info, simulate, recover, check, sheet, capture, play):
    app.command()(command)


def main() -> None:
    """The command, once its imports are done."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path may hold bytes that are no text; they are printed as they are.
            stream.reconfigure(errors="surrogateescape")
    app()


if __name__ == "__main__":
    main()
