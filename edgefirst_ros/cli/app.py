"""The command edgefirst-ros.

A command's module is imported when the command is asked for, and imports what it works with when it is
called, so that ``--help`` and ``info`` are quick: the libraries of all formats take more than a second.

What is wrong with the arguments of a command, in a sentence; as JSON too, where that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from edgefirst_ros.cli import importing
from edgefirst_ros.cli.help import Command, rows_of, typed, write_rows, write_text
from edgefirst_ros.cli.shared import EXIT_USAGE, Out
from edgefirst_ros.cli.terminal import say

_ERROR: Any = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "UsageError")
"""Typer brings a click of its own in some versions, and does not export its error."""
_AS_JSON = "edgefirst_ros.as_json"
"""In what a context knows: whether ``--json`` was given."""
GUESSES = {"--fps": "--rate", "--hz": "--rate", "--out": "--output", "--resume": "--jobs"}
"""What other programs call options."""
GROUPS = {
    "Everyday": {
        "convert": "convert",
        "info": "report",
        "check": "datasets",
        "report": "report",
        "export": "datasets",
    },
    "Live": {"capture": "capture", "play": "recordings", "recover": "datasets"},
    "Advanced": {"suggest": "recordings", "select": "datasets", "simulate": "recordings"},
}
"""The module of each command, in the order of ``--help``."""
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@contextmanager
def _usage_told(ctx: Any) -> Iterator[None]:  # noqa: ANN401 - typer's own click
    """Print what is wrong with the arguments, and end with EXIT_USAGE; or what no command has caught."""
    out = Out(as_json=ctx.meta.get(_AS_JSON, False))
    try:
        with out.guarded():
            yield
    except _ERROR as error:
        out.fail([_sentence(error)])
        out.tell("hint", _hint(error, getattr(error, "ctx", None) or ctx))
        raise typer.Exit(EXIT_USAGE) from error


def _sentence(error: Any) -> str:  # noqa: ANN401 - typer's own click
    parameter = getattr(error, "param", None)
    if type(error).__name__ == "NoSuchOption":
        return f"no such option: {error.option_name}"
    if parameter is None:
        said = str(error.format_message()).rstrip(".")
        return said[:1].lower() + said[1:]
    if type(error).__name__ == "MissingParameter":
        return f"missing {parameter.param_type_name} {typed(parameter, short=True)}"
    said, cause = str(error.message), error.__cause__
    if hasattr(cause, "errors"):  # pydantic's, of newer versions of typer
        from edgefirst_ros.model.errors import fault_text

        said = fault_text(cause.errors()[0]).removeprefix("Value error, ")
    return f"{typed(parameter, short=True).partition(' ')[0]}: {said}"


def _hint(error: Any, ctx: Any) -> str:  # noqa: ANN401 - typer's own click
    """What to do instead: an option of a similar name, an example, or where to look."""
    if type(error).__name__ == "NoSuchOption":
        known = [name for each in ctx.command.params for name in each.opts if not each.hidden]
        unknown = error.option_name
        alike = [GUESSES[unknown]] if GUESSES.get(unknown) in known else []
        alike += [name for name in known if len(unknown) > 3 and name.startswith(unknown)]
        if alike := alike or get_close_matches(unknown, known, cutoff=0.7):
            return f"did you mean {alike[0]}?"
    lines = map(str.strip, (ctx.command.help or "").splitlines())
    example = next((line for line in lines if line.startswith("edgefirst-ros ")), "")
    if type(error).__name__ == "MissingParameter" and example:
        return example
    return " ".join(
        filter(None, (ctx.command_path, None if ctx.parent else ctx.invoked_subcommand, "--help"))
    )


class Commands(TyperGroup):
    """The commands; a command's module is imported when the command is asked for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Understand the arguments before the command's name."""
        if not args and not ctx.resilient_parsing:
            typer.echo(self.get_help(ctx))
            raise typer.Exit(EXIT_USAGE)
        ctx.meta[_AS_JSON] = "--json" in args
        with _usage_told(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own click
        """Run the command that was asked for."""
        with _usage_told(ctx):
            return super().invoke(ctx)

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer's signature
        """The command of a name; None if there is none, after importing all to suggest one that is alike."""
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            with importing():
                function = getattr(import_module(f"edgefirst_ros.cli.{COMMANDS[name]}"), name)
            made = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
            made.command(name, cls=Command)(function)
            self.commands[name] = get_command(made)
        return self.commands.get(cmd_name)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer's own click
        """Write what the commands are for."""
        write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        """Write the commands with the first paragraphs of their help, and the options."""
        found: dict[str, list[tuple[str, str]]] = {}
        for title, names in GROUPS.items():
            helps = {name: self.get_command(ctx, name).help.split("\n\n")[0] for name in names}
            found[title] = [(name, " ".join(text.split())) for name, text in helps.items()]
        write_rows(found | rows_of(self, ctx), formatter)


app = typer.Typer(
    name="edgefirst-ros",
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"edgefirst-ros {version('edgefirst_ros')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Turn recordings and live streams into training data: edgefirst-ros convert drive.mcap."""
