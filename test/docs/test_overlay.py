"""examples/overlay.py says what it lacks, and draws the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import recorded
from PIL import Image, ImageChops
from places import REPOSITORY

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.offline.convert import convert


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("overlay")
    drive = recorded.record(out / "drive.mcap", recorded.messages(seconds=2))
    convert([drive], out, build_config({}), dataset="d")
    return out / "edgefirst" / "d"


def overlay(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    command = [sys.executable, str(REPOSITORY / "examples" / "overlay.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_without_a_report_the_boxes_alone_are_drawn(dataset: Path, tmp_path: Path) -> None:
    whole, less = tmp_path / "whole.jpeg", tmp_path / "less.jpeg"
    code, said, _ = overlay(dataset, "5", "-o", whole)
    assert code == 0
    assert said.endswith(" points of the lidar\n")
    report = (dataset / REPORT).rename(dataset / "elsewhere.json")
    try:
        code, said, _ = overlay(dataset, "5", "-o", less)
    finally:
        report.rename(dataset / REPORT)
    assert code == 0
    assert said == f"{less}: sample 5 of 20; no points: {dataset / REPORT} is missing\n"
    assert ImageChops.difference(Image.open(whole), Image.open(less)).getbbox() is not None


def test_what_is_not_there_is_an_error_of_one_line(dataset: Path, tmp_path: Path) -> None:
    for arguments in ((dataset, "20"), (tmp_path / "none",)):
        code, _, said = overlay(*arguments, "-o", tmp_path / "x.jpeg")
        assert code == 1
        assert said.startswith("error: ")
        assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
