from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from drives import simulate

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.inputs import open_recordings
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.records import MAGIC

DRIVE = {"seconds": 1, "fps": 10, "width": 160, "height": 90, "lidar_points": 64, "cube_hz": 0, "imu_hz": 20}
CONFIG = build_config({})


def drive(folder: Path, **more: Any) -> Path:  # noqa: ANN401
    return simulate(folder, DriveOptions(**{**DRIVE, **more})).mcap


def test_a_day_with_an_empty_file_is_converted_and_says_so(tmp_path: Path) -> None:
    day = tmp_path / "day"
    good = drive(day)
    (day / "a_empty.mcap").touch()
    (day / "b_begun.mcap").write_bytes(MAGIC)
    done = convert([day], tmp_path / "out", CONFIG)
    assert done.report["samples"] > 0
    assert [r["file"] for r in done.report["recordings"]] == [good.name]
    assert [left["file"] for left in done.report["left_out"]] == ["a_empty.mcap", "b_begun.mcap"]
    assert "a_empty.mcap: left out: is empty" in done.report["warnings"][0]
    assert "b_begun.mcap: left out: holds no topic (8 bytes)" in done.report["warnings"][1]


def test_a_file_that_was_named_must_be_usable(tmp_path: Path) -> None:
    good = drive(tmp_path)
    empty = tmp_path / "empty.mcap"
    empty.touch()
    with pytest.raises(RecordingError, match="is empty"):
        open_recordings([good, empty], CONFIG)
    good.unlink()
    with pytest.raises(RecordingError, match="is empty"):
        open_recordings([tmp_path], CONFIG)


def test_a_recording_given_twice_is_converted_once(tmp_path: Path) -> None:
    good = drive(tmp_path)
    (tmp_path / "again.mcap").symlink_to(good)
    done = convert([good, tmp_path], tmp_path / "out", CONFIG)
    assert len(done.report["sequences"]) == 1
    assert f"{good.name}: given twice, converted once" in done.report["notes"]


def test_a_name_that_is_no_text_is_no_reason_to_fail(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.mcap"))
    shutil.move(drive(tmp_path), odd)
    config = build_config({"formats": ["edgefirst", "ncore", "l5kit"]})
    done = convert([odd], tmp_path / "out", config)
    assert done.report["recordings"][0]["file"] == "odd\ufffd.mcap"
    assert done.paths[-1].name == "capture_report.json"
    assert done.paths[-1].exists()
    assert inspect(McapRecording(odd), CONFIG)["file"] == "odd\ufffd.mcap"


def test_what_a_cut_lost_is_counted_in_bytes_of_the_file(tmp_path: Path) -> None:
    good = drive(tmp_path)
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(good.read_bytes()[:300])
    recording = McapRecording(cut)
    assert list(recording.messages()) == []
    assert 0 < sum(fault.bytes for fault in recording.faults) <= 300
