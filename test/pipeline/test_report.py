from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drives import simulate

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions

SMALL: dict[str, Any] = {"fps": 10, "width": 160, "height": 90, "lidar_points": 64, "imu_hz": 10}


def test_a_warning_of_few_samples_says_of_which_frames(tmp_path: Path) -> None:
    """With a selection the sequence's line counts all frames, the warning those that were chosen."""
    recording = simulate(tmp_path, DriveOptions(seconds=2, cube_hz=1, **SMALL)).mcap
    every = convert([recording], tmp_path / "a", build_config({"select": {"require": "all"}})).report
    half = convert(
        [recording], tmp_path / "b", build_config({"select": {"require": "all", "every": 2}})
    ).report
    assert " of 20 camera frames became samples" in every["warnings"][0]
    assert " of 10 selected frames became samples" in half["warnings"][0]
    assert half["sequences"][0]["reference_frames"] == 20


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures and clouds at 10 Hz, and a cube for one picture in five."""
    options = DriveOptions(seconds=3, cube_hz=2, cube_shape=(1, 20, 2, 8), clock="realtime", **SMALL)
    return simulate(tmp_path_factory.mktemp("drive"), options).mcap


def report_of(drive: Path, out: Path, **values: object) -> dict[str, Any]:
    return convert([drive], out, build_config({"ego": {"smoothing": "lag"}, **values})).report


def test_every_frame_is_written_and_every_cube_once(drive: Path, tmp_path: Path) -> None:
    report = report_of(drive, tmp_path, formats=["edgefirst", "ncore", "l5kit"], ncore={"radar_cube": True})
    cubes = report["topics"]["/radar/cube"]
    assert report["samples"] == 30
    assert cubes["written"] == cubes["received"] == cubes["written_to"]["edgefirst"]
    assert report["complete"] == cubes["received"]
    (sequence,) = report["sequences"]
    assert sequence["complete"] == cubes["received"]
    assert sequence["missing"] == {"radar/cube": 30 - cubes["received"]}
    assert report["warnings"] == []
    assert report["companions"]["/radar/cube"] == cubes["received"]
    for topic, account in report["topics"].items():
        ends = ("decoded", "refused", "skipped", "unpaired", "dropped", "written")
        assert account["received"] == sum(account[end] for end in ends), topic


def test_a_sensor_whose_times_are_off_is_a_warning_though_frames_are_written(
    drive: Path, tmp_path: Path
) -> None:
    report = report_of(drive, tmp_path, topics={"lidar_points": {"offset_ms": -5000}})
    assert report["samples"] == 30
    said = "0 of 10 samples have lidar/points, whose times are 5.0 s off: two clocks differ; set its clock"
    assert said in report["warnings"][0]
