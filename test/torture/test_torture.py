"""A short ``make torture``: kills and errors at some system calls of a conversion in each format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LACKING = 2
SCENARIOS = ("edgefirst-zip-overwrites-zip", "ncore-itar-overwrites-itar", "l5kit-overwrite")
"""What has a complete dataset to lose."""


@pytest.mark.long(cases=1)
@pytest.mark.timeout(900)  # it takes ten seconds on a machine that has nothing else to do
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_was_written_survives_kills_and_errors(scenario: str) -> None:
    chosen = f"--parts a,c --no-strace --scenarios {scenario} --most 1 --jobs 1".split()
    command = [sys.executable, str(Path(__file__).parent), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == LACKING:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"kill/{scenario}" in done.stdout, "nothing was tried"
