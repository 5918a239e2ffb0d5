"""Every fuzz target for a moment, from the same seed each time; ``make fuzz`` looks for longer."""

from __future__ import annotations

import pytest
from fuzz_targets import TARGETS
from run_fuzz import Process

from edgefirst_ros.video.h265ctu import compile_parser

SEED = 12
CASES = {
    "h264": 120, "h265": 120, "jpeg": 300, "png": 300, "yaml": 120, "set": 120,
    "edgefirst": 12, "ncore": 8, "l5kit": 12,
}  # fmt: skip
"""Some five seconds of each; messages and recordings have a test of their own."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """The H.265 parser takes longer to compile than a case may take."""
    compile_parser()


@pytest.mark.parametrize("name", CASES)
def test_no_input_leads_to_anything_but_a_result_or_words(name: str) -> None:
    process = Process(TARGETS[name], SEED)
    try:
        for number in range(CASES[name]):
            said, found = process.run(number)
            assert not found, f"case {number} of SEED={SEED} TARGETS={name}: {said}: {found}"
    finally:
        process.close()
