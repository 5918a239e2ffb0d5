"""Writes docs/cli.md, the help of each command, and examples/tutorial.ipynb, the tutorial as a notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from edgefirst_ros.cli.app import COMMANDS, Commands, app

DOCS = Path(__file__).resolve().parents[1]
NAME = "edgefirst-ros"
COLUMNS = "100"
HEAD = """\
<!-- Made by `make reference` from the help of the commands; edit that instead. -->
# Command line

What `edgefirst-ros COMMAND --help` prints. The [cheat sheet](cheatsheet.md) lists the commands by task.
"""
_PARTS = re.compile(r"^```(\w*)\n(.*?)^```\n", re.M | re.S)


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command, those of groups after them."""
    group = Commands()
    for name in COMMANDS:
        yield (name,)
        yield from ((name, below) for below in getattr(group.get_command(None, name), "commands", ()))


def page() -> str:
    """The page of all commands."""
    blocks = [HEAD]
    for words in ((), *commands()):
        done = CliRunner().invoke(app, [*words, "--help"], prog_name=NAME, env={"COLUMNS": COLUMNS})
        said = "\n".join(line.rstrip() for line in done.output.strip().splitlines())
        blocks.append(f"## `{' '.join((NAME, *words))}`\n\n```text\n{said}\n```\n")
    return "\n".join(blocks)


def notebook() -> str:
    """The tutorial as cells: text, commands of a shell, and Python. It runs in examples/."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    text = text.replace("](../examples/", "](").replace("](images/", "](../docs/images/")
    text = re.sub(r"\]\(([\w-]+\.md)", r"](../docs/\1", text).replace(
        "examples/train.py drives", "train.py drives"
    )
    cells: list[dict[str, Any]] = []
    pieces = _PARTS.split(text)
    for number, part in enumerate(pieces):
        kind, source = "markdown" if number % 3 == 0 else pieces[number - 1], part.strip()
        if number % 3 == 1 or not source:
            continue
        if not kind:
            source = re.sub(r"^", "!", source.replace("pip install .", "pip install .."), flags=re.M)
        code = {} if kind == "markdown" else {"execution_count": None, "outputs": []}
        cell = {"cell_type": "code" if code else kind, "id": f"cell-{len(cells)}", "metadata": {}}
        cells.append(cell | code | {"source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


MADE = {DOCS / "cli.md": page, DOCS.parent / "examples" / "tutorial.ipynb": notebook}


def main() -> None:
    """Write both."""
    for path, make in MADE.items():
        path.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
