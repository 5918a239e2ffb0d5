"""The tutorial does what it says, block by block; the notebook has the same blocks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from places import REPOSITORY, tool
from snippets import blocks, lines
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.edgefirst.options import BlockSplit

PAGE = REPOSITORY / "docs" / "tutorial.md"
SHORT = {
    # Long enough for pictures of both groups.
    "simulate": ("--seconds", "12", "--fps", "2", "--size", "320x192", "--set", "lidar_points=200", "-q"),
    "convert": ("--workers", "1"),
}
"""What is added to commands, so that the test is quick: it is not about sizes."""


def test_each_block_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), known)
        for line in lines(block.text) if block.language == "" else ():
            program, command, *words = shlex.split(line)
            if program == "edgefirst-ros":
                done = CliRunner().invoke(app, [command, *words, *SHORT.get(command, ())])
                assert done.exit_code == 0, f"{line}\n{done.output[-2000:]}"
            elif program == "python":
                if find_spec("torch"):  # make test-torch
                    script = [sys.executable, REPOSITORY / command, *words]
                    subprocess.run(script, check=True)
                    assert Path("detector.png").is_file()
            else:
                assert program == "pip"
    for name in ("sheet.png", "batch.png", "yolo/data.yaml", "coco/annotations/instances_train.json"):
        assert (tmp_path / name).stat().st_size > 100
    assert (tmp_path / "out" / "edgefirst" / "city" / "capture_report.html").is_file()
    assert len(known["train"]) > 4


def test_the_samples_of_each_group_are_as_many_as_it_says() -> None:
    """Three drives of 20 s with two samples a second, as its first steps make them."""
    host_time, found = "maivin-sim_2026_05_01_09_00_00", Counter[str]()
    times = [1_777_626_000_000_000_000 + half_s * 500_000_000 for half_s in range(40)]
    for name in (host_time, f"{host_time}_2", f"{host_time}_3"):
        found.update(map(BlockSplit(name, times[0], times[-1], 0.2).group, times))
    text = PAGE.read_text(encoding="utf-8")
    said = re.findall(r"about (\d+) samples|About (\d+) others are for validation|The (\d+) between", text)
    assert [int("".join(each)) for each in said] == [found["train"], found["val"], found["test"]]


def test_the_notebook_is_made_of_the_tutorial() -> None:
    made = tool("helps")
    for path, make in made.MADE.items():
        assert path.read_text(encoding="utf-8") == make(), "run: make reference"
    cells = json.loads((REPOSITORY / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    assert sum(cell["cell_type"] == "code" for cell in cells) == len([*blocks(PAGE)])
