"""The command edgefirst-ros.

Modules of commands import what a command works with when it is called, so that ``--help`` and ``info`` are
quick: the libraries of all formats take more than a second.
"""

from __future__ import annotations

import io
import sys
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
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(l5kit_app, name="l5kit")


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


for command in (convert, info, simulate, recover, check, sheet, capture, play):
    app.command()(command)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path may hold bytes that are not text; they are printed unchanged.
            stream.reconfigure(errors="surrogateescape")
    app()


if __name__ == "__main__":
    main()
