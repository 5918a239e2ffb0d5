"""Datasets in torch's DataLoader, and the examples that train with it; ``make test-torch`` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import REPOSITORY
from readable import dataset, drive

import edgefirst_ros

torch = pytest.importorskip("torch", reason="torch is not installed; make test-torch has a venv with it")
from torch.utils.data import DataLoader  # noqa: E402


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_give_the_batches_of_one_process(start: str) -> None:
    """In a process of its own: that of the suite has threads, which a fork must not have."""
    done = subprocess.run(
        [sys.executable, "-c", WORKERS, dataset(), start],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "test")},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "15 samples\n"


WORKERS = """
import sys
import edgefirst_ros, torch
from torch.utils.data import DataLoader

def main():
    opened = edgefirst_ros.open(sys.argv[1])
    one = DataLoader(opened, batch_size=4, collate_fn=edgefirst_ros.collate)
    two = DataLoader(opened, batch_size=4, collate_fn=edgefirst_ros.collate, num_workers=2,
                     multiprocessing_context=sys.argv[2])
    count = 0
    for mine, theirs in zip(one, two, strict=True):
        assert torch.equal(mine["image"], theirs["image"])
        assert mine["name"] == theirs["name"]
        for key in ("boxes2d", "lidar"):
            for here, there in zip(mine[key], theirs[key], strict=True):
                assert (here is None and there is None) or torch.equal(here, there)
        count += len(mine["name"])
    print(count, "samples")

main()
"""


def test_a_batch_is_tensors_where_all_samples_agree() -> None:
    opened = edgefirst_ros.open(dataset("2026.10"))
    samples = [opened[number] for number in range(4)]
    (batch,) = DataLoader(opened, batch_size=4, sampler=range(4), collate_fn=edgefirst_ros.collate)
    assert (batch["image"].shape, batch["image"].dtype) == ((4, 3, 216, 384), torch.uint8)
    assert (batch["image"][2].permute(1, 2, 0).numpy() == samples[2]["image"]).all()
    assert (batch["pose"].shape, batch["pose"].dtype) == ((4, 3), torch.float64)
    assert batch["time_ns"].tolist() == [sample["time_ns"] for sample in samples]
    assert batch["frame"].dtype == torch.int64
    for number, sample in enumerate(samples):
        assert batch["boxes2d"][number].tolist() == sample["boxes2d"].tolist()
        assert batch["labels2d"][number].dtype == torch.int64
        assert batch["ignore2d"][number].dtype == torch.bool
        assert len(batch["ignore2d"][number]) == len(batch["boxes2d"][number])
    assert batch["lidar_fields"] == ("x", "y", "z", "reflect")
    points, wire = next(
        (p, s["lidar"]) for p, s in zip(batch["lidar"], samples, strict=True) if p is not None
    )
    assert (points.shape, points.dtype) == ((len(wire), 4), torch.float32)
    for column, field in enumerate(batch["lidar_fields"]):
        assert (points[:, column].numpy() == wire[field].astype(np.float32)).all()


def test_what_some_samples_lack_is_a_list() -> None:
    opened = edgefirst_ros.open(dataset())
    (batch,) = DataLoader(opened, batch_size=15, collate_fn=edgefirst_ros.collate)
    assert isinstance(batch["cube"], list)
    assert [cube is None for cube in batch["cube"]] == [sample["cube"] is None for sample in opened]
    chosen = [number for number in range(15) if opened[number]["cube"] is not None]
    (batch,) = DataLoader(opened, batch_size=15, sampler=chosen, collate_fn=edgefirst_ros.collate)
    assert (batch["cube"].shape, batch["cube"].dtype) == ((len(chosen), 1, 80, 2, 8), torch.complex64)
    assert batch["lidar_depth"].dtype == torch.int32


def test_what_is_unknown_is_nan_and_minus_one() -> None:
    sample = {
        **edgefirst_ros.open(dataset())[0],
        "pose": None,
        "location": None,
        "time_ns": None,
        "frame": None,
        "lidar": None,
    }
    batch = edgefirst_ros.collate([sample])
    assert batch["pose"].isnan().all()
    assert batch["location"].shape == (1, 2)
    assert batch["time_ns"].tolist() == batch["frame"].tolist() == [-1]
    assert batch["lidar"] == [None]
    assert batch["lidar_fields"] == ()


def test_the_training_example_trains(tmp_path: Path) -> None:
    done = run(REPOSITORY / "examples" / "train.py", drive().mcap, tmp_path / "out")
    losses = [float(line.split()[-1]) for line in done.splitlines() if line.startswith("pass")]
    assert len(losses) >= 2
    assert losses[-1] < losses[0]


def run(*command: Any) -> str:  # noqa: ANN401 - paths and texts
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout
