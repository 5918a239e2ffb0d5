"""A short ``make torture``: kills and errors at some system calls of a conversion in each format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LACKING = 2
SCENARIOS = {
    "edgefirst": "edgefirst-folder,edgefirst-zip-overwrites-zip",
    "ncore": "ncore-itar,ncore-itar-overwrites-itar",
    "l5kit": "l5kit,l5kit-append",
}


@pytest.mark.timeout(900)  # it takes a minute on a machine that has nothing else to do
@pytest.mark.parametrize("kind", SCENARIOS)
def test_what_was_written_survives_kills_and_errors(kind: str) -> None:
    arguments = [
        "--parts",
        "a,c",
        "--no-strace",
        "--scenarios",
        SCENARIOS[kind],
        "--most",
        "5",
        "--jobs",
        "1",
    ]
    command = [sys.executable, str(Path(__file__).parent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == LACKING:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill/" in done.stdout, "nothing was tried"
