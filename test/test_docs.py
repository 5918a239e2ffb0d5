"""What the documents say of the code: paths, modules and links that exist, and the picture of the rooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import REPOSITORY
from test_architecture import MAY_IMPORT, PACKAGE

CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"
DOCS = [REPOSITORY / "README.md", CONTRIBUTING, *sorted((REPOSITORY / "docs").glob("*.md"))]
ARCHITECTURE = REPOSITORY / "docs" / "architecture.md"
ANYWHERE = {"__main__", "errors", "faults", "naming"}
"""Left out of the picture: the entry point, and what any room may import."""


def paths(document: Path) -> Iterator[str]:
    """Modules and paths that a document names in code quotes; for developers, all folders, too."""
    for quoted in re.findall(r"`([\w./-]+)`", document.read_text(encoding="utf-8")):
        if (
            re.match(r"(edgefirst_ros|test|benchmarks|docs|config|launch|examples)/", quoted)
            or re.search(r"(?<!\.launch)\.py$", quoted)
            or (document in {ARCHITECTURE, CONTRIBUTING} and quoted.endswith("/"))
        ):
            yield quoted


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
        for name in re.findall(
            r"\b(?:from|import) (edgefirst_ros(?:\.\w+)*)", document.read_text(encoding="utf-8")
        ):
            path = PACKAGE.parent / name.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").exists(), name


def test_the_picture_shows_the_arrows_of_the_table() -> None:
    assert picture() in ARCHITECTURE.read_text(encoding="utf-8"), f"docs/architecture.md needs:\n{picture()}"


def test_every_room_is_described() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rooms = {room if (PACKAGE / room).is_dir() else f"{room}.py" for room in MAY_IMPORT}
    assert not {room for room in rooms - {"__main__.py"} if f"`{room}" not in text}


def test_the_glossary_is_short() -> None:
    glossary = ARCHITECTURE.read_text(encoding="utf-8").split("## Glossary")[1].split("\n## ")[0]
    assert len(re.findall(r"^\| ", glossary, re.M)) - 1 <= 25
