"""Help: every command, at any width, in words of users; and the completion of shells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from edgefirst_ros.cli.app import COMMANDS, app
from edgefirst_ros.cli.help import help_text


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
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_help_fits_the_terminal(words: str, columns: int) -> None:
    text = help_text(*ALL[words], columns=columns)
    examples = [line for line in text.splitlines() if line.startswith("  edgefirst-ros ")]
    others = [line for line in text.splitlines() if line not in examples]
    assert max(map(len, others)) <= min(columns, 100)
    assert not [line for line in others if line != line.rstrip()]
    assert "..." not in text.replace("[ARGS]...", "") or "…" not in text


@pytest.mark.parametrize("words", ALL)
def test_every_option_says_what_it_takes_and_what_it_does(words: str) -> None:
    command, ctx = ALL[words]
    text = " ".join(help_text(command, ctx, columns=200).split())
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


def test_an_option_is_beside_its_explanation_where_there_is_room() -> None:
    wide, narrow = (help_text(*ALL["play"], columns=columns) for columns in (80, 40))
    assert "  --speed FACTOR           1 is the recording's own, 2 twice as fast. [default:\n" in wide
    assert (
        "  --speed FACTOR\n      1 is the recording's own, 2 twice\n      as fast. [default: 1.0]\n" in narrow
    )
    assert "--rate" not in wide
    assert "usage: edgefirst-ros play [options] recording\n" in wide.lower()


@pytest.mark.parametrize("words", ALL)
def test_the_short_option_helps_everywhere(words: str) -> None:
    long, short = (CliRunner().invoke(app, [*words.split(), option]) for option in ("--help", "-h"))
    assert long.exit_code == short.exit_code == 0
    assert short.stdout == long.stdout
    assert "-h, --help" in short.stdout


@pytest.mark.parametrize("words", ["", "export"])
def test_without_a_command_the_commands_are_shown(words: str) -> None:
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert "Commands:\n" in done.stdout


@pytest.mark.parametrize(
    ("typed", "found"), [("edgefirst-ros con", "convert"), ("edgefirst-ros play --sp", "--speed")]
)
def test_a_shell_completes_commands_and_options(typed: str, found: str) -> None:
    asked = {
        "_EDGEFIRST_ROS_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'edgefirst-ros'; from edgefirst_ros.__main__ import main; main()",
        ],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == [found], done.stderr
