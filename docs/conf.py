"""The documentation as a site: `make docs` builds it, with the repository's root as Sphinx's source folder.

So the links of README, CONTRIBUTING and the examples lead to the same places as in a checkout, and Sphinx
checks them all.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from edgefirst_ros import PUBLIC

ROOT = Path(__file__).resolve().parents[1]
SETUP = (ROOT / "setup.py").read_text(encoding="utf-8")

project = "edgefirst_ros"
author = "edgefirst_ros maintainers"
copyright = author  # noqa: A001 - Sphinx's name
(version,) = re.findall(r'version="([^"]+)"', SETUP)
release = version

extensions = ["myst_parser", "sphinxcontrib.mermaid", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "none"
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "examples/*.md",
    "benchmarks/*.md",
]
exclude_patterns = [".venv*", ".aarch64", "build", "demo", "edgefirst_ros", "test"]

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
highlight_language = "text"

html_theme = "furo"
html_title = "edgefirst_ros"
html_copy_source = False
html_show_sphinx = False
linkcheck_retries = 2
linkcheck_timeout = 20

NAVIGATION = {
    "Begin": ["../README", "tutorial", "cheatsheet", "troubleshooting"],
    "Use": [
        "workstation",
        "vehicle",
        "recordings",
        "fleet",
        "report",
        "corpus",
        "training",
        "exports",
    ],
    "Datasets": ["datasets", "frames", "ncore", "l5kit", "cameras", "ego"],
    "Reference": [
        "cli",
        "configuration",
        "simulator",
        "python",
        "security",
        "../benchmarks/README",
        "ci",
        "../CHANGELOG",
    ],
    "Extend": ["rigs", "adding-a-topic", "../examples/adding-a-sensor", "architecture", "../CONTRIBUTING"],
}
"""Pages by caption, from docs/; Sphinx warns of one that is left out."""
ENTRY = """<!doctype html><meta charset="utf-8"><title>edgefirst_ros</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">edgefirst_ros</a>
"""


def _entry(app: Sphinx, failed: Exception | None) -> None:
    """The site's root leads to the front page."""
    if failed is None and app.builder.name == "html":
        (Path(app.outdir) / "index.html").write_text(ENTRY, encoding="utf-8")


def _navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Put the pages into the front page, which stays plain Markdown for those who read it elsewhere."""
    if name == root_doc:
        for caption, names in NAVIGATION.items():
            files = {name: re.sub(r".*<|>", "", name) for name in names}
            pages = [name for name in names if (ROOT / "docs" / f"{files[name]}.md").is_file()]
            source[0] += "\n".join(
                ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]
            )
    if name == "docs/python":
        members = ("autofunction" if name[0].islower() else "autoclass" for name in PUBLIC)
        found = (f".. {kind}:: edgefirst_ros.{name}" for kind, name in zip(members, PUBLIC, strict=True))
        source[0] += "\n".join(["", "```{eval-rst}", *found, "```", ""])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _navigation)
    app.connect("build-finished", _entry)
