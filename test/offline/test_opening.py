"""Which dataset a path is, what the package imports for it, and what ``info`` says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from readable import NAME, OPTIONAL, copied, dataset, drive

import edgefirst_ros
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound, RecordingError

OUT = ("", "edgefirst", f"edgefirst/{NAME}", f"edgefirst/{NAME}/{NAME}.arrow", f"edgefirst/{NAME}/{NAME}.zip")


@pytest.mark.parametrize("path", OUT)
def test_a_dataset_is_opened_by_what_is_of_it_or_above_it(tmp_path: Path, path: str) -> None:
    copied(tmp_path / "edgefirst")
    for given in (tmp_path / path, str(tmp_path / path)):
        opened = edgefirst_ros.open(given)
        assert len(opened) == 15
        assert opened.path == tmp_path / "edgefirst" / NAME


def test_files_in_a_folder_of_another_name_are_opened_by_their_own(tmp_path: Path) -> None:
    place = copied(tmp_path).rename(tmp_path / "downloads")
    assert len(edgefirst_ros.open(place / f"{NAME}.arrow")) == 15
    assert len(edgefirst_ros.open(place)) == 15
    assert len(edgefirst_ros.open(tmp_path)) == 15
    shutil.copy(place / f"{NAME}.arrow", place / "copy.arrow")
    with pytest.raises(DatasetNotFound, match=r"downloads holds neither copy\.zip nor copy"):
        edgefirst_ros.open(place)


def test_a_table_that_is_a_loop_of_links_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    (tmp_path / "ds" / "ds.arrow").symlink_to("ds.arrow")
    for path in (tmp_path, tmp_path / "ds"):
        with pytest.raises(DatasetNotFound, match="holds no finished EdgeFirst dataset"):
            edgefirst_ros.open(path)


def test_a_dataset_of_a_fleet_is_found_below_its_output(tmp_path: Path) -> None:
    place = copied(tmp_path / "out" / "sets" / "drive1" / "edgefirst")
    for above in (tmp_path / "out", tmp_path / "out" / "sets", place.parent):
        assert edgefirst_ros.open(above).path == place


@pytest.mark.parametrize("several", [False, True])
def test_an_option_that_there_is_not_is_an_error(several: bool) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'lables'"):
        edgefirst_ros.open([dataset()] if several else dataset(), lables=["car"])  # type: ignore[call-overload]


def test_a_cube_may_serve_each_sample_within_its_tolerance(tmp_path: Path) -> None:
    def cubes(policy: str) -> tuple[int, int]:
        topics = {**OPTIONAL, "radar_cube": {"policy": policy, "required": "never", "tolerance_ms": 250.0}}
        edgefirst_ros.convert(drive().mcap, tmp_path / policy, topics=topics, page=False)
        opened = edgefirst_ros.open(tmp_path / policy, keys=["cube"])
        return len(edgefirst_ros.open(tmp_path / policy, require=["cube"])), len(opened)

    few, samples = cubes("once")
    assert cubes("nearest") == (samples, samples)
    assert few <= samples / 2 + 1


def test_a_relative_path_stays_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied(tmp_path)
    monkeypatch.chdir(tmp_path / NAME)
    opened = edgefirst_ros.open(".")
    monkeypatch.chdir("/")
    assert opened[0]["image"] is not None


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("none", DatasetNotFound, "none: no such file or folder"),
        ("empty", DatasetNotFound, "empty: holds no finished EdgeFirst dataset"),
        ("report.json", DatasetNotFound, r"report\.json: is no EdgeFirst dataset; give its folder"),
        ("lone.arrow", DatasetNotFound, r"holds neither lone\.zip nor lone/"),
        ("lone.zip", DatasetError, r"lone\.zip: is not a complete ZIP file"),
    ],
)
def test_what_is_no_dataset_is_refused(tmp_path: Path, path: str, error: type[Exception], said: str) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("report.json", path) if path.startswith("lone") else ("report.json",):
        (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(error, match=said):
        edgefirst_ros.open(tmp_path / path)


@pytest.mark.parametrize("below", [".", "edgefirst/k"])
def test_who_names_what_a_kill_left_is_told_to_recover_it(tmp_path: Path, below: str) -> None:
    folder = tmp_path / "edgefirst" / "k"
    folder.mkdir(parents=True)
    for name in ("k.journal.part", "k.zip.part"):
        (folder / name).write_bytes(b"")
    said = rf"holds an unfinished dataset; edgefirst-ros recover {tmp_path / below} finishes it"
    for opened in (edgefirst_ros.open, edgefirst_ros.info):
        with pytest.raises(DatasetNotFound, match=said):
            opened(tmp_path / below)


CHILD = """
import sys
import edgefirst_ros
heavy = {"numpy", "polars", "pyarrow", "torch", "pydantic"}
assert not heavy & sys.modules.keys()
assert {"open", "convert", "collate", "export_coco", "rasterise"} <= set(dir(edgefirst_ros))
opened = edgefirst_ros.open(sys.argv[1])
assert len(opened) == 15 and opened[0]["image"] is not None
assert not {"torch", "scipy", "av", "polars", "edgefirst_ros.offline.convert"} & sys.modules.keys()
"""


def test_reading_imports_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, dataset()],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'edgefirst_ros' has no attribute 'opne'"):
        edgefirst_ros.opne  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats") / "out"
    formats = ("edgefirst", "l5kit")
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
    with pytest.raises(ConfigError, match=r"format: expected one of edgefirst, .*l5kit, found kitti"):
        edgefirst_ros.open(out, format="kitti")
    with pytest.raises(DatasetNotFound, match="holds no finished dataset of l5kit"):
        edgefirst_ros.open(dataset(), format="l5kit")


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
    assert json.loads(json.dumps(found)) == expected
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
    (tmp_path / "raw").mkdir()
    for name in ("a.mcap", "b.mcap"):
        shutil.copy(drive().mcap, tmp_path / "raw" / name)
    assert edgefirst_ros.info(tmp_path) == both
    with pytest.raises(RecordingError, match="holds 2 recordings"):
        edgefirst_ros.info(tmp_path / "raw")


def test_the_package_shows_its_public_names_only() -> None:
    assert set(dir(edgefirst_ros)) == {"__version__", *edgefirst_ros.PUBLIC}
    assert edgefirst_ros.__version__ == version("edgefirst_ros")
    for name in dir(edgefirst_ros):
        assert getattr(edgefirst_ros, name) is not None
