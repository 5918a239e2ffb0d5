"""How a replay says how far it is and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.nodes.diagnostics import ReplayResult, progress_diagnostic, result_diagnostic
from edgefirst_ros.offline.convert import Conversion, Position
from edgefirst_ros.pipeline.assembly import Progress

POSITION = Position("a.mcap", 25_000_000, 100_000_000, Progress(900, 40, 7_000_000, 12.5), ["a finding"])


def report(samples: int) -> dict[str, Any]:
    return {"samples": samples, "totals": {"received": 900, "refused": 1, "dropped": 2}, "warnings": ["poor"]}


@pytest.mark.parametrize(
    ("samples", "interrupted", "code"), [(40, False, 0), (0, False, 1), (40, True, 130), (0, True, 130)]
)
def test_exit_codes_are_those_of_the_command(samples: int, interrupted: bool, code: int) -> None:
    outcome = ReplayResult.of(Conversion((Path("out/x.zip"),), report(samples), interrupted))
    assert outcome.code == code
    assert f"{samples} samples of 900 messages" in outcome.message
    assert outcome.message.startswith("interrupted") is interrupted
    assert outcome.lines == ("warning: poor", "out/x.zip")
    entry = result_diagnostic(outcome, POSITION)
    assert entry.level is (Severity.ERROR if code else Severity.NOTE)
    assert dict(entry.values)["samples"] == 40


def test_progress_is_said_in_shares_and_numbers() -> None:
    entry = progress_diagnostic(POSITION)
    assert entry.message == "25%: 40 samples"
    values = dict(entry.values)
    assert values["read"] == "25.0 of 100.0 MB"
    assert values["recording"] == "12.5 s"
    assert values["note 1"] == "a finding"
    assert progress_diagnostic(None).message == "opening"
    assert progress_diagnostic(Position("a.mcap", 0, 0, POSITION.run, [])).message.startswith("0%")
