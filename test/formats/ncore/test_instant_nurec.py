"""What the loader of NVIDIA's instant-nurec (no GPU, no weights) makes of our sequences is what was driven.

It is in no package registry: ``INSTANT_NUREC_PYTHON`` names an interpreter that can import ``instant_nurec``
(github.com/NVIDIA/instant-nurec, with torch and nvidia-ncore).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from faulty import Truth
from scipy.spatial.transform import Rotation

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions, MoreSensor

SCRIPT = Path(__file__).resolve().parents[2] / "oracles" / "instant_nurec_loader.py"
SIZE = 784, 448
"""Of the loader's pictures."""
LEFT = MoreSensor(
    "camera",
    "left/jpeg",
    "left_optical",
    (0.0, 0.8, 1.6),
    (0.0, 0.0, 90.0),
    10.0,
    13.0,
    392,
    224,
    info="left/info",
)
TOPICS = {
    "left": {"role": "camera", "topic": "left/jpeg"},
    "left_info": {"role": "camera_info", "topic": "left/info", "sensor": "left"},
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = os.environ.get("INSTANT_NUREC_PYTHON")
    if not python:
        pytest.skip("INSTANT_NUREC_PYTHON names no interpreter that has instant-nurec")
    drive = DriveOptions(
        seconds=4.0, fps=10, width=392, height=224, cube_hz=0.0, clock="realtime", more=(LEFT,)
    )
    out = tmp_path_factory.mktemp("nurec")
    made = simulated(drive)
    convert([made.mcap], out, build_config({"formats": ["ncore"], "topics": TOPICS}))
    (meta,) = out.glob("ncore/*/*[0-9].json")
    done = subprocess.run(
        [python, SCRIPT, meta, "camera_optical", "left_optical"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"truth": Truth.read(made.truth)}


def test_it_takes_the_frames_of_both_cameras(loaded: dict[str, Any]) -> None:
    times_us = {name: np.array(times) for name, times in loaded["times_us"].items()}
    assert {name: times.shape for name, times in times_us.items()} == dict.fromkeys(times_us, (18, 2))
    assert {*times_us} == {"camera_optical", "left_optical"}
    assert loaded["pictures"] == [36, SIZE[1], SIZE[0], 3]
    first_us, last_us = loaded["poses_us"][0], loaded["poses_us"][-1]
    for times in times_us.values():
        assert first_us <= times.min()
        assert times.max() < last_us
        apart_s = np.diff(times[:, 1]) / 1e5
        assert np.allclose(apart_s, np.round(apart_s), atol=0.02), "they are ours, of which it takes some"


def test_the_rig_drives_and_its_tracks_have_sizes(loaded: dict[str, Any]) -> None:
    way_m = np.array([loaded["truth"].rig(1000 * time_us)[:3, 3] for time_us in loaded["poses_us"]])
    travelled_m = np.linalg.norm(np.diff(way_m, axis=0), axis=1).sum()
    assert loaded["travelled_m"] == pytest.approx(travelled_m, rel=1e-3)
    assert max(np.diff(loaded["poses_us"])) <= 50_000, "poses are no further apart than half a sweep"
    sizes_m = np.array(loaded["tracks_m"])
    assert len(sizes_m)
    assert ((sizes_m > 0.2) & (sizes_m < 15)).all()


def test_cameras_are_where_they_are_mounted_and_see_as_calibrated(loaded: dict[str, Any]) -> None:
    found = loaded["calibrations"]["left_optical"]
    optical = Rotation.from_matrix([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])
    T_sensor_rig = np.eye(4)
    T_sensor_rig[:3, :3] = (Rotation.from_euler("z", 90, degrees=True) * optical).as_matrix()
    T_sensor_rig[:3, 3] = LEFT.at_m
    assert np.allclose(found["T_sensor_rig"], T_sensor_rig, atol=1e-5)
    assert found["resolution"] == list(SIZE)
    assert found["principal_point"] == pytest.approx([SIZE[0] / 2, SIZE[1] / 2], abs=1.5)
