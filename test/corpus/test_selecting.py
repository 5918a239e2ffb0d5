"""Samples are chosen by what the drive's truth says, and written as a dataset that is sound, or as a list."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest
from drives_chosen import STOP_S, copied, long_drive, twelve
from edgefirst_foreign import boxes, foreign

import edgefirst_ros
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.edgefirst import split as splits
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


def listed(catalog: Path, **wish: Any) -> pl.DataFrame:  # noqa: ANN401 - arguments of select
    out = catalog.with_name("list.parquet")
    edgefirst_ros.select(catalog, out, overwrite=True, **wish)
    chosen = pl.read_parquet(out)
    assert chosen.columns == ["dataset", "sequence", "frame", "group"]
    return chosen.join(pl.read_parquet(catalog), on=chosen.columns, how="inner", maintain_order="left")


def test_a_condition_is_sql_on_columns(long: Path) -> None:
    whole = pl.read_parquet(long)
    found = listed(long, where="car > 0 and speed_mps > 2 and sharpness > 0.1")
    expected = whole.filter((pl.col("car") > 0) & (pl.col("speed_mps") > 2) & (pl.col("sharpness") > 0.1))
    assert 0 < len(found) < len(whole)
    assert found["frame"].to_list() == expected["frame"].to_list()


@pytest.mark.parametrize(
    "where",
    [
        "persn > 0",
        "car > 0) union select * from other --",
        "car > 0; drop table catalog",
        "car",
        "car > (select 1)",
        "read_csv('/etc/passwd')",
    ],
)
def test_what_is_no_condition_is_refused_with_the_columns(long: Path, where: str) -> None:
    with pytest.raises(ConfigError, match=r"there are dataset, .*; of classes .*car"):
        listed(long, where=where)


def test_a_stop_is_one_sample(long: Path) -> None:
    truth = long_drive()[1]
    found = listed(long, skip_standstill=True)
    seconds = np.array([truth.seconds(ns) for ns in found["time"].cast(pl.Int64).to_list()])
    assert ((seconds > STOP_S[0]) & (seconds < STOP_S[1])).sum() <= 1
    assert (seconds < STOP_S[0]).sum() > 15
    assert (seconds > STOP_S[1] + 1).sum() > 15


def test_samples_are_as_far_apart_as_asked(long: Path) -> None:
    truth, metres = long_drive()[1], 4.0
    found = listed(long, every_m=metres)
    places = np.array([truth.rig(ns)[:2, 3] for ns in found["time"].cast(pl.Int64).to_list()])
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert len(found) > 5
    assert steps.min() > metres - 0.3
    assert np.median(steps) < metres + 2.5, "at 9 m/s and 5 Hz the next is 1.8 m later"


def test_one_of_n_and_so_many_of_each(fleet: Path) -> None:
    whole = pl.read_parquet(fleet)
    assert (
        listed(fleet, every_n=3)["frame"].to_list()
        == whole.filter(pl.col("frame") % 3 == 0)["frame"].to_list()
    )
    counts = listed(fleet, per_drive=4, seed=1).group_by("dataset").len()
    assert counts["len"].to_list() == [4] * 12


def test_what_is_drawn_depends_on_the_drive_and_the_seed_alone(fleet: Path, tmp_path: Path) -> None:
    one = listed(fleet, per_drive=4, seed=1)
    assert not one.equals(listed(fleet, per_drive=4, seed=2))
    edgefirst_ros.catalog(twelve() / "drive05", tmp_path / "alone" / "c.parquet")
    alone = listed(tmp_path / "alone" / "c.parquet", per_drive=4, seed=1)
    assert alone["frame"].to_list() == one.filter(pl.col("drive") == alone["drive"][0])["frame"].to_list()


def test_where_nothing_is_known_nothing_is_left_out_and_it_is_said(tmp_path: Path) -> None:
    foreign(
        tmp_path / "t",
        {"name": ["s"] * 3, "frame": [1, 2, 3], "box2d": boxes(3)},
        [f"s/s_00{n}.camera.jpeg" for n in (1, 2, 3)],
    )
    edgefirst_ros.catalog(tmp_path / "t", tmp_path / "c.parquet")
    done = edgefirst_ros.select(
        tmp_path / "c.parquet", tmp_path / "l.parquet", every_m=5, skip_standstill=True
    )
    assert done.samples == 3
    assert "no motion is known of 3 samples" in done.notes[0]


def test_a_dataset_of_what_was_chosen_is_sound_and_holds_copies(fleet: Path, tmp_path: Path) -> None:
    done = edgefirst_ros.select(fleet, tmp_path / "sub", where="lidar_points > 0", every_m=3)
    whole, chosen = pl.read_parquet(fleet), edgefirst_ros.open(tmp_path / "sub")
    assert len(chosen) == done.samples > 12
    assert all(result.ok and not result.warnings for result in check(tmp_path / "sub"))
    labels = sorted({label for path in twelve().iterdir() for label in edgefirst_ros.open(path).labels})
    assert list(chosen.labels) == labels
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


def test_the_same_wish_gives_the_same_bytes(fleet: Path, tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        edgefirst_ros.select(fleet, tmp_path / name / "sub", per_drive=2, seed=3)
        files = sorted((tmp_path / name / "sub").iterdir())
        made.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
    assert made[0] == made[1]
    assert [name for name, _ in made[0]] == ["quality.arrow", "sub.arrow", "sub.manifest", "sub.zip"]


def test_nothing_is_overwritten_or_left_half(fleet: Path, tmp_path: Path) -> None:
    edgefirst_ros.select(fleet, tmp_path / "sub", per_drive=1)
    with pytest.raises(OutputExists):
        edgefirst_ros.select(fleet, tmp_path / "sub", per_drive=2)
    assert edgefirst_ros.select(fleet, tmp_path / "sub", per_drive=2, overwrite=True).samples == 24
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
        (
            ("2025.10", "2026.10"),
            (pl.Float32, pl.Float32),
            r"schema versions 2025\.10, 2026\.10\): choose one",
        ),
        (("", "2026.10"), (pl.Float32, pl.Float32), r"versions none, 2026\.10\): choose one"),
        (("", ""), (pl.Float32, pl.Float64), "location is in another order in two than in one"),
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
    edgefirst_ros.catalog(tmp_path / "sets", tmp_path / "sets" / "c.parquet")
    if said:
        with pytest.raises(ConfigError, match=said):
            edgefirst_ros.select(tmp_path / "sets" / "c.parquet", tmp_path / "sub")
    else:
        edgefirst_ros.select(tmp_path / "sets" / "c.parquet", tmp_path / "sub")
        opened = edgefirst_ros.open(tmp_path / "sub", keys=[])
        assert [sample["location"].tolist() for sample in opened] == [[45.5, -73.5]] * 2


@pytest.mark.parametrize("split", ["drive", "place"])
def test_no_sample_has_a_neighbour_in_the_other_group(
    fleet: Path, tmp_path: Path, split: Literal["drive", "place"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "CELL_DEG", 1 / 6000)  # no short drive leaves a larger one
    monkeypatch.setattr(splits, "GUARD_M", 3.0)
    edgefirst_ros.catalog(long_drive()[0], fleet)
    wish = {"where": "dataset not like '%long'" if split == "drive" else "dataset like '%long'", "seed": 6}
    done = edgefirst_ros.select(fleet, tmp_path / "sub", split=split, val_ratio=0.5, **wish)
    chosen = edgefirst_ros.open(tmp_path / "sub", keys=["time_ns"])
    rows = [(s["group"], s["time_ns"], *s["location"]) for s in chosen]
    assert {row[0] for row in rows} == {"train", "val"}
    truth = long_drive()[1]
    at = {
        group: np.array(
            [[ns / 1e9, *truth.enu(up, aside, 0.0)[:2]] for g, ns, up, aside in rows if g == group]
        )
        for group in ("train", "val")
    }
    apart_s = np.abs(at["train"][:, None, 0] - at["val"][None, :, 0])
    apart_m = np.linalg.norm(at["train"][:, None, 1:] - at["val"][None, :, 1:], axis=-1)
    if split == "drive":
        assert apart_s.min() > 5.0
        assert done.samples == 120
        assert len({(s["sequence"], s["group"]) for s in chosen}) == 12
    else:
        assert apart_m.min() > 3.0
        assert "m of the other group" in done.notes[0]
        assert len(chosen) > 15


def test_a_list_gives_its_samples_the_groups_of_the_dataset_that_would_be_written(
    fleet: Path, tmp_path: Path
) -> None:
    wish: dict[str, Any] = {"split": "drive", "val_ratio": 0.4, "seed": 3, "every_n": 3}
    edgefirst_ros.select(fleet, tmp_path / "sub", **wish)
    edgefirst_ros.select(fleet, tmp_path / "list.parquet", **wish)
    written, listed = (edgefirst_ros.open(tmp_path / name) for name in ("sub", "list.parquet"))

    def groups(samples: Any) -> dict[tuple[str, int], str]:  # noqa: ANN401
        return {(s["sequence"], s["frame"]): s["group"] for s in samples.with_keys([])}

    assert groups(listed) == groups(written)
    assert {*groups(listed).values()} == {*listed.groups} == {"train", "val"}
    for group in ("train", "val"):
        some = edgefirst_ros.open(tmp_path / "list.parquet", group=group)
        assert {s["group"] for s in some[1:].with_keys([])} == {group}
        assert groups(some) == groups(edgefirst_ros.open(tmp_path / "sub", group=group))
        assert {*some.to_polars()["group"]} == {group}
    with pytest.raises(ConfigError, match="no sample is in test"):
        edgefirst_ros.open(tmp_path / "list.parquet", group="test")


def test_groups_are_those_that_convert_gives(fleet: Path, tmp_path: Path) -> None:
    edgefirst_ros.select(fleet, tmp_path / "sub", split="drive", seed=7)
    for sample in edgefirst_ros.open(tmp_path / "sub", keys=[]):
        assert sample["group"] == splits.drive_group(sample["sequence"], 0.2, 7)


def test_wishes_that_cannot_be_meant_are_all_named(long: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        edgefirst_ros.select(long, tmp_path / "sub", every_m=-1, every_n=0, per_drive=-2, val_ratio=2)
    assert len(raised.value.faults) == 4
