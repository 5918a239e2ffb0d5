"""The text of ``--help``, as wide as the terminal: in two columns, or in one where two have no room."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

WIDEST, NARROWEST = 100, 20
"""Columns of text; longer lines are hard to read."""
LEAST_HELP = 44
"""Columns that the explanation of an option needs beside it, else it comes below."""
EXIT_NO_COMMAND = 2
MOST_NUMBER = 1e10
"""Times and sizes of more overflow; seeds have less."""
LEFT_OUT = {
    "--require": ("all", re.compile(r"[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*")),
    "--picture": ("", re.compile(r"[^-].*\.\w{3,4}", re.DOTALL)),
}
"""Options whose value may be left out: what it is then, and how it looks if it follows."""
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

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        """Write what ``--help`` prints."""
        formatter.write(help_text(self, ctx))


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
            follows = following and looks.fullmatch(following[0])
            follows = follows and not (default and Path(following[0]).exists())
            yield f"{given}={args[next(rest)] if follows else default}"


class Group(TyperGroup):
    """Commands that write their own help, also where no command is named."""

    panels: ClassVar[Mapping[str, Collection[str]]] = {}
    """Names of commands that are shown together, by title; without any, all are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Understand the arguments before the command's name."""
        if not args and not ctx.resilient_parsing:
            sys.stdout.write(help_text(self, ctx))
            raise typer.Exit(EXIT_NO_COMMAND)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        """Write what ``--help`` prints."""
        formatter.write(help_text(self, ctx))


def help_text(command: Any, ctx: Any, columns: int | None = None) -> str:  # noqa: ANN401 - typer's own click
    """What ``--help`` prints.

    Args:
        command: the command or group.
        ctx: its context.
        columns: width of the terminal; None asks for it.
    """
    columns = shutil.get_terminal_size().columns if columns is None else columns
    width = max(NARROWEST, min(WIDEST, columns))
    out = Console(width=width, highlight=False, emoji=False)
    with out.capture() as captured:
        _print(out, command, ctx)
    return captured.get()


def _print(out: Console, command: Any, ctx: Any) -> None:  # noqa: ANN401
    _print_text(out, Text.assemble(("Usage: ", "bold"), _usage(command, ctx)))
    was_example = False
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not (was_example and paragraph.startswith(" ")):
            out.print()
        if was_example := paragraph.startswith(" "):
            # It can be copied, whatever the width.
            out.print(Text(paragraph), soft_wrap=True)
        else:
            _print_text(out, Text.from_markup(" ".join(paragraph.split())))
    for title, rows in _sections(command, ctx):
        if rows:
            out.print()
            out.print(Text(f"{title}:", "bold"))
            _print_rows(out, rows)


def _print_text(out: Console, text: Text, indent: int = 0) -> None:
    """Print wrapped lines without blanks at their ends."""
    for line in text.wrap(out, out.width - indent) if text else ():
        line.rstrip()
        out.print(Text(" " * indent).append_text(line))


def _usage(command: Any, ctx: Any) -> str:  # noqa: ANN401
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    named = [each.metavar if each.required else f"[{each.metavar}]" for each in arguments]
    more = ["COMMAND", "..."] if isinstance(command, TyperGroup) else []
    return " ".join([ctx.command_path, "[OPTIONS]", *named, *more])


def _sections(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:  # noqa: ANN401
    shown = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    yield "Arguments", [_row(each) for each in shown if each.param_type_name == "argument"]
    if isinstance(command, Group):
        for title, names in (command.panels or {"Commands": command.list_commands(ctx)}).items():
            yield title, list(_commands(command, ctx, names))
    options: dict[str, list[tuple[str, str]]] = {"Options": []}
    for each in shown:
        if each.param_type_name == "option":
            options.setdefault(getattr(each, "rich_help_panel", None) or "Options", []).append(_row(each))
    yield from options.items()


def _commands(group: TyperGroup, ctx: Any, names: Iterable[str]) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Commands with the first paragraph of their help."""
    for name in names:
        each = group.get_command(ctx, name)
        if each is not None and not each.hidden:
            first = inspect.cleandoc(each.help or "").split("\n\n")[0]
            yield name, " ".join(first.split())


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
    if parameter.param_type_name == "argument":
        return typed(parameter), parameter.help or ""
    notes = ["required"] if parameter.required else []
    default = parameter.default
    is_told = parameter.metavar and default is not None and default != ""
    if is_told and not callable(default) and not parameter.required:
        notes.append(f"default: {default.value if isinstance(default, Enum) else default}")
    # Brackets would be taken for markup.
    return typed(parameter), " ".join([parameter.help or "", *(rf"\[{note}]" for note in notes)]).strip()


def _print_rows(out: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Print what is typed on the left and what it means on the right, or below where there is no room."""
    rows = list(rows)
    left = 4 + max((len(names) for names, _ in rows if len(names) <= LONGEST_NAMES), default=0)
    beside = out.width - left >= LEAST_HELP
    indent = left if beside else 6
    for names, meaning in rows:
        head, text = Text("  ").append(names, "bold cyan"), Text.from_markup(meaning)
        if beside and head.cell_len + 2 <= left:
            lines = text.wrap(out, out.width - indent)
            first = lines.pop(0) if lines else Text()
            first.rstrip()
            out.print(head.append(" " * (left - head.cell_len)).append_text(first))
            text = Text(" ").join(lines)
        else:
            out.print(head, overflow="fold")
        _print_text(out, text, indent)
