"""Samples per second that torch's DataLoader gets out of an EdgeFirst dataset.

    .venv-torch/bin/python benchmarks/read.py [--dataset FOLDER] [--samples 200] [--runs 3]

`make test-torch` makes that environment. Without a dataset, a 1080p30 drive with radar cubes and a lidar of
60 000 rays is simulated and converted, once: it is kept in the folder for temporary files. Each line is the
best of several runs over the same samples in random order; the start of the workers does not count.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import edgefirst_ros
from edgefirst_ros.simulation import DriveOptions, simulate

CACHE = Path(tempfile.gettempdir()) / "edgefirst-ros-benchmarks" / "read"
DRIVE = DriveOptions(
    seconds=10, width=1920, height=1080, mbit_s=12, grain=4, lidar_points=60_000, cube_hz=18, masks=True
)
KEYS: dict[str, Sequence[str] | None] = {
    "image": ["image"],
    "image, boxes2d": ["image", "boxes2d"],
    "image, lidar, boxes2d": ["image", "lidar", "boxes2d"],
    "all": None,
}
WORKERS = (0, 1, 2)
BATCH = 8


def dataset() -> Path:
    """The benchmark's own, made if it is not there yet."""
    if not (CACHE / "out" / "edgefirst").is_dir():
        made = simulate(CACHE / "recording", DRIVE)
        edgefirst_ros.convert(made.mcap, CACHE / "out", page=False)
    return CACHE / "out"


def rate(opened: Any, samples: int, workers: int) -> tuple[float, float]:  # noqa: ANN401 - any dataset
    """Samples per second after the first batch of each worker, and CPU ms of this process for each."""
    try:
        from torch.utils.data import DataLoader  # noqa: PLC0415 - read_s3.py takes the dataset without
    except ModuleNotFoundError:
        raise SystemExit("no torch; make test-torch makes a venv with it, .venv-torch") from None
    order = [number * 7919 % len(opened) for number in range(samples)]
    loader = DataLoader(
        opened,
        batch_size=BATCH,
        sampler=order,
        num_workers=workers,
        collate_fn=edgefirst_ros.collate,
    )
    batches = iter(loader)
    for _ in range(max(1, workers)):
        next(batches)
    begin_s, begin_cpu_s = perf_counter(), process_time()
    count = sum(len(batch["name"]) for batch in batches)
    return count / (perf_counter() - begin_s), (process_time() - begin_cpu_s) / count * 1e3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, help="default: a simulated drive, made once")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    place = chosen.dataset or dataset()
    print("| keys | " + " | ".join(f"{n} workers" for n in WORKERS) + " | CPU ms a sample |")
    print("|---|" + "---|" * (len(WORKERS) + 1))
    for name, keys in KEYS.items():
        opened = edgefirst_ros.open(place, keys=keys)
        best = [
            max(rate(opened, chosen.samples, workers)[0] for _ in range(chosen.runs)) for workers in WORKERS
        ]
        cpu_ms = min(rate(opened, chosen.samples, 0)[1] for _ in range(chosen.runs))
        print(f"| {name} | " + " | ".join(f"{each:.0f}" for each in best) + f" | {cpu_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
