"""A camera and a lidar on mounts that turn, beside fixed ones: each is where its mount was then."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from drives import simulated
from faulty import Truth
from livedrive import dataset_files
from oracle import NCORE_PYTHON
from rigjudge import read_officially, worst_px

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import Recording
from edgefirst_ros.simulation.options import drive_options, rig_options
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.suggest import Suggestion, look_at

SEQUENCE = "robot_2026_05_01_09_00_00"
TURNS = {"axis": "z", "amplitude_deg": 40, "period_s": 8}
SIZE = {"width": 320, "height": 180, "hz": 5}
RIG = {
    "clock": "realtime",
    "host": "robot",
    "gps_no_fix": 0,
    "seconds": 4.0,
    "sensors": {
        "front": {"kind": "camera", "at_m": [1.5, 0, 1.5], "first_ms": 13, **SIZE},
        "head": {"kind": "camera", "at_m": [0.5, 0, 2], "first_ms": 31, "turns": TURNS, **SIZE},
        "top": {"kind": "lidar", "at_m": [0, 0, 2.4], "first_ms": 40, "points": 3200},
        "swing": {"kind": "lidar", "at_m": [1, 0.3, 1.8], "turns": {**TURNS, "period_s": 5}, "points": 3200},
        "imu": {"kind": "imu", "first_ms": 4},
        "gps": {"kind": "gps", "at_m": [-0.5, 0, 1.9], "first_ms": 35},
    },
}
needs_official = pytest.mark.skipif(
    not NCORE_PYTHON.is_file(), reason="needs nvidia-ncore in .venv-ncore (make oracles)"
)


@cache
def made() -> Recording:
    return simulated(drive_options(rig_options(RIG, "test")))


@cache
def suggestion() -> Suggestion:
    return look_at([McapRecording(made().mcap)]).suggestion("robot")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    output = tmp_path_factory.mktemp("turning")
    values = {"formats": ["edgefirst", "ncore"]}
    config = build_config({**suggestion().values, **values})
    return output, convert([made().mcap], output, config, dataset="d").report


@pytest.fixture(scope="module")
def official(
    converted: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    return read_officially(converted[0] / "ncore" / SEQUENCE, tmp_path_factory.mktemp("reader") / "rig.npz")


@needs_official
def test_each_lidar_lies_in_each_picture(official: dict[str, Any]) -> None:
    """Through NVIDIA's reader, against the truth."""
    found = worst_px(official, Truth.read(made().truth), every=2)
    assert len(found) == 4
    assert max(found.values()) < 0.5, found


@pytest.mark.long
def test_live_equals_convert_across_a_split(tmp_path: Path) -> None:
    values = {
        **suggestion().values,
        "formats": ["edgefirst", "ncore", "l5kit"],
        "ego": {"smoothing": "lag"},
        "overload": {"latency_s": 0},
        "record": True,
    }
    live = LiveCapture(build_config(values), tmp_path / "live", "robot")
    live.start("d")
    for number, message in enumerate(McapRecording(made().mcap).messages()):
        if number == 400:
            live.split()
        live.put(message)
    assert len(live.stop(120)) == 2
    for recording in sorted((tmp_path / "live" / "recordings").glob("*.mcap")):
        convert([recording], tmp_path / "again", build_config(values | {"record": False}))
    assert dataset_files(tmp_path / "again") == dataset_files(tmp_path / "live")
