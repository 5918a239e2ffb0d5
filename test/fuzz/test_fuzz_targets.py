"""Every fuzz target for a moment, from the same seed each time; ``make fuzz`` looks for longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz_targets import TARGETS
from run_fuzz import Process

SEED = 12
CASES = {
    "h264": 20, "h265": 20, "jpeg": 60, "png": 60, "yaml": 15, "set": 20, "values": 2,
    "edgefirst": 2, "ncore": 1, "l5kit": 2, "zarr": 60, "arrow": 8, "zip": 8, "itar": 8,
    "bag": 30, "db3": 30, "notes": 3, "reports": 12, "sessions": 3,
}  # fmt: skip
"""A second of each; messages and recordings have a test of their own."""


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """One for all targets, as each start imports all of the package."""
    started = Process(SEED)
    yield started
    started.close()


@pytest.mark.long(cases=4)
@pytest.mark.parametrize("name", CASES)
def test_no_input_leads_to_anything_but_a_result_or_words(process: Process, name: str) -> None:
    found = process.run(TARGETS[name], 0, CASES[name]).found
    assert not found, f"SEED={SEED} TARGETS={name}: case {found[0][0]}: {found[0][1]}"
