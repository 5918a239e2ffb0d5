"""Train and val by drive and by place: the same whatever else there is, and no neighbours in both."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from resized import LARGE, SMALL, recorded, spliced

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst.options import (
    drive_group,
    place_group,
)
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions, simulate

METRES = 111_195.0
DRIVES = ["train", "val", "train", "train", "train", "val", "val", "train"]
PLACES = ["train", "train", "train", "val", "val", "val", "train", "train"]


def test_drives_are_drawn_as_often_as_asked() -> None:
    names = [f"maivin_2026_05_{day:02d}_{hour:02d}_00_00" for day in range(1, 29) for hour in range(24)]
    share = sum(drive_group(name, 0.2) == "val" for name in names) / len(names)
    assert share == pytest.approx(0.2, abs=0.05)
    assert {drive_group(n, 0.0) for n in names} == {"train"}
    assert {drive_group(n, 1.0) for n in names} == {"val"}


def test_the_split_of_a_drive_never_changes() -> None:
    """Values of today: datasets that are made later on must agree with those that there are."""
    assert [drive_group(f"maivin_{n}", 0.5) for n in range(8)] == DRIVES
    assert [place_group(48.1 + n / 100, 11.5, 0.5) for n in range(8)] == PLACES


def test_a_cell_is_as_wide_as_high_everywhere() -> None:
    for latitude in (0.0, 48.137, 69.6):
        east_m = METRES * np.cos(np.radians(latitude))
        line = [place_group(latitude, x / east_m, 0.5) for x in range(0, 60_000, 10)]
        borders = np.flatnonzero([a != b for a, b in itertools.pairwise(line)])
        assert len(borders) == pytest.approx(60_000 / 556 / 2, rel=0.35)
        assert np.diff(borders).min() > 50, "cells of 556 m, in steps of 10 m"


@pytest.mark.parametrize("split", ["drive", "place"])
def test_convert_gives_a_drive_one_group_or_each_place_its_own(tmp_path: Path, split: str) -> None:
    options = DriveOptions(
        seconds=2.0, fps=5, width=160, height=96, lidar_points=64, cube_hz=0, radar_hz=0, imu_hz=20
    )
    made = simulate(tmp_path / "r", options)
    for ratio in (0.1, 0.3, 0.5, 0.7, 0.9):
        config = build_config({"edgefirst": {"split": split, "val_ratio": ratio}})
        done = convert([made.mcap], tmp_path / f"{split}{ratio}", config, dataset="d")
        assert any("of 1 drive are" in note and "use --split time" in note for note in done.report["notes"])
        for sample in edgefirst_ros.open(tmp_path / f"{split}{ratio}", keys=[]):
            place = place_group(*sample["location"], ratio)
            assert sample["group"] == (place if split == "place" else drive_group(sample["sequence"], ratio))


def test_each_drive_of_a_conversion_has_a_group_of_its_own(tmp_path: Path) -> None:
    short = {"seconds": 1.0, "fps": 5, "width": 160, "height": 96, "cube_hz": 0, "radar_hz": 0, "imu_hz": 20}
    starts = [1_777_626_000 + 1000 * n for n in range(6)]
    for start_s in starts:
        simulate(tmp_path / "r", DriveOptions(**short, lidar_points=64, start_ns=start_s * 10**9))
    config = build_config({"edgefirst": {"split": "drive", "val_ratio": 0.5}})
    done = convert([tmp_path / "r"], tmp_path / "out", config, dataset="d")
    found = {sample["sequence"]: sample["group"] for sample in edgefirst_ros.open(tmp_path / "out", keys=[])}
    assert len(found) == len(starts)
    assert found == {name: drive_group(name, 0.5) for name in found}
    assert {*found.values()} == {"train", "val"}
    assert not any("--split time" in note or "--name" in note for note in done.report["notes"])
    config = build_config({"edgefirst": {"split": "drive", "val_ratio": 0.0}})
    done = convert([tmp_path / "r"], tmp_path / "none", config)
    assert "the name of the first of 6 drives, see --name" in "".join(done.report["notes"])
    assert "all samples of 6 drives are in train" in "".join(done.report["notes"])


def test_the_sequences_of_a_drive_are_in_one_group(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "d.mcap", spliced(SMALL, LARGE, SMALL, LARGE))
    for ratio in (0.3, 0.5, 0.7):
        config = build_config({"edgefirst": {"split": "drive", "val_ratio": ratio}})
        convert([recording], tmp_path / f"{ratio}", config)
        samples = edgefirst_ros.open(tmp_path / f"{ratio}", keys=[])
        assert len({sample["sequence"] for sample in samples}) == 4
        assert len({sample["group"] for sample in samples}) == 1
