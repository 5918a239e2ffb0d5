"""The COCO export against the drive, and against the samples that it is made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from readable import SCHEMAS, dataset, truth
from written import exif_time_ns

import edgefirst_ros
from edgefirst_ros.errors import OutputExists


def read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


@pytest.mark.parametrize("schema", SCHEMAS)
def test_boxes_are_those_of_the_world_in_pixels(tmp_path: Path, schema: str) -> None:
    out = tmp_path / "coco"
    files = edgefirst_ros.export_coco(str(dataset(schema)), out)
    assert {path.name for path in files} == {"instances_train.json", "instances_val.json"}
    pictures, boxes = 0, 0
    for path in files:
        content = read(path)
        names = {each["id"]: each["name"] for each in content["categories"]}
        images = {each["id"]: each for each in content["images"]}
        assert len(images) == len(content["images"])
        assert len({each["id"] for each in content["annotations"]}) == len(content["annotations"])
        pictures += len(images)
        for image in images.values():
            with Image.open(out / "images" / image["file_name"]) as picture:
                assert picture.size == (image["width"], image["height"])
        for annotation in content["annotations"]:
            image = images[annotation["image_id"]]
            time_ns = exif_time_ns((out / "images" / image["file_name"]).read_bytes())
            left, top, width, height = annotation["bbox"]
            assert annotation["area"] == pytest.approx(width * height, abs=5)
            true = [
                box
                for index, solid in enumerate(truth().world.boxes)
                if solid.label == names[annotation["category_id"]]
                and (box := truth().box_in_image(index, time_ns)) is not None
            ]
            mine = np.array([left, top, left + width, top + height])
            assert min(np.abs(mine - np.array(each)).max() for each in true) < 1.0
            boxes += 1
    assert pictures == len(list((out / "images").iterdir())) == 15
    opened = edgefirst_ros.open(dataset(schema))
    assert boxes == sum(len(sample["boxes2d"]) for sample in opened) > 30


def test_a_group_alone_is_exported_and_pictures_are_unchanged(tmp_path: Path) -> None:
    opened = edgefirst_ros.open(dataset(), group="val", transform=lambda _: None)
    (path,) = edgefirst_ros.export_coco(opened, tmp_path)
    assert path == tmp_path / "annotations" / "instances_val.json"
    assert len(read(path)["images"]) == len(opened)
    first = tmp_path / "images" / read(path)["images"][0]["file_name"]
    assert first.read_bytes() == opened.file(0, "camera.jpeg")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(OutputExists, match="exists and is not empty"):
        edgefirst_ros.export_coco(dataset(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
