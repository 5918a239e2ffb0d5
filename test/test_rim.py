"""What few need stands at the rim: a part that is deleted takes nothing else with it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from drives import simulated
from places import REPOSITORY
from test_architecture import PACKAGE, parsed, places

from edgefirst_ros.simulation import DriveOptions

PARTS = {
    "the simulator": ("simulation",),
    "the report page": ("report.page",),
    "the training reader of L5Kit": tuple(
        f"formats.l5kit.read.{name}" for name in ("agentmask", "raster", "samples", "sampling")
    ),
}
WORDS = """
import importlib, io, json, sys
from contextlib import redirect_stderr, redirect_stdout
# An editable installation would have what is gone here.
sys.meta_path[:] = [each for each in sys.meta_path if "__editable__" not in getattr(each, "__module__", "")]
from edgefirst_ros.cli.app import app

modules, commands = json.load(sys.stdin)
for name in modules:
    importlib.import_module(name)
said = []
for words in commands:
    out, code = io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(out):
        try:
            app(args=words)
        except SystemExit as end:
            code = end.code
    said.append((code or 0, out.getvalue()))
json.dump(said, sys.stdout)
"""
ROS_OR_EXTRA = (
    "edgefirst_ros.nodes",
    "edgefirst_ros.sources.ros1bag",
    "edgefirst_ros.sources.zenoh",
    "edgefirst_ros.__main__",
)

ONLY_TESTS = {"polars", "pypcd4", "scipy", "mcap_ros2", "distributed", "playwright"}
"""What the extra `test` has and neither a distribution of ROS nor this package needs."""


def at_import(nodes: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a module that happen with its own: not in functions, nor for types alone."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from at_import([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])


def is_in(name: str, part: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"edgefirst_ros.{each}.") for each in part)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_nothing_else_imports_it(part: tuple[str, ...]) -> None:
    users = {
        name
        for name, path in places().items()
        if not is_in(name, part)
        for node in at_import(parsed(path).body)
        for used in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        )
        if is_in(used, part)
    }
    assert not users
    assert any(is_in(name, part) for name in places())


def test_a_workspace_can_load_its_tests() -> None:
    """`colcon test` has what ROS and `colcon build` bring, not what `pip install .[test]` does."""
    test = REPOSITORY / "test"
    waiting = {*test.glob("nodes/*.py"), *test.glob("launch/*.py"), test / "conftest.py"}
    found: set[str] = set()
    while waiting:
        body = parsed(waiting.pop()).body
        nodes = [node for node in at_import(body) if isinstance(node, ast.Import)]
        names = {each.name for node in nodes for each in node.names}
        names |= {node.module or "" for node in at_import(body) if isinstance(node, ast.ImportFrom)}
        waiting |= {own for name in names - found if (own := test / f"{name}.py").is_file()}
        found |= names
    assert {"written", "rclpy"} <= found
    assert not found & ONLY_TESTS


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What commands say where all these parts are gone, with their exit codes, by their first words."""
    folder = tmp_path_factory.mktemp("rim")
    copy = folder / "package" / "edgefirst_ros"
    shutil.copytree(PACKAGE, copy, copy_function=os.symlink)
    for each in (each for part in PARTS.values() for each in part):
        place = copy.joinpath(*each.split("."))
        shutil.rmtree(place) if place.is_dir() else place.with_suffix(".py").unlink()
    drive = DriveOptions(seconds=1, fps=5, width=160, height=96, lidar_points=64, cube_hz=0, imu_hz=50)
    mcap = f"{simulated(drive).mcap}"
    commands = {
        "help": ["--help"],
        "simulate": ["simulate", "-o", f"{folder / 'new'}"],
        "report": ["report", mcap, "-o", f"{folder / 'x.html'}"],
        "convert": ["convert", mcap, "-o", f"{folder / 'out'}", "--name", "d"],
        "check": ["check", f"{folder / 'out'}"],
        "picture": ["report", f"{folder / 'out'}", "--picture", f"{folder / 'x.png'}"],
    }
    modules = [
        name
        for name in places()
        if not name.startswith(ROS_OR_EXTRA) and not any(is_in(name, part) for part in PARTS.values())
    ]
    done = subprocess.run(
        [sys.executable, "-c", WORDS],
        input=json.dumps([modules, [*commands.values()]]),
        env={**os.environ, "PYTHONPATH": f"{copy.parent}", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(commands, map(tuple, json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize(
    ("command", "gone", "what"),
    [
        ("simulate", "simulation", "edgefirst_ros"),
        ("report", "report.page", "edgefirst_ros"),
    ],
)
def test_the_command_of_what_is_gone_says_what_brings_it(
    said: dict[str, tuple[int, str]], command: str, gone: str, what: str
) -> None:
    assert said[command] == (2, f"error: edgefirst_ros.{gone} is not installed: pip install {what}\n")


def test_everything_else_works_without_it(said: dict[str, tuple[int, str]]) -> None:
    assert {name: said[name][0] for name in ("help", "convert", "check", "picture")} == dict.fromkeys(
        ("help", "convert", "check", "picture"), 0
    ), said
    assert "simulate" in said["help"][1]
    assert (
        "the report page could not be made: edgefirst_ros.report.page is not installed" in said["convert"][1]
    )
