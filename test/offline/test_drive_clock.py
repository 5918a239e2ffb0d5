"""Clocks of simulated drives: what a dying sensor and an unusual latency do to the times in a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulate
from faulty import FaultyOptions, Truth

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation.world import transform

SMALL: dict[str, Any] = {
    "width": 192,
    "height": 108,
    "fps": 5,
    "lidar_points": 64,
    "cube_hz": 0.0,
    "gps_hz": 2.0,
    "model_hz": 5.0,
}
LIDAR = "/lidar/points"


def driven(folder: Path, **options: Any) -> tuple[dict[str, Any], Truth]:  # noqa: ANN401 - any option of a drive
    made = simulate(folder, FaultyOptions(**(SMALL | options)))
    values = {"reference": "lidar_points", "topics": {"model": {"required": "never"}}}
    done = convert([made.mcap], folder / "out", build_config(values), dataset="drive")
    return done.report, Truth.read(made.truth)


def offset_ms(report: dict[str, Any], truth: Truth) -> tuple[float, float]:
    """Error of the lidar's offset and the uncertainty stated with it."""
    clock = report["sequences"][0]["clocks"][LIDAR]
    error_ns = clock["offset_ns"] - truth.data["realtime_minus_monotonic_ns"]
    return error_ns / 1e6, clock["uncertainty_ns"] / 1e6


@pytest.mark.long
@pytest.mark.parametrize(
    "silent",
    [
        {"radar": ((6.0, 40.0),), "imu": ((5.0, 40.0),)},
        {"camera": ((5.0, 40.0),), "gps": ((6.0, 40.0),)},
    ],
    ids=["prompt topics die", "camera dies"],
)
def test_a_drive_whose_sensors_die_is_one_sequence(
    tmp_path: Path, silent: dict[str, tuple[tuple[float, float], ...]]
) -> None:
    report, truth = driven(tmp_path, seconds=20.0, imu_hz=50.0, silent=silent)
    assert len(report["sequences"]) == 1
    assert not [note for note in report["notes"] if "new sequence" in note]
    assert abs(offset_ms(report, truth)[0]) < 0.5


def test_lidar_lies_within_half_a_pixel_in_the_picture_without_any_option(tmp_path: Path) -> None:
    """Points of the sweeps, placed by the times that the offset gives, in a picture of 1280 x 720."""
    report, truth = driven(tmp_path, seconds=4.0)
    off_ns = round(offset_ms(report, truth)[0] * 1e6)
    points = np.random.default_rng(0).uniform((4, -8, -1), (40, 8, 3), (200, 3))
    scale = 1280 / truth.world.camera.width
    pictures_ns = truth.true_ns("/camera/h264")
    squares = []
    for sweep_ns in truth.true_ns(LIDAR).tolist():
        shown_ns = int(pictures_ns[np.abs(pictures_ns - sweep_ns).argmin()])
        there, depth_m = truth.project(transform(truth.sensor("lidar", sweep_ns), points), shown_ns)
        placed, _ = truth.project(transform(truth.sensor("lidar", sweep_ns + off_ns), points), shown_ns)
        inside = (depth_m > 2) & np.all(np.abs(there - np.array(truth.world.camera.center_px)) < 400, axis=1)
        squares.append(((placed - there)[inside] ** 2).sum(axis=1) * scale**2)
    assert np.concatenate(squares).size > 500
    assert np.sqrt(np.concatenate(squares).mean()) < 0.5
