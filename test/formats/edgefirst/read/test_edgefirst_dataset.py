"""What samples are, against the drive that the dataset was made from."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from faulty import LABELS
from readable import CONTAINERS, MASK, NAME, SCHEMAS, dataset, truth
from written import burnt_in_number

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.read.dataset import KEYS
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.simulation.world import inverse, transform


@pytest.fixture(scope="module", params=SCHEMAS)
def opened(request: pytest.FixtureRequest) -> edgefirst_ros.EdgeFirstDataset:
    return edgefirst_ros.open(dataset(request.param))


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - whatever samples hold
    """Whether two values are of one type and equal, NaN being equal to NaN."""
    if isinstance(one, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_there_is_a_sample_for_each_picture(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    video = truth().data["video"]["/camera/h264"]
    assert len(opened) == len(video["units"]) == 15
    numbers = []
    for sample in opened:
        picture = opened.file(len(numbers), "camera.jpeg")
        assert picture is not None
        numbers.append(burnt_in_number(picture))
        assert sample["time_ns"] == truth().true_ns("/camera/h264")[numbers[-1]]
        assert sample["image"].shape == (216, 384, 3)
        assert sample["image"].dtype == np.uint8
        assert sample["name"] == f"{sample['sequence']}_{sample['frame']:03d}"
    assert numbers == list(range(15))


def test_pixels_are_red_green_and_blue_where_the_world_is(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    found = 0
    for sample in opened:
        for box, label in zip(sample["boxes2d"], sample["labels2d"], strict=True):
            column, row = (box[:2] * (384, 216)).astype(int)
            index = truth().box_of_color(sample["image"][row, column][None])[0]
            found += index >= 0 and truth().world.boxes[index].label == opened.labels[label]
    assert found > 20


def test_boxes_are_those_of_the_projected_world(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    count = 0
    for sample in opened:
        assert len(sample["boxes2d"]) == len(sample["labels2d"]) == len(sample["scores2d"])
        for box, label in zip(sample["boxes2d"].astype(float), sample["labels2d"], strict=True):
            mine = np.concatenate([box[:2] - box[2:] / 2, box[:2] + box[2:] / 2]) * (384, 216, 384, 216)
            true = [
                rectangle
                for index, solid in enumerate(truth().world.boxes)
                if solid.label == opened.labels[label]
                and (rectangle := truth().box_in_image(index, sample["time_ns"])) is not None
            ]
            assert min(np.abs(mine - np.array(each)).max() for each in true) < 1.0
            count += 1
    assert count > 30


def test_boxes_in_space_are_where_the_solids_are(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    count = 0
    for sample in opened:
        T_world_rig = inverse(truth().rig(sample["time_ns"]))
        for box, label in zip(sample["boxes3d"], sample["labels3d"], strict=True):
            corners = [
                transform(T_world_rig, truth().box_corners(index, sample["time_ns"]))
                for index, solid in enumerate(truth().world.boxes)
                if solid.label == opened.labels[label]
            ]
            errors = [np.abs(each.mean(axis=0) - box[:3]).max() for each in corners]
            nearest = corners[int(np.argmin(errors))]
            assert min(errors) < 0.01
            # The message has no extent along x; the width stands for it.
            assert np.ptp(nearest, axis=0)[[1, 1, 2]] == pytest.approx(box[3:], abs=0.01)
            count += 1
    assert count > 30


def test_pose_and_location_are_those_of_the_rig(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    checked = 0
    for sample in opened:
        rig = truth().rig(sample["time_ns"])
        roll, pitch, yaw = sample["pose"]
        assert sample["pose"].dtype == sample["location"].dtype == np.float64
        assert abs((yaw - math.degrees(math.atan2(rig[1, 0], rig[0, 0])) + 180) % 360 - 180) < 0.5
        assert max(abs(roll), abs(pitch)) < 0.5
        fixes = truth().data["gps"]["accepted"]
        if fixes[0][0] <= sample["time_ns"] <= fixes[-1][0]:
            there = truth().enu(*sample["location"], truth().world.altitude_m)
            # Version 2026.10 stores 32-bit degrees, which are metres apart.
            assert np.hypot(*(there - rig[:3, 3])[:2]) < (0.3 if opened.schema_version == "2025.01" else 5)
            checked += 1
    assert checked > 10


def cubes(opened: edgefirst_ros.EdgeFirstDataset) -> list[tuple[npt.NDArray[Any], dict[str, Any]]]:
    return [(s["cube"], s["cube_axes"]) for s in opened if s["cube"] is not None]


def test_cubes_are_the_wires(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    found = set()
    for cube, _ in cubes(opened):
        assert (cube.shape, cube.dtype) == ((1, 80, 2, 8), np.complex64)
        wire = cube.view(np.float32).astype(np.int16)
        found.add(hashlib.sha256(wire.tobytes()).hexdigest())
    assert len(found) > 3
    assert found <= set(truth().data["sha256"]["/radar/cube"])


def test_axes_of_a_cube_say_where_its_targets_are(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    found, speeds_m_s = [], 8 * 0.3
    for sample in opened:
        if sample["cube"] is None or sample["radar"] is None:
            continue
        axes, radar = sample["cube_axes"], sample["radar"]
        assert list(axes) == ["sequence", "range", "rxchannel", "doppler"]
        power = np.abs(sample["cube"][0, :, 0])
        away = np.sqrt(radar["x"] ** 2 + radar["y"] ** 2 + radar["z"] ** 2)
        for distance, speed in zip(away, radar["speed"], strict=True):
            row = np.abs(axes["range"] - distance).argmin()
            off = (axes["doppler"] - speed + speeds_m_s / 2) % speeds_m_s - speeds_m_s / 2  # speeds fold over
            if abs(axes["range"][row] - distance) < 0.3:
                found.append(power[row, np.abs(off).argmin()] > 200)
    assert len(found) > 20
    assert np.mean(found) > 0.8


def test_clouds_are_the_wires(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    hashes = set(truth().data["sha256"]["/lidar/points"])
    for sample in opened:
        if sample["lidar"] is not None:
            points = np.stack([sample["lidar"][axis] for axis in "xyz"], axis=1)
            assert hashlib.sha256(points.tobytes()).hexdigest() in hashes
        if sample["radar"] is not None:
            assert sample["radar"].dtype.names[:7] == ("x", "y", "z", "speed", "power", "noise", "rcs")
            assert np.isfinite(sample["radar"]["speed"]).all()
    assert sum(sample["lidar"] is not None for sample in opened) > 10


def test_masks_rasterise_to_the_true_classes(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    agree = 0
    for sample in opened:
        classes = np.zeros(MASK[::-1], np.uint8)
        for rings, label in zip(sample["masks"], sample["labels_masks"], strict=True):
            raster = edgefirst_ros.rasterise(rings, MASK[1], MASK[0])
            assert not classes[raster].any()
            classes[raster] = LABELS.index(opened.labels[label])
        agree += bool((classes == truth().mask(sample["time_ns"], MASK)).all()) and bool(classes.any())
    assert agree > 10


def test_what_a_sample_lacks_is_none_and_every_sample_has_every_key(
    opened: edgefirst_ros.EdgeFirstDataset,
) -> None:
    samples = list(opened)
    assert len({tuple(sample) for sample in samples}) == 1
    without = [sample for sample in samples if sample["cube"] is None]
    assert without
    assert all(sample["cube_axes"] is None for sample in without)
    assert all(sample["depth"] is None for sample in samples)
    has_range_images = opened.schema_version == "2025.01"
    shapes = {sample["lidar_depth"].shape for sample in samples if sample["lidar_depth"] is not None}
    assert shapes == ({(128, 1024)} if has_range_images else set())


def test_a_range_image_has_the_distances_of_the_points() -> None:
    for sample in edgefirst_ros.open(dataset(), keys=["lidar", "lidar_depth", "lidar_reflect"]):
        if sample["lidar"] is None:
            continue
        points = sample["lidar"]
        away_m = np.sqrt(points["x"] ** 2 + points["y"] ** 2 + points["z"] ** 2)
        away_mm = (away_m * 1000).clip(max=65535)
        pixels = sample["lidar_depth"][sample["lidar_depth"] > 0]
        assert pixels.dtype == np.uint16
        assert np.abs(pixels[:, None] - away_mm).min(axis=1).max() <= 1
        assert sample["lidar_reflect"].dtype == np.uint8


def test_all_schemas_and_containers_give_the_same_samples() -> None:
    withdrawn = {"lidar_depth", "lidar_reflect"}
    keys = [key for key in KEYS if key not in withdrawn]
    first, *others = (
        edgefirst_ros.open(dataset(schema, container), keys=keys)
        for schema in SCHEMAS
        for container in CONTAINERS
    )
    for number, sample in enumerate(first):
        for other in others:
            mine = other[number]
            close = {"location", "pose", "scores2d", "scores3d"}  # 32 bits, and scores, only in 2026.10
            assert {k for k in sample if not same(sample[k], mine[k])} <= close, other
            for key in ("location", "pose"):
                assert sample[key] == pytest.approx(mine[key], abs=1e-5)
    assert [same(a, b) for a, b in zip(others[1], others[2], strict=True)] == [True] * 15
    assert edgefirst_ros.open(dataset("2026.10"))[5]["scores2d"].tolist() != []
    assert all(np.isnan(sample["scores2d"]).all() for sample in first)


def test_only_what_is_asked_for_is_read() -> None:
    sample = edgefirst_ros.open(dataset(), keys=["boxes2d"])[0]
    assert set(sample) == {
        *("name", "sequence", "frame", "group", "location", "pose"),
        *("boxes2d", "labels2d", "scores2d", "ignore2d"),
    }
    with pytest.raises(ConfigError, match=r"keys: there is no images; there are time_ns, image, radar"):
        edgefirst_ros.open(dataset(), keys=["images"])


def test_groups_are_disjoint_and_together_everything() -> None:
    whole = edgefirst_ros.open(dataset(), keys=[])
    names = {
        group: {s["name"] for s in edgefirst_ros.open(dataset(), keys=[], group=group)}
        for group in ("train", "val", "test")
    }
    assert names["train"]
    assert names["val"]
    assert not names["train"] & names["val"]
    assert names["train"] | names["val"] | names["test"] == {s["name"] for s in whole}
    assert all(s["group"] == "val" for s in edgefirst_ros.open(dataset(), keys=[], group="val"))
    table = edgefirst_ros.open(dataset(), group="val").to_polars()
    assert set(table["group"].cast(pl.String)) == {"val"}
    with pytest.raises(ConfigError, match="has no group other; it has test, train, val"):
        edgefirst_ros.open(dataset(), group="other")


def test_the_table_is_there_as_it_is_stored(opened: edgefirst_ros.EdgeFirstDataset) -> None:
    table = opened.to_polars()
    assert table.equals(pl.read_ipc(opened.path / f"{NAME}.arrow"))


def test_it_is_a_sequence() -> None:
    opened = edgefirst_ros.open(dataset(), keys=["time_ns"], transform=lambda sample: sample["time_ns"])
    assert opened[-1] == opened[len(opened) - 1] == list(opened)[-1]
    assert opened[np.int64(2)] == opened[2]
    assert len(set(opened)) == 15
    for index in (15, -16):
        with pytest.raises(IndexError, match=f"sample {index} of 15"):
            opened[index]
