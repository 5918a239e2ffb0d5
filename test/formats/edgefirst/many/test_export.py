"""COCO and YOLO against the drive and the samples, over several datasets, and where Ultralytics looks."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from edgefirst_foreign import boxes, foreign, picture
from PIL import Image
from readable import SCHEMAS, dataset, truth
from typer.testing import CliRunner
from written import exif_time_ns

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import DatasetError, OutputExists


def read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


@pytest.mark.parametrize("schema", SCHEMAS)
def test_boxes_are_those_of_the_world_in_pixels(tmp_path: Path, schema: str) -> None:
    out = tmp_path / "coco"
    files = edgefirst_ros.export_coco(str(dataset(schema)), out).files
    groups = edgefirst_ros.open(dataset(schema)).groups
    assert {path.name for path in files} == {f"instances_{group}.json" for group in groups} > set()
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
    (path,) = edgefirst_ros.export_coco(opened, tmp_path).files
    assert path == tmp_path / "annotations" / "instances_val.json"
    assert len(read(path)["images"]) == len(opened)
    first = tmp_path / "images" / read(path)["images"][0]["file_name"]
    assert first.read_bytes() == opened.file(0, "camera.jpeg")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(OutputExists, match="is not empty"):
        edgefirst_ros.export_coco(dataset(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_regions_to_be_ignored_are_crowds_and_what_is_excluded_is_not_there(tmp_path: Path) -> None:
    """As by the vendor: iscrowd is ignore; excluded rows, and ignored ones without label, are left out."""
    rows = {
        "name": ["s"] * 5,
        "frame": [1] * 5,
        "label": ["car", "car", "zebra", None, "dog"],
        "box2d": boxes(5),
        "ignore": [False, True, False, True, None],
        "exclude": [None, False, True, False, False],
    }
    folder = foreign(tmp_path / "ds", rows, ["s/s_001.camera.jpeg"])
    (path,) = edgefirst_ros.export_coco(folder, tmp_path / "coco").files
    content = read(path)
    assert [category["name"] for category in content["categories"]] == ["car", "dog"]
    assert [(a["category_id"], a["iscrowd"]) for a in content["annotations"]] == [(1, 0), (1, 1), (2, 0)]


def test_pictures_without_rows_are_exported_without_boxes(tmp_path: Path) -> None:
    rows = {"name": ["s"], "frame": [2], "group": ["train"], "label": ["car"], "box2d": boxes(1)}
    folder = foreign(tmp_path / "ds", rows, ["s/s_001.jpg", "s/s_2.camera.jpg", "s/s_003.camera.jpeg"])
    files = edgefirst_ros.export_coco(folder, tmp_path / "coco").files
    counts = {path.name: (len(read(path)["images"]), len(read(path)["annotations"])) for path in files}
    assert counts == {"instances_train.json": (1, 1), "instances_ungrouped.json": (2, 0)}
    assert len(list((tmp_path / "coco" / "images").iterdir())) == 3


def test_a_damaged_picture_is_named_and_the_folder_can_be_used_again(tmp_path: Path) -> None:
    rows = {"name": ["s", "s"], "frame": [1, 2]}
    folder = foreign(tmp_path / "ds", rows, {"s/s_001.jpg": picture(), "s/s_002.jpg": b"no picture"})
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "coco", tmp_path / "empty"):
        with pytest.raises(DatasetError, match=r"ds: the picture of s_002: cannot be decoded"):
            edgefirst_ros.export_coco(folder, out)
    assert not (tmp_path / "coco").exists()
    assert not list((tmp_path / "empty").iterdir())
    with zipfile.ZipFile(folder / "ds.zip", "w") as archive:
        archive.writestr("s/s_001.jpg", picture())
    assert edgefirst_ros.export_coco(folder, tmp_path / "coco")


def test_names_in_a_table_are_no_paths(tmp_path: Path) -> None:
    rows = {"name": ["../../s"], "frame": [1], "group": ["../../g"]}
    folder = foreign(tmp_path / "ds", rows, ["x/../../s_001.jpg"])
    opened = edgefirst_ros.open(folder)
    assert edgefirst_ros.export_coco(opened, tmp_path / "a" / "b" / "coco") is not None
    assert {path.name for path in tmp_path.iterdir()} == {"ds", "a"}
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["coco"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def labels(out: Path, picture: Path) -> np.ndarray:
    """As Ultralytics finds them: the last /images/ of the picture's path is /labels/, its ending .txt."""
    before, _, after = str(picture).rpartition("/images/")
    rows = [
        line.split() for line in Path(f"{before}/labels/{after}").with_suffix(".txt").read_text().splitlines()
    ]
    return np.array(rows, float).reshape(-1, 5)


