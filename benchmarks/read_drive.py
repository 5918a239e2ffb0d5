"""What read.py reads: a simulated drive, made once, and the keys of its samples."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from faults import FaultyOptions, simulate

import edgefirst_ros

CACHE = Path(tempfile.gettempdir()) / "edgefirst-ros-benchmarks" / "read"
DRIVE = FaultyOptions(
    seconds=10, width=1920, height=1080, mbit_s=12, grain=4, lidar_points=60_000, cube_hz=18, masks=True
)
KEYS: dict[str, Sequence[str] | None] = {
    "image": ["image"],
    "image, boxes2d": ["image", "boxes2d"],
    "image, lidar, boxes2d": ["image", "lidar", "boxes2d"],
    "all": None,
}
BATCH = 8


def dataset() -> Path:
    """The benchmark's own, made if it is not there yet."""
    if not (CACHE / "out" / "edgefirst").is_dir():
        made = simulate(CACHE / "recording", DRIVE)
        edgefirst_ros.convert(made.mcap, CACHE / "out", page=False)
    return CACHE / "out"
