"""Samples are chosen by SQL over the catalogue, and written as a dataset that is sound."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from drives_chosen import copied, long_drive, twelve
from edgefirst_foreign import foreign
from typer.testing import CliRunner

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.errors import ConfigError, DatasetError, OutputExists


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Its catalogue."""
    edgefirst_ros.catalog(long_drive()[0], tmp_path / "c.parquet")
    return tmp_path / "c.parquet"


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    edgefirst_ros.catalog(twelve(), tmp_path / "c.parquet")
    return tmp_path / "c.parquet"


def test_a_condition_is_sql_on_columns(long: Path, tmp_path: Path) -> None:
    whole = pl.read_parquet(long)
    done = edgefirst_ros.select(
        long, tmp_path / "sub", where="car > 0 and speed_mps > 2 and sharpness > 0.1 and frame % 2 = 0"
    )
    expected = whole.filter(
        (pl.col("car") > 0) & (pl.col("speed_mps") > 2) & (pl.col("sharpness") > 0.1),
        pl.col("frame") % 2 == 0,
    )
    assert 0 < len(expected) < len(whole)
    assert (done.samples, done.of, done.datasets) == (len(expected), len(whole), 1)
    found = edgefirst_ros.open(tmp_path / "sub", keys=[])
    assert [sample["frame"] for sample in found] == expected["frame"].to_list()


@pytest.mark.parametrize(
    "where",
    [
        "persn > 0",
        "car > 0) union select * from other --",
        "car > 0; drop table catalog",
        "car",
        "car > '\udcff'",
        "car > (select 1)",
        "read_csv('/etc/passwd')",
    ],
)
def test_what_is_no_condition_is_refused_with_the_columns(long: Path, tmp_path: Path, where: str) -> None:
    with pytest.raises(ConfigError, match=r"there are dataset, .*; of classes .*car") as refused:
        edgefirst_ros.select(long, tmp_path / "sub", where=where)
    assert str(refused.value).count("there are dataset") == 1


def test_a_column_that_is_not_there_is_said_before_anything_is_read(
    long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pl, "scan_parquet")
    with pytest.raises(ConfigError, match=r"c\.parquet has no column lorry, persn; there are"):
        edgefirst_ros.select(long, tmp_path / "sub", where="persn > 0 and lorry > 0")


def test_a_dataset_of_what_was_chosen_is_sound_and_holds_copies(fleet: Path, tmp_path: Path) -> None:
    done = edgefirst_ros.select(fleet, tmp_path / "sub", where="lidar_points > 0 and frame % 3 = 0")
    whole, chosen = pl.read_parquet(fleet), edgefirst_ros.open(tmp_path / "sub")
    assert len(chosen) == done.samples > 12
    assert done.datasets == 12
    assert all(result.ok and not result.findings for result in check(tmp_path / "sub"))
    labels = sorted({label for path in twelve().iterdir() for label in edgefirst_ros.open(path).labels})
    assert list(chosen.labels) == labels
    assert {*chosen.groups} >= {"train", "val"}
    table = chosen.to_polars()
    for number, sample in enumerate(chosen):
        key = (pl.col("sequence") == sample["sequence"]) & (pl.col("frame") == sample["frame"])
        source = edgefirst_ros.open(fleet.parent / whole.filter(key)["dataset"][0])
        at = [s["name"] for s in source.with_keys([])].index(sample["name"])
        for kind in ("camera.jpeg", "lidar.pcd", "lidar.png"):
            assert chosen.file(number, kind) == source.file(at, kind)
        there = source[at]
        assert np.array_equal(sample["boxes2d"], there["boxes2d"])
        assert [chosen.labels[n] for n in sample["labels2d"]] == [source.labels[n] for n in there["labels2d"]]
        assert sample["quality"] == there["quality"]
        assert sample["group"] == there["group"]
        row = table.filter((pl.col("name") == sample["sequence"]) & (pl.col("frame") == sample["frame"]))
        assert set(row["source"]) == {whole.filter(key)["dataset"][0]}


def test_of_a_folder_the_catalogue_is_brought_up_to_date(tmp_path: Path) -> None:
    sets = copied(tmp_path)
    made = []
    for name, given in (("a", sets), ("b", sets / "catalog.parquet")):
        done = CliRunner().invoke(
            app, ["select", str(given), "-o", str(tmp_path / name / "sub"), "--where", "frame % 4 = 0"]
        )
        assert done.exit_code == 0, done.output
        assert "36 of 120 samples, of 12 datasets" in done.stdout
        files = sorted((tmp_path / name / "sub").iterdir())
        made.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
    assert made[0] == made[1], "the same wish gives the same bytes"
    assert [name for name, _ in made[0]] == ["quality.parquet", "sub.arrow", "sub.manifest", "sub.zip"]


def test_nothing_is_overwritten_or_left_half(fleet: Path, tmp_path: Path) -> None:
    edgefirst_ros.select(fleet, tmp_path / "sub", where="frame = 1")
    with pytest.raises(OutputExists):
        edgefirst_ros.select(fleet, tmp_path / "sub", where="frame < 2")
    assert edgefirst_ros.select(fleet, tmp_path / "sub", where="frame < 2", overwrite=True).samples == 24
    assert len(edgefirst_ros.open(tmp_path / "sub")) == 24
    with pytest.raises(DatasetError, match="no sample of 120 is as asked for"):
        edgefirst_ros.select(fleet, tmp_path / "none", where="speed_mps > 1000")
    assert not (tmp_path / "none").exists()


def test_a_drive_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    sets = copied(tmp_path)
    again = sets / "again"
    (sets / "drive00").rename(again)
    edgefirst_ros.catalog([again, twelve()], tmp_path / "c.parquet")
    with pytest.raises(ConfigError, match="as if converted twice"):
        edgefirst_ros.select(tmp_path / "c.parquet", tmp_path / "sub")


@pytest.mark.parametrize(
    ("versions", "types", "said"),
    [
        (("2025.10", "2026.10"), (pl.Float32, pl.Float32), r"2025\.10 of one, 2026\.10 of two"),
        (("", "2026.10"), (pl.Float32, pl.Float32), r"none of one, 2026\.10 of two"),
        (("", ""), (pl.Float32, pl.Float64), "none of one"),
        (("2026.10", "2026.10"), (pl.Float32, pl.Float64), ""),
    ],
)
def test_datasets_of_several_versions_do_not_become_one(
    tmp_path: Path, versions: tuple[str, str], types: tuple[Any, Any], said: str
) -> None:
    """Numbers of one would be taken for what they are not; where all mean the same they are joined."""
    for name, version, kind in zip(("one", "two"), versions, types, strict=True):
        place = pl.Series([[45.5, -73.5]], dtype=pl.Array(kind, 2))
        table = pl.DataFrame({"name": [name], "frame": pl.Series([1], dtype=pl.UInt32), "location": place})
        notes = {"schema_version": version} if version else None
        foreign(tmp_path / "sets" / name, table, [f"{name}_001.camera.jpeg"], notes)
    if said:
        with pytest.raises(ConfigError, match=said):
            edgefirst_ros.select(tmp_path / "sets", tmp_path / "sub")
    else:
        edgefirst_ros.select(tmp_path / "sets", tmp_path / "sub")
        opened = edgefirst_ros.open(tmp_path / "sub", keys=[])
        assert [sample["location"].tolist() for sample in opened] == [[45.5, -73.5]] * 2
