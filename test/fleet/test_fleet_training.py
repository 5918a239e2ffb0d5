"""From a bucket of drives to an epoch: converted, catalogued, split, read."""

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
def test_an_epoch_of_a_bucket(
    bucket: str, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = run("convert", recordings, "-o", f"{bucket}/training", "--jobs", "2")
    assert code == 0, err

    path = tmp_path / "catalog.parquet"
    path.write_bytes(obstore.get(obstore.store.from_url(f"{bucket}/training"), "catalog.parquet").bytes())
    rows = pl.read_parquet(path)
    assert len(rows) == DRIVES * SECONDS * FPS
    seen = 0
    for group in ("train", "test", "val"):
        samples = edgefirst_ros.open(f"{bucket}/training", group=group, keys=["image", "boxes2d"])
        weights = np.zeros(3)
        for sample in samples:
            seen_car = float(sample["boxes2d"] is not None and len(sample["boxes2d"]) > 0)
            weights += 0.1 * (seen_car - weights.sum()) * sample["image"].mean((0, 1)) / 255
            assert sample["group"] == group
        assert np.isfinite(weights).all()
        assert len(samples) == (rows["group"] == group).sum() > 0
        seen += len(samples)
    assert seen == len(rows)
