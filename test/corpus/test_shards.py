"""Shards against the samples that they hold, and as Hugging Face's datasets reads them."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edgefirst_foreign import boxes, foreign
from places import REPOSITORY
from readable import dataset
from typer.testing import CliRunner

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.corpus.shards import export_shards
from edgefirst_ros.model.errors import ConfigError, DatasetError

DATASETS = REPOSITORY / ".venv-datasets" / "bin" / "python"


def samples(index: Path, group: str) -> Iterator[dict[str, bytes]]:
    """The samples of a group, as readers of WebDataset put them together: files in turn with one name."""
    for shard in json.loads(index.read_text())["groups"][group]["shards"]:
        found: dict[str, dict[str, bytes]] = {}
        with tarfile.open(index.parent / shard, "r|") as tar:
            before = ""
            for entry in tar:
                name, _, ending = entry.name.partition(".")
                assert name == before or name not in found, "the files of a sample are apart"
                before, data = name, tar.extractfile(entry)
                assert data is not None
                found.setdefault(name, {})[ending] = data.read()
        yield from found.values()


def test_shards_hold_every_sample_of_each_group_once(tmp_path: Path) -> None:
    index = export_shards(dataset(), tmp_path / "shards", sensors=["lidar"], shard_mb=0.05)
    content: Any = json.loads(index.read_text())
    opened = edgefirst_ros.open(dataset())
    by_name = {sample["name"]: (number, sample) for number, sample in enumerate(opened)}
    assert content["labels"] == list(opened.labels)
    seen = []
    for group in ("train", "val"):
        found = list(samples(index, group))
        assert len(found) == content["groups"][group]["samples"]
        for files in found:
            facts = json.loads(files["json"])
            number, sample = by_name[facts["name"]]
            seen.append(facts["name"])
            assert facts["group"] == sample["group"] == group
            assert facts["time_ns"] == sample["time_ns"]
            assert facts["boxes2d"] == sample["boxes2d"].tolist()
            assert facts["labels2d"] == sample["labels2d"].tolist()
            assert files["jpg"] == opened.file(number, "camera.jpeg")
            if sample["lidar"] is None:
                assert "lidar.npy" not in files
                continue
            cloud = np.load(BytesIO(files["lidar.npy"]))
            assert facts["lidar_fields"] == ["x", "y", "z", "reflect"]
            for column, field in enumerate(facts["lidar_fields"]):
                assert (cloud[:, column] == sample["lidar"][field].astype(np.float32)).all()
    assert sorted(seen) == sorted(by_name)
    assert seen != sorted(seen)
    assert len(content["groups"]["train"]["shards"]) > 1
    assert all((index.parent / name).stat().st_size < 90_000 for name in content["groups"]["train"]["shards"])


def test_the_same_seed_gives_the_same_bytes_and_another_one_another_order(tmp_path: Path) -> None:
    first, again, other = (
        export_shards(dataset(), tmp_path / name, seed=seed).parent
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert (first / "train-000000.tar").read_bytes() == (again / "train-000000.tar").read_bytes()
    assert (first / "train-000000.tar").read_bytes() != (other / "train-000000.tar").read_bytes()


def test_several_datasets_are_mixed_with_common_classes(tmp_path: Path) -> None:
    for name, label in (("a", "dog"), ("b", "cat")):
        rows = {"name": ["s"], "frame": [1], "label": [label], "box2d": boxes(1)}
        foreign(tmp_path / "sets" / name, rows, ["s/s_001.jpg"])
    index = export_shards(tmp_path / "sets", tmp_path / "shards")
    assert json.loads(index.read_text())["labels"] == ["cat", "dog"]
    found = [json.loads(files["json"])["labels2d"] for files in samples(index, "all")]
    assert sorted(found) == [[0], [1]]


def test_names_have_no_dots_as_readers_split_at_the_first(tmp_path: Path) -> None:
    rows = {"name": ["v1.2"], "frame": [1], "label": ["car"], "box2d": boxes(1)}
    index = export_shards(foreign(tmp_path / "ds", rows, ["v1.2/v1.2_001.jpg"]), tmp_path / "shards")
    (files,) = samples(index, "all")
    assert files.keys() == {"jpg", "json"}


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, {"s/s_001.jpg": b"no picture"})
    with pytest.raises(DatasetError, match=r"s_001.jpg: cannot be decoded"):
        export_shards(folder, tmp_path / "shards")
    with pytest.raises(ConfigError, match="expected of lidar, radar, cube, depth, found sonar"):
        export_shards(folder, tmp_path / "shards", sensors=["sonar"])
    assert not (tmp_path / "shards").exists()


def test_webdataset_decodes_pictures_and_clouds(tmp_path: Path) -> None:
    if not DATASETS.exists():
        pytest.skip("webdataset is not installed: make test-exports")
    index = export_shards(dataset(), tmp_path / "shards", sensors=["lidar", "radar", "cube"])
    script = """
import sys, webdataset
count = clouds = 0
for sample in webdataset.WebDataset(sys.argv[1], shardshuffle=False).decode("pil"):
    assert sample["jpg"].size == (384, 216) and sample["json"]["name"]
    count += 1
    clouds += "lidar.npy" in sample and sample["lidar.npy"].shape[1] == len(sample["json"]["lidar_fields"])
print(count, clouds > 0)
"""
    command = [DATASETS, "-c", script, index.parent / "train-000000.tar"]
    read = subprocess.run(command, capture_output=True, text=True, check=False)
    assert read.stdout == f"{len(edgefirst_ros.open(dataset(), group='train'))} True\n", read.stderr


def test_hugging_face_reads_them_without_a_network(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", "shards", str(dataset()), "-o", str(tmp_path / "shards")])
    assert done.exit_code == 0, done.output
    if not DATASETS.exists():
        pytest.skip("datasets is not installed: make test-exports")
    example = REPOSITORY / "examples" / "huggingface.py"
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "PYTHONPATH": ""}
    read = subprocess.run(
        [DATASETS, example, tmp_path / "shards"], capture_output=True, text=True, check=False, env=environment
    )
    assert read.returncode == 0, read.stderr
    opened = edgefirst_ros.open(dataset(), keys=["boxes2d"])
    for group in ("train", "val"):
        mine = edgefirst_ros.open(dataset(), group=group, keys=["boxes2d"])
        count = sum(len(sample["boxes2d"]) for sample in mine)
        assert (
            f"{group}: {len(mine)} pictures of 384x216, {count} boxes of {', '.join(opened.labels)}"
            in read.stdout
        )
