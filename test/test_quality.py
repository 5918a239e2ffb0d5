"""Lint, format and types are part of the suite, and so are the lines the architecture draws."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from places import REPOSITORY

PACKAGE = REPOSITORY / "edgefirst_ros"
LOW = ("messages", "video", "ego", "timing", "tracks", "formats")
HIGH = ("sources", "nodes", "commands", "pipeline", "cli", "convert", "job", "live", "simulation")


@pytest.mark.parametrize(
    "command", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]], ids=" ".join
)
def test_tools_are_content(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_dependencies_point_downwards(module: Path) -> None:
    used = imports(module)
    where = module.relative_to(PACKAGE).parts[0]
    if where != "nodes":
        assert not {u for u in used if u.split(".")[0] in {"rclpy", "launch", "launch_ros"}}
    if where == "tracks":
        assert not {u for u in used if u.startswith("edgefirst_ros.") and u.split(".")[1] != "tracks"}
    if where in LOW:
        above = {f"edgefirst_ros.{name}" for name in HIGH}
        assert not {u for u in used if u in above or u.rpartition(".")[0] in above}
