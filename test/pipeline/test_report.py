from __future__ import annotations

from pathlib import Path

from drives import simulate

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions


def test_a_warning_of_few_samples_says_of_which_frames(tmp_path: Path) -> None:
    """With a selection the sequence's line counts all frames, the warning those that were chosen."""
    options = DriveOptions(seconds=2, fps=10, width=160, height=90, lidar_points=64, cube_hz=1, imu_hz=10)
    recording = simulate(tmp_path, options).mcap
    every = convert([recording], tmp_path / "a", build_config({})).report
    half = convert([recording], tmp_path / "b", build_config({"every_n": 2})).report
    assert " of 20 reference frames became samples" in every["warnings"][0]
    assert " of 10 selected reference frames became samples" in half["warnings"][0]
    assert half["sequences"][0]["reference_frames"] == 20
