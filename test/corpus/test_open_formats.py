"""NCore sequences and L5Kit datasets as samples, and what ``info`` says."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from readable import NAME, OPTIONAL, copied, dataset, drive
from s3server import S3Server, upload

import edgefirst_ros
from edgefirst_ros.corpus import fetching
from edgefirst_ros.corpus.cache import MEGABYTES
from edgefirst_ros.formats.ncore.samples import NCoreSequence
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, RecordingError


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats") / "out"
    formats = ("edgefirst", "ncore", "l5kit")
    edgefirst_ros.convert(drive().mcap, folder, name=NAME, page=False, topics=OPTIONAL, formats=formats)
    return folder


@pytest.fixture
def ncore(out: Path) -> NCoreSequence:
    found = edgefirst_ros.open(out / "ncore", format="ncore")
    assert isinstance(found, NCoreSequence)
    return found


def test_pictures_of_ncore_are_those_of_edgefirst(out: Path, ncore: NCoreSequence) -> None:
    by_time = {sample["time_ns"] // 1000: sample for sample in edgefirst_ros.open(out)}
    assert len(ncore) == len(by_time) == 15
    boxes = 0
    for sample in ncore:
        one = by_time[sample["time_ns"] // 1000]
        assert (sample["image"] == one["image"]).all()
        if one["boxes2d"] is not None and sample["boxes2d"] is not None:
            assert sample["boxes2d"] == pytest.approx(one["boxes2d"], abs=1e-3)
            boxes += len(sample["boxes2d"])
            assert len(sample["labels2d"]) == len(sample["boxes2d"])
    assert boxes
    assert type(edgefirst_ros.open(out / "ncore")) is NCoreSequence


def test_clouds_boxes_and_poses_of_ncore_are_near_in_time(out: Path, ncore: NCoreSequence) -> None:
    (folder,) = FORMATS["ncore"].find(out)
    way = dynamic_poses(folder)
    times, poses = np.array(way["timestamps_us"]), np.array(way["poses"]).reshape(-1, 4, 4)
    solids = 0
    for sample in ncore:
        assert sample["lidar"].shape[1:] == (3,)
        assert abs(sample["lidar_time_ns"] - sample["time_ns"]) <= 100_000_000
        assert 1 < np.linalg.norm(sample["lidar"], axis=1).mean() < 200
        pose = sample["T_rig_world"]
        after = int(np.searchsorted(times, sample["time_ns"] // 1000))
        assert pose is not None
        assert pose[:3, :3] @ pose[:3, :3].T == pytest.approx(np.eye(3), abs=1e-5)
        near = poses[max(after - 1, 0) : after + 1, :3, 3]
        assert (near.min(axis=0) - 1e-6 <= pose[:3, 3]).all()
        assert (pose[:3, 3] <= near.max(axis=0) + 1e-6).all()
        solids += len(sample["boxes3d"])
        assert sample["boxes3d"].shape == (len(sample["labels3d"]), 6)
        assert sample["rotations3d"].shape == (len(sample["frames3d"]), 4)
        assert sample["T_sensor_rig"][ncore.camera].shape == (4, 4)
    assert solids
    assert np.linalg.norm(ncore[-1]["T_rig_world"][:3, 3] - ncore[0]["T_rig_world"][:3, 3]) > 1
    assert ncore.intrinsics[ncore.camera]["resolution"] == [384, 216]


def dynamic_poses(folder: Path) -> Mapping[str, Any]:
    for store in FORMATS["ncore"].read(folder).values():
        if "poses/default/dynamic_poses/.zattrs" in set(store):
            found = json.loads(store.get("poses/default/dynamic_poses/.zattrs"))["('rig', 'world')"]
            return dict(found)
    raise AssertionError("no poses")


def test_a_sequence_of_ncore_is_sliced_and_pickled(ncore: NCoreSequence) -> None:
    part = pickle.loads(pickle.dumps(ncore[3:9:2]))
    assert [sample["time_ns"] for sample in part] == [ncore[number]["time_ns"] for number in (3, 5, 7)]
    assert (part[0]["image"] == ncore[3]["image"]).all()
    with pytest.raises(IndexError, match="sample 15 of 15"):
        ncore[15]
    with pytest.raises(ConfigError, match=f"has no rear; it has {ncore.camera}"):
        NCoreSequence(ncore.path, "rear")


def test_l5kit_is_read_as_l5kit_reads_it(out: Path) -> None:
    opened = edgefirst_ros.open(out / "l5kit")
    frames = FORMATS["l5kit"].read(out / "l5kit" / f"{NAME}.zarr").frames
    assert len(opened) == len(frames) > 0
    sample: Any = opened[2]
    assert sample["timestamp"] == frames[2:3]["timestamp"][0]
    assert {"image", "target_positions", "world_from_agent"} <= sample.keys()


def test_of_several_formats_one_can_be_chosen(out: Path, tmp_path: Path) -> None:
    assert isinstance(edgefirst_ros.open(out), edgefirst_ros.EdgeFirstDataset)
    assert len(edgefirst_ros.open(out, format="l5kit")) > 0
    assert isinstance(edgefirst_ros.open(out, format="edgefirst"), edgefirst_ros.EdgeFirstDataset)
    with pytest.raises(ConfigError, match=r"format: expected one of .*ncore.*, found kitti"):
        edgefirst_ros.open(out, format="kitti")
    with pytest.raises(DatasetNotFound, match="holds no finished dataset of ncore"):
        edgefirst_ros.open(dataset(), format="ncore")


@pytest.fixture
def there(out: Path, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the datasets in a store; nothing is in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetching, "_OWN", {})
    upload(out, f"{bucket}/out")
    return f"{bucket}/out"


def test_ncore_and_l5kit_in_a_store_are_those_here(
    out: Path, ncore: NCoreSequence, there: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied once, by the versions of their objects; also by a process that cannot keep so much."""
    url = f"{there}/ncore"
    for bound in ("100", "0"):
        monkeypatch.setenv(MEGABYTES, bound)
        fetching._OWN.clear()
        for place, wanted in ((f"{url}/{ncore.path.name}", None), (there, "ncore"), (url, None)):
            s3.log.clear()
            found = edgefirst_ros.open(place, format=wanted)
            assert isinstance(found, NCoreSequence)
            assert found.path.name == ncore.path.name
            assert (found[7]["image"] == ncore[7]["image"]).all()
            assert (found[7]["lidar"] == ncore[7]["lidar"]).all()
        assert not [request for request in s3.log.of("GET") if "itar" in request.path], "the copy is there"
        opened = edgefirst_ros.open(f"{there}/l5kit/{NAME}.zarr")
        local = edgefirst_ros.open(out / "l5kit")
        assert (opened[2]["image"] == local[2]["image"]).all()
        assert len(opened) == len(local)
    assert isinstance(edgefirst_ros.open(there), edgefirst_ros.EdgeFirstDataset)
    for name in ("l5kit", "none"):
        with pytest.raises(DatasetNotFound, match=f"{name}: holds no finished dataset of ncore"):
            edgefirst_ros.open(f"{there}/{name}", format="ncore")


def test_info_says_what_the_command_says(out: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "edgefirst_ros", "info", str(drive().mcap), "--json"],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    expected = json.loads(said.stdout)
    found = edgefirst_ros.info(drive().mcap)
    assert json.loads(json.dumps(found)) == {key: value for key, value in expected.items() if key != "drive"}
    assert edgefirst_ros.info(drive().mcap.parent)["messages"] == found["messages"]


def test_info_of_a_dataset_counts_its_samples(tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        copied(tmp_path / name)
    one = edgefirst_ros.info(dataset())
    assert (one["samples"], sum(one["groups"].values())) == (15, 15)
    assert [each["samples"] for each in one["sequences"]] == [15]
    both = edgefirst_ros.info(tmp_path)
    assert both["samples"] == 30
    assert [each["samples"] for each in both["datasets"]] == [15, 15]
    assert both["labels"] == one["labels"]
    for name in ("a.mcap", "b.mcap"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(RecordingError, match="holds 2 recordings"):
        edgefirst_ros.info(tmp_path)


def test_the_package_shows_its_public_names_only() -> None:
    assert set(dir(edgefirst_ros)) == {"__version__", *edgefirst_ros.PUBLIC}
    assert edgefirst_ros.__version__ == version("edgefirst_ros")
    for name in dir(edgefirst_ros):
        assert getattr(edgefirst_ros, name) is not None
