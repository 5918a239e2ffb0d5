"""A sweep of a lidar on a mount that turns meanwhile, in the rig's frame."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgefirst_ros.formats.edgefirst.prepare.clouds import merged_sweeps
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Calibration, EgoPose, Measurement, Sample, SequenceInfo, Sweep
from edgefirst_ros.model.transform import Transform


def head(degrees: float) -> dict[str, Transform]:
    half = math.radians(degrees) / 2
    return {
        "head": Transform("base_link", "head", (0.0, 0.0, 1.0), (0.0, 0.0, math.sin(half), math.cos(half)))
    }


def test_each_point_is_where_the_mount_was_when_it_was_measured() -> None:
    points = np.zeros(5, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("t", "<u4")])
    points["x"], points["t"] = 10.0, np.arange(5) * 25_000_000
    measured = Measurement("/points", 10**9, 10**9, 10**9, 0, "lidar", PointCloud(points, 1, 5))
    lidar = Transform("head", "lidar", (0.5, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    ends = EgoPose(10**9), EgoPose(10**9 + 100_000_000)
    sample = Sample(
        SequenceInfo("s", "h", 0),
        0,
        10**9,
        {},
        {},
        ends[0],
        Calibration(transforms={"lidar": lidar, **head(77.0)}),
        sweeps=(Sweep(measured, *ends, (head(10.0), head(18.0))),),
    )
    merged, _, refused = merged_sweeps(sample)
    assert not refused
    assert merged is not None
    found = merged.points
    assert np.degrees(np.arctan2(found["y"], found["x"])) == pytest.approx([10, 12, 14, 16, 18], abs=0.01)
    assert np.hypot(found["y"], found["x"]) == pytest.approx(np.full(5, 10.5), abs=2e-3)
    assert found["z"] == pytest.approx(np.ones(5))
