"""Range images from points, and depth and reflectivity images as the device sends them."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from edgefirst_samples import cloud, lidar_points
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from edgefirst_ros.formats.edgefirst.prepare.clouds import (
    RangeGrid,
    encode_gray_jpeg,
    project,
    reflectivity,
)
from edgefirst_ros.model.camera import RawImage, depth_mm
from edgefirst_ros.model.errors import DecodeError

GRID = RangeGrid(rows=4, columns=8, elevation_min_deg=-40.0, elevation_max_deg=40.0)


def at(azimuth_deg: float, elevation_deg: float, range_m: float) -> tuple[float, float, float]:
    azimuth, elevation = math.radians(azimuth_deg), math.radians(elevation_deg)
    level = range_m * math.cos(elevation)
    return level * math.cos(azimuth), level * math.sin(azimuth), range_m * math.sin(elevation)


def points(*xyz: tuple[float, float, float], reflect: list[int] | None = None) -> object:
    table = np.array(xyz, np.float32).reshape(-1, 3)
    fields: dict[str, np.ndarray] = {axis: table[:, i] for i, axis in enumerate("xyz")}
    if reflect is not None:
        fields["reflect"] = np.array(reflect, np.uint8)
    return cloud(fields)


@pytest.mark.parametrize(
    ("azimuth", "elevation", "row", "column"),
    [
        (1.0, 5.0, 1, 3),
        (-1.0, -5.0, 2, 4),
        (91.0, 39.0, 0, 1),
        (-91.0, -39.0, 3, 6),
        (179.0, 1.0, 1, 0),
        (-179.0, 1.0, 1, 7),
    ],
    ids=["ahead left", "ahead right", "left up", "right down", "behind left", "behind right"],
)
def test_where_a_point_lies(azimuth: float, elevation: float, row: int, column: int) -> None:
    image = project(points(at(azimuth, elevation, 12.3456), reflect=[77]), GRID)  # type: ignore[arg-type]
    expected = np.zeros((4, 8), np.uint16)
    expected[row, column] = 12346
    np.testing.assert_array_equal(image.range_mm, expected)
    np.testing.assert_array_equal(image.reflectivity, np.where(expected, 77, 0))


def test_the_nearest_wins_then_the_first() -> None:
    far, near = at(10, 10, 9.0), at(11, 11, 4.0)
    image = project(points(far, near, near, far, reflect=[1, 2, 3, 4]), GRID)  # type: ignore[arg-type]
    assert image.range_mm.max() == 4000
    assert image.reflectivity is not None
    assert image.reflectivity.max() == 2


@given(st.permutations(range(300)))
def test_the_order_of_points_does_not_matter_to_the_range(order: list[int]) -> None:
    sent = lidar_points(5, 300)
    shuffled = cloud({name: sent.points[name][order] for name in sent.points.dtype.names or ()})
    grid = RangeGrid(32, 64, -45.0, 45.0)
    np.testing.assert_array_equal(project(sent, grid).range_mm, project(shuffled, grid).range_mm)


def test_every_pixel_is_the_nearest_point_that_falls_into_it() -> None:
    sent = lidar_points(7, 2000)
    grid = RangeGrid(16, 32, -30.0, 30.0)
    expected = np.zeros((16, 32), np.int64)
    for x, y, z in zip(*(sent.points[axis].astype(float) for axis in "xyz"), strict=True):
        row = math.floor((30 - math.degrees(math.atan2(z, math.hypot(x, y)))) / 60 * 16)
        column = math.floor((0.5 - math.atan2(y, x) / math.tau) * 32) % 32
        distance = math.floor(math.sqrt(x * x + y * y + z * z) * 1000 + 0.5)
        if 0 <= row < 16 and not 0 < expected[row, column] <= distance:
            expected[row, column] = distance
    np.testing.assert_array_equal(project(sent, grid).range_mm, expected)


def test_points_beyond_the_image_or_without_place_are_in_no_pixel() -> None:
    lost = [(0.0, 0.0, 0.0), (math.nan, 1.0, 1.0), (math.inf, 1.0, 1.0), at(0, 41, 5), at(0, -41, 5)]
    image = project(points(*lost, reflect=[9] * 5), GRID)  # type: ignore[arg-type]
    assert not image.range_mm.any()
    assert image.reflectivity is not None
    assert not image.reflectivity.any()


def test_far_is_far_and_near_is_not_nothing() -> None:
    image = project(points(at(10, 5, 120.0), at(100, 5, 0.0002)), GRID)  # type: ignore[arg-type]
    assert sorted(image.range_mm[image.range_mm > 0]) == [1, 65535]
    assert image.reflectivity is None


def test_intensity_of_other_lidars_is_clipped() -> None:
    ones = np.ones(1, np.float32)
    for value, expected in ((300.0, 255), (-3.0, 0), (17.4, 17), (math.nan, 0)):
        sent = cloud({"x": ones, "y": ones, "z": ones, "intensity": np.array([value], np.float32)})
        image = project(sent, RangeGrid(1, 1, -90.0, 90.0))
        assert image.reflectivity is not None
        assert image.reflectivity[0, 0] == expected


def test_clouds_without_coordinates_are_refused() -> None:
    with pytest.raises(DecodeError, match="without z"):
        project(cloud({"x": np.ones(1), "y": np.ones(1)}), GRID)


def test_depth_in_millimetres() -> None:
    wire = np.array([[0, 1500, 65535]], np.uint16)
    np.testing.assert_array_equal(depth_mm(RawImage("16UC1", wire)), wire)
    np.testing.assert_array_equal(depth_mm(RawImage("mono16", wire[:, :, None])), wire)
    metres = np.array([[0.0, 1.5, 70.0, np.nan, np.inf, -1.0]], np.float32)
    np.testing.assert_array_equal(depth_mm(RawImage("32FC1", metres)), [[0, 1500, 65535, 0, 65535, 0]])


@pytest.mark.parametrize(
    ("convert", "pixels"),
    [
        (depth_mm, np.zeros((2, 2), np.uint8)),
        (depth_mm, np.zeros((2, 2, 3), np.uint16)),
        (reflectivity, np.zeros((2, 2), np.uint16)),
    ],
)
def test_images_of_another_kind_are_refused(convert: object, pixels: np.ndarray) -> None:
    with pytest.raises(DecodeError, match="of encoding strange"):
        convert(RawImage("strange", pixels))  # type: ignore[operator]


def test_gray_jpeg() -> None:
    ramp = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (32, 1))
    sent = reflectivity(RawImage("mono8", ramp[:, :, None]))
    with Image.open(io.BytesIO(encode_gray_jpeg(sent, 95))) as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "L", (64, 32))
        assert np.abs(np.asarray(image).astype(int) - ramp).max() <= 4
    with pytest.raises(DecodeError, match="without pixels"):
        encode_gray_jpeg(np.zeros((0, 4), np.uint8), 95)
