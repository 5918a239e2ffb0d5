"""Which dataset a path is, and what the package imports for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from readable import NAME, copied, dataset

import edgefirst_ros
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound

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


CHILD = """
import sys
import edgefirst_ros
heavy = {"numpy", "polars", "pyarrow", "torch", "pydantic", "edgefirst_ros.corpus"}
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
