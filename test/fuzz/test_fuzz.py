"""A few cases of the fuzz targets for messages and recordings, always the same, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_targets import TARGETS
from fuzzing import UnexpectedError, case, outcome

from edgefirst_ros.pipeline.ledger import TopicAccount

CASES = {"payloads": range(150), "mcap": range(30), "recordings": range(10, 16)}
"""Of the recordings the last is one that comes to nothing."""


@pytest.mark.guarded
@pytest.mark.parametrize("name", CASES)
def test_no_case_is_a_finding(name: str) -> None:
    target = TARGETS[name]
    corpus = target.corpus()
    outcomes = {outcome(target, case(target, corpus, 0, number)) for number in CASES[name]}
    assert len(outcomes) > 1, "all cases came to the same end"


@pytest.mark.long(cases=3)
@pytest.mark.parametrize(
    "name", [*CASES, "arrow", "zip", "itar", "zarr", "bag", "db3", "reports", "sessions"]
)
def test_what_is_mutated_is_sound_before(name: str) -> None:
    target = TARGETS[name]
    sound = {"decoded", "read", "converted", "taken", "0-0", "0-1"}
    assert {outcome(target, data) for data in target.corpus()} <= sound


def test_a_case_can_be_made_again() -> None:
    target = TARGETS["payloads"]
    first, second = ([case(target, target.corpus(), 7, n) for n in range(20)] for _ in range(2))
    assert first == second
    assert first != [case(target, target.corpus(), 8, n) for n in range(20)]


@pytest.mark.guarded
def test_errors_that_were_guarded_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("edgefirst_ros.formats.edgefirst.writer.prepare_sample", fail)
    with pytest.raises(UnexpectedError, match="ZeroDivisionError"):
        outcome(TARGETS["recordings"], TARGETS["recordings"].corpus()[0])


def test_accounts_that_do_not_add_up_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = TopicAccount.as_dict
    monkeypatch.setattr(TopicAccount, "as_dict", lambda self: {**sound(self), "received": self.received + 1})
    with pytest.raises(UnexpectedError, match="do not add up"):
        outcome(TARGETS["recordings"], TARGETS["recordings"].corpus()[0])


def test_an_output_that_is_damaged_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "edgefirst_ros.formats.edgefirst.prepare.sample.insert_exif", lambda image, _: image.data[:99]
    )
    with pytest.raises(UnexpectedError, match="FAIL: edgefirst"):
        outcome(TARGETS["recordings"], TARGETS["recordings"].corpus()[0])
