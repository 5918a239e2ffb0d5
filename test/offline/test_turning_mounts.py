"""A camera and a lidar on mounts that turn, beside fixed ones: each measurement is where its mount was then."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from oracle import NCORE_PYTHON
from rigjudge import read_officially, worst_px

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import Recording, Truth
from edgefirst_ros.simulation.options import drive_options
from edgefirst_ros.simulation.rig import rig_options
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.suggest import Suggestion, look_at

SECONDS = 4.0
TURNS = {"axis": "z", "amplitude_deg": 40, "period_s": 8}
SIZE = {"width": 320, "height": 180, "hz": 5}
RIG = {
    "clock": "realtime",
    "host": "robot",
    "gps_no_fix": 0,
    "seconds": SECONDS,
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
    config = build_config({**suggestion().values, "formats": ["ncore"]})
    return output, convert([made().mcap], output, config, dataset="d").report


@needs_official
def test_each_lidar_lies_in_each_picture(converted: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Through NVIDIA's reader, against the truth."""
    output, report = converted
    assert all(each.ok for each in check(output))
    (sequence,) = (output / "ncore").glob("robot_*")
    truth = Truth.read(made().truth)
    found = worst_px(read_officially(sequence, tmp_path / "rig.npz"), truth, every=2)
    print(found, report["sequences"][0]["mounts"], report["notes"], report["warnings"])
    assert len(found) == 4
    assert max(found.values()) < 1.0, found
