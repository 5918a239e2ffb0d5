"""Every fuzz target for a moment, from the same seed each time; ``make fuzz`` looks for longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz_targets import TARGETS
from run_fuzz import Process

from edgefirst_ros.video.h265ctu import compile_parser

SEED = 12
CASES = {
    "h264": 40, "h265": 40, "jpeg": 100, "png": 100, "yaml": 40, "set": 40, "values": 6,
    "edgefirst": 4, "ncore": 2, "l5kit": 4, "zarr": 100, "arrow": 15, "zip": 10, "itar": 15,
    "bag": 40, "db3": 40, "notes": 8, "reports": 30, "sessions": 6,
}  # fmt: skip
"""A second or two of each; messages and recordings have a test of their own."""


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
