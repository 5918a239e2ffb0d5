"""From a bucket of drives to an epoch: converted, catalogued, chosen, split, read where they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from drives import simulate
from fleets import run

import edgefirst_ros
from edgefirst_ros.simulation import DriveOptions

DRIVES, SECONDS, FPS, HOUR_NS = 12, 2.0, 5, 3_600_000_000_000


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training") / "drives"
    small = {"seconds": SECONDS, "fps": FPS, "width": 160, "height": 96, "lidar_points": 64, "cube_hz": 0.0}
    for number in range(DRIVES):
        start_ns = DriveOptions().start_ns + number * HOUR_NS
        simulate(folder, DriveOptions(**small, model_hz=5.0, seed=number, start_ns=start_ns))
    return folder


@pytest.mark.long
def test_an_epoch_of_what_was_chosen_from_a_bucket(
    bucket: str, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = run("convert", recordings, "-o", f"{bucket}/training", "--jobs", "2")
    assert code == 0, err

    chosen = edgefirst_ros.select(
        f"{bucket}/training/catalog.parquet",
        tmp_path / "list.parquet",
        every_n=2,
        split="drive",
        val_ratio=0.3,
    )
    groups, seen = {}, 0
    for group in ("train", "val"):
        samples = edgefirst_ros.open(tmp_path / "list.parquet", group=group, keys=["image", "boxes2d"])
        weights = np.zeros(3)
        for sample in samples:
            seen_car = float(sample["boxes2d"] is not None and len(sample["boxes2d"]) > 0)
            weights += 0.1 * (seen_car - weights.sum()) * sample["image"].mean((0, 1)) / 255
            assert sample["group"] == group
        assert np.isfinite(weights).all()
        groups[group] = {samples.dataset_of(number) for number in range(len(samples))}
        seen += len(samples)

    assert seen == chosen.samples == DRIVES * SECONDS * FPS / 2
    assert len(groups["train"]) + len(groups["val"]) == DRIVES
    assert not groups["train"] & groups["val"]
    rows = pl.read_parquet(_fetched(bucket, tmp_path))
    times = {
        group: np.sort(rows.filter(pl.col("dataset").is_in(found))["time"].cast(pl.Int64).to_numpy())
        for group, found in groups.items()
    }
    apart_ns = np.abs(times["train"][:, None] - times["val"][None, :]).min()
    assert apart_ns > 5_000_000_000


def _fetched(bucket: str, folder: Path) -> Path:
    obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
    path = folder / "catalog.parquet"
    path.write_bytes(obstore.get(obstore.store.from_url(f"{bucket}/training"), "catalog.parquet").bytes())
    return path
