"""A catalogue says of each sample what the truth says, and is renewed without reading what it knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drives_chosen import HOUR_NS, START_NS, STOP_S, copied, long_drive, twelve
from edgefirst_foreign import boxes, foreign
from s3server import upload

import edgefirst_ros
from edgefirst_ros.formats.edgefirst import catalog as catalogues
from edgefirst_ros.formats.edgefirst.catalogrows import COLUMNS
from edgefirst_ros.formats.edgefirst.store.archive import QUALITY
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, WriteError


def test_each_row_says_what_the_truth_says(tmp_path: Path) -> None:
    folder, truth = long_drive()
    edgefirst_ros.catalog(folder, tmp_path / "c.parquet")
    rows = pl.read_parquet(tmp_path / "c.parquet")
    dataset = edgefirst_ros.open(folder, keys=["time_ns", "boxes2d", "lidar"])
    assert len(rows) == len(dataset) > 60
    lidar_ns = truth.true_ns("/lidar/points")
    looked = 0
    for sample, row in zip(dataset, rows.iter_rows(named=True), strict=True):
        time_ns = sample["time_ns"]
        assert (row["sequence"], row["frame"], row["group"]) == tuple(
            sample[key] for key in ("sequence", "frame", "group")
        )
        east, north, _ = truth.enu(row["latitude"], row["longitude"], 0.0)
        state = truth.world.rig.state(truth.seconds(time_ns))
        assert np.hypot(east - state.position_m[0], north - state.position_m[1]) < 1.0
        assert row["speed_mps"] == pytest.approx(float(np.hypot(*state.velocity_m_s[:2])), abs=0.4)
        if STOP_S[0] + 0.5 < truth.seconds(time_ns) < STOP_S[1] - 0.5:
            assert row["speed_mps"] < 0.1
        if sample["lidar"] is not None:
            nearest_ns = lidar_ns[np.abs(lidar_ns - time_ns).argmin()]
            assert row["lidar_points_offset_ms"] == pytest.approx((nearest_ns - time_ns) / 1e6, abs=0.1)
        assert row["radar_targets_offset_ms"] is None
        assert row["box2d_labelled"] is (sample["boxes2d"] is not None)
        classes = [row[name] for name in dataset.labels]
        if sample["boxes2d"] is None:
            assert not any(count is not None for count in classes)
        else:
            looked += 1
            assert classes == [int((sample["labels2d"] == n).sum()) for n in range(len(dataset.labels))]
    assert len(rows) / 3 < looked < len(rows)
    assert rows["time"].cast(pl.Int64).to_list() == [sample["time_ns"] for sample in dataset]
    assert rows["position_sigma_m"].max() < 3.0
    assert set(rows["position_basis"]) <= {"measured", "interpolated", "dead-reckoned"}


def test_row_groups_are_bounded_and_not_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "_ROWS", 25)
    done = edgefirst_ros.catalog(twelve(), tmp_path / "c.parquet")
    file = pq.ParquetFile(tmp_path / "c.parquet")
    assert (file.num_row_groups, done.added) == (6, 12)
    assert edgefirst_ros.catalog(twelve(), tmp_path / "c.parquet").kept == 12
    assert len(pl.read_parquet(tmp_path / "c.parquet")) == done.samples == 120
    assert done.samples == file.metadata.num_rows
    starts = pl.read_parquet(tmp_path / "c.parquet").group_by("drive").agg(pl.col("time").min())["time"]
    hours = (starts.sort().cast(pl.Int64) - START_NS) // HOUR_NS
    assert hours.to_list() == list(range(12))


def test_what_is_unchanged_is_not_read_again_and_what_changed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, out = copied(tmp_path), tmp_path / "c.parquet"
    edgefirst_ros.catalog([sets / f"drive{n:02d}" for n in range(10)], out)
    before = pl.read_parquet(out)
    read: list[str] = []
    rows_of = catalogues.rows_of
    monkeypatch.setattr(catalogues, "rows_of", lambda each: (read.append(each.name), rows_of(each))[1])
    done = edgefirst_ros.catalog(sets, out)
    assert (done.kept, done.added, done.removed) == (10, 2, 0)
    assert read == ["drive10", "drive11"]
    kept = pl.read_parquet(out).filter(pl.col("dataset").is_in(before["dataset"].unique().to_list()))
    assert kept.select(before.columns).equals(before)
    shutil.rmtree(sets / "drive03")
    shutil.rmtree(sets / "drive04" / "edgefirst" / "drive04")
    shutil.copytree(sets / "drive05" / "edgefirst" / "drive05", sets / "drive04" / "edgefirst" / "drive04")
    for path in (sets / "drive04" / "edgefirst" / "drive04").glob("drive05.*"):
        path.rename(path.with_name(path.name.replace("drive05", "drive04")))
    read.clear()
    done = edgefirst_ros.catalog(sets, out)
    assert (done.kept, done.added, done.removed) == (10, 1, 2)
    assert read == ["drive04"]
    replaced = pl.read_parquet(out).filter(pl.col("dataset").str.ends_with("drive04"))
    assert set(replaced["drive"]) == set(
        pl.read_parquet(out).filter(pl.col("dataset").str.ends_with("drive05"))["drive"]
    )
    # What is elsewhere stays, though nobody names it.
    done = edgefirst_ros.catalog(sets / "drive00", out)
    assert (done.kept, done.added, done.removed) == (11, 0, 0)


def test_a_kill_leaves_the_catalogue_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "c.parquet"
    edgefirst_ros.catalog(twelve() / "drive00", out)
    before = out.read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(catalogues, "take_name", killed)
    with pytest.raises(KeyboardInterrupt):
        edgefirst_ros.catalog(twelve(), out)
    assert out.read_bytes() == before
    monkeypatch.undo()
    assert edgefirst_ros.catalog(twelve(), out).added == 11
    assert [path.name for path in tmp_path.iterdir()] == ["c.parquet"]


def test_a_damaged_dataset_is_named_and_left_out(tmp_path: Path) -> None:
    sets = copied(tmp_path)
    table = sets / "drive02" / "edgefirst" / "drive02" / "drive02.arrow"
    table.write_bytes(table.read_bytes()[:100])
    done = edgefirst_ros.catalog(sets, tmp_path / "c.parquet")
    assert done.added == 11
    assert "drive02.arrow" in done.faults[0]


def test_of_others_it_says_what_there_is(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    there = boxes(2).extend(pl.Series([None], dtype=pl.Array(pl.Float32, 4)))
    table = {"name": ["s"] * 3, "frame": [1, 1, 2], "label": ["car", "car", None], "box2d": there}
    foreign(folder, table, ["s/s_001.camera.jpeg", "s/s_002.camera.jpeg", "loose.jpg"])
    done = edgefirst_ros.catalog(folder, tmp_path / "c.parquet")
    rows = pl.read_parquet(tmp_path / "c.parquet")
    assert done.samples == 3
    assert rows.select("sequence", "frame", "car").rows() == [("loose", None, 0), ("s", 1, 2), ("s", 2, 0)]
    assert rows["time"].null_count() == rows["speed_mps"].null_count() == len(rows)


def test_classes_of_other_drives_are_none_where_somebody_looked(tmp_path: Path) -> None:
    out = tmp_path / "c.parquet"
    edgefirst_ros.catalog([long_drive()[0], twelve()], out)
    rows = pl.read_parquet(out)
    for name in set(rows.columns) - {*COLUMNS.names}:
        assert rows[name].is_null().to_list() == (~rows["box2d_labelled"]).to_list()


def test_a_class_never_hides_a_column(tmp_path: Path) -> None:
    rows = {"name": ["s"] * 2, "frame": [1, 1], "label": ["car", "Group"], "box2d": boxes(2)}
    edgefirst_ros.catalog(foreign(tmp_path / "ds", rows, ["s/s_001.jpg"]), tmp_path / "c.parquet")
    assert pl.read_parquet(tmp_path / "c.parquet").columns[-2:] == ["car", "class_Group"]


def test_another_file_is_not_replaced(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "mine.parquet")
    with pytest.raises(WriteError, match="is no catalogue"):
        edgefirst_ros.catalog(twelve() / "drive00", tmp_path / "mine.parquet")
    assert pl.read_parquet(tmp_path / "mine.parquet")["a"].to_list() == [1]
    with pytest.raises(DatasetNotFound):
        edgefirst_ros.catalog(tmp_path, tmp_path / "c.parquet")


def test_datasets_in_a_store_have_rows_as_those_here(bucket: str, tmp_path: Path) -> None:
    """Only tables are fetched, and nothing of what did not change; the catalogue may be in the store, too."""
    obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
    sets = copied(tmp_path)
    drives = [path.parent for path in sorted(sets.rglob("*.arrow")) if path.name != QUALITY]
    edgefirst_ros.catalog(sets, tmp_path / "local.parquet")
    upload(sets, f"{bucket}/sets")
    for out in (tmp_path / "c.parquet", f"{bucket}/c.parquet"):
        assert edgefirst_ros.catalog(f"{bucket}/sets", out).added == len(drives)
        again = edgefirst_ros.catalog(f"{bucket}/sets", out)
        assert (again.kept, again.added) == (len(drives), 0)
    got = obstore.get(obstore.store.from_url(bucket), "c.parquet").bytes()
    assert bytes(got) == (tmp_path / "c.parquet").read_bytes()
    mine, theirs = (pl.read_parquet(tmp_path / name) for name in ("local.parquet", "c.parquet"))
    assert mine.drop("dataset", "version").equals(theirs.drop("dataset", "version"))
    assert set(theirs["dataset"]) == {
        f"{bucket}/sets/{drive.relative_to(sets).as_posix()}" for drive in drives
    }
    name = drives[0].relative_to(sets).as_posix()
    obstore.delete(obstore.store.from_url(bucket), f"sets/{name}/{drives[0].name}.arrow")
    last = edgefirst_ros.catalog(f"{bucket}/sets", tmp_path / "c.parquet")
    assert (last.kept, last.removed) == (len(drives) - 1, 1)


def test_rows_are_bounded_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    none = [pa.nulls(600_000, each.type) for each in COLUMNS]
    schema = pa.schema([each.with_nullable(True) for each in COLUMNS])
    table = pa.Table.from_arrays(none, schema=schema).replace_schema_metadata(
        {catalogues._NOTE: catalogues.FORMAT}
    )
    pq.write_table(table, path, compression="zstd")
    with pytest.raises(DatasetError, match="600,000 rows in"):
        catalogues.opened(path)
