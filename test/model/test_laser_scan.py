"""A plane's scan as points: rays of equal angles, those without a return left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from wire_encoder import encode

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, decode_laser_scan

SCHEMA = "sensor_msgs/LaserScan"


def scan(ranges: list[float], **more: object) -> PointCloud:
    values = {
        "header": {"stamp": {"sec": 7, "nanosec": 5}, "frame_id": "laser"},
        "angle_min": -math.pi / 2,
        "angle_max": math.pi / 2,
        "angle_increment": math.pi / 4,
        "time_increment": 0.001,
        "range_min": 0.5,
        "range_max": 10.0,
        "ranges": ranges,
        **more,
    }
    stamp_ns, frame, cloud = decode_laser_scan(encode(SCHEMA, values))
    assert (stamp_ns, frame) == (7_000_000_005, "laser")
    return cloud


def test_rays_turn_from_x_to_y() -> None:
    """The first to the right, the middle one ahead, the last to the left (REP 103)."""
    cloud = scan([1.0, 2.0, 3.0, 4.0, 5.0])
    half = math.sqrt(0.5)
    expected = [[0, -1, 0], [2 * half, -2 * half, 0], [3, 0, 0], [4 * half, 4 * half, 0], [0, 5, 0]]
    assert cloud.xyz() == pytest.approx(np.array(expected), abs=1e-6)
    assert cloud.column("time") == pytest.approx([0, 0.001, 0.002, 0.003, 0.004])
    assert not cloud.has("intensity")
    cloud = scan([1.0] * 5, time_increment=0.0, scan_time=0.8)  # of a turn, of which it has a half
    assert cloud.column("time") == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert not scan([1.0] * 5, time_increment=0.0).column("time").any()


def test_a_ray_without_a_return_is_no_point_and_takes_its_intensity_along() -> None:
    cloud = scan([math.inf, 0.4, 3.0, math.nan, 10.5], intensities=[1.0, 2.0, 30.0, 4.0, 5.0])
    assert cloud.xyz().tolist() == [[3.0, 0.0, 0.0]]
    assert cloud.column("intensity").tolist() == [30.0]
    assert cloud.column("time") == pytest.approx([0.002])


def test_nothing_in_reach_is_an_empty_cloud_and_damage_is_refused() -> None:
    assert len(scan([]).points) == 0
    assert len(scan([math.inf] * 3, intensities=[1.0]).points) == 0
    with pytest.raises(DecodeError):
        decode_laser_scan(encode(SCHEMA, {"ranges": [1.0, 2.0]})[:-3])