def test_labels_are_those_of_the_samples_where_ultralytics_looks(tmp_path: Path) -> None:
    path = edgefirst_ros.export_yolo(dataset(), tmp_path / "yolo").files[0]
    content = yaml.safe_load(path.read_text())
    opened = edgefirst_ros.open(dataset())
    assert content["names"] == dict(enumerate(opened.labels))
    assert "path" not in content  # Ultralytics would look below its own folder of datasets
    count = 0
    for number, sample in enumerate(opened):
        picture = path.parent / "images" / sample["group"] / f"{sample['name']}.jpg"
        assert picture.read_bytes() == opened.file(number, "camera.jpeg")
        found = labels(path.parent, picture)
        assert found[:, 0].tolist() == sample["labels2d"].tolist()
        assert found[:, 1:] == pytest.approx(sample["boxes2d"], abs=1e-6)
        count += len(found)
    assert count > 30
    for group in ("train", "val"):
        assert content[group] == [f"images/{group}"]
        assert len(list((path.parent / "images" / group).iterdir())) == len(
            edgefirst_ros.open(dataset(), group=group)
        )


def test_what_is_to_be_ignored_and_what_has_no_class_is_left_out(tmp_path: Path) -> None:
    rows = {"name": ["s"] * 3, "frame": [1] * 3, "label": ["car", "car", None], "box2d": boxes(3),
            "ignore": [False, True, False]}  # fmt: skip
    path = edgefirst_ros.export_yolo(
        foreign(tmp_path / "ds", rows, ["s/s_001.jpg"]), tmp_path / "yolo"
    ).files[0]
    assert len(labels(path.parent, path.parent / "images" / "all" / "s_001.jpg")) == 1
    content = yaml.safe_load(path.read_text())
    assert content["train"] == content["val"] == ["images/all"]


def two(folder: Path) -> list[Path]:
    """Datasets with the same sample names and other classes."""
    made = []
    for name, found in (("a", ["car", "dog"]), ("b", ["cat", "car"])):
        rows = {
            "name": ["s"] * 2,
            "frame": [1] * 2,
            "group": ["train"] * 2,
            "label": found,
            "box2d": boxes(2),
        }
        made.append(foreign(folder / name, rows, ["s/s_001.jpg"]))
    return made


def test_several_datasets_have_common_classes_and_no_picture_replaces_another(tmp_path: Path) -> None:
    made = two(tmp_path / "sets")
    path = edgefirst_ros.export_yolo(made, tmp_path / "yolo").files[0]
    assert yaml.safe_load(path.read_text())["names"] == {0: "car", 1: "cat", 2: "dog"}
    pictures = sorted((path.parent / "images" / "train").iterdir())
    assert [picture.name for picture in pictures] == ["s_001.jpg", "s_001_1.jpg"]
    assert [labels(path.parent, picture)[:, 0].tolist() for picture in pictures] == [[0, 2], [1, 0]]


def test_coco_of_a_folder_of_datasets_has_all_of_them_by_group(tmp_path: Path) -> None:
    two(tmp_path / "sets")
    (path,) = edgefirst_ros.export_coco(tmp_path / "sets", tmp_path / "coco").files
    assert path.name == "instances_train.json"
    assert len(read(path)["images"]) == 2


def test_an_open_dataset_and_its_group_is_taken_as_they_are(tmp_path: Path) -> None:
    opened = edgefirst_ros.open(dataset(), group="val")
    path = edgefirst_ros.export_yolo(opened, tmp_path / "yolo").files[0]
    assert len(list((path.parent / "images" / "val").iterdir())) == len(opened)
    assert not (path.parent / "images" / "train").exists()


@pytest.mark.parametrize("name", ["coco", "yolo", "hf"])
def test_the_commands_write_the_same(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(app, ["export", name, str(dataset()), "-o", str(tmp_path / "cli")])
    assert done.exit_code == 0, done.output
    made = getattr(edgefirst_ros, f"export_{name}")(dataset(), tmp_path / "python")
    assert files(tmp_path / "cli") == files(tmp_path / "python") != {}
    assert sum(made.pictures.values()) == 15
    assert f"train: {made.pictures['train']} pictures, {made.boxes['train']} boxes" in done.stderr


def test_hugging_face_finds_pictures_and_objects_by_split(tmp_path: Path) -> None:
    """The layout that ``load_dataset`` calls imagefolder; with that library, what it loads."""
    made = edgefirst_ros.export_hf(dataset(), tmp_path / "hf")
    splits = {group.replace("val", "validation") for group in made.pictures}
    assert {path.parent.name for path in made.files} == splits > {"train"}
    opened = {sample["name"]: sample for sample in edgefirst_ros.open(dataset())}
    rows = [row | {"in": path.parent} for path in made.files for row in pq.read_table(path).to_pylist()]
    assert {row["name"] for row in rows} == opened.keys()
    for row in rows:
        sample, (width, height) = opened[row["name"]], Image.open(row["in"] / row["file_name"]).size
        for (x, y, across, down), (left, top, *extent) in zip(
            sample["boxes2d"].tolist(), row["objects"]["bbox"], strict=True
        ):
            assert extent == pytest.approx([across * width, down * height], abs=0.01)
            assert (left, top) == pytest.approx(((x - across / 2) * width, (y - down / 2) * height), abs=0.01)
    empty = foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, ["s/s_001.jpg"])
    (alone,) = edgefirst_ros.export_hf(empty, tmp_path / "empty").files
    assert pq.read_schema(alone) == pq.read_schema(made.files[0]), "also without any objects"
    loaded = pytest.importorskip("datasets").load_dataset(str(tmp_path / "hf"), cache_dir=str(tmp_path / "c"))
    assert {split: len(loaded[split]) for split in loaded}["train"] == made.pictures["train"]


def files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
