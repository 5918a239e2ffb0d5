"""Lint, format and types are part of the suite."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires

import pytest
from places import REPOSITORY


@pytest.mark.timeout(900)  # types take a minute on a machine that has nothing else to do
@pytest.mark.parametrize(
    "command", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]], ids=" ".join
)
def test_tools_are_content(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_colcon_can_read_what_is_required() -> None:
    """Of "~=9.0" it makes an error, takes the package for one without tests, runs none and exits with 0."""
    assert [each for each in requires("edgefirst_ros") or () if "~=" in each] == []
