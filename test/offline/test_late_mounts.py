"""Where a sensor is holds from the begin, though it is said after the first measurements."""

from __future__ import annotations

from pathlib import Path

from drives import simulated
from livedrive import dataset_files
from recorded import record

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording

OPTIONS = DriveOptions(
    seconds=2.0, fps=10, width=320, height=180, model_hz=10, lidar_points=640, cube_hz=0.0, gps_no_fix=0
)


def test_what_is_measured_before_its_transform_comes_has_its_place(tmp_path: Path) -> None:
    messages = [*McapRecording(simulated(OPTIONS).mcap).messages()]
    late_ns = messages[0].receive_ns + 600_000_000
    fewer = [each for each in messages if each.topic != "/tf_static" or each.receive_ns > late_ns]
    assert 0 < len(messages) - len(fewer) < sum(each.topic == "/tf_static" for each in messages)
    # The device stamps them as of its start, long before: by their receipt they are late.
    config = build_config({"formats": ["l5kit"], "topics": {"tf": {"clock": "receive"}}})
    found = []
    for name, given in (("all", messages), ("late", fewer)):
        source = record(tmp_path / f"{name}.mcap", given)
        report = convert([source], tmp_path / f"{name} out", config, dataset="d").report
        files = dataset_files(tmp_path / f"{name} out")
        # The scene begins with the first message.
        parts = ("agents", "frames")
        found.append({path: data for path, data in files.items() if any(part in path for part in parts)})
        assert len(found[-1]) >= 4
        assert "no transform" not in str(report["topics"])
    assert found[0] == found[1]
