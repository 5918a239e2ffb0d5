"""One small simulated drive as EdgeFirst datasets of each schema and container, made once for all tests."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from drives import simulated
from faulty import FaultyOptions, Truth

import edgefirst_ros
from edgefirst_ros.model.zlib_backend import crc32
from edgefirst_ros.simulation import Recording

NAME = "drive"
SCHEMAS = ("2025.01", "2026.10")
CONTAINERS = ("zip", "folder")
MASK = (64, 36)
OPTIONS = FaultyOptions(
    seconds=3.0,
    fps=5,
    width=384,
    height=216,
    lidar_points=500,
    cube_hz=2.5,
    cube_shape=(1, 80, 2, 8),
    imu_hz=50.0,
    boxes3d=True,
    masks=True,
    mask_size=MASK,
)
OPTIONAL = {
    name: {"required": "never"}
    for name in ("radar_targets", "radar_cube", "lidar_points", "model", "model_mask")
}
"""Every picture becomes a sample, whatever else there is at that time."""


def drive() -> Recording:
    return simulated(OPTIONS)


@cache
def truth() -> Truth:
    return Truth.read(drive().truth)


@cache
def _kept() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-readable-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def dataset(schema: str = "2025.01", container: str = "zip") -> Path:
    """The dataset's folder, for reading only."""
    return _made(schema, container)


@cache
def _made(schema: str, container: str) -> Path:
    folder = _kept() / schema / container / NAME
    if container == "folder":
        packed = dataset(schema)
        folder.mkdir(parents=True)
        shutil.copy(packed / f"{NAME}.arrow", folder)
        shutil.copy(packed / "quality.parquet", folder)
        with zipfile.ZipFile(packed / f"{NAME}.zip") as archive:
            archive.extractall(folder / NAME)
        return folder
    out = _kept() / schema / "out"
    edgefirst_ros.convert(
        drive().mcap,
        out,
        name=NAME,
        page=False,
        topics=OPTIONAL,
        edgefirst={"schema_version": schema, "val_ratio": 0.3},
    )
    folder.parent.mkdir(parents=True)
    return (out / "edgefirst" / NAME).rename(folder)


def copied(folder: Path, schema: str = "2025.01", container: str = "zip") -> Path:
    """The same as files that the test may change."""
    return Path(shutil.copytree(dataset(schema, container), folder / NAME))


def digests(opened: Any, numbers: range) -> list[int]:  # noqa: ANN401 - of any samples
    """A number for each sample that stands for all of its pixels, points and boxes."""
    keys = ("image", "lidar", "cube", "boxes2d")
    samples = map(opened.__getitem__, numbers)
    return [crc32(b"".join(s[key].tobytes() for key in keys if s[key] is not None)) for s in samples]
