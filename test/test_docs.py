"""What documents name exists: paths, modules, commands, options and links. They are short, in plain words."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
import typer
from places import REPOSITORY
from test_architecture import MAY_IMPORT, PACKAGE
from typer.core import TyperCommand, TyperGroup

from edgefirst_ros.cli.app import app

CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"
DOCS = sorted(
    path
    for folder in (".", ".github", "docs", "examples")
    for path in (REPOSITORY / folder).glob("*.md")
    if path.name != "cli.md"  # which is the help itself
)
ARCHITECTURE = REPOSITORY / "docs" / "architecture.md"
ANYWHERE = {"__main__"}
"""Left out of the picture: the entry point."""
COMMANDS = typer.main.get_command(app)
for _name in COMMANDS.list_commands(None):
    COMMANDS.get_command(None, _name)  # which imports its module
OTHERS_OPTIONS = {"--symlink-install", "--merge-install", "--ros-args", "--against", "--nthreads"}
OTHERS_OPTIONS |= {"--no-deps", "--orientation-method", "--center-method", "--auto-scale-poses"}
"""Options of colcon, ROS, Dask and benchmarks that documents name without their command."""


def paths(document: Path) -> Iterator[str]:
    """Paths that a document names, except files that it tells to create; for developers, all folders, too."""
    text = re.sub(r"`[\w./]+`:\n\n```", "", document.read_text(encoding="utf-8"))
    folders = "edgefirst_ros|test|benchmarks|docs|config|launch|examples"
    yield from re.findall(rf"(?<![\w./-])(?:{folders})/[\w./-]*\w", text)
    yield from re.findall(r"`([\w./-]+(?<!\.launch)\.py)`", text)
    if document in {ARCHITECTURE, CONTRIBUTING}:
        yield from re.findall(r"`([\w./-]+/)`", text)


def options(command: TyperCommand | TyperGroup) -> set[str]:
    """The options of a command and of those below it."""
    own = {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
    return own.union(*(options(each) for each in getattr(command, "commands", {}).values()))


def anchors(text: str) -> set[str]:
    """What a link to a part of a document may name."""
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)", text, re.M)}


def below(room: str) -> set[str]:
    """All that a room imports, directly or not."""
    found = set(MAY_IMPORT[room].split())
    return found.union(*map(below, found))


def picture() -> str:
    """The rooms and their arrows, without those that follow from others."""
    lines = ["graph TD"]
    for room in [room for room in MAY_IMPORT if room not in ANYWHERE]:
        direct = set(MAY_IMPORT[room].split()) - ANYWHERE
        shown = sorted(direct.difference(*map(below, direct)))
        lines += [f"    {room} --> {' & '.join(shown)}" if shown else f"    {room}"]
    return "\n".join(lines)


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
class TestDocuments:
    def test_paths_exist(self, document: Path) -> None:
        roots = (REPOSITORY, PACKAGE, PACKAGE / "formats", PACKAGE / "video", PACKAGE / "ego")
        assert not [name for name in paths(document) if not any((root / name).exists() for root in roots)]

    def test_links_lead_somewhere(self, document: Path) -> None:
        for target in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                name, _, anchor = target.partition("#")
                linked = document.parent / name if name else document
                assert linked.exists(), target
                assert not anchor or anchor in anchors(linked.read_text(encoding="utf-8")), target

    def test_modules_exist(self, document: Path) -> None:
        text = document.read_text(encoding="utf-8")
        for name in re.findall(r"\bedgefirst_ros(?:\.\w+)+", text):
            resolve_name(name)
        for module, names in re.findall(r"^from (edgefirst_ros[\w.]*) import (.+)", text, re.M):
            for name in names.split(", "):
                resolve_name(f"{module}:{name}")

    def test_commands_and_options_exist(self, document: Path) -> None:
        text = document.read_text(encoding="utf-8")
        for words in re.findall(r"\bedgefirst-ros ([a-z][^`|\n]*)", text):
            name, *rest = words.split()
            command = COMMANDS.commands[name]
            if isinstance(command, TyperGroup):
                command = command.commands[rest[0]]
            unknown = {word for word in rest if word.startswith("--")} - options(command)
            assert not unknown, f"edgefirst-ros {words}"
        assert set(re.findall(r"`(--[a-z0-9-]+)", text)) <= options(COMMANDS) | OTHERS_OPTIONS


def test_the_picture_shows_the_arrows_of_the_table() -> None:
    assert picture() in ARCHITECTURE.read_text(encoding="utf-8"), f"docs/architecture.md needs:\n{picture()}"


def test_every_package_is_described() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rooms = {room if (PACKAGE / room).is_dir() else f"{room}.py" for room in MAY_IMPORT}
    assert not {room for room in rooms - {"__main__.py"} if f"`{room}" not in text}


MADE = {"configuration.md", "simulator.md"}
"""Pages that are generated, beside the help."""
LONGEST = {"words": 18_000, "mean sentence": 14.0}
PLAIN = re.compile(
    r"\brefus|\bcompanions?\b|reference frames?\b|\bhouse|\brooms?\b|\btold\b|\bepochs?\b|stands? still"
    r"|the same again|\bbe it\b|\bgoes on\b|;",
    re.I,
)
"""Words that are ours alone, or old; and what joins two facts in one sentence."""
MESSAGES: list[str] = []
"""Packages whose texts are looked at, too."""
STYLE = re.compile(r"[a-z-]+: ?[^ ;]+;|^[\w. -]*\{")
"""What belongs to a page's looks."""


