"""A writer killed at any moment keeps everything that it had acknowledged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from ncorekill import kill_trial


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("store", "profile"),
    [
        ("itar", "separate-sensors"),
        ("directory", "single"),
    ],
)
def test_every_acknowledged_frame_survives(tmp_path: Path, store: str, profile: str) -> None:
    after_s = random.Random(f"{store}{profile}").uniform(0.05, 0.6)
    options = {"store": store, "profile": profile, "radar_cube": True}
    trial = kill_trial(tmp_path / "out", after_s, **options)
    assert trial.acknowledged > 0
    assert trial.lost == []
    assert trial.more <= 1
    assert not trial.errors, trial.errors
