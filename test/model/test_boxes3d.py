"""Boxes of fusion/boxes3d, worked out on paper: 20 m ahead, 3 m to the left, 1 m up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgefirst_ros.model.detection import Box, BoxAxes, is_optical

BOX = Box(
    center_x=-3.0, center_y=-1.0, width=2.0, height=1.5, label="car", score=0.9, distance_m=20.0,
    speed_m_s=0.0, track_id="", track_lifetime=0, track_created_ns=0,
)  # fmt: skip
KNOWN = ("/camera_optical", "lidar")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("base_link", BoxAxes("base_link", optical=False)),
        ("/lidar", BoxAxes("lidar", optical=False)),
        ("camera_optical", BoxAxes("camera_optical", optical=True)),
        ("/camera_optical", BoxAxes("camera_optical", optical=True)),
        ("base_link_optical", BoxAxes("base_link", optical=False)),
        ("", BoxAxes("", optical=False)),
    ],
)
def test_an_optical_frame_counts_if_transforms_have_it(frame: str, expected: BoxAxes) -> None:
    assert BoxAxes.of(frame, KNOWN) == expected


def test_names_say_what_is_optical() -> None:
    assert all(map(is_optical, ("/camera_optical", "color_optical_frame", "camera_optical_link")))
    assert not any(map(is_optical, ("camera", "optical", "camera_frame", "")))


def test_forward_left_and_up_otherwise() -> None:
    axes = BoxAxes("base_link", optical=False)
    assert axes.centre_m(BOX) == (20.0, 3.0, 1.0)
    assert axes.extents_m(BOX) == (2.0, 2.0, 1.5)


def test_right_down_and_forward_in_an_optical_frame() -> None:
    axes = BoxAxes("camera_optical", optical=True)
    assert axes.centre_m(BOX) == (-3.0, -1.0, 20.0)
    assert axes.extents_m(BOX) == (2.0, 1.5, 2.0)
    assert axes.turned_extents_m((4.0, 2.0, 1.5)) == (2.0, 1.5, 4.0)


@pytest.mark.parametrize(
    ("track_id", "lifetime", "expected"),
    [("", 5, False), ("7", 0, False), ("7", 3, True), ("0d1f-77", 0, True)],
)
def test_a_number_without_a_lifetime_is_no_track(track_id: str, lifetime: int, expected: bool) -> None:
    assert replace(BOX, track_id=track_id, track_lifetime=lifetime).is_tracked is expected
