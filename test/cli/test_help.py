"""Help: every command, at any width, in words of users; and the completion of shells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from edgefirst_ros.cli.app import COMMANDS, app


def contexts() -> Iterator[tuple[str, Any, Any]]:
    """Every command and group: its words, itself, and a context to help in."""
    top = get_command(app)
    above = top.context_class(top, info_name="edgefirst-ros")
    yield "", top, above
    for name in COMMANDS:
        command = top.get_command(above, name)
        ctx = command.context_class(command, info_name=name, parent=above)
        yield name, command, ctx
        for inner in getattr(command, "commands", {}):
            each = command.get_command(ctx, inner)
            yield f"{name} {inner}", each, each.context_class(each, info_name=inner, parent=ctx)


ALL = {words: (command, ctx) for words, command, ctx in contexts()}


@pytest.mark.parametrize("words", ALL)
def test_every_option_says_what_it_takes_and_what_it_does(words: str) -> None:
    command, ctx = ALL[words]
    text = " ".join(command.get_help(ctx).split())
    for parameter in command.get_params(ctx):
        if getattr(parameter, "hidden", False):
            continue
        assert parameter.help, parameter.name
        takes_value = parameter.param_type_name == "argument" or not parameter.is_flag
        if takes_value and "completion" not in parameter.name:
            assert parameter.metavar, f"{words}: {parameter.name} would be called by its type"
            assert parameter.metavar in text
    assert "<" not in text
    assert "[bold" not in text


@pytest.mark.parametrize("words", ALL)
def test_the_short_option_helps_everywhere(words: str) -> None:
    long, short = (CliRunner().invoke(app, [*words.split(), option]) for option in ("--help", "-h"))
    assert long.exit_code == short.exit_code == 0
    assert short.stdout == long.stdout
    assert "-h, --help" in short.stdout


def test_without_a_command_the_commands_are_shown() -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert "Everyday:\n" in done.stdout
