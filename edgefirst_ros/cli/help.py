"""The text of ``--help``: options under the titles of their panels; and what commands take of arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

EXIT_NO_COMMAND = 2
MOST_NUMBER = 1e10
"""Times and sizes of more overflow; seeds have less."""
LEFT_OUT = {
    "--require": ("all", re.compile(r"[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*")),
    "--picture": ("", re.compile(r"[^-].*\.\w{3,4}", re.DOTALL)),
}
"""Options whose value may be left out: what it is then, and how it looks if it follows."""
_MARKUP = re.compile(r"\[/?(?:bold)?\]")
LONGEST_NAMES = 34
"""Options with longer names have their explanation below them."""


class Command(TyperCommand):
    """A command that writes its own help, and takes no numbers with which nothing can be calculated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Understand the arguments behind the command's name."""
        rest: list[str] = super().parse_args(ctx, [*valued(args)])
        parameter: Any  # typer's own click
        for parameter in self.params:
            given = ctx.params.get(parameter.name)
            for value in given if isinstance(given, list | tuple) else (given,):
                # Not finite is neither less nor more than a limit.
                if isinstance(value, int | float) and not abs(value) <= MOST_NUMBER:
                    from edgefirst_ros.model.errors import shown

                    expected = f"expected at most {MOST_NUMBER:g}"
                    raise typer.BadParameter(f"{expected}, found {shown(value)}", ctx=ctx, param=parameter)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's own click
        """What is typed behind the command's name."""
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(typed(each) if each.required else f"[{typed(each)}]" for each in arguments)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer's own click
        """Write what the command does."""
        _write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        """Write what arguments and options there are."""
        _write_rows(_rows(self, ctx), formatter)


def valued(args: list[str]) -> Iterator[str]:
    """The arguments; an option whose value may be left out has one: the names that follow, or its own."""
    rest = iter(range(len(args)))
    for number in rest:
        given, following = args[number], args[number + 1 : number + 2]
        if given == "--":
            yield from args[number:]
            return
        if given not in LEFT_OUT:
            yield given
        else:
            default, looks = LEFT_OUT[given]
            word = following[0] if following and looks.fullmatch(following[0]) else ""
            follows = word and not (default and Path(word).exists())
            yield f"{given}={args[next(rest)] if follows else default}"


class Group(TyperGroup):
    """Commands that write their own help, also where no command is named."""

    panels: ClassVar[Mapping[str, Collection[str]]] = {}
    """Names of commands that are shown together, by title; without any, all are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Understand the arguments before the command's name."""
        if not args and not ctx.resilient_parsing:
            typer.echo(self.get_help(ctx))
            raise typer.Exit(EXIT_NO_COMMAND)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer's own click
        """Write what the commands are for."""
        _write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        """Write the commands with the first paragraphs of their help, and the options."""
        found: dict[str, list[tuple[str, str]]] = {}
        for title, names in (self.panels or {"Commands": self.list_commands(ctx)}).items():
            helps = ((name, getattr(self.get_command(ctx, name), "help", "") or "") for name in names)
            found[title] = [(name, " ".join(text.split("\n\n")[0].split())) for name, text in helps]
        _write_rows(found | _rows(self, ctx), formatter)


def _write_text(text: str, formatter: Any) -> None:  # noqa: ANN401
    for paragraph in _MARKUP.sub("", inspect.cleandoc(text)).split("\n\n"):
        if paragraph.startswith(" "):  # an example, which can be copied whatever the width
            formatter.write(f"{paragraph}\n")
        else:
            formatter.write_paragraph()
            formatter.write_text(" ".join(paragraph.split()))


def _write_rows(panels: Mapping[str, Iterable[tuple[str, str]]], formatter: Any) -> None:  # noqa: ANN401
    for title, rows in panels.items():
        if rows:
            with formatter.section(title):
                shown = [(typer.style(names, fg="cyan", bold=True), text) for names, text in rows]
                formatter.write_dl(shown, col_max=LONGEST_NAMES)


def _rows(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:  # noqa: ANN401
    """What is typed and what it means, by title."""
    found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(ctx):
        if not getattr(each, "hidden", False):
            title = "Arguments" if each.param_type_name == "argument" else "Options"
            found.setdefault(getattr(each, "rich_help_panel", None) or title, []).append(_row(each))
    return found


def example_of(command: Any) -> str:  # noqa: ANN401 - typer's own click
    """The first example in a command's help; empty if there is none."""
    lines = map(str.strip, (command.help or "").splitlines())
    return next((line for line in lines if line.startswith("edgefirst-ros ")), "")


def typed(parameter: Any, *, short: bool = False) -> str:  # noqa: ANN401 - typer's own click
    """What a user types for a parameter: ``-o, --output FOLDER``; ``short``: ``-o FOLDER``."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    given = sorted(parameter.opts, key=len)[: 1 if short else None]
    names = " / ".join([", ".join(given), *([] if short else parameter.secondary_opts)])
    return f"{names} {parameter.metavar}" if parameter.metavar else names


def _row(parameter: Any) -> tuple[str, str]:  # noqa: ANN401
    """What is typed, and what it means."""
    notes = ["required"] if parameter.required and parameter.param_type_name != "argument" else []
    default = parameter.default
    is_told = parameter.metavar and default is not None and default != ""
    if is_told and not callable(default) and not parameter.required:
        notes.append(f"default: {default.value if isinstance(default, Enum) else default}")
    text = _MARKUP.sub("", parameter.help or "").replace("\\[", "[")
    return typed(parameter), " ".join([text, *(f"[{note}]" for note in notes)]).strip()
