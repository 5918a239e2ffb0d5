from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recorded
from drives import simulate

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.recording import excerpt_of

SMALL: dict[str, Any] = {"fps": 10, "width": 160, "height": 90, "lidar_points": 64, "imu_hz": 10}


def test_a_warning_of_few_samples_says_of_which_frames(tmp_path: Path) -> None:
    """With a selection the sequence's line counts all frames, the warning those that were chosen."""
    recording = simulate(tmp_path, DriveOptions(seconds=2, cube_hz=1, **SMALL)).mcap
    every = convert([recording], tmp_path / "a", build_config({"complete": True})).report
    half = convert([recording], tmp_path / "b", build_config({"complete": True, "every_n": 2})).report
    assert " of 20 reference frames became samples" in every["warnings"][0]
    assert " of 10 selected reference frames became samples" in half["warnings"][0]
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
    having = sum(c["samples"] for c in report["combinations"] if "/radar/cube" in c["topics"])
    assert having == cubes["received"]
    for topic, account in report["topics"].items():
        ends = ("decoded", "refused", "skipped", "unpaired", "dropped", "written")
        assert account["received"] == sum(account[end] for end in ends), topic


def test_complete_samples_alone_are_as_many_as_the_report_says_there_are(drive: Path, tmp_path: Path) -> None:
    free = report_of(drive, tmp_path / "a")
    bound = report_of(drive, tmp_path / "b", complete=True)
    by_hand = report_of(drive, tmp_path / "c", topics={"radar_cube": {"required": "auto"}})
    assert bound["samples"] == bound["complete"] == free["complete"] == by_hand["samples"]
    assert 5 <= bound["samples"] <= 7
    assert bound["sequences"][0]["incomplete"] == 30 - bound["samples"]


def test_a_cube_is_not_lost_where_samples_are_rare(drive: Path, tmp_path: Path) -> None:
    """Of two samples a second none need be within 50 ms of a cube; none has two."""
    report = report_of(drive, tmp_path, rate_hz=2.0)
    cubes = report["topics"]["/radar/cube"]
    assert report["samples"] == 6
    assert cubes["written"] >= 5
    assert cubes["pairing_error_ms"]["max"] <= 250


def test_a_sensor_whose_times_are_off_is_a_warning_though_frames_are_written(
    drive: Path, tmp_path: Path
) -> None:
    report = report_of(drive, tmp_path, topics={"lidar_points": {"offset_ms": -5000}})
    assert report["samples"] == 30
    said = "0 of 10 samples have lidar/points, whose times are 5.0 s off: two clocks differ; set its clock"
    assert said in report["warnings"][0]


def test_a_sensor_that_begins_later_is_missing_until_then(tmp_path: Path) -> None:
    messages = recorded.messages(seconds=3)
    begins_ns = messages[0].receive_ns + 700_000_000
    later = (m for m in messages if m.topic != "/lidar/points" or m.receive_ns > begins_ns)
    report = report_of(recorded.record(tmp_path / "drive.mcap", later), tmp_path / "out")
    (sequence,) = report["sequences"]
    assert (sequence["sample"], sequence["missing"]) == (30, {"lidar/points": 7})


def test_a_silent_sensor_is_not_called_slow(tmp_path: Path) -> None:
    """It comes at 10 Hz; a larger tolerance would pair nothing more."""
    silent = {"lidar/points": ((3.0, 9.0),)}
    options = DriveOptions(seconds=12, cube_hz=0, silent=silent, clock="realtime", **SMALL)
    recording = simulate(tmp_path, options).mcap
    report = report_of(recording, tmp_path / "out", topics={"lidar_points": {"required": "always"}})
    (sequence,) = report["sequences"]
    assert sequence["rates_hz"]["/lidar/points"] == pytest.approx(10, abs=0.1)
    (warning,) = report["warnings"]
    assert "lacked lidar/points, which sent nothing for 6." in warning
    assert "tolerance_ms" not in warning


def test_companions_are_counted_against_what_rates_promise(drive: Path, tmp_path: Path) -> None:
    report = report_of(drive, tmp_path)
    cubes = report["topics"]["/radar/cube"]["received"]
    found = report["sequences"][0]["companions"]
    counts = {"paired": cubes, "missing": 30 - cubes, "promised": round(cubes / 30, 4)}
    assert found["/radar/cube"].items() >= counts.items()
    assert found["/lidar/points"]["promised"] == pytest.approx(1.0, abs=0.01)
    assert report["companions"]["/radar/cube"] == cubes


def test_what_a_format_leaves_out_on_purpose_is_marked(drive: Path, tmp_path: Path) -> None:
    report = report_of(drive, tmp_path, formats=["edgefirst", "l5kit"], l5kit={"rate_hz": 2})
    l5kit = report["formats"]["l5kit"]
    assert l5kit["thinned"] == l5kit["left_out"]
    assert sum(l5kit["thinned"].values()) > 10
    assert report["formats"]["edgefirst"]["thinned"] == {}


def test_selected_frames_that_lie_between_the_messages_of_a_sensor_are_said_to(tmp_path: Path) -> None:
    """The model sees every other picture, and the others are selected."""
    options = DriveOptions(seconds=4, jpeg=True, cube_hz=0, model_hz=5, **SMALL)
    recording = simulate(tmp_path, options).mcap
    config = build_config({"every_n": 2, "formats": ["edgefirst"], "ego": {"smoothing": "lag"}})
    report = convert([recording], tmp_path / "out", config, excerpt=excerpt_of("0.07", None)).report
    (warning,) = (each for each in report["warnings"] if "model/output" in each)
    assert "samples have model/output, which comes at 5.0 Hz: the selected frames lie between" in warning
