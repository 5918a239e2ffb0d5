"""The commands and blocks of code in documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
import yaml
from places import REPOSITORY

from edgefirst_ros.cli.app import app

DOCUMENTS = sorted(
    path
    for folder in (".", "docs", "examples", "benchmarks")
    for path in (REPOSITORY / folder).glob("*.md")
    if path.name not in {"CHANGELOG.md", "cli.md"}  # what was, and the help itself
)
PROGRAM = "edgefirst-ros"
SHELL = {"", "sh", "bash"}
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
_ARGUMENTS = re.compile(r"\"command\": (\[[^\]]*\])")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code; ``line`` is that of its fence."""

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program: what follows its name."""

    place: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}: {PROGRAM} {shlex.join(self.words)}"


def blocks(document: Path) -> Iterator[Block]:
    """Every fenced block of a document."""
    text = document.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        yield Block(document, text[: found.start()].count("\n") + 1, found[2], found[3])


def lines(text: str) -> Iterator[str]:
    """The commands of a shell block, without what stands to their right as an explanation."""
    begun = ""
    for line in re.sub(r"\\\n *", "", text).splitlines():
        command = begun + (line if begun else re.split(r"(?<=\S) {2,}", line.strip())[0])
        if _is_open(command):
            begun = command + "\n"
        elif command and not command.startswith("#"):
            yield command
            begun = ""


def _is_open(command: str) -> bool:
    """Whether a quote is not closed yet."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def programs(line: str) -> Iterator[list[str]]:
    """The words of each program that a line starts; where its output goes is left out."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&>")
    reader.whitespace_split = True
    words: list[str] = []
    for word in [*reader, "|"]:
        if not set(word) <= set("|&>"):
            words.append(word)
        elif words:
            yield words
            words = [] if word != ">" else [">"]


def is_output(block: Block) -> bool:
    """Whether a block without a language shows what a program prints, or a figure, instead of commands."""
    first = block.text.split(maxsplit=1)[0]
    return block.language == "" and not re.fullmatch(r"[a-z][a-z0-9_-]*", first)


def commands(document: Path) -> Iterator[Command]:
    """Every whole command of the program: in blocks, in the text, and as arguments of a container."""
    for block in blocks(document):
        for words in _of_block(block):
            yield Command(str(block), tuple(words))
    text = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    for found in re.findall(rf"`{PROGRAM} ([^`\n]+)`", text):
        words = shlex.split(found)
        if any(not word.startswith("-") for word in words[1:]):
            yield Command(document.name, tuple(words))


def _of_block(block: Block) -> Iterator[list[str]]:
    if block.language in SHELL and not is_output(block):
        for line in lines(block.text):
            yield from (words[1:] for words in programs(line) if words[0] == PROGRAM)
        for found in _ARGUMENTS.findall(block.text):
            yield yaml.safe_load(found)
    elif block.text.startswith(f"$ {PROGRAM} "):
        yield shlex.split(block.text.splitlines()[0])[2:]
    elif block.language == "yaml":
        data = yaml.safe_load(block.text)
        steps = [step["run"] for step in data] if isinstance(data, list) else []
        for step in steps:
            yield from (words[1:] for words in programs(step) if words[0] == PROGRAM)
        if isinstance(data, dict) and "apiVersion" in data:
            for container in data["spec"]["template"]["spec"]["containers"]:
                yield container["args"]


def parse(words: tuple[str, ...]) -> None:
    """Take a command's words apart as the program does, without running it.

    Raises:
        click.UsageError: the program would refuse them.
    """
    command, rest, context = typer.main.get_command(app), list(words), None
    while True:
        context = command.make_context(PROGRAM, rest, parent=context)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        _, command, rest = command.resolve_command(context, rest)
