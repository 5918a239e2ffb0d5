"""Pictures: boxes as far as they reach, points where they were, the past fading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import box, boxes, cloud, sample, write

from edgefirst_ros.formats.l5kit import AgentDataset, ChunkedDataset, EgoDataset, build_rasterizer
from edgefirst_ros.formats.l5kit.read.raster import box_corners, fill_quads, mark_points
from edgefirst_ros.model.sample import Role

numbers = st.floats(-10, 40, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    boxes_given=st.lists(
        st.tuples(
            numbers, numbers, st.floats(0.5, 30), st.floats(0.5, 30), st.floats(-4, 4), st.integers(0, 2)
        ),
        max_size=6,
    )
)
def test_pixels_filled_are_those_inside(boxes_given: list[tuple[float, ...]]) -> None:
    values = np.array(boxes_given, np.float64).reshape(-1, 6)
    layer = values[:, 5].astype(np.intp)
    filled = fill_quads(box_corners(values[:, :2], values[:, 2:4], values[:, 4]), layer, (3, 20, 30))
    y, x = np.mgrid[:20, :30]
    expected = np.zeros((3, 20, 30))
    unsure = np.zeros((3, 20, 30), bool)
    for cx, cy, length, width, yaw, where in boxes_given:
        along = np.abs((x - cx) * np.cos(yaw) + (y - cy) * np.sin(yaw)) - length / 2
        across = np.abs(-(x - cx) * np.sin(yaw) + (y - cy) * np.cos(yaw)) - width / 2
        outside = np.maximum(along, across)
        expected[int(where)][outside <= 0] = 1
        unsure[int(where)] |= np.abs(outside) < 1e-6
    np.testing.assert_array_equal(filled[~unsure], expected[~unsure])
    assert filled.dtype == np.float32


def test_upright_box_includes_its_edges() -> None:
    corners = box_corners(np.array([[5.0, 3.0]]), np.array([[4.0, 2.0]]), np.zeros(1))
    assert corners.tolist() == [[[3.0, 2.0], [3.0, 4.0], [7.0, 4.0], [7.0, 2.0]]]
    filled = fill_quads(corners, np.zeros(1, np.intp), (1, 8, 10))
    assert filled.sum() == 15
    assert filled[0, 2:5, 3:8].all()


@given(st.floats(0, 20), st.floats(0, 20), st.floats(-4, 4))
def test_smallest_box_that_is_drawn_is_never_lost(x: float, y: float, yaw: float) -> None:
    size = np.full((1, 2), 2**0.5 + 1e-9)
    corners = box_corners(np.array([[x, y]]), size, np.array([yaw]))
    assert fill_quads(corners, np.zeros(1, np.intp), (1, 21, 21)).any()


def test_greatest_value_of_a_pixel_stays() -> None:
    pixels = np.array([[1.4, 0.6], [0.6, 1.4], [-0.6, 0.0], [3.0, 1.0], [2.0, 2.0]])
    image = mark_points(pixels, np.array([0.5, 0.7, 1.0, 0.25, 1.0]), (2, 4))
    np.testing.assert_allclose(image, [[0, 0, 0, 0], [0, 0.7, 0, 0.25]])


CONFIG: dict[str, Any] = {
    "model_params": {"history_num_frames": 2, "future_num_frames": 1},
    "raster_params": {"map_type": "lidar", "raster_size": [60, 40], "pixel_size": [0.5, 0.5]},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ChunkedDataset:
    """Ego and a car ahead at 10 m/s, a wall of lidar 8 m to the left, one radar target ahead."""
    wall = cloud(
        x=np.linspace(-5, 5, 40, dtype=np.float32),
        y=np.full(40, 8.0, np.float32),
        z=np.linspace(-2.5, 1.5, 40, dtype=np.float32),
    )
    target = cloud(x=np.array([-10.0], np.float32), y=np.zeros(1, np.float32), z=np.zeros(1, np.float32))
    solid = box(center_x=0.0, center_y=0.0, distance_m=12.0, width=1.8, height=1.5, score=1.0)
    data = {
        Role.BOXES_3D: boxes(
            solid, box(label="bench", track_id="b", center_x=3.0, distance_m=6.0, width=1.0)
        ),
        Role.LIDAR_POINTS: wall,
        Role.RADAR_TARGETS: target,
    }
    given_samples = [sample(i, data, position_m=(float(i), 0.0, 0.0)) for i in range(4)]
    return write(tmp_path_factory.mktemp("raster"), given_samples)


def test_points_are_where_the_sensor_saw_them(dataset: ChunkedDataset) -> None:
    lidar, height, radar = EgoDataset(CONFIG, dataset)[3]["image"][-3:]
    # The ego is at pixel (15, 20); the wall 8 m to its left is 16 rows up, from 4 m behind to 6 m ahead.
    rows, columns = np.nonzero(lidar)
    assert set(rows.tolist()) == {4}
    assert (columns.min(), columns.max()) == (7, 27)
    # Its lower end, half a metre below the ground, is faintest; its upper, at 3.5 m, brightest.
    assert height[4, 7] == pytest.approx(0.1, abs=0.03)
    assert height[4, 27] == pytest.approx(1.0, abs=0.03)
    assert (np.diff(height[4, 7:28]) > 0).all()
    # The radar looks backwards from 3 m ahead: its target 10 m off is 13 m ahead.
    assert np.argwhere(radar).tolist() == [[20, 41]]


def test_points_turn_with_the_subject(dataset: ChunkedDataset) -> None:
    agents = AgentDataset(
        CONFIG, dataset, agents_mask=dataset.agents["track_id"] == dataset.agents[0]["track_id"]
    )
    each = agents[3]
    assert each["yaw"] == pytest.approx(0.0, abs=1e-5)
    lidar, _, radar = each["image"][-3:]
    # The car is 12 m ahead of the ego, so the ego, its target and its wall are 24 pixels further back.
    assert np.argwhere(radar).tolist() == [[20, 17]]
    assert np.nonzero(lidar)[1].max() == 3


def test_channels_of_boxes(dataset: ChunkedDataset) -> None:
    ego = EgoDataset(CONFIG, dataset)
    image = ego[3]["image"]
    assert len(image) == ego.rasterizer.num_channels() == 9
    others, own = image[:3], image[3:6]
    # At 10 m/s and two pixels a metre everything moves by two pixels a frame.
    for channels in (others, own):
        for back in (1, 2):
            np.testing.assert_array_equal(
                channels[back][:, 5 : -2 * back - 1], channels[0][:, 5 + 2 * back : -1]
            )
    # A bench is no agent of L5Kit's, so nobody draws it.
    assert set(np.nonzero(others[0])[0].tolist()) == {19, 20, 21}
    agents = AgentDataset(
        CONFIG, dataset, agents_mask=dataset.agents["track_id"] == dataset.agents[0]["track_id"]
    )
    theirs = agents[3]["image"]
    # Now the car is the subject and the ego one of the others, 24 pixels behind and out of the picture.
    assert theirs[3].any()
    assert not theirs[0][:, 5:].any()


def test_own_history_can_be_left_out(dataset: ChunkedDataset) -> None:
    config = {**CONFIG, "model_params": {**CONFIG["model_params"], "render_ego_history": False}}
    image, full = EgoDataset(config, dataset)[3]["image"], EgoDataset(CONFIG, dataset)[3]["image"]
    assert not image[4:6].any()
    assert full[4].any()
    np.testing.assert_array_equal(image[:4], full[:4])


def test_colours(dataset: ChunkedDataset) -> None:
    ego = EgoDataset(CONFIG, dataset)
    rgb = ego.rasterizer.to_rgb(ego[3]["image"].transpose(1, 2, 0))
    assert (rgb.shape, rgb.dtype) == ((40, 60, 3), np.uint8)
    assert rgb[20, 16].tolist() == [0, 255, 0]
    assert rgb[20, 43].tolist() == [0, 102, 255]
    assert rgb[20, 41].tolist() == [255, 127, 0]
    assert rgb[4, 27, 0] == rgb[4, 27, 2] > 240
    # The tails of ego and car, older and older, are darker and darker.
    tail = rgb[20, 7:11, 1].tolist()
    assert tail == sorted(tail)
    assert 0 < tail[0] < tail[-1] < 255
    boxes_only = {**CONFIG, "raster_params": {**CONFIG["raster_params"], "map_type": "py_box"}}
    plain = EgoDataset(boxes_only, dataset)
    assert len(plain[3]["image"]) == plain.rasterizer.num_channels() == 6
    assert not plain.rasterizer.to_rgb(plain[3]["image"].transpose(1, 2, 0))[4].any()


def test_stub(dataset: ChunkedDataset) -> None:
    stub = build_rasterizer({"raster_params": {"map_type": "stub_debug", "raster_size": [6, 4]}})
    image = EgoDataset(CONFIG, dataset, stub)[0]["image"]
    assert (image.shape, image.any()) == ((3, 4, 6), False)
    assert stub.num_channels() == 3
    assert stub.to_rgb(image.transpose(1, 2, 0)).shape == (4, 6, 3)


def test_dataset_without_points_has_empty_channels(tmp_path: Path) -> None:
    image = EgoDataset(CONFIG, write(tmp_path, [sample(0)]))[0]["image"]
    assert len(image) == 9
    assert not image[-3:].any()
    assert image[3].any()
