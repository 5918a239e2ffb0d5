"""Datasets of a part of a drive, and of drives in a bucket."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import recorded
from drives import simulated
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import RawMessage, Sample
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.recording import excerpt_of

SECOND = 1_000_000_000
DRIVE: dict[str, Any] = {
    "seconds": 6, "fps": 10, "width": 160, "height": 90, "lidar_points": 64, "cube_hz": 0, "imu_hz": 20,
}  # fmt: skip
SENT_ONCE = ("/tf_static", "/camera/info")
CONFIG = build_config({"topics": {"model": {"required": "never"}, "radar_targets": {"required": "never"}}})


def latched_once(messages: Sequence[RawMessage]) -> list[RawMessage]:
    """The messages as a ROS graph sends them: calibration once, in the first second."""
    first_ns = messages[0].receive_ns
    return [m for m in messages if m.topic not in SENT_ONCE or m.receive_ns < first_ns + SECOND]


def samples_of(places: Sequence[Path], out: Path, **times: str | None) -> tuple[list[Sample], dict[str, Any]]:
    excerpt = excerpt_of(times.get("start"), times.get("end"))
    found: list[Sample] = []
    done = convert(places, out, CONFIG, excerpt=excerpt, committed=found.append)
    return found, done.report


def test_an_excerpt_has_the_samples_of_its_time(tmp_path: Path) -> None:
    mcap = simulated(DriveOptions(**DRIVE)).mcap
    whole, before = samples_of([mcap], tmp_path / "whole")
    part, report = samples_of([mcap], tmp_path / "part", start="2", end="4")
    times = {sample.time_ns: sample for sample in whole}
    assert 8 <= len(part) <= 20  # until the first key frame, nothing decodes
    for sample in part:
        same = times[sample.time_ns]
        assert sample.image is not None
        assert same.image is not None
        assert (sample.image.data, sample.calibration.transforms.keys()) == (
            same.image.data,
            same.calibration.transforms.keys(),
        )
    assert report["totals"]["received"] == before["totals"]["received"]
    left_out = report["totals"]["skipped"]
    assert (
        left_out
        >= sum(t["reasons"].get("skipped", {}).get(Reason.OUTSIDE, 0) for t in report["topics"].values())
        > 0
    )
    assert report["totals"]["received"] == sum(n for k, n in report["totals"].items() if k != "received")
    (recording,) = report["recordings"]
    assert recording["outside"]["messages"] > recording["outside"]["unread_bytes"] >= 0
    # Named by its own beginning, so that excerpts of one drive are told apart.
    assert report["sequences"][0]["name"] != before["sequences"][0]["name"] == mcap.stem


@pytest.mark.parametrize("cut", [0, 40])
def test_calibration_sent_before_is_in_force(tmp_path: Path, cut: int) -> None:
    """Whether the file has a summary or not, and whatever else was sent under these names."""
    messages = latched_once(recorded.messages(seconds=4))
    sent = next(m for m in messages if m.topic == "/camera/info")
    damaged = sent._replace(data=sent.data[:9], receive_ns=messages[0].receive_ns - 1)
    alien = damaged._replace(schema="std_msgs/msg/String", definition="string data")
    path = recorded.record(tmp_path / "drive.mcap", [alien, damaged, *messages])
    path.write_bytes(path.read_bytes()[: -cut or None])
    found, _ = samples_of([path], tmp_path / "out", start="2", end="3.5")
    assert found
    for sample in found:
        assert sample.calibration.camera_info is not None
        assert {"camera_optical", "radar", "lidar"} <= sample.calibration.transforms.keys()


def test_times_of_day_choose_among_drives(tmp_path: Path) -> None:
    for number in range(2):
        start_ns = DriveOptions().start_ns + number * 600 * SECOND
        shutil.copy(simulated(DriveOptions(**{**DRIVE, "seconds": 2, "start_ns": start_ns})).mcap, tmp_path)
    early, late = sorted(path.name for path in tmp_path.iterdir())
    begin = datetime.fromtimestamp(DriveOptions().start_ns // SECOND + 300, UTC)
    _, report = samples_of([tmp_path], tmp_path / "out", start=f"{begin:%Y-%m-%dT%H:%M:%S}")
    assert [r["file"] for r in report["recordings"]] == [late]
    assert any(note.startswith(f"{early}: nothing in it is between") for note in report["notes"])
    with pytest.raises(
        RecordingError, match=r"nothing in it is between --start and --end; it was recorded from"
    ):
        samples_of([tmp_path / early], tmp_path / "none", start="100")


def test_the_command_takes_times(tmp_path: Path) -> None:
    mcap = simulated(DriveOptions(**DRIVE)).mcap
    words = [str(mcap), "--start", "1", "--end", "2", "--json"]
    done = CliRunner().invoke(app, ["convert", *words, "-o", str(tmp_path)])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert 0 < report["recordings"][0]["outside"]["messages"] < report["totals"]["received"]
    refused = CliRunner().invoke(app, ["convert", str(mcap), "-o", str(tmp_path), "--start", "noon"])
    assert refused.exit_code == 2
    assert "--start noon: expected seconds" in refused.stderr
