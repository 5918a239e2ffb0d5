"""Every fuzz target for a moment, from the same seed each time; ``make fuzz`` looks for longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz_targets import TARGETS
from run_fuzz import Process

from edgefirst_ros.video.h265ctu import compile_parser

SEED = 12
CASES = {
    "h264": 120, "h265": 120, "jpeg": 300, "png": 300, "yaml": 120, "set": 120, "values": 12,
    "edgefirst": 12, "ncore": 5, "l5kit": 12, "zarr": 300, "arrow": 40, "zip": 20, "itar": 40,
    "bag": 100, "db3": 100, "notes": 15, "reports": 80, "sessions": 12,
}  # fmt: skip
"""A few seconds of each; messages and recordings have a test of their own."""


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """One for all targets, as each start imports all of the package."""
    compile_parser()  # takes longer than a case may take
    started = Process(SEED)
    yield started
    started.close()


@pytest.mark.parametrize("name", CASES)
def test_no_input_leads_to_anything_but_a_result_or_words(process: Process, name: str) -> None:
    found = process.run(TARGETS[name], 0, CASES[name]).found
    assert not found, f"SEED={SEED} TARGETS={name}: case {found[0][0]}: {found[0][1]}"
