"""The text of ``--help``: options under the titles of their panels."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

LONGEST_NAMES = 34
"""Options with longer names have their explanation below them."""


class Command(TyperCommand):
    """A command that writes its own help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's own click
        """What is typed behind the command's name."""
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(typed(each) if each.required else f"[{typed(each)}]" for each in arguments)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer's own click
        """Write what the command does."""
        write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        """Write what arguments and options there are."""
        write_rows(rows_of(self, ctx), formatter)


def write_text(text: str, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
    """Write paragraphs, and examples as they are."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith(" "):  # an example, which can be copied whatever the width
            formatter.write(f"{paragraph}\n")
        else:
            formatter.write_paragraph()
            formatter.write_text(" ".join(paragraph.split()))


def write_rows(panels: Mapping[str, Iterable[tuple[str, str]]], formatter: Any) -> None:  # noqa: ANN401
    """Write names and what they mean, by title."""
    for title, rows in panels.items():
        if rows:
            with formatter.section(title):
                shown = [(typer.style(names, fg="cyan", bold=True), text) for names, text in rows]
                formatter.write_dl(shown, col_max=LONGEST_NAMES)


def rows_of(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:  # noqa: ANN401
    """What is typed and what it means, by title."""
    found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(ctx):
        if not getattr(each, "hidden", False):
            title = "Arguments" if each.param_type_name == "argument" else "Options"
            found.setdefault(getattr(each, "rich_help_panel", None) or title, []).append(_row(each))
    return found


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
        notes.append(f"default: {default}")
    return typed(parameter), " ".join([parameter.help or "", *(f"[{note}]" for note in notes)]).strip()
