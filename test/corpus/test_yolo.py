"""The YOLO export against the samples, over several datasets, and where Ultralytics' reader looks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from edgefirst_foreign import boxes, foreign
from readable import dataset
from typer.testing import CliRunner

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.corpus.coco import export_coco
from edgefirst_ros.corpus.exporting import gathered
from edgefirst_ros.corpus.yolo import export_yolo
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound


def labels(out: Path, picture: Path) -> np.ndarray:
    """As Ultralytics finds them: the last /images/ of the picture's path is /labels/, its ending .txt."""
    before, _, after = str(picture).rpartition("/images/")
    rows = [
        line.split() for line in Path(f"{before}/labels/{after}").with_suffix(".txt").read_text().splitlines()
    ]
    return np.array(rows, float).reshape(-1, 5)


def test_labels_are_those_of_the_samples_where_ultralytics_looks(tmp_path: Path) -> None:
    path = export_yolo(dataset(), tmp_path / "yolo")
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
    path = export_yolo(foreign(tmp_path / "ds", rows, ["s/s_001.jpg"]), tmp_path / "yolo")
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
    path = export_yolo(made, tmp_path / "yolo")
    assert yaml.safe_load(path.read_text())["names"] == {0: "car", 1: "cat", 2: "dog"}
    pictures = sorted((path.parent / "images" / "train").iterdir())
    assert [picture.name for picture in pictures] == ["s_001.jpg", "s_001_1.jpg"]
    assert [labels(path.parent, picture)[:, 0].tolist() for picture in pictures] == [[0, 2], [1, 0]]


def test_a_folder_of_datasets_is_all_of_them(tmp_path: Path) -> None:
    two(tmp_path / "sets")
    both = gathered(tmp_path / "sets")
    assert len(both) == 2
    assert both.file(1, "jpg") is not None
    (path,) = export_coco(tmp_path / "sets", tmp_path / "coco")
    assert path.name == "instances_train.json"


def test_an_open_dataset_and_its_group_is_taken_as_they_are(tmp_path: Path) -> None:
    opened = edgefirst_ros.open(dataset(), group="val")
    path = export_yolo(opened, tmp_path / "yolo")
    assert len(list((path.parent / "images" / "val").iterdir())) == len(opened)
    assert not (path.parent / "images" / "train").exists()


def test_errors_leave_nothing(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, {"s/s_001.jpg": b"no picture"})
    with pytest.raises(DatasetError, match="the picture of s_001"):
        export_yolo(folder, tmp_path / "yolo")
    with pytest.raises(DatasetNotFound):
        export_yolo(tmp_path / "none", tmp_path / "yolo")
    assert not (tmp_path / "yolo").exists()


@pytest.mark.parametrize("name", ["coco", "yolo"])
def test_the_commands_write_the_same(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(app, ["export", name, str(dataset()), "-o", str(tmp_path / "cli")])
    assert done.exit_code == 0, done.output
    {"coco": export_coco, "yolo": export_yolo}[name](dataset(), tmp_path / "python")
    assert files(tmp_path / "cli") == files(tmp_path / "python") != {}


def files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