def sentences(text: str) -> list[str]:
    """What a page says outside of headings, tables and blocks of code."""
    text = re.sub(r"^( *)```.*?^\1```$|<!--.*?-->", "\n", text, flags=re.M | re.S)
    text = re.sub(r"^(\||#|!\[|\s*$).*", "\n\n", text, flags=re.M)
    text = re.sub(r"^ *(?:[-*]|\d+\.) ", "\n\n", re.sub(r"\]\([^)]*\)|`[^`]*`", "code", text), flags=re.M)
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text) if block.strip()]
    return [each for block in blocks for each in re.split(r"(?<=[.?!])[*_)\"]*\s+", block)]


WRITTEN = [page for page in DOCS if page.name not in MADE and page.parent.name not in {".github", "examples"}]
WRITTEN.append(REPOSITORY / "benchmarks" / "README.md")


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_page_has_short_sentences_of_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    said = sentences(text)
    assert sum(len(each.split()) for each in said) / len(said) <= LONGEST["mean sentence"]
    text = re.sub(r"^( *)```.*?^\1```$|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->", "", text, flags=re.M | re.S)
    own = [line for line in text.splitlines() if "\u00a0" not in line]  # docs/tools/size.py makes that one
    assert not [line for line in own if PLAIN.search(line)]


def test_the_documents_are_short() -> None:
    pages = [REPOSITORY / "README.md", *(page for page in WRITTEN if page.parent == REPOSITORY / "docs")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= LONGEST["words"]


def texts(path: Path) -> Iterator[str]:
    """What a module's texts say, with … for what is put into them, but for docstrings and styles of pages."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            said = "".join(str(e.value) if isinstance(e, ast.Constant) else "…" for e in node.values)
            yield said
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.parametrize("package", MESSAGES)
def test_messages_have_plain_words_and_no_semicolon(package: str) -> None:
    for path in (PACKAGE / package).rglob("*.py"):
        said = [each for each in texts(path) if " " in each.strip() and not STYLE.search(each)]
        assert not [each for each in said if PLAIN.search(each)], path


def test_help_and_descriptions_of_options_have_plain_words() -> None:
    options = json.loads((PACKAGE / "config" / "options.json").read_text(encoding="utf-8"))
    said = {name: each["is"] for model in options.values() for name, each in model.items()}
    assert len(said) > 50
    helps = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8").split("\n## ")
    said |= {text.splitlines()[0]: text for text in helps if "ros select" not in text[:30]}
    assert not {name for name, text in said.items() if PLAIN.search(text.replace(";", ","))}
