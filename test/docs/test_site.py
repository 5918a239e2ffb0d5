"""The documentation as a site, its generated pages, and what an index of packages shows."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from places import REPOSITORY, tool

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.edgefirst.read.dataset import KEYS
from edgefirst_ros.nodes.parameters import specify
from edgefirst_ros.simulation.options import DriveOptions

DOCS = REPOSITORY / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    REPOSITORY / "examples" / "adding-a-sensor.md",
    REPOSITORY / "benchmarks" / "README.md",
]


def title(page: Path) -> str:
    """A page's first heading."""
    return re.findall(r"^# (.+)$", page.read_text(encoding="utf-8"), re.M)[0]


class TestReference:
    def test_the_committed_page_is_what_the_models_say(self) -> None:
        reference = tool("reference")
        assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run: make reference"
        assert reference.SIMULATOR.read_text(encoding="utf-8") == reference.simulator(), "run: make reference"

    def test_it_has_every_option(self) -> None:
        text = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
        names = {re.sub(r"^topics\.\w+\.", "topics.NAME.", spec.name) for spec in specify(Config)}
        assert len(names) > 65
        assert not {name for name in names if f"| `{name}` |" not in text}

    def test_options_of_the_command_line_are_beside_what_they_set(self) -> None:
        text = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
        lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
        for name, flag in {
            "rate_hz": "--rate",
            "formats": "--format",
            "edgefirst.schema_version": "--schema",
            "edgefirst.container": "--container",
            "split_every": "--split-every",
        }.items():
            assert f"| `{flag}` |" in lines[name]

    def test_it_has_every_option_of_a_simulated_drive(self) -> None:
        text = (REPOSITORY / "docs" / "simulator.md").read_text(encoding="utf-8")
        shown = re.findall(r"^\| `([\w.]+)` \| .+ \| (.+) \|$", text, re.M)
        assert {name for name, _ in shown} == {each.name for each in fields(DriveOptions)}
        assert all(meaning.strip() for _, meaning in shown)


class TestFrontPage:
    """It leads to every page by the page's own title."""

    def test_every_page_is_there_by_its_title(self) -> None:
        front = DOCS / "index.md"
        linked = dict(re.findall(r"\[([^]]+)\]\(([^)#]+)\)", front.read_text(encoding="utf-8")))
        for page in {*PAGES} - {front}:
            assert (front.parent / linked[title(page)]).resolve() == page


def test_the_readme_is_short_and_shows_a_picture() -> None:
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert sum(line.startswith("![") for line in lines) == 1


def test_keys_of_the_training_page_are_those_that_can_be_asked_for() -> None:
    text = (DOCS / "training.md").read_text(encoding="utf-8").split("**`keys=[...]`**")[1].split("\n\n**")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])} == {*KEYS}


@pytest.mark.parametrize("name", ["rig.svg", "world.svg", "picture.svg", "alignment.svg", "clocks.svg"])
def test_committed_drawings_are_what_is_drawn(name: str) -> None:
    drawings = tool("drawings")
    drawn = (drawings.FOLDER / name).read_text(encoding="utf-8")
    assert drawn == drawings.DRAWINGS[name](), "run: make reference"
    assert len(drawn) < 20_000


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Sphinx warns of broken links, unknown anchors, and pages that the navigation lacks."""
    pytest.importorskip("sphinx", reason="no Sphinx: pip install '.[docs]'")
    pytest.importorskip("myst_parser", reason="no MyST: pip install '.[docs]'")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-c", "docs"]
    done = subprocess.run(
        [*command, "-d", tmp_path / "trees", ".", site],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "docs/index.html" in (site / "index.html").read_text()
    front = (site / "docs" / "index.html").read_text()
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert f'href="{page.stem}.html"' in front or page.stem == "index"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """What a wheel says of the package."""
    folder = tmp_path_factory.mktemp("metadata")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return message_from_string((folder / "edgefirst_ros.egg-info" / "PKG-INFO").read_text(encoding="utf-8"))


class TestMetadata:
    def test_links_of_the_readme_are_absolute(self, metadata: Message) -> None:
        text = str(metadata.get_payload())
        links = re.findall(r"\]\(([^)]+)\)", text)
        assert len(links) > 15
        assert not [link for link in links if not re.match(r"https?://|#", link)]
        assert "/blob/main/docs/vehicle.md)" in text or "/blob/main/docs/vehicle.md#" in text
        assert "/raw/main/docs/images/sheet.png)" in text

    def test_the_project_is_found(self, metadata: Message) -> None:
        named = {line.split(",")[0] for line in metadata.get_all("Project-URL", [])}
        assert {"Documentation", "Changelog", "Source", "Issues"} <= named
        assert "Typing :: Typed" in metadata.get_all("Classifier", [])
        (home,) = re.findall(r'<url type="repository">(.*)</url>', (REPOSITORY / "package.xml").read_text())
        assert any(line.endswith(home) for line in metadata.get_all("Project-URL", []))

    def test_the_tools_of_the_site_are_an_extra(self, metadata: Message) -> None:
        assert "docs" in metadata.get_all("Provides-Extra", [])
