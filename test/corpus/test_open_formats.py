"""L5Kit datasets as samples, and what ``info`` says."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from readable import NAME, OPTIONAL, copied, dataset, drive
from s3server import S3Server, upload

import edgefirst_ros
from edgefirst_ros.corpus import fetching
from edgefirst_ros.corpus.cache import MEGABYTES
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, RecordingError


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats") / "out"
    formats = ("edgefirst", "ncore", "l5kit")
    edgefirst_ros.convert(drive().mcap, folder, name=NAME, page=False, topics=OPTIONAL, formats=formats)
    return folder


def test_l5kit_is_read_as_l5kit_reads_it(out: Path) -> None:
    opened = edgefirst_ros.open(out / "l5kit")
    frames = FORMATS["l5kit"].read(out / "l5kit" / f"{NAME}.zarr").frames
    assert len(opened) == len(frames) > 0
    sample: Any = opened[2]
    assert sample["timestamp"] == frames[2:3]["timestamp"][0]
    assert {"target_positions", "world_from_agent"} <= sample.keys()


def test_of_several_formats_one_can_be_chosen(out: Path, tmp_path: Path) -> None:
    assert isinstance(edgefirst_ros.open(out), edgefirst_ros.EdgeFirstDataset)
    assert len(edgefirst_ros.open(out, format="l5kit")) > 0
    assert isinstance(edgefirst_ros.open(out, format="edgefirst"), edgefirst_ros.EdgeFirstDataset)
    for name in ("kitti", "ncore"):
        with pytest.raises(ConfigError, match=f"format: expected one of edgefirst, l5kit, found {name}"):
            edgefirst_ros.open(out, format=name)
    with pytest.raises(DatasetNotFound, match="holds no finished dataset of l5kit"):
        edgefirst_ros.open(dataset(), format="l5kit")


@pytest.fixture
def there(out: Path, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the datasets in a store; nothing is in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetching, "_OWN", {})
    upload(out, f"{bucket}/out")
    return f"{bucket}/out"


def test_l5kit_in_a_store_is_what_it_is_here(
    out: Path, there: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied once, by the versions of their objects; also by a process that cannot keep so much."""
    local = edgefirst_ros.open(out / "l5kit")
    url = f"{there}/l5kit"
    for bound in ("100", "0"):
        monkeypatch.setenv(MEGABYTES, bound)
        fetching._OWN.clear()
        for place, wanted in ((f"{url}/{NAME}.zarr", None), (there, "l5kit"), (url, None)):
            s3.log.clear()
            found = edgefirst_ros.open(place, format=wanted)
            assert len(found) == len(local)
            assert (found[2]["target_positions"] == local[2]["target_positions"]).all()
        assert not [request for request in s3.log.of("GET") if "frames/0" in request.path], (
            "the copy is there"
        )
    assert isinstance(edgefirst_ros.open(there), edgefirst_ros.EdgeFirstDataset)
    for name in ("ncore", "none"):
        with pytest.raises(DatasetNotFound, match=f"{name}: holds no finished dataset of l5kit"):
            edgefirst_ros.open(f"{there}/{name}", format="l5kit")


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
